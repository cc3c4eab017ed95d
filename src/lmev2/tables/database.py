"""One DuckDB file with every row of a run: questions, contexts without their text, answers, scores, and the methods."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from lmev2.files import replacing
from lmev2.pools.entry import CUT_TREES
from lmev2.rows import AGENT_RUN, ANSWER, CONTEXT, POOL_ENTRY, QUESTION, SCORE, check_readable
from lmev2.tables.statistics import fill_statistics


def collect(
    target: Path,
    spec: Mapping[str, Any],
    questions: Path,
    rows: Mapping[str, Sequence[Path]],
    pools: Sequence[Path],
    paper: Path,
    views: str,
    sources: Mapping[str, str],
    imports: Sequence[Path] = (),
    agent_runs: Sequence[Path] = (),
) -> None:
    """Write the database.

    Tables: ``questions``, ``contexts``, ``answers``, ``scores`` (one row per question, method and tier), ``methods``
    (the rows of the table with their position), ``tiers``, ``models`` (role, name and settings), ``pools`` (entries
    per pool and origin), ``imports`` (what each imported run is and how much of it was taken), ``agent_runs`` (what
    coding agents did for each question, and its cost where there is a price), ``intervals``, ``comparisons``,
    ``lafs`` and ``reference_points`` (see :mod:`lmev2.tables.statistics`), and ``run`` (all settings, and the hashes of
    data and prompts).

    Args:
        target: the file; replaced when everything is written.
        spec: methods in table order (``method``, ``label``, ``family``), ``tiers``, ``models`` (settings by role),
            ``partners`` (methods compared with, by method), ``statistics`` (of the bootstrap) and ``settings`` (the
            other sections of the configuration).
        questions: the selected questions.
        rows: Parquet files by stage: ``contexts``, ``answers``, ``scores``.
        pools: Parquet files of the memory's pools.
        paper: the paper's Table 2 as CSV.
        views: SQL that defines the views.
        sources: what the run was made from, such as data and prompts, by name: hashes.
        imports: a summary of each imported run, as :func:`lmev2.interchange.select.select_import` returns it.
        agent_runs: Parquet files of what coding agents did.
    """
    contracts = {"contexts": CONTEXT, "answers": ANSWER, "scores": SCORE}
    check_readable(questions, QUESTION)
    for schema, paths in (
        (POOL_ENTRY, pools),
        (AGENT_RUN, agent_runs),
        *((contracts[stage], paths) for stage, paths in rows.items()),
    ):
        for path in paths:
            check_readable(path, schema)
    with replacing(target) as temporary, duckdb.connect(str(temporary)) as database:
        _fill(database, spec, questions, rows, sources)
        _count_origins(database, pools)
        _describe_imports(database, imports)
        _add_agent_runs(database, agent_runs, spec["models"].get("agent", {}).get("price") or {})
        database.execute(views)
        with paper.open(encoding="utf-8", newline="") as file:
            published = list(csv.DictReader(file))
        fill_statistics(database, spec["partners"], spec["statistics"], published)


def _fill(
    database: duckdb.DuckDBPyConnection,
    spec: Mapping[str, Any],
    questions: Path,
    rows: Mapping[str, Sequence[Path]],
    sources: Mapping[str, str],
) -> None:
    methods = [{"position": number, **row} for number, row in enumerate(spec["methods"])]
    tiers = [{"position": number, "tier": tier} for number, tier in enumerate(spec["tiers"])]
    models = [
        {"role": role, "model": settings["model"], "settings": json.dumps(settings, sort_keys=True)}
        for role, settings in spec["models"].items()
    ]
    run = [{"name": name, "value": value} for name, value in sources.items()]
    settings = {**spec["settings"], "statistics": spec["statistics"]}
    run += [{"name": name, "value": json.dumps(value, sort_keys=True)} for name, value in settings.items()]
    for name, content in (("methods", methods), ("tiers", tiers), ("models", models), ("run", run)):
        database.register("content", pa.Table.from_pylist(content))
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM content")
        database.unregister("content")
    database.execute("CREATE TABLE questions AS SELECT * FROM read_parquet(?) ORDER BY question_id", [str(questions)])
    database.execute(
        """
        CREATE TABLE contexts AS
        SELECT question_id, method, tier, queries, query_origin, rerank_origin, latency_s, waited_s, replayed, error,
               error_detail, len(items) AS items,
               len(list_filter(items, lambda item: item.type = 'image')) AS images,
               coalesce(CAST(list_sum(list_transform(
                   items, lambda item: CASE WHEN item.type = 'text' THEN length(item.value) ELSE 0 END
               )) AS BIGINT), 0) AS text_chars
        FROM read_parquet(?) ORDER BY method, tier, question_id
        """,
        [_names(rows["contexts"])],
    )
    for stage in ("answers", "scores"):
        database.execute(
            f"CREATE TABLE {stage} AS SELECT * FROM read_parquet(?) ORDER BY method, tier, question_id",
            [_names(rows[stage])],
        )


def _count_origins(database: duckdb.DuckDBPyConnection, pools: Sequence[Path]) -> None:
    database.execute(
        "CREATE TABLE pools (pool VARCHAR, origin VARCHAR, entries BIGINT, shortened BIGINT, images_left_out BIGINT)"
    )
    if pools:
        database.execute(
            "INSERT INTO pools SELECT pool, origin, count(*), "
            "count(*) FILTER (origin IN ('model', 'repaired') AND contains(origin_detail, ?)), "
            "CAST(sum(images_left_out) AS BIGINT) "
            "FROM read_parquet(?) GROUP BY pool, origin ORDER BY pool, origin",
            [CUT_TREES, _names(pools)],
        )


def _describe_imports(database: duckdb.DuckDBPyConnection, imports: Sequence[Path]) -> None:
    database.execute(
        "CREATE TABLE imports (method VARCHAR, label VARCHAR, tier VARCHAR, reader VARCHAR, judge VARCHAR, "
        "questions BIGINT, taken BIGINT, left_out BIGINT, empty_replies BIGINT, states_told BOOLEAN)"
    )
    for path in imports:
        summary = json.loads(path.read_text(encoding="utf-8"))
        columns = ", ".join(summary)
        database.execute(
            f"INSERT INTO imports ({columns}) VALUES ({', '.join('?' for _ in summary)})", list(summary.values())
        )


def _add_agent_runs(
    database: duckdb.DuckDBPyConnection, paths: Sequence[Path], price: Mapping[str, float | str | None]
) -> None:
    """The rows with their cost: cached input tokens have a price of their own, and all prices are per million."""
    database.register("content", AGENT_RUN.empty_table())
    source = "read_parquet($paths)" if paths else "content"
    values: dict[str, Any] = {name: price.get(name) for name in ("input", "cached_input", "output", "currency")}
    database.execute(
        f"""
        CREATE TABLE agent_runs AS
        SELECT *,
               (CAST($input AS DOUBLE) * (input_tokens - cached_tokens) + CAST($cached_input AS DOUBLE) * cached_tokens
                + CAST($output AS DOUBLE) * output_tokens) / 1e6 AS cost,
               CASE WHEN $input IS NOT NULL THEN CAST($currency AS VARCHAR) END AS currency
        FROM {source} ORDER BY method, tier, question_id
        """,
        values | ({"paths": _names(paths)} if paths else {}),
    )
    database.unregister("content")


def _names(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]
