"""Table 2 as the paper lays it out: tiers side by side, a block for each family of methods."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from lmev2.metrics import TABLE_CATEGORIES
from lmev2.tables.export import Result, TableFiles, run_query, write_table
from lmev2.tables.layout import Block, Cell, Column, Layout, bold_best
from lmev2.tables.notes import RULE_AGENT, bootstrap_note, run_notes
from lmev2.tables.opening import open_database

_ACCURACIES = ("overall", *TABLE_CATEGORIES)
# Families in the order of the blocks; others follow as they come.
_HEADINGS = {"none": "", "rag": "RAG methods", "agent": "Coding agent methods", "plugin": "Plugins"}
_Rows = Mapping[tuple[str, str], Mapping[str, Any]]


def export_table2(database: Path, query: str, files: TableFiles, title: str) -> None:
    """Write table 2: the CSV with a row per method and tier as the query gives it, Markdown and LaTeX side by side.

    Where rows failed, the title begins with INCOMPLETE, columns say how many, and notes of which kind.

    Args:
        query: must give ``method``, ``label``, ``tier``, the accuracies, ``latency_s``, ``significant`` (column names
            joined by ``;``), ``questions``, ``errors`` and ``error_kinds``.
    """
    with open_database(database) as connection:
        result = run_query(connection, query)
        layout = _layout(connection, result, title)
    write_table(files, result.header, result.rows, layout)


def _layout(connection: duckdb.DuckDBPyConnection, result: Result, title: str) -> Layout:
    records = {(row["method"], row["tier"]): row for row in result.records()}
    tiers = [tier for (tier,) in connection.execute("SELECT tier FROM tiers ORDER BY position").fetchall()]
    failed = any(row["errors"] for row in records.values())
    columns = [Column("Method")]
    for tier in tiers:
        names = [name.capitalize() for name in _ACCURACIES]
        columns += [Column(name, tier.capitalize(), right=True) for name in [*names, "Latency"]]
        columns += [Column("Failed", tier.capitalize(), right=True)] if failed else []
    width = len(_ACCURACIES) + 1 + failed
    accuracies = [1 + width * part + number for part in range(len(tiers)) for number in range(len(_ACCURACIES))]
    blocks = []
    for heading, methods in _blocks(connection):
        rows = [_row(records, method, label, tiers, failed) for method, label in methods]
        blocks.append(Block(heading, tuple(bold_best(rows, accuracies))))
    notes = (*_notes(connection, result), *run_notes(connection))
    name = f"INCOMPLETE: {title}" if failed else title
    return Layout(name, tuple(columns), tuple(blocks), notes)


def _blocks(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, list[tuple[str, str]]]]:
    """Headings, and method and label of the rows below them, in table order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for method, label, family in connection.execute(
        "SELECT method, label, family FROM methods ORDER BY position"
    ).fetchall():
        found.setdefault(family, []).append((method, label))
    families = [name for name in _HEADINGS if name in found] + [name for name in found if name not in _HEADINGS]
    models = {
        role: json.loads(settings)
        for role, settings in connection.execute("SELECT role, settings FROM models").fetchall()
    }
    makers = {"rag": _controller(models), "agent": _agent(models)}
    blocks = []
    for family in families:
        heading = _HEADINGS.get(family, family.replace("_", " ").capitalize())
        maker = makers.get(family)
        blocks.append((f"{heading} ({maker})" if maker else heading, found[family]))
    return blocks


def _controller(models: Mapping[str, Mapping[str, Any]]) -> str:
    return f"controller: {models['controller']['model']}" if "controller" in models else ""


def _agent(models: Mapping[str, Mapping[str, Any]]) -> str:
    """The agent with its version, where it has one of its own, and its model as the role sets it."""
    agent = models.get("agent")
    if agent is None:
        return ""
    if agent["agent"] == RULE_AGENT:
        return f"agent: {RULE_AGENT}, rules, no model"
    name = f"{agent['agent']} {agent['version']}" if agent["agent"] == "codex" else agent["agent"]
    effort = agent.get("reasoning_effort")
    return f"agent: {name}, model: {agent['model']}" + (f", reasoning effort {effort}" if effort else "")


def _row(records: _Rows, method: str, label: str, tiers: Sequence[str], failed: bool) -> tuple[Cell, ...]:
    cells = [Cell(label)]
    for tier in tiers:
        row = records.get((method, tier), {})
        marked = (row.get("significant") or "").split(";")
        cells += [Cell(row.get(name) or "", mark=name in marked) for name in _ACCURACIES]
        cells.append(Cell(_latency(row.get("latency_s"))))
        if failed:
            cells.append(Cell(f"{row['errors']} of {row['questions']}" if row.get("errors") else ""))
    return tuple(cells)


def _latency(value: str | None) -> str:
    """Seconds as the paper prints them, ``26.9s``; with more digits where that would be ``0.0s``."""
    if not value:
        return ""
    seconds = float(value)
    return "0s" if seconds == 0 else f"{seconds:.1f}s" if seconds >= 0.05 else f"{seconds:.3f}s"


def _notes(connection: duckdb.DuckDBPyConnection, result: Result) -> list[str]:
    counts = dict(connection.execute("SELECT category, count(*) FROM questions GROUP BY category").fetchall())
    by_category = ", ".join(f"{counts.get(name, 0)} {name}" for name in TABLE_CATEGORIES)
    notes = [
        f"Mean accuracy; bold: the best of a block in its column. Questions by category: {by_category}.",
        *bootstrap_note(connection),
        "Latency: mean seconds of the query call; reader, judge and the making of the memory are outside.",
    ]
    failed = [f"{row['label']}, {row['tier']}: {row['error_kinds']}" for row in result.records() if row["error_kinds"]]
    if failed:
        notes.append(
            "A number beside failed rows is the mean over the others only: it is not a result. Failed rows: "
            f"{'; '.join(failed)}."
        )
    return notes
