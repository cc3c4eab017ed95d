"""Accuracy against query latency: the paper's reference points and their frontier, the run's methods, and LAFS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmev2.lafs import LONGEST_S, SHORTEST_S, Point, frontier
from lmev2.report.figures import (
    GREY,
    INK,
    Method,
    Row,
    incomplete_note,
    methods_of,
    plot,
    seconds_text,
    tier_name,
    tiers_of,
)
from lmev2.report.figures_axes import log_seconds_axis
from lmev2.report.figures_points import Entry, Mark, PointSheet

_LEAST_S, _MOST_S = 0.01, 300.0
_REFERENCE_MARKERS = ("o", "s", "^", "D")
_KNOWN, _GAINED = "#D9D9D9", "#8FD3B6"


def plot_frontier(database: Path, query: str, png: Path, pdf: Path) -> None:
    """Write the figure; see :func:`draw_frontier` and :func:`lmev2.report.figures.plot`."""
    plot(database, query, draw_frontier, png, pdf)


def draw_frontier(rows: Sequence[Row]) -> Figure:
    """A panel per tier with points and frontiers, and a table of latency, accuracy and LAFS gain.

    Args:
        rows: by ``kind``: ``run`` (a method on a tier: ``latency_s``, ``accuracy`` and ``gain`` in percentage points,
            None where nothing was measured; ``errors`` and ``all_rows``),
            ``reference`` (a reference point) and ``all`` (``lafs`` and ``gain`` of a tier with every method).
    """
    run = [row for row in rows if row["kind"] == "run"]
    tiers = tiers_of(run)
    methods = methods_of(run)
    reference = [row for row in rows if row["kind"] == "reference"]
    together = {row["tier"]: row for row in rows if row["kind"] == "all"}
    headings = [_heading(tier, together.get(tier)) for tier in tiers]
    entries = [Entry(_mark(method), method.label, _cells(run, method.name, tiers)) for method in methods]
    if reference:
        entries.append(Entry(None, "Reference points (paper, Table 2)"))
        for one in methods_of(reference):
            entries.append(Entry(_reference_mark(one), one.label, _cells(reference, one.name, tiers)))
    notes = [
        *incomplete_note(run),
        "LAFS: height of the reference points' frontier averaged over log-latency from "
        f"{SHORTEST_S:g} to {LONGEST_S:g} s (grey area). Gain: what methods add to it, in the table each by itself, "
        "above the panel all together (green, hatched area; dashed frontier).",
    ]
    axis_labels = ("Mean query latency (s, logarithmic)", "Accuracy (%)")
    columns = ("latency (s)", "accuracy", "gain")
    sheet = PointSheet(tiers, headings, columns, entries, "Accuracy against query latency", notes, axis_labels)
    latencies = [row["latency_s"] for row in (*run, *reference) if row["latency_s"] is not None]
    for tier in tiers:
        axes = sheet.panels[tier]
        least = min([value for value in latencies if value > 0] + [_LEAST_S])
        zero = log_seconds_axis(axes, latencies, least, max([*latencies, _MOST_S]))
        axes.set_ylim(0, 100)
        axes.set_yticks(range(0, 101, 20))
        known = [_point(row) for row in reference if row["tier"] == tier]
        own = [row for row in run if row["tier"] == tier and None not in (row["latency_s"], row["accuracy"])]
        _draw_areas(axes, tier, known, [*known, *map(_point, own)], zero)
        for row in reference:
            if row["tier"] == tier:
                method = methods_of([row])[0]
                gid = f"reference {method.name} {tier}"
                _reference_mark(method).draw(axes, row["latency_s"] or zero, row["accuracy"], gid, 4)
        for row in own:
            method = methods_of([row])[0]
            _mark(method).draw(axes, row["latency_s"] or zero, row["accuracy"], f"run {method.name} {tier}", 5)
    return sheet.figure


def _heading(tier: str, together: Row | None) -> str:
    if together is None:
        return f"{tier_name(tier)}: no method with accuracy and latency"
    known = together["lafs"] - together["gain"]
    return f"{tier_name(tier)}: LAFS {known:.2f}, gain {_gain_text(together['gain'])}"


def _gain_text(gain: float) -> str:
    return f"{round(gain, 2) + 0.0:.2f}"  # rounding may leave a minus before 0


def _mark(method: Method) -> Mark:
    return Mark(method.marker, method.colour)


def _reference_mark(method: Method) -> Mark:
    return Mark(_REFERENCE_MARKERS[method.position % len(_REFERENCE_MARKERS)], "none", GREY, 8)


def _point(row: Row) -> Point:
    return Point(row["latency_s"], row["accuracy"])


def _cells(rows: Sequence[Row], name: str, tiers: Sequence[str]) -> list[str]:
    found = {row["tier"]: row for row in rows if row["method"] == name}
    cells = []
    for tier in tiers:
        row = found.get(tier)
        cells.append(seconds_text(row["latency_s"] if row else None))
        cells.append("–" if row is None or row["accuracy"] is None else f"{row['accuracy']:.1f}")
        gain = row["gain"] if row else None
        cells.append(("" if row and row["kind"] == "reference" else "–") if gain is None else _gain_text(gain))
    return cells


def _draw_areas(axes: Axes, tier: str, known: Sequence[Point], every: Sequence[Point], zero: float) -> None:
    """Both step functions, and the areas below them over the budgets that count for LAFS."""
    right = axes.get_xlim()[1]
    for points, colour, width, gid in ((known, GREY, 1.0, "known"), (every, INK, 1.0, "every")):
        corners = [(zero, 0.0), *((point.latency_s or zero, point.accuracy) for point in frontier(points))]
        places = [*(place for place, _ in corners), right]
        heights = [*(height for _, height in corners), corners[-1][1]]
        style = "-" if gid == "known" else (0, (3, 1.5))
        (line,) = axes.plot(places, heights, drawstyle="steps-post", color=colour, linewidth=width, linestyle=style)
        line.set(gid=f"{gid} {tier}", zorder=3 if gid == "known" else 2.9)
    budgets = sorted(
        {SHORTEST_S, LONGEST_S, *(p.latency_s for p in every if SHORTEST_S < p.latency_s < LONGEST_S)},
        key=math.log,
    )
    lower, upper = ([_best(points, budget) for budget in budgets] for points in (known, every))
    axes.fill_between(budgets, lower, step="post", facecolor=_KNOWN, edgecolor="none", zorder=0.5)
    axes.fill_between(
        budgets,
        lower,
        upper,
        step="post",
        facecolor=_GAINED,
        edgecolor="#007A55",
        hatch="////",
        linewidth=0,
        zorder=0.6,
    )


def _best(points: Sequence[Point], budget: float) -> float:
    return max((point.accuracy for point in points if point.latency_s <= budget), default=0.0)
