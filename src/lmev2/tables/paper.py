"""The paper's published accuracies, cell by cell, and which of them do not add up.

An accuracy over ``n`` questions is a count divided by ``n``, and Overall is the mean over all questions. A printed cell
that no count gives, or an Overall that its row's cells do not give, is flagged; nothing is known beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lmev2.data.schema import Category
from lmev2.metrics import OFFICIAL_COUNTS, TABLE_CATEGORIES, weighted_overall

Counts = Mapping[Category, int]
OVERALL: Final = "overall"
LATENCY: Final = "latency_s"
# Questions of the official release without a flawed premise (323 in all), which Table 6 is about.
UNFLAWED_COUNTS: Final[Counts] = MappingProxyType({"static": 134, "dynamic": 86, "workflow": 74, "gotchas": 29})

# What flags begin with. `inconsistent`: impossible, whatever the rounding. `last digit`: impossible, but off by
# one unit of the last printed digit only. `depends`: an overall that could be right if an inconsistent cell were
# another. `suspect`: a cell that, if it alone were another, would reconcile its row with the overall.
INCONSISTENT: Final = "inconsistent"
LAST_DIGIT: Final = "last digit"
DEPENDS: Final = "depends"
SUSPECT: Final = "suspect"
FLAGS: Final = (INCONSISTENT, LAST_DIGIT, DEPENDS, SUSPECT)


@dataclass(frozen=True)
class PublishedCell:
    """A published number: its table (2 or 6), row, tier (empty in Table 6) and column, as printed, and its flag."""

    table: int
    method: str
    label: str
    tier: str
    column: str
    value: str
    flag: str


def published_cells(table2: Sequence[Mapping[str, str]], table6: Sequence[Mapping[str, str]]) -> list[PublishedCell]:
    """All cells of Tables 2 and 6, in the order of the tables.

    Args:
        table2: rows with ``method``, ``label``, ``tier``, the accuracies and ``latency_s``.
        table6: rows with ``model`` and the accuracies.
    """
    cells = []
    for row in table2:
        flags = row_flags(row, OFFICIAL_COUNTS)
        for column in (OVERALL, *TABLE_CATEGORIES, LATENCY):
            key = (row["method"], row["label"], row["tier"])
            cells.append(PublishedCell(2, *key, column, row[column], flags.get(column, "")))
    for row in table6:
        flags = row_flags(row, UNFLAWED_COUNTS)
        for column in (OVERALL, *TABLE_CATEGORIES):
            cells.append(PublishedCell(6, row["model"], row["model"], "", column, row[column], flags.get(column, "")))
    return cells


def row_flags(row: Mapping[str, str], counts: Counts) -> dict[str, str]:
    """Flags of a row's accuracies, by column; columns without one are left out.

    Args:
        row: the printed overall and category accuracies.
        counts: questions by category.
    """
    total = sum(counts.values())
    nearest = {name: round(float(row[name]) * count) for name, count in counts.items()}
    flags: dict[str, str] = {name: _multiple_flag(row[name], count) for name, count in counts.items()}
    flags[OVERALL] = _overall_flag(row, counts, nearest, flags)
    if flags[OVERALL].startswith(INCONSISTENT) and not any(flags[name].startswith(INCONSISTENT) for name in counts):
        wanted = round(float(row[OVERALL]) * total)
        for name, count in counts.items():
            needed = wanted - (sum(nearest.values()) - nearest[name])
            if 0 <= needed <= count:
                flags[name] = f"{SUSPECT}: {needed}/{count} = {needed / count:.3f} would fit the overall"
    return {name: flag for name, flag in flags.items() if flag}


def _multiple_flag(printed: str, count: int) -> str:
    """A flag for a cell that no count out of ``count`` gives to the printed digits."""
    digits = len(printed.partition(".")[2])
    correct = round(float(printed) * count)
    if f"{correct / count:.{digits}f}" == printed:
        return ""
    nearest = f"{correct / count:.{digits}f}"
    units = round(abs(float(printed) - float(nearest)) * 10**digits)
    return f"{LAST_DIGIT if units <= 1 else INCONSISTENT}: nearest {correct}/{count} = {nearest}"


def _overall_flag(
    row: Mapping[str, str], counts: Counts, nearest: Mapping[Category, int], flags: Mapping[str, str]
) -> str:
    printed = row[OVERALL]
    digits = len(printed.partition(".")[2])
    total = sum(counts.values())
    implied = weighted_overall({name: float(row[name]) for name in counts}, counts)
    # Rounding moves the overall and the mean of the cells by half a unit of the last digit each, at most.
    if abs(implied - float(printed)) > 10.0**-digits + 1e-9:
        return f"{INCONSISTENT}: the cells give {implied:.{digits}f}"
    own = _multiple_flag(printed, total)
    if own:
        return own
    by_counts = f"{sum(nearest.values()) / total:.{digits}f}"
    if by_counts == printed:
        return ""
    odd = ", ".join(name for name in counts if flags[name].startswith(INCONSISTENT))
    return (
        f"{DEPENDS} on {odd}: the nearest counts give {by_counts}"
        if odd
        else f"{LAST_DIGIT}: the counts give {by_counts}"
    )
