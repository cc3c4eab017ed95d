"""Figures drawn from databases of random rows, and what can be read back from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from unit.tableworld import SQL, Run, make_database

from lmev2.report.figures import Row, drawing, fetch
from lmev2.report.figures_errors import draw_errors, plot_errors
from lmev2.report.figures_evidence import draw_evidence, plot_evidence
from lmev2.report.figures_frontier import draw_frontier, plot_frontier
from lmev2.report.figures_latency import draw_latency, plot_latency
from lmev2.report.figures_table2 import draw_table2, plot_table2
from lmev2.report.figures_tokens import draw_tokens, plot_tokens

DRAW: dict[str, Callable[[Sequence[Row]], Figure]] = {
    "table2": draw_table2,
    "frontier": draw_frontier,
    "latency": draw_latency,
    "evidence": draw_evidence,
    "tokens": draw_tokens,
    "errors": draw_errors,
}
PLOT: dict[str, Callable[[Path, str, Path, Path], None]] = {
    "table2": plot_table2,
    "frontier": plot_frontier,
    "latency": plot_latency,
    "evidence": plot_evidence,
    "tokens": plot_tokens,
    "errors": plot_errors,
}


def query_of(name: str) -> str:
    return (SQL / f"figure_{name}.sql").read_text(encoding="utf-8")


def rows_of(name: str, folder: Path, run: Run) -> list[Row]:
    path = folder / "metrics.duckdb"
    return fetch(path if path.exists() else make_database(folder, run), query_of(name))


def draw(name: str, rows: Sequence[Row]) -> Figure:
    """The figure, laid out as it is written."""
    with drawing():
        figure = DRAW[name](rows)
        figure.canvas.draw()
    return figure


def lines(figure: Figure, start: str = "") -> dict[str, tuple[list[float], list[float]]]:
    """Drawn points and lines by their names."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for artist in figure.findobj(Line2D):
        gid = artist.get_gid()
        if gid is not None and gid.startswith(start):
            assert gid not in found, f"{gid} is drawn twice"
            x, y = artist.get_data()  # type: ignore[attr-defined]
            found[gid] = ([float(value) for value in x], [float(value) for value in y])
    return found


def bars(figure: Figure) -> dict[str, tuple[float, float]]:
    """Start and length of named bars."""
    found = [one for one in figure.findobj(Rectangle) if one.get_gid() is not None]
    return {one.get_gid(): (one.get_x(), one.get_width()) for one in found}  # type: ignore[attr-defined,misc]


def texts(figure: Figure) -> list[Text]:
    """Every text that is to be seen."""
    found = list(figure.texts)
    for axes in figure.axes:
        found += axes.texts
        if axes.axison:
            found += [axes.title, axes.xaxis.label, axes.yaxis.label]
            found += _tick_labels(axes.xaxis, axes.get_xlim()) + _tick_labels(axes.yaxis, axes.get_ylim())
    return [one for one in found if one.get_visible() and one.get_text().strip()]


def _tick_labels(axis: Axis, limits: tuple[float, float]) -> list[Text]:
    # Locators also make ticks beyond the limits, which are not drawn.
    low, high = sorted(limits)
    ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1 for tick in ticks]


def words(figure: Figure) -> list[str]:
    return [one.get_text() for one in texts(figure)]


def clashes(figure: Figure) -> list[tuple[str, str]]:
    """Texts that lie on each other, and texts that leave the figure."""
    boxes = [(one.get_text(), one.get_window_extent()) for one in texts(figure)]
    page = figure.bbox
    slack = figure.dpi / 72 * 0.5
    found = [
        (text, "the page's edge")
        for text, box in boxes
        if box.x0 < page.x0 - slack or box.x1 > page.x1 + slack or box.y0 < page.y0 - slack or box.y1 > page.y1 + slack
    ]
    for number, (text, box) in enumerate(boxes):
        for other, second in boxes[number + 1 :]:
            across = min(box.x1, second.x1) - max(box.x0, second.x0)
            down = min(box.y1, second.y1) - max(box.y0, second.y0)
            if across > slack and down > slack:
                found.append((text, other))
    return found
