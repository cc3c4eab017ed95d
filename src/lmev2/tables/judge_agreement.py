"""How far judges agree on the same answers, and one judge with itself when it is asked several times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from lmev2.rows import SCORE, VERDICT, check_readable
from lmev2.tables.export import Result, TableFiles, run_query, write_table
from lmev2.tables.layout import Block, Cell, Column, Layout

_HEADINGS: Final = {"judges": "Two judges", "repeats": "Repeats of one judge"}
_COLUMNS: Final = (
    ("judge", Column("Judge")),
    ("other", Column("Other")),
    ("scorer", Column("Scorer")),
    ("answers", Column("Answers", right=True)),
    ("agreement", Column("Agreement", right=True)),
    ("kappa", Column("Kappa", right=True)),
    ("both_1", Column("Both 1", "Labels", right=True)),
    ("judge_only_1", Column("1 and 0", "Labels", right=True)),
    ("other_only_1", Column("0 and 1", "Labels", right=True)),
    ("both_0", Column("Both 0", "Labels", right=True)),
    ("judge_flips", Column("Judge", "Flips", right=True)),
    ("other_flips", Column("Other", "Flips", right=True)),
    ("judge_errors", Column("Judge", "Failed", right=True)),
    ("other_errors", Column("Other", "Failed", right=True)),
)
_NOTES: Final = (
    "Scores are by judge alone; verdicts of others change none. Answers: of the run's own methods that both gave a "
    "verdict on. Kappa: Cohen's, and for repeats Fleiss's; empty where chance alone would always agree.",
    "Flips: share of the answers with two labels or more whose repeats disagree. Failed: answers without a verdict. In "
    "the rows of repeats, labels count pairs of repeats, the earlier one first, over answers with all of them.",
)


def export_judge_agreement(
    scores: Sequence[Path],
    verdicts: Sequence[Path],
    judges: Sequence[Mapping[str, Any]],
    query: str,
    files: TableFiles,
    title: str,
) -> None:
    """Write the table: per pair of judges, and per judge that was asked several times, a row per scorer and for all.

    Args:
        scores: score files of the run's own methods.
        verdicts: verdict files of further judges on the same answers.
        judges: the run's own first: ``judge`` (name), ``model`` and ``repeats``.
        query: over the tables of :func:`open_verdicts`.
        files: to write.
        title: of the table.

    Raises:
        RowError: a file is damaged; names it.
    """
    with open_verdicts(scores, verdicts, judges) as connection:
        result = run_query(connection, query)
    write_table(files, result.header, result.rows, _layout(result, judges, title))


def open_verdicts(
    scores: Sequence[Path], verdicts: Sequence[Path], judges: Sequence[Mapping[str, Any]]
) -> duckdb.DuckDBPyConnection:
    """A database in memory with ``judges`` (position, judge, repeats) and ``verdicts``: a row per judge and answer with
    the label that its repeats decide (null where none does) and the labels of all repeats that gave one."""
    for schema, paths in ((SCORE, scores), (VERDICT, verdicts)):
        for path in paths:
            check_readable(path, schema)
    connection = duckdb.connect()
    try:
        connection.execute("CREATE TABLE judges (position INTEGER, judge VARCHAR, repeats INTEGER)")
        for position, row in enumerate(judges):
            connection.execute("INSERT INTO judges VALUES (?, ?, ?)", [position, row["judge"], row["repeats"]])
        connection.register("none", pa.Table.from_pylist([], schema=VERDICT))
        further = "read_parquet($verdicts)" if verdicts else "none"
        connection.execute(
            f"""
            CREATE TABLE verdicts AS
            SELECT $own AS judge, question_id, method, tier, scorer, judge_label AS label, judge_labels AS labels
            FROM read_parquet($scores) WHERE judge_labels IS NOT NULL
            UNION ALL
            SELECT judge, question_id, method, tier, scorer, label, labels FROM {further}
            """,
            {"own": judges[0]["judge"], "scores": _names(scores)}
            | ({"verdicts": _names(verdicts)} if verdicts else {}),
        )
    except BaseException:
        connection.close()
        raise
    return connection


def _layout(result: Result, judges: Sequence[Mapping[str, Any]], title: str) -> Layout:
    records = result.records()
    blocks = []
    for compared, heading in _HEADINGS.items():
        rows = [row for row in records if row["compared"] == compared]
        if rows:
            cells = (tuple(Cell("" if row[name] is None else str(row[name])) for name, _ in _COLUMNS) for row in rows)
            blocks.append(Block(heading, tuple(cells)))
    failed = any(row["judge_errors"] or row["other_errors"] for row in records)
    asked = ", ".join(f"{row['judge']}: {row['model']}{_times(row['repeats'])}" for row in judges)
    columns = tuple(column for _, column in _COLUMNS)
    return Layout(f"INCOMPLETE: {title}" if failed else title, columns, tuple(blocks), (f"Judges: {asked}.", *_NOTES))


def _times(repeats: int) -> str:
    return f" ({repeats} times)" if repeats > 1 else ""


def _names(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]
