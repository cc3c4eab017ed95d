"""Evidence coverage against accuracy, a panel per tier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from lmev2.report.figures import (
    GREY,
    HEAD,
    INK,
    Row,
    incomplete_note,
    methods_of,
    plot,
    share_text,
    tier_name,
    tiers_of,
    wrap,
)
from lmev2.report.figures_points import Entry, Mark, PointSheet

_NO_LABELS = "No evidence labels in this run's data: coverage is unknown."


def plot_evidence(database: Path, query: str, png: Path, pdf: Path) -> None:
    """Write the figure; see :func:`draw_evidence` and :func:`lmev2.report.figures.plot`."""
    plot(database, query, draw_evidence, png, pdf)


def draw_evidence(rows: Sequence[Row]) -> Figure:
    """Points at coverage after truncation, joined to hollow ones at coverage before it.

    Args:
        rows: one per method and tier: ``labelled`` questions, coverage ``before`` and ``after`` truncation and
            ``accuracy`` as shares, None where unknown, ``errors`` and ``all_rows``.
    """
    tiers, methods = tiers_of(rows), methods_of(rows)
    by_cell = {(row["method"], row["tier"]): row for row in rows}
    entries = [
        Entry(
            Mark(method.marker, method.colour),
            method.label,
            [
                share_text(by_cell[method.name, tier][name]) if (method.name, tier) in by_cell else "–"
                for tier in tiers
                for name in ("before", "after", "accuracy")
            ],
        )
        for method in methods
    ]
    notes = [
        *incomplete_note(rows),
        "Filled: every hop of the question's evidence has a state in the context that the reader saw. Hollow: before "
        "truncation to the reader's budget.",
    ]
    sheet = PointSheet(
        tiers,
        [_heading(tier, rows) for tier in tiers],
        ("before", "after", "accuracy"),
        entries,
        "Evidence coverage against accuracy",
        notes,
        ("Evidence coverage (share of labelled questions)", "Accuracy"),
    )
    for tier in tiers:
        axes = sheet.panels[tier]
        axes.set(xlim=(0, 1), ylim=(-0.04, 1))  # points at 0 stand clear of the axis
        ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
        axes.set_xticks(ticks)
        axes.set_yticks(ticks)
        shown = [row for row in rows if row["tier"] == tier and row["after"] is not None]
        if not shown:
            width = axes.get_window_extent().width / sheet.figure.dpi
            text = "\n".join(wrap(_NO_LABELS, width - 0.2, HEAD))
            axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=HEAD, color=INK)
        for row in shown:
            if row["accuracy"] is None:
                continue
            method = methods_of([row])[0]
            if row["before"] is not None and row["before"] != row["after"]:
                axes.plot(
                    (row["before"], row["after"]),
                    (row["accuracy"], row["accuracy"]),
                    color=GREY,
                    linewidth=0.8,
                    zorder=3,
                )
                pale = Mark(method.marker, "none", method.colour)
                pale.draw(axes, row["before"], row["accuracy"], f"before {method.name} {tier}", 4)
            full = Mark(method.marker, method.colour)
            full.draw(axes, row["after"], row["accuracy"], f"after {method.name} {tier}", 5)
    return sheet.figure


def _heading(tier: str, rows: Sequence[Row]) -> str:
    labelled = max((row["labelled"] for row in rows if row["tier"] == tier), default=0)
    return f"{tier_name(tier)}: {labelled:,} labelled question{'' if labelled == 1 else 's'}"
