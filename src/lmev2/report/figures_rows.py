"""Figures with methods as rows and small panels beside each other; the numbers stand in columns of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes

from lmev2.report.figures import (
    GREY,
    HEAD,
    INK,
    LINE,
    MARGIN,
    NORMAL,
    PALE,
    SMALL,
    WIDTH,
    Method,
    Row,
    canvas,
    methods_of,
    note_lines,
    place,
    text_width,
    tier_name,
    tiers_of,
    wrap,
    write,
)

_MOST_LABEL = 1.5  # inches; longer labels are wrapped
_ROW_GAP = 0.07
_PANEL_GAP = 0.08
_TICKS = 0.2  # inches below the panels for tick labels
_AXIS_LABEL = 0.15


@dataclass(frozen=True)
class Column:
    """A column of numbers at the right of a panel.

    Attributes:
        name: what :meth:`RowSheet.number` calls it.
        heading: above it.
        width: in inches.
    """

    name: str
    heading: str
    width: float


@dataclass(frozen=True)
class Panel:
    """A panel, with axes whose y unit is an inch.

    Attributes:
        name: what :meth:`RowSheet.axes` calls it.
        heading: above it; lines are separated by ``\\n``.
        share: of the width that numbers leave over, relative to other panels.
        columns: of numbers, right of the axes.
        axis_label: below the axes.
    """

    name: str
    heading: str
    share: float = 1
    columns: Sequence[Column] = field(default_factory=tuple)
    axis_label: str = ""


class RowSheet:
    """A figure with a row per method, in table order, and a lane per tier in it.

    Args:
        rows: the figure's data, by which methods and tiers are known.
        panels: from left to right.
        title: above everything.
        notes: below everything.
        lane: height of a tier's lane in inches.
        key: height in inches between title and headings, for a key.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        panels: Sequence[Panel],
        title: str,
        notes: Sequence[str],
        lane: float = 0.13,
        key: float = 0,
    ):
        self.methods, self.tiers = methods_of(rows), tiers_of(rows)
        self.lane = lane
        labels = [method.label for method in self.methods]
        self._label_width = min(max(map(text_width, labels)) + 0.02, _MOST_LABEL)
        self._lines = [wrap(label, self._label_width) for label in labels]
        self._tier_width = max(text_width(tier, SMALL) for tier in self.tiers) + 0.08 if len(self.tiers) > 1 else 0.0
        self._tops = [0.0]
        for lines in self._lines:
            height = max(len(lines) * LINE, len(self.tiers) * lane) + _ROW_GAP
            self._tops.append(self._tops[-1] + height)
        self.height = self._tops[-1]
        below = note_lines(notes)
        name = title if len(self.tiers) > 1 else f"{tier_name(self.tiers[0])}: {title[0].lower()}{title[1:]}"
        titles = wrap(name, WIDTH - 2 * MARGIN, HEAD, "bold")
        self.key_top = MARGIN + len(titles) * LINE * HEAD / NORMAL + 0.06
        self._headings = self.key_top + key
        heading_lines = max(1 + panel.heading.count("\n") for panel in panels)
        self.top = self._headings + heading_lines * LINE + 0.04
        axis_labels = _AXIS_LABEL if any(panel.axis_label for panel in panels) else 0
        foot = self.top + self.height + _TICKS + axis_labels + 0.05
        self.figure = canvas(foot + len(below) * LINE + MARGIN)
        write(self.figure, MARGIN, MARGIN, "\n".join(titles), HEAD, weight="bold")
        for number, line in enumerate(below):
            write(self.figure, MARGIN, foot + number * LINE, line, SMALL, color=GREY)
        self.ground = place(self.figure, 0, self.top, WIDTH, self.height)
        self._draw_ground()
        self._axes: dict[str, Axes] = {}
        self._columns: dict[tuple[str, str], float] = {}
        self._draw_panels(panels, heading_lines)

    def _draw_ground(self) -> None:
        axes = self.ground
        axes.set(xlim=(0, WIDTH), ylim=(self.height, 0))
        axes.set_axis_off()
        families = [method.family for method in self.methods]
        for number, method in enumerate(self.methods):
            top, bottom = self._tops[number], self._tops[number + 1]
            if number % 2 == 0:
                axes.axhspan(top, bottom, facecolor=PALE, edgecolor="none", zorder=0)
            if number and families[number] != families[number - 1]:
                axes.axhline(top, color=GREY, linewidth=0.8, zorder=1)
            middle = (top + bottom) / 2
            first = middle - (len(self._lines[number]) - 1) / 2 * LINE
            for place_in_label, line in enumerate(self._lines[number]):
                self._text(MARGIN, first + place_in_label * LINE, line, NORMAL, "left")
            if len(self.tiers) > 1:
                for tier in self.tiers:
                    at = MARGIN + self._label_width + 0.06
                    self._text(at, self.y(method, tier), tier, SMALL, "left", GREY)

    def _draw_panels(self, panels: Sequence[Panel], heading_lines: int) -> None:
        left = MARGIN + self._label_width + 0.1 + self._tier_width
        fixed = sum(column.width for panel in panels for column in panel.columns) + len(panels) * _PANEL_GAP
        unit = (WIDTH - MARGIN - left - fixed) / sum(panel.share for panel in panels)
        for panel in panels:
            width = unit * panel.share
            axes = place(self.figure, left, self.top, width, self.height)
            axes.set_ylim(self.height, 0)
            axes.set_yticks([])
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.grid(axis="x", color="#CCCCCC", linewidth=0.4)
            axes.set_axisbelow(True)
            axes.tick_params(axis="x", labelsize=SMALL, pad=1.5)
            if panel.axis_label:
                axes.set_xlabel(panel.axis_label, fontsize=SMALL, labelpad=2)
            self._axes[panel.name] = axes
            whole = width + sum(column.width for column in panel.columns)
            single = len(panel.columns) < 2  # a heading over the panel and its number
            lines = panel.heading.split("\n")
            for number, line in enumerate(lines):
                at = self._headings + (heading_lines - len(lines) + number) * LINE
                centre = left + (whole if single else width) / 2
                write(self.figure, centre, at, line, NORMAL, ha="center", weight="bold")
            left += width
            for column in panel.columns:
                left += column.width
                self._columns[panel.name, column.name] = left
                if column.heading:
                    at = self._headings + (heading_lines - 1) * LINE
                    write(self.figure, left, at, column.heading, SMALL, ha="right", color=GREY)
            left += _PANEL_GAP

    def axes(self, panel: str) -> Axes:
        """Axes of a panel; y is in inches from the first row's top."""
        return self._axes[panel]

    def y(self, method: Method, tier: str) -> float:
        """The middle of a tier's lane in a method's row."""
        index = self.methods.index(method)
        middle = (self._tops[index] + self._tops[index + 1]) / 2
        return middle + (self.tiers.index(tier) - (len(self.tiers) - 1) / 2) * self.lane

    def cell(self, row: Row) -> tuple[Method, int, float]:
        """Method, number of the tier and middle of the lane that a row of the data belongs to."""
        method = next(one for one in self.methods if one.position == row["method_position"])
        return method, self.tiers.index(row["tier"]), self.y(method, row["tier"])

    def number(self, panel: str, column: str, y: float, text: str, mark: str = "") -> None:
        """Write a number, right-aligned in its column; a mark stands behind it."""
        right = self._columns[panel, column]
        space = text_width("*", SMALL) if mark or column == "marked" else 0.0
        self._text(right - space, y, text, SMALL, "right")
        if mark:
            self._text(right - space, y, mark, SMALL, "left")

    def _text(self, x: float, y: float, text: str, size: float, align: str, colour: str = INK) -> None:
        self.ground.text(
            x,
            y,
            text,
            fontsize=size,
            ha=align,
            va="center_baseline",
            color=colour,
            parse_math=False,
            zorder=5,
        )
