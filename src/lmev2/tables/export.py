"""A table's query, run over the database and written as CSV and Markdown."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from lmev2.files import replacing


def export_table(database: Path, query: str, csv_path: Path, markdown_path: Path, title: str) -> None:
    """Write the result of ``query``; numbers stand as the query formats them.

    The Markdown file has the title, the table, and notes: the models that made it and, where rows failed, that the
    table is incomplete and how many rows failed of which kind.
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        result = connection.execute(query)
        header = [column[0] for column in result.description or []]
        rows = result.fetchall()
        notes = _notes(connection)
    _write_csv(csv_path, header, rows)
    text = f"# {title}\n\n{markdown_table(header, rows)}\n\n" + "".join(f"- {note}\n" for note in notes)
    with replacing(markdown_path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A pipe table; numbers are right-aligned, missing values stand as a dash."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(len(name), *(len(row[i]) for row in cells), 3) if cells else len(name) for i, name in enumerate(header)
    ]
    numeric = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(header))]
    rule = ["-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numeric, strict=True)]

    def line(values: Sequence[str]) -> str:
        padded = [
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, numeric, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    return "\n".join([line(header), line(rule), *(line(row) for row in cells)])


def _notes(connection: duckdb.DuckDBPyConnection) -> list[str]:
    models = connection.execute("SELECT role, model FROM models ORDER BY role DESC").fetchall()
    notes = [", ".join(f"{role}: {model}" for role, model in models) + "."]
    run = dict(connection.execute("SELECT name, value FROM run").fetchall())
    remarks = json.loads(run["run"])["notes"]
    notes += [remarks[model] for role, model in models if role == "reader" and model in remarks]
    notes.append(f"Data: {run['data']}. All settings and hashes: tables run and models of metrics.duckdb.")
    notes += _made_otherwise(connection)
    total = connection.execute("SELECT count(*) FROM questions").fetchone()
    notes.append(f"{total[0] if total else 0} questions per method and tier.")
    errors = connection.execute(
        "SELECT error, count(*) FROM scores WHERE error IS NOT NULL GROUP BY error ORDER BY error"
    ).fetchall()
    if errors:
        kinds = ", ".join(f"{count} {kind}" for kind, count in errors)
        notes.append(f"INCOMPLETE: {kinds}; rows with an error have no score and are not in the means.")
    return notes


def _made_otherwise(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A note on entries and queries that a model's reply could not be used for as it came."""
    counts = connection.execute(
        """
        SELECT CAST(sum(entries) AS BIGINT), origin, pool FROM pools WHERE origin IN ('repaired', 'fallback')
        GROUP BY origin, pool
        UNION ALL
        SELECT count(*), query_origin, method || ' queries' FROM contexts WHERE query_origin IN ('repaired', 'fallback')
        GROUP BY query_origin, method
        ORDER BY 3, 2
        """
    ).fetchall()
    if not counts:
        return []
    parts = ", ".join(f"{count} {origin} in {where}" for count, origin, where in counts)
    return [f"Memory not written by the controller's first reply: {parts} (origins.csv)."]


def _write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([["" if value is None else value for value in row] for row in rows])


def _cell(value: Any) -> str:
    return "-" if value is None or value == "" else str(value).replace("|", "\\|").replace("\n", " ")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == "-"
    return True
