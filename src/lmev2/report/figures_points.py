"""Figures with methods as points, a panel per tier, and a table of markers and numbers below.

Points carry no text, so that methods may lie on each other; the table says which is which and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from lmev2.report.figures import (
    GREY,
    HEAD,
    INK,
    LINE,
    MARGIN,
    NORMAL,
    SMALL,
    WIDTH,
    canvas,
    note_lines,
    place,
    text_width,
    tier_name,
    wrap,
    write,
)

_AXIS = 0.45  # inches left of a panel
_PANEL_HEIGHT = 2.4
_PANEL_GAP = 0.15
_RIGHT = 0.16  # inches right of the last panel, for half a tick label
_BELOW = 0.42  # inches below the panels for ticks and label
_MARK = 0.24
_COLUMN = 0.62


@dataclass(frozen=True)
class Mark:
    """How a point looks: matplotlib's marker, its face (``none``: hollow), its edge and its size in points."""

    marker: str
    face: str
    edge: str = INK
    size: float = 5.5

    def draw(self, axes: Axes, x: float, y: float, gid: str, zorder: float) -> Line2D:
        """Draw a point."""
        (artist,) = axes.plot(
            x,
            y,
            self.marker,
            color=self.face,
            markerfacecolor=self.face,
            markeredgecolor=self.edge,
            markeredgewidth=0.6 if self.face != "none" else 1.0,
            markersize=self.size,
            clip_on=False,
            zorder=zorder,
        )
        artist.set_gid(gid)
        return artist


@dataclass(frozen=True)
class Entry:
    """A line of the table: marker, label, and numbers by tier and column. Without a marker, a heading."""

    mark: Mark | None
    label: str
    cells: Sequence[str] = ()


class PointSheet:
    """A figure with a panel per tier beside each other and a table below.

    Args:
        tiers: in order.
        headings: above the panels, by tier.
        columns: of the table, for each tier.
        entries: lines of the table; each has ``len(tiers) * len(columns)`` cells.
        title: above everything.
        notes: below everything.
        axis_labels: of x and y.
    """

    def __init__(
        self,
        tiers: Sequence[str],
        headings: Sequence[str],
        columns: Sequence[str],
        entries: Sequence[Entry],
        title: str,
        notes: Sequence[str],
        axis_labels: tuple[str, str],
    ):
        self.tiers = tiers
        column_width = max([_COLUMN, *(text_width(column, SMALL) + 0.12 for column in columns)])
        numbers = WIDTH - MARGIN - column_width * len(columns) * len(tiers)
        label_width = numbers - 2 * MARGIN - _MARK
        lines = [wrap(entry.label, label_width) for entry in entries]
        # Numbers stand near their labels.
        widest = max(text_width(line) for texts in lines for line in texts)
        numbers = min(numbers, MARGIN + _MARK + widest + 0.15)
        below = note_lines(notes)
        titles = wrap(title, WIDTH - 2 * MARGIN, HEAD, "bold")
        panel_width = (WIDTH - _RIGHT - len(tiers) * _AXIS - (len(tiers) - 1) * _PANEL_GAP) / len(tiers)
        panel_titles = [wrap(heading, panel_width, NORMAL, "bold") for heading in headings]
        panel_top = MARGIN + len(titles) * 0.17 + 0.08 + max(map(len, panel_titles)) * LINE + 0.04
        table = panel_top + _PANEL_HEIGHT + _BELOW
        body = table + (2 if len(tiers) > 1 else 1) * LINE + 0.05
        foot = body + sum(len(texts) * LINE + 0.03 for texts in lines) + 0.05
        self.figure = canvas(foot + len(below) * LINE + MARGIN)
        write(self.figure, MARGIN, MARGIN, "\n".join(titles), HEAD, weight="bold")
        self.panels: dict[str, Axes] = {}
        for number, tier in enumerate(tiers):
            left = _AXIS + number * (panel_width + _AXIS + _PANEL_GAP)
            for index, line in enumerate(panel_titles[number]):
                at = panel_top - 0.04 - (len(panel_titles[number]) - index) * LINE
                write(self.figure, left, at, line, NORMAL, weight="bold")
            axes = place(self.figure, left, panel_top, panel_width, _PANEL_HEIGHT)
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=SMALL)
            axes.grid(color="#DDDDDD", linewidth=0.4)
            axes.set_axisbelow(True)
            axes.set_xlabel(axis_labels[0], fontsize=NORMAL, labelpad=2)
            if number == 0:
                axes.set_ylabel(axis_labels[1], fontsize=NORMAL, labelpad=2)
            self.panels[tier] = axes
        self._table(table, body, numbers, column_width, columns, list(zip(entries, lines, strict=True)))
        for number, line in enumerate(below):
            write(self.figure, MARGIN, foot + number * LINE, line, SMALL, color=GREY)

    def _table(
        self,
        top: float,
        body: float,
        numbers: float,
        width: float,
        columns: Sequence[str],
        entries: Sequence[tuple[Entry, Sequence[str]]],
    ) -> None:
        for number, tier in enumerate(self.tiers):
            start = numbers + number * width * len(columns)
            if len(self.tiers) > 1:
                right = start + width * len(columns)
                write(self.figure, right, top, tier_name(tier), SMALL, ha="right", weight="bold")
            for index, column in enumerate(columns):
                at = top + (LINE if len(self.tiers) > 1 else 0)
                write(self.figure, start + (index + 1) * width, at, column, SMALL, ha="right", color=GREY)
        height = sum(len(lines) * LINE + 0.03 for _, lines in entries)
        ground = place(self.figure, 0, body, WIDTH, height)
        ground.set(xlim=(0, WIDTH), ylim=(height, 0))
        ground.set_axis_off()
        y = 0.0
        for entry, lines in entries:
            middle = y + LINE / 2
            left = MARGIN + _MARK if entry.mark else MARGIN
            if entry.mark:
                entry.mark.draw(ground, MARGIN + _MARK / 2 - 0.04, middle, f"key {entry.label}", 3)
            style: dict[str, Any] = {"va": "center_baseline", "parse_math": False, "color": INK}
            for number, line in enumerate(lines):
                weight = "normal" if entry.mark else "bold"
                ground.text(left, middle + number * LINE, line, fontsize=NORMAL, weight=weight, **style)
            for number, cell in enumerate(entry.cells):
                ground.text(numbers + (number + 1) * width, middle, cell, fontsize=SMALL, ha="right", **style)
            y += len(lines) * LINE + 0.03
