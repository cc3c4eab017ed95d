"""What the tables say beyond means: intervals, comparisons, and LAFS, computed from the database's own rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from lmev2.bootstrap import compare, interval
from lmev2.lafs import REFERENCE_METHODS, Point, lafs, lafs_gain
from lmev2.metrics import TABLE_CATEGORIES

OVERALL = "overall"
POOLS = (OVERALL, *TABLE_CATEGORIES)
_ALL_METHODS = "all"

_SCHEMAS = {
    # Accuracy with its bootstrap interval, over the questions with a score.
    "intervals": pa.schema(
        [("method", pa.string()), ("tier", pa.string()), ("category", pa.string()), ("questions", pa.int64())]
        + [(name, pa.float64()) for name in ("accuracy", "low", "high")]
    ),
    # A method against its best partner, over the questions that both have a score for.
    "comparisons": pa.schema(
        [(name, pa.string()) for name in ("method", "tier", "category", "partner")]
        + [("questions", pa.int64())]
        + [(name, pa.float64()) for name in ("difference", "low", "high", "p")]
        + [("significant", pa.bool_())]
    ),
    # LAFS of the tier's reference points with the method's point (of `all`: every method's), and the gain.
    "lafs": pa.schema(
        [("method", pa.string()), ("tier", pa.string())]
        + [(name, pa.float64()) for name in ("latency_s", "accuracy", "lafs", "gain")]
    ),
    "reference_points": pa.schema(
        [("tier", pa.string()), ("method", pa.string()), ("latency_s", pa.float64()), ("accuracy", pa.float64())]
    ),
}


def fill_statistics(
    database: duckdb.DuckDBPyConnection,
    partners: Mapping[str, Sequence[str]],
    settings: Mapping[str, Any],
    paper: Sequence[Mapping[str, str]],
) -> None:
    """Add the tables ``intervals``, ``comparisons``, ``lafs`` and ``reference_points``; needs the view ``outcomes``.

    A method is compared, in each category, with the partner that has the best accuracy there; a mark needs a positive
    difference and a p-value below ``alpha``.

    Args:
        partners: by method, the methods that it is compared with; those that are not in the run are left out.
        settings: ``resamples``, ``seed``, ``level`` and ``alpha``.
        paper: rows of the paper's Table 2 (``method``, ``tier``, ``overall``, ``latency_s``).
    """
    scores = _scores(database)
    cells = database.execute("SELECT method, tier FROM cells ORDER BY method_position, tier_position").fetchall()
    options = (int(settings["resamples"]), int(settings["seed"]), float(settings["level"]))
    intervals, comparisons = [], []
    for method, tier in cells:
        for category in POOLS:
            own = scores.get((method, tier, category), {})
            if own:
                values = np.array(list(own.values()), np.float64)
                found = interval(values, *options)
                intervals.append((method, tier, category, len(own), found.mean, found.low, found.high))
            against = _best_partner(scores, partners.get(method, ()), tier, category)
            if own and against is not None:
                comparisons.append(_comparison(scores, (method, tier, category), against, options, settings["alpha"]))
    _write(database, "intervals", intervals)
    _write(database, "comparisons", [row for row in comparisons if row is not None])
    _fill_lafs(database, paper)


def _scores(database: duckdb.DuckDBPyConnection) -> dict[tuple[str, str, str], dict[str, int]]:
    """Scores (0 or 1) by question, for each method, tier and category."""
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    rows = database.execute(
        "SELECT method, tier, category, question_id, correct FROM outcomes "
        "WHERE correct IS NOT NULL ORDER BY question_id"
    ).fetchall()
    for method, tier, category, question, correct in rows:
        for pool in (OVERALL, category):
            found.setdefault((method, tier, pool), {})[question] = correct
    return found


def _best_partner(
    scores: Mapping[tuple[str, str, str], Mapping[str, int]], names: Sequence[str], tier: str, category: str
) -> str | None:
    there = [name for name in names if scores.get((name, tier, category))]
    return max(there, key=lambda name: _mean(scores[name, tier, category]), default=None)


def _mean(values: Mapping[str, int]) -> float:
    return sum(values.values()) / len(values)


def _comparison(
    scores: Mapping[tuple[str, str, str], Mapping[str, int]],
    cell: tuple[str, str, str],
    partner: str,
    options: tuple[int, int, float],
    alpha: float,
) -> tuple[Any, ...] | None:
    own, other = scores[cell], scores[partner, cell[1], cell[2]]
    both = [question for question in own if question in other]
    if not both:
        return None
    first, second = (np.array([rows[question] for question in both], np.float64) for rows in (own, other))
    found = compare(first, second, *options)
    return (*cell, partner, len(both), *found, bool(found.difference > 0 and found.p < alpha))


def _fill_lafs(database: duckdb.DuckDBPyConnection, paper: Sequence[Mapping[str, str]]) -> None:
    reference: dict[str, list[Point]] = {}
    rows = []
    for line in paper:
        if line["method"] in REFERENCE_METHODS:
            point = Point(float(line["latency_s"]), 100 * float(line["overall"]))
            reference.setdefault(line["tier"], []).append(point)
            rows.append((line["tier"], line["method"], *point))
    _write(database, "reference_points", rows)
    measured = database.execute(
        """
        SELECT method, tier, avg(latency_s), 100 * avg(correct) FROM outcomes
        GROUP BY method_position, tier_position, method, tier
        HAVING count(correct) > 0 AND count(latency_s) > 0
        ORDER BY method_position, tier_position
        """
    ).fetchall()
    found: list[tuple[Any, ...]] = []
    for tier in dict.fromkeys(row[1] for row in measured):
        known = reference.get(tier, [])
        points = [(method, Point(latency, accuracy)) for method, own, latency, accuracy in measured if own == tier]
        for method, point in points:
            found.append((method, tier, *point, lafs([*known, point]), lafs_gain(known, [point])))
        every = [point for _, point in points]
        found.append((_ALL_METHODS, tier, None, None, lafs([*known, *every]), lafs_gain(known, every)))
    _write(database, "lafs", found)


def _write(database: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    schema = _SCHEMAS[table]
    columns = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(schema)]
    database.register("content", pa.Table.from_arrays(columns, schema=schema))
    database.execute(f"CREATE TABLE {table} AS SELECT * FROM content")
    database.unregister("content")
