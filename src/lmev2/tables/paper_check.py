"""Our numbers beside the paper's, with the published cells that do not add up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from lmev2.metrics import OFFICIAL_COUNTS
from lmev2.tables.export import TableFiles, run_query, write_table
from lmev2.tables.layout import plain_layout
from lmev2.tables.notes import run_notes
from lmev2.tables.opening import open_database
from lmev2.tables.paper import FLAGS, INCONSISTENT, LAST_DIGIT, PublishedCell, published_cells

# Models of the paper's protocol, by role.
_MODELS: Final = {
    "reader": "Qwen3.5-9B",
    "judge": "GPT-5.2",
    "controller": "Qwen3.5-9B",
    "embedder": "Qwen3-Embedding-8B",
}
_MEANINGS: Final = (
    f"Flags are computed from the printed numbers. {INCONSISTENT}: impossible with so many questions, whatever the "
    f"rounding; {LAST_DIGIT}: impossible too, but by one unit of the last digit only; depends: possible only if an "
    "inconsistent cell were another; suspect: a cell that, changed alone, would reconcile its row."
)


def export_paper_check(
    database: Path,
    query: str,
    table2: Sequence[Mapping[str, str]],
    table6: Sequence[Mapping[str, str]],
    files: TableFiles,
    title: str,
) -> None:
    """Write the comparison of every method of the run that the paper's Table 2 has, and Table 6 with its flags.

    A run that is not the paper's protocol is compared all the same, with a note that says what differs.

    Args:
        query: reads the published cells as ``published`` (fields of :class:`PublishedCell`, and ``position``).
        table2, table6: the paper's tables as rows.
    """
    cells = published_cells(table2, table6)
    with open_database(database) as connection:
        connection.register("published", _arrow(cells))
        result = run_query(connection, query)
        notes = [*_protocol_notes(connection, {row["method"] for row in table2}), _counted(cells), _MEANINGS]
        notes += run_notes(connection)
    write_table(files, result.header, result.rows, plain_layout(title, result.header, result.rows, notes))


def _arrow(cells: Sequence[PublishedCell]) -> pa.Table:
    names = [field.name for field in fields(PublishedCell)]
    rows = [dict(zip(names, astuple(cell), strict=True)) for cell in cells]
    return pa.Table.from_pylist([{**row, "position": number} for number, row in enumerate(rows)])


def _counted(cells: Sequence[PublishedCell]) -> str:
    parts = []
    for table in (2, 6):
        own = [cell for cell in cells if cell.table == table]
        found = Counter(kind for cell in own for kind in FLAGS if cell.flag.startswith(kind))
        parts.append(
            f"Table {table}: " + (", ".join(f"{found[kind]} {kind}" for kind in FLAGS if found[kind]) or "none")
        )
    return f"Flagged published cells, those of methods outside the run included: {'; '.join(parts)}."


def _protocol_notes(connection: duckdb.DuckDBPyConnection, known: set[str]) -> list[str]:
    """What keeps the run from being the paper's protocol, and which rows the paper does not have."""
    models = dict(connection.execute("SELECT role, model FROM models").fetchall())
    settings = dict(connection.execute("SELECT name, value FROM run").fetchall())
    reasons = [
        f"{role} {models.get(role)} instead of {model}"
        for role, model in _MODELS.items()
        if str(models.get(role)).lower() != model.lower()
    ]
    counts = dict(connection.execute("SELECT category, count(*) FROM questions GROUP BY category").fetchall())
    if counts != dict(OFFICIAL_COUNTS):
        sampled = json.loads(settings["run"]).get("questions") is not None
        what = "a sample of questions" if sampled else "other questions"
        reasons.append(f"{what}: {sum(counts.values())}, the paper has {sum(OFFICIAL_COUNTS.values())}")
    if json.loads(settings["render"])["mode"] != "full":
        reasons.append(f"contexts rendered {json.loads(settings['render'])['mode']} instead of full")
    notes = []
    if reasons:
        notes.append(
            "NOT THE PAPER'S PROTOCOL, so that differences say little about the implementation: "
            f"{'; '.join(reasons)}. Data: {settings['data']}."
        )
    methods = [name for (name,) in connection.execute("SELECT method FROM methods ORDER BY position").fetchall()]
    strangers = [name for name in methods if name not in known]
    if strangers:
        notes.append(f"Not in the paper's Table 2: {', '.join(strangers)}.")
    return notes
