"""A table's query, run over the database and written as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from lmev2.csv_cells import csv_cell
from lmev2.files import replacing
from lmev2.tables.latex import latex_table
from lmev2.tables.layout import Layout, layout_markdown, plain_layout
from lmev2.tables.notes import NOTES, run_notes
from lmev2.tables.opening import open_database


class TableFiles(NamedTuple):
    """The three files of a table."""

    csv: Path
    markdown: Path
    latex: Path


class Result(NamedTuple):
    """A query's column names and rows."""

    header: list[str]
    rows: list[tuple[Any, ...]]

    def records(self) -> list[dict[str, Any]]:
        """The rows by column name."""
        return [dict(zip(self.header, row, strict=True)) for row in self.rows]


def export_table(database: Path, query: str, files: TableFiles, title: str, notes: Sequence[str] = ()) -> None:
    """Write the result of ``query``; numbers stand as the query formats them.

    Markdown and LaTeX have the title, the table, and notes: the models that made it, what the table itself needs said,
    and where rows failed, that the table is incomplete and how many rows failed of which kind. They name methods by
    their labels only.

    Args:
        notes: names of notes of this table, see :data:`lmev2.tables.notes.NOTES`.
    """
    with open_database(database) as connection:
        result = run_query(connection, query)
        texts = [text for name in notes for text in NOTES[name](connection)] + run_notes(connection)
        labels = dict(connection.execute("SELECT method, label FROM methods").fetchall())
    write_table(files, result.header, result.rows, plain_layout(title, result.header, result.rows, texts, labels))


def read_table(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file by column name."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run_query(connection: duckdb.DuckDBPyConnection, query: str) -> Result:
    """Run a query and fetch everything."""
    result = connection.execute(query)
    return Result([column[0] for column in result.description or []], result.fetchall())


def write_table(files: TableFiles, header: Sequence[str], rows: Sequence[Sequence[Any]], layout: Layout) -> None:
    """Write rows as CSV, and the layout as Markdown and LaTeX (``\\ref{tab:NAME}``, NAME from the file's)."""
    with replacing(files.csv) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([[csv_cell(value) for value in row] for row in rows])
    texts = {files.markdown: layout_markdown(layout), files.latex: latex_table(layout, files.latex.stem)}
    for path, text in texts.items():
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
