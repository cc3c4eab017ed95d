"""Tables and figures of the run as the first page shows them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Title and what it says, by file name; others are shown by their name.
_TABLES: Final[Mapping[str, tuple[str, str]]] = {
    "evidence": (
        "Evidence in the context",
        "What reached the reader. Covered: share of the questions with evidence labels whose every hop has a state in "
        "the context. Gold support: share of the phrase-match questions whose reference answer stands in the context.",
    ),
    "origins": (
        "Origin of memory entries and queries",
        "Written by rules, by a model, by a call that repaired the model’s reply, or by the fallback.",
    ),
    "agents": (
        "Coding agents: work and cost",
        "Means over questions. Failed: no usable output in all attempts. Costs only where the configuration has a "
        "price.",
    ),
    "statistics": (
        "Statistics of the data",
        "Of all questions of the data root, by tier and domain. A trajectory counts once however many haystacks "
        "name it.",
    ),
    "paper_check": ("Our numbers beside the published ones", "Differences to the paper’s Table 2, row by row."),
}
_FIGURES: Final[Mapping[str, str]] = {
    "table2": "Accuracy by category, and what reached the reader",
    "frontier": "Accuracy against mean query latency",
    "latency": "Distribution of query latencies",
    "evidence": "Evidence coverage against accuracy",
    "tokens": "Context tokens per method",
    "errors": "Errors by kind",
    "statistics": "The data by domain: haystacks, trajectories, trees, and questions by type",
}


@dataclass(frozen=True)
class Table:
    """A table to show as its file has it."""

    name: str
    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | None]]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers only."""
        return [all(_is_number(row[number]) for row in self.rows) for number in range(len(self.header))]


@dataclass(frozen=True)
class Figure:
    """A figure: file name and caption."""

    name: str
    caption: str


def read_table(path: Path) -> Table:
    """A table of the run; empty cells become none."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    title, note = _TABLES.get(path.stem, (path.stem.replace("_", " ").capitalize(), ""))
    return Table(path.stem, title, note, header, [[value or None for value in row] for row in rows])


def figure(path: Path) -> Figure:
    """A figure of the run."""
    return Figure(path.name, _FIGURES.get(path.stem, path.stem.replace("_", " ").capitalize()))


def _is_number(value: str | None) -> bool:
    try:
        return value is None or float(value) == float(value)
    except ValueError:
        return False
