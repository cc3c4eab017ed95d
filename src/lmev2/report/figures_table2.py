"""Table 2 as dots: accuracy by category of every method and tier, and what reached the reader beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from lmev2.report.figures import INK, TIER_MARKERS, Row, incomplete_note, plot, share_text
from lmev2.report.figures_rows import Column, Panel, RowSheet

_NUMBER = (Column("marked", "", 0.335),)
_PANELS = (
    Panel("overall", "Overall", 3, _NUMBER),
    Panel("static", "Static", 1, _NUMBER),
    Panel("dynamic", "Dynamic", 1, _NUMBER),
    Panel("workflow", "Workflow", 1, _NUMBER),
    Panel("gotchas", "Gotchas", 1, _NUMBER),
    Panel("covered", "Evidence\ncovered", 1, _NUMBER),
    Panel("gold_support", "Gold\nsupport", 1, _NUMBER),
)
_OF_CONTEXT = ("covered", "gold_support")


def plot_table2(database: Path, query: str, png: Path, pdf: Path) -> None:
    """Write the figure; see :func:`draw_table2` and :func:`lmev2.report.figures.plot`."""
    plot(database, query, draw_table2, png, pdf)


def draw_table2(rows: Sequence[Row]) -> Figure:
    """One small panel per column of the table, a row per method, a lane per tier.

    Args:
        rows: one per method, tier and ``panel``: ``value``, ``low`` and ``high`` (shares, 0 to 1, or None),
            ``significant``, ``all_rows``, ``errors``, ``level``, ``alpha``.
    """
    valued = {row["panel"] for row in rows if row["value"] is not None}
    panels = [panel for panel in _PANELS if panel.name not in _OF_CONTEXT or panel.name in valued]
    questions = max(row["all_rows"] for row in rows)
    counted = f"{questions:,} question{'' if questions == 1 else 's'}"
    reached = " and what reached the reader" if len(panels) > len(_PANELS) - len(_OF_CONTEXT) else ""
    sheet = RowSheet(rows, panels, f"Accuracy by category{reached}, {counted}", _notes(rows, valued))
    for panel in panels:
        axes = sheet.axes(panel.name)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1], ["0", ".5" if panel.name == "overall" else "", "1"])
    by_cell = {(row["method_position"], row["tier"], row["panel"]): row for row in rows}
    for method in sheet.methods:
        for number, tier in enumerate(sheet.tiers):
            y = sheet.y(method, tier)
            for panel in panels:
                row = by_cell.get((method.position, tier, panel.name))
                value = row["value"] if row else None
                mark = "*" if row and row["significant"] else ""
                sheet.number(panel.name, "marked", y, share_text(value), mark)
                if row is None or value is None:
                    continue
                axes = sheet.axes(panel.name)
                if row["low"] is not None and row["high"] is not None:
                    ends = (row["low"], row["high"])
                    (line,) = axes.plot(ends, (y, y), "|-", color=INK, linewidth=0.8, markersize=4, clip_on=False)
                    line.set_gid(f"interval {method.name} {tier}")
                (dot,) = axes.plot(
                    value,
                    y,
                    TIER_MARKERS[number % len(TIER_MARKERS)],
                    color=method.colour,
                    markeredgecolor=INK,
                    markeredgewidth=0.5,
                    markersize=3.6 if number == 0 else 3.1,
                    clip_on=False,
                    zorder=3,
                )
                dot.set_gid(f"{panel.name} {method.name} {tier}")
    return sheet.figure


def _notes(rows: Sequence[Row], valued: set[str]) -> list[str]:
    level, alpha = rows[0]["level"], rows[0]["alpha"]
    notes = []
    if any(row["low"] is not None for row in rows):
        notes.append(f"Lines: {f'{100 * level:g} % ' if level else ''}bootstrap interval over questions.")
    if any(row["significant"] for row in rows):
        p_value = f", p < {alpha:g}" if alpha else ""
        notes.append(f"* better than the best of the rows that it is compared with (paired bootstrap{p_value}).")
    missing = {"covered": "no evidence labels", "gold_support": "no phrase-match questions for gold support"}
    lacking = [text for name, text in missing.items() if name not in valued]
    if lacking:
        notes.append(f"This run has {' and '.join(lacking)}.")
    # One paragraph: each remark is short.
    return [*incomplete_note(rows), *([" ".join(notes)] if notes else [])]
