"""Arithmetic of the tables: pooled categories and the overall score. Pure functions, the reference for the SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, get_args

from lmev2.data.schema import ABSTENTION_SUFFIX, CATEGORIES, QUESTION_TYPES, Category

# In the order of the columns of Table 2.
TABLE_CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)

# Questions of the official release by category (451 in all), the weights behind the Overall column of Table 2.
OFFICIAL_COUNTS: Final[Mapping[Category, int]] = MappingProxyType(
    {"static": 189, "dynamic": 127, "workflow": 106, "gotchas": 29}
)


class MetricsError(ValueError):
    """Rows or cells from which a metric cannot be computed."""


@dataclass(frozen=True)
class Accuracy:
    """Accuracy over a set of score rows.

    Attributes:
        correct: rows that are correct.
        scored: rows with a score.
        errors: rows without one, by error kind.
    """

    correct: int
    scored: int
    errors: Mapping[str, int]

    @property
    def value(self) -> float | None:
        """Share correct among the rows with a score, 0 to 1; None when there are none."""
        return self.correct / self.scored if self.scored else None

    @property
    def complete(self) -> bool:
        """Every row has a score; otherwise the value is not a result."""
        return not self.errors


@dataclass(frozen=True)
class Shares:
    """Shares of rows with a score, each 0 to 1 and together 1; None when there are no such rows.

    Attributes:
        count: rows with a score.
        correct, wrong, unknown: answered correctly, answered wrongly, answered ``UNKNOWN``.
    """

    count: int
    correct: float | None
    wrong: float | None
    unknown: float | None


def category_of(question_type: str) -> Category:
    """The column of Table 2 that a question type belongs to; each type is pooled with its ``-abs`` variant.

    Raises:
        MetricsError: unknown question type.
    """
    category = CATEGORIES.get(question_type)
    if category is None:
        raise MetricsError(f"unknown question type {question_type!r}; known types: {', '.join(QUESTION_TYPES)}")
    return category


def is_abstention(question_type: str) -> bool:
    """The question's premise is flawed.

    Raises:
        MetricsError: unknown question type.
    """
    category_of(question_type)
    return question_type.endswith(ABSTENTION_SUFFIX)


def accuracy(rows: Iterable[Mapping[str, Any]]) -> Accuracy:
    """Accuracy of score rows (fields ``question_id``, ``correct``, ``error``).

    Raises:
        MetricsError: a question occurs twice, or a row has both or neither of a score and an error.
    """
    seen: set[str] = set()
    correct = scored = 0
    errors: Counter[str] = Counter()
    for row in rows:
        question = row["question_id"]
        if question in seen:
            raise MetricsError(f"question {question!r} has more than one score row; pool one method and tier at a time")
        seen.add(question)
        if (row["correct"] is None) == (row["error"] is None):
            raise MetricsError(f"question {question!r}: expected a score or an error, found {dict(row)}")
        if row["error"] is not None:
            errors[row["error"]] += 1
        else:
            scored += 1
            correct += bool(row["correct"])
    return Accuracy(correct, scored, dict(sorted(errors.items())))


def table_row(rows: Iterable[Mapping[str, Any]]) -> dict[str, Accuracy]:
    """Overall and category accuracies of one method and tier, with the column names of Table 2.

    Overall is the mean over all questions, not the mean of the categories.

    Raises:
        MetricsError: as for :func:`accuracy`, or an unknown question type.
    """
    every = list(rows)
    pools: dict[Category, list[Mapping[str, Any]]] = {category: [] for category in TABLE_CATEGORIES}
    for row in every:
        pools[category_of(row["question_type"])].append(row)
    return {"overall": accuracy(every), **{category: accuracy(pool) for category, pool in pools.items()}}


def shares(rows: Iterable[Mapping[str, Any]]) -> Shares:
    """Shares correct, answered wrong and unknown of score rows (fields ``correct``, ``unknown``); rows with an error
    are left out."""
    scored = [row for row in rows if row["correct"] is not None]
    if not scored:
        return Shares(0, None, None, None)
    correct = sum(1 for row in scored if row["correct"])
    unknown = sum(1 for row in scored if row["unknown"])
    count = len(scored)
    return Shares(count, correct / count, (count - correct - unknown) / count, unknown / count)


def weighted_overall(cells: Mapping[Category, float], counts: Mapping[Category, int] = OFFICIAL_COUNTS) -> float:
    """Overall accuracy from category accuracies and the number of questions in each.

    Raises:
        MetricsError: the categories differ, or there are no questions.
    """
    if set(cells) != set(counts):
        raise MetricsError(f"cells name {sorted(cells)}, counts name {sorted(counts)}; they must agree")
    total = sum(counts.values())
    if total <= 0:
        raise MetricsError("no questions to weigh the categories by")
    return sum(cells[category] * count for category, count in counts.items()) / total
