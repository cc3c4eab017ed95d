"""What a data root holds: haystack sizes, states per trajectory, tree sizes and question types, by domain and tier."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from lmev2.data.schema import DOMAINS, QUESTION_TYPES
from lmev2.report.figures import (
    COLOURS,
    GREY,
    HEAD,
    INK,
    LINE,
    MARGIN,
    NORMAL,
    SMALL,
    WIDTH,
    Row,
    canvas,
    count_text,
    fetch_rows,
    note_lines,
    place,
    text_width,
    tier_name,
    tiers_of,
    wrap,
    write,
    write_figure,
)
from lmev2.tables.data_statistics import open_data

_POINTS = 400  # of a curve; more are not to be seen
_LEFT, _RIGHT, _GAP = 0.42, 0.12, 0.34  # inches left of the panels, right of them, and between two
_PANEL_HEIGHT, _TICKS, _AXIS_LABEL = 1.25, 0.2, 0.17
_BAR = 0.095  # inches
_TITLE = "The data by domain"
_NOTE = (
    "Curves: share of all that have at most so many; markers: medians. Of all questions of the data root; trajectories "
    "and trees are those that a haystack of the tier names, each counted once."
)


@dataclass(frozen=True)
class _Look:
    """How a domain is drawn: told apart by more than its colour."""

    colour: str
    line: str
    marker: str
    hatch: str


_LOOKS: Mapping[str, _Look] = {
    "web": _Look(COLOURS[0], "-", "o", ""),
    "enterprise": _Look(COLOURS[5], "--", "D", "////"),
}


@dataclass(frozen=True)
class _Panel:
    """A column of panels: what its rows' lists are called, and whether sizes differ by orders of magnitude."""

    name: str
    label: str
    log: bool = False


_PANELS = (
    _Panel("sizes", "Trajectories per haystack"),
    _Panel("states", "States per trajectory"),
    _Panel("characters", "Characters per tree", log=True),
)


def plot_statistics(data: Mapping[str, Path], query: str, png: Path, pdf: Path) -> None:
    """Write the figure; see :func:`draw_statistics` and :func:`lmev2.report.figures.write_figure`.

    Args:
        data: as for :func:`lmev2.tables.data_statistics.open_data`.
        query: the figure's SQL.
        png, pdf: the files to write.
    """
    with open_data(data) as connection:
        rows = fetch_rows(connection, query)
    write_figure(rows, draw_statistics, png, pdf)


def draw_statistics(rows: Sequence[Row]) -> Figure:
    """A row of cumulative distributions per tier, and the question types below.

    Args:
        rows: one per tier and domain: ``sizes``, ``states``, ``characters`` (numbers in rising order) and ``types`` (of
            the questions).
    """
    tiers = tiers_of(rows)
    domains = [name for name in DOMAINS if any(row["domain"] == name for row in rows)]
    # Tiers have the same questions.
    types: dict[str, Counter[str]] = {row["domain"]: Counter(row["types"]) for row in rows}
    shown = [kind for kind in QUESTION_TYPES if any(counts[kind] for counts in types.values())]
    notes = note_lines([_NOTE])
    titles = wrap(_TITLE, WIDTH - 2 * MARGIN, HEAD, "bold")
    key = MARGIN + len(titles) * 0.17 + 0.04
    top = key + LINE + 0.08
    step = LINE + 0.04 + _PANEL_HEIGHT + _TICKS + 0.08
    bars = top + len(tiers) * step + _AXIS_LABEL + 0.02
    height = len(shown) * (len(domains) * _BAR + 0.08)
    foot = bars + LINE + 0.05 + height + _TICKS + 0.05
    figure = canvas(foot + len(notes) * LINE + MARGIN)
    write(figure, MARGIN, MARGIN, "\n".join(titles), HEAD, weight="bold")
    _draw_key(figure, key, domains)
    for number, tier in enumerate(tiers):
        last = number == len(tiers) - 1
        _draw_tier(figure, top + number * step, tier, [row for row in rows if row["tier"] == tier], rows, last)
    _draw_types(figure, bars, height, shown, {name: types[name] for name in domains})
    for number, line in enumerate(notes):
        write(figure, MARGIN, foot + number * LINE, line, SMALL, color=GREY)
    return figure


def _draw_key(figure: Figure, top: float, domains: Sequence[str]) -> None:
    left = MARGIN
    for name in domains:
        look = _LOOKS[name]
        swatch = place(figure, left, top, 0.34, LINE)
        swatch.set(xlim=(0, 1), ylim=(0, 1))
        swatch.set_axis_off()
        swatch.plot((0, 1), (0.45, 0.45), look.line, color=look.colour, linewidth=1.4)
        swatch.plot(0.5, 0.45, look.marker, color=look.colour, markersize=4, markeredgecolor=INK, markeredgewidth=0.5)
        write(figure, left + 0.4, top, name, NORMAL)
        left += 0.4 + text_width(name) + 0.25


