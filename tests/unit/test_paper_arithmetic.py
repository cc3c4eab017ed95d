"""The paper's printed numbers as a regression test of the arithmetic, and the metrics themselves."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.paperworld import OFFICIAL_TYPES

from lmev2.data.schema import QUESTION_TYPES
from lmev2.metrics import (
    OFFICIAL_COUNTS,
    TABLE_CATEGORIES,
    MetricsError,
    accuracy,
    category_of,
    is_abstention,
    shares,
    table_row,
    weighted_overall,
)

PAPER = Path(__file__).resolve().parents[2] / "resources" / "paper"


def paper_rows(name: str) -> list[dict[str, str]]:
    with (PAPER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def row(number: int, question_type: str, correct: bool | None, **more: Any) -> dict[str, Any]:
    question = {"question_id": f"q{number}", "question_type": question_type}
    return {**question, "correct": correct, "unknown": False, "error": None, **more}


TABLE_2 = paper_rows("table2.csv")


def test_table_2_has_every_method_and_tier() -> None:
    assert len(TABLE_2) == 24
    assert len({(line["method"], line["tier"]) for line in TABLE_2}) == 24


@pytest.mark.parametrize("line", TABLE_2, ids=lambda line: f"{line['method']}-{line['tier']}")
def test_overall_of_table_2_is_the_mean_over_questions(line: dict[str, str]) -> None:
    overall = weighted_overall({category: float(line[category]) for category in TABLE_CATEGORIES})
    if line["method"] == "no_retrieval":
        # The printed cells do not give the printed overall: 0.033 against 0.013.
        assert round(overall, 3) == 0.033
        assert line["overall"] == "0.013"
    else:
        assert overall == pytest.approx(float(line["overall"]), abs=0.002)


def test_the_unweighted_mean_does_not_reproduce_table_2() -> None:
    off = [
        abs(sum(float(line[category]) for category in TABLE_CATEGORIES) / 4 - float(line["overall"]))
        for line in TABLE_2
    ]
    assert max(off) > 0.02


def test_types_pool_to_the_official_counts() -> None:
    counts = dict.fromkeys(TABLE_CATEGORIES, 0)
    for question_type, count in OFFICIAL_TYPES.items():
        counts[category_of(question_type)] += count
    assert counts == OFFICIAL_COUNTS
    assert sum(counts.values()) == 451
    assert set(OFFICIAL_TYPES) == set(QUESTION_TYPES)
    assert sum(count for kind, count in OFFICIAL_TYPES.items() if not is_abstention(kind)) == 323


@pytest.mark.parametrize("check", [category_of, is_abstention])
def test_unknown_type(check: Any) -> None:
    with pytest.raises(MetricsError, match="unknown question type 'procedure-x'; known types: static-environment"):
        check("procedure-x")


@given(st.lists(st.tuples(st.sampled_from(QUESTION_TYPES), st.sampled_from([True, False, None])), max_size=40))
def test_table_row_counts_every_row_once(outcomes: list[tuple[str, bool | None]]) -> None:
    rows = [row(n, kind, ok, error=None if ok is not None else "length") for n, (kind, ok) in enumerate(outcomes)]
    found = table_row(rows)
    scored = [ok for _, ok in outcomes if ok is not None]
    assert found["overall"].value == (sum(scored) / len(scored) if scored else None)
    assert found["overall"].complete is (len(scored) == len(outcomes))
    assert sum(found["overall"].errors.values()) == len(outcomes) - len(scored)
    for field in ("correct", "scored"):
        assert getattr(found["overall"], field) == sum(getattr(found[category], field) for category in TABLE_CATEGORIES)
    if all(found[category].scored for category in TABLE_CATEGORIES):
        cells = {category: found[category].value or 0.0 for category in TABLE_CATEGORIES}
        counts = {category: found[category].scored for category in TABLE_CATEGORIES}
        assert weighted_overall(cells, counts) == pytest.approx(found["overall"].value)


def test_errors_are_counted_by_kind_and_are_no_zeros() -> None:
    rows = [row(1, "procedure", True), row(2, "procedure", None, error="length")]
    rows += [row(3, "procedure", None, error="api_error"), row(4, "procedure", None, error="length")]
    found = accuracy(rows)
    assert (found.value, found.scored, found.errors) == (1.0, 1, {"api_error": 1, "length": 2})
    assert not found.complete


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(1, "procedure", True), row(1, "procedure", True)], "more than one score row"),
        ([row(1, "procedure", None)], "expected a score or an error"),
        ([row(1, "procedure", True, error="length")], "expected a score or an error"),
    ],
)
def test_rows_that_do_not_add_up_are_refused(rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(MetricsError, match=said):
        accuracy(rows)


def test_shares() -> None:
    rows = [row(n, "procedure", n < 2) for n in range(5)] + [row(5, "procedure", False, unknown=True)]
    rows += [row(6, "procedure", None, error="length", unknown=None)]
    found = shares(rows)
    assert (found.count, found.correct, found.wrong, found.unknown) == (6, 2 / 6, 3 / 6, 1 / 6)
    assert shares([]).correct is None


def test_weights_must_fit_the_cells() -> None:
    with pytest.raises(MetricsError, match="they must agree"):
        weighted_overall({"static": 1.0})
    with pytest.raises(MetricsError, match="no questions"):
        weighted_overall({"static": 1.0}, {"static": 0})
