"""LAFS equals a numerical average of its step function."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.lafs import REFERENCE_METHODS, Point, frontier, lafs, lafs_gain

POINTS = st.lists(st.builds(Point, st.floats(0, 400), st.floats(0, 100)), max_size=6)


def numerically(points: list[Point], steps: int = 20_000) -> float:
    budgets = np.exp((np.arange(steps) + 0.5) / steps * math.log(200))
    best = np.zeros(steps)
    for point in points:
        best = np.where(budgets >= point.latency_s, np.maximum(best, point.accuracy), best)
    return float(best.mean())


@given(POINTS)
def test_it_is_the_average_of_the_step_function(points: list[Point]) -> None:
    assert lafs(points) == pytest.approx(numerically(points), abs=0.05)


@given(POINTS, POINTS)
def test_a_gain_is_never_negative_and_order_does_not_matter(reference: list[Point], new: list[Point]) -> None:
    assert lafs_gain(reference, new) >= -1e-9
    assert lafs(reference[::-1]) == pytest.approx(lafs(reference))


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], 0.0),
        ([Point(0.2, 50)], 50.0),
        ([Point(1, 50)], 50.0),
        ([Point(200, 50)], 0.0),
        ([Point(math.sqrt(200), 80)], 40.0),
        ([Point(0, 20), Point(math.sqrt(200), 80)], 50.0),
        ([Point(0, 80), Point(100, 20)], 80.0),
    ],
)
def test_known_values(points: list[Point], expected: float) -> None:
    assert lafs(points) == pytest.approx(expected)


def test_the_frontier_leaves_out_what_is_slower_and_no_better() -> None:
    points = [Point(5, 40), Point(1, 30), Point(2, 30), Point(9, 41), Point(1, 10)]
    assert frontier(points) == [Point(1, 30), Point(5, 40), Point(9, 41)]


@pytest.mark.parametrize("point", [Point(-1, 5), Point(math.nan, 5), Point(1, 101), Point(1, -1)])
def test_an_impossible_point_is_refused(point: Point) -> None:
    with pytest.raises(ValueError, match="not an operating point"):
        lafs([point])


@pytest.mark.parametrize(
    ("tier", "by_hand", "printed"),
    [
        # Codex is slower than AgentRunbook-C and no better in either tier, so it adds no step.
        ("small", 51.0 * math.log(26.9) + 58.6 * math.log(108.3 / 26.9) + 74.9 * math.log(200 / 108.3), 55.7648),
        ("medium", 45.9 * math.log(25.8) + 57.0 * math.log(139.9 / 25.8) + 70.1 * math.log(200 / 139.9), 51.0741),
    ],
)
def test_the_reference_points_by_hand(tier: str, by_hand: float, printed: float) -> None:
    paper = Path(__file__).resolve().parents[2] / "resources" / "paper" / "table2.csv"
    with paper.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tier"] == tier and row["method"] in REFERENCE_METHODS]
    score = lafs(Point(float(row["latency_s"]), 100 * float(row["overall"])) for row in rows)
    assert len(rows) == 4
    assert score == pytest.approx(by_hand / math.log(200)) == pytest.approx(printed, abs=5e-5)