def _draw_tier(
    figure: Figure, top: float, tier: str, rows: Sequence[Row], everything: Sequence[Row], labelled: bool
) -> None:
    """The panels of a tier; columns have the same axis in all tiers."""
    write(figure, MARGIN, top, tier_name(tier), NORMAL, weight="bold")
    width = (WIDTH - _LEFT - _RIGHT - (len(_PANELS) - 1) * _GAP) / len(_PANELS)
    for number, panel in enumerate(_PANELS):
        left = _LEFT + number * (width + _GAP)
        axes = place(figure, left, top + LINE + 0.04, width, _PANEL_HEIGHT)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#DDDDDD", linewidth=0.4)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=SMALL, pad=1.5)
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"] if number == 0 else ["", "", ""])
        _set_scale(axes, panel, [value for row in everything for value in row[panel.name]])
        for row in rows:
            _draw_curve(axes, row[panel.name], _LOOKS[row["domain"]], f"{panel.name} {row['domain']} {tier}")
        if labelled:
            axes.set_xlabel(panel.label, fontsize=NORMAL, labelpad=2)


def _set_scale(axes: Axes, panel: _Panel, values: Sequence[float]) -> None:
    most = max(values, default=1)
    if not panel.log:
        axes.set_xlim(0, max(most * 1.04, 1))
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        return
    first = math.floor(math.log10(max(min(values, default=1), 1)))
    last = max(math.ceil(math.log10(max(most, 2))), first + 1)
    axes.set_xscale("log")
    axes.set_xlim(10**first, 10**last)
    axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(first, last + 1)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.minorticks_off()


def _short(value: float) -> str:
    for unit, sign in ((1e6, "M"), (1e3, "K")):
        if value >= unit:
            return f"{value / unit:.0f}{sign}"
    return f"{value:.0f}"


def _draw_curve(axes: Axes, values: Sequence[float], look: _Look, name: str) -> None:
    """A cumulative distribution as steps, with a marker at the median."""
    x, y = cumulative(values)
    (line,) = axes.plot(
        x, y, look.line, color=look.colour, linewidth=1.4, drawstyle="steps-post", clip_on=False, zorder=2
    )
    line.set_gid(f"curve {name}")
    (dot,) = axes.plot(
        values[(len(values) - 1) // 2],
        0.5,
        look.marker,
        color=look.colour,
        markersize=4,
        markeredgecolor=INK,
        markeredgewidth=0.5,
        clip_on=False,
        zorder=3,
    )
    dot.set_gid(f"median {name}")


def cumulative(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Corners of the steps of a cumulative distribution, from share 0 at the least value to 1 at the most.

    Args:
        values: in rising order; of many, evenly spaced ranks stand for all.
    """
    count = len(values)
    points = min(count, _POINTS)
    ranks = [round(number * (count - 1) / max(points - 1, 1)) for number in range(points)]
    x, y = [values[0]], [0.0]
    for rank in ranks:
        x.append(values[rank])
        y.append((rank + 1) / count)
    return x, y


def _draw_types(
    figure: Figure, top: float, height: float, shown: Sequence[str], counts: Mapping[str, Mapping[str, int]]
) -> None:
    """Bars of the numbers of questions, a bar per domain in each type's row."""
    write(figure, MARGIN, top, "Questions by type", NORMAL, weight="bold")
    label = max((text_width(kind) for kind in shown), default=0) + 0.1
    left = MARGIN + label
    axes = place(figure, left, top + LINE + 0.05, WIDTH - left - 0.4, height)
    most = max((counts[domain][kind] for domain in counts for kind in shown), default=1)
    axes.set(xlim=(0, max(most, 1)), ylim=(height, 0))
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.4)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", labelsize=SMALL, pad=1.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    lane = height / max(len(shown), 1)
    for number, kind in enumerate(shown):
        middle = (number + 0.5) * lane
        axes.text(-0.06 / (WIDTH - left - 0.4) * max(most, 1), middle, kind, fontsize=NORMAL, ha="right", va="center")
        for place_in_lane, (domain, numbers) in enumerate(counts.items()):
            look = _LOOKS[domain]
            y = middle + (place_in_lane - len(counts) / 2) * _BAR
            bar = Rectangle((0, y), numbers[kind], _BAR, facecolor=look.colour if not look.hatch else "white")
            bar.set(edgecolor=look.colour, linewidth=0.6, hatch=look.hatch, clip_on=False, zorder=2)
            bar.set_gid(f"type {kind} {domain}")
            axes.add_patch(bar)
            at = numbers[kind] + 0.04 / (WIDTH - left - 0.4) * max(most, 1)
            axes.text(at, y + _BAR / 2, count_text(numbers[kind]), fontsize=SMALL, va="center_baseline", ha="left")
