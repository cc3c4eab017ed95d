"""LAFS, the leaderboard's score of accuracy and latency together.

Accuracy, in percentage points, is taken as a step function of the latency budget: the best accuracy among the points
that are at most that slow, else 0. LAFS is its average over the logarithm of the budget, from 1 s to 200 s. The gain of
a set of points is what it adds to the reference points of its tier.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

SHORTEST_S, LONGEST_S = 1.0, 200.0
# Rows of the paper's Table 2 that are the reference points of their tier.
REFERENCE_METHODS = ("rag_slice_notes", "codex", "agentrunbook_r", "agentrunbook_c")


class Point(NamedTuple):
    """An operating point: mean query latency in seconds, and accuracy in percentage points (0 to 100)."""

    latency_s: float
    accuracy: float


def frontier(points: Iterable[Point]) -> list[Point]:
    """The points that no faster or equally fast one matches, by rising latency: the corners of the step function."""
    corners: list[Point] = []
    for point in sorted(points, key=lambda one: (one.latency_s, -one.accuracy)):
        if not corners or point.accuracy > corners[-1].accuracy:
            corners.append(point)
    return corners


def lafs(points: Iterable[Point]) -> float:
    """The score, 0 to 100.

    Raises:
        ValueError: a latency is negative or not a number, or an accuracy lies outside 0 to 100.
    """
    given = list(points)
    for point in given:
        if not point.latency_s >= 0 or not 0 <= point.accuracy <= 100:
            raise ValueError(f"not an operating point: {point}")
    corners = frontier(given)
    total = 0.0
    for number, corner in enumerate(corners):
        start = max(corner.latency_s, SHORTEST_S)
        end = corners[number + 1].latency_s if number + 1 < len(corners) else LONGEST_S
        end = min(end, LONGEST_S)
        if end > start:
            total += corner.accuracy * math.log(end / start)
    return total / math.log(LONGEST_S / SHORTEST_S)


def lafs_gain(reference: Iterable[Point], new: Iterable[Point]) -> float:
    """What new points add to the score of the reference points; never negative."""
    known = list(reference)
    return lafs([*known, *new]) - lafs(known)
