"""Rows that failed, by error kind and method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from lmev2.report.figures import (
    HEAD,
    INK,
    LINE,
    MARGIN,
    SMALL,
    WIDTH,
    Row,
    canvas,
    place,
    plot,
    text_width,
    write,
)
from lmev2.report.figures_rows import Column, Panel, RowSheet

# Greys and hatches: colours stand for methods.
_LOOKS = (
    ("#FFFFFF", "////"),
    ("#555555", ""),
    ("#FFFFFF", "...."),
    ("#BBBBBB", ""),
    ("#FFFFFF", "xxxx"),
    ("#000000", ""),
)
_SWATCH = 0.22


def plot_errors(database: Path, query: str, png: Path, pdf: Path) -> None:
    """Write the figure; see :func:`draw_errors` and :func:`lmev2.report.figures.plot`."""
    plot(database, query, draw_errors, png, pdf)


def draw_errors(rows: Sequence[Row]) -> Figure:
    """Stacked bars of failed rows; where nothing failed, a panel that says so.

    Args:
        rows: one per method, tier and error ``kind`` (None where nothing failed) with ``failed``, and the ``errors``
            and ``all_rows`` of the method and tier.
    """
    kinds = sorted({row["kind"] for row in rows if row["kind"]})
    cells = {(row["method_position"], row["tier"]): row for row in rows}
    if not kinds:
        return _none(sum(row["all_rows"] for row in cells.values()))
    looks = {kind: _LOOKS[number % len(_LOOKS)] for number, kind in enumerate(kinds)}
    lines = _key_lines(kinds)
    panel = Panel("errors", "", 1, (Column("total", "failed", 0.85),), "Rows without a score")
    note = "A row is one question asked of one method on one tier. Accuracies are over the other rows."
    sheet = RowSheet(rows, [panel], "Errors by kind", [note], lane=0.15, key=len(lines) * (LINE + 0.03) + 0.02)
    _draw_key(sheet.figure, sheet.key_top, lines, looks)
    axes = sheet.axes("errors")
    axes.set_xlim(0, max(row["errors"] for row in rows) * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    reached: dict[tuple[int, str], int] = {}
    for row in rows:
        method, _, y = sheet.cell(row)
        start = reached.get((method.position, row["tier"]), 0)
        if row["kind"]:
            face, hatch = looks[row["kind"]]
            bar = Rectangle(
                (start, y - sheet.lane * 0.36), row["failed"], sheet.lane * 0.72, facecolor=face, hatch=hatch
            )
            bar.set(edgecolor=INK, linewidth=0.5, zorder=2, clip_on=False)
            bar.set_gid(f"{row['kind']} {method.name} {row['tier']}")
            axes.add_patch(bar)
        reached[method.position, row["tier"]] = start + row["failed"]
    for row in cells.values():
        sheet.number("errors", "total", sheet.cell(row)[2], f"{row['errors']:,} of {row['all_rows']:,}")
    return sheet.figure


def _none(count: int) -> Figure:
    figure = canvas(0.9)
    write(figure, MARGIN, MARGIN, "Errors by kind", HEAD, weight="bold")
    place(figure, MARGIN, 0.3, WIDTH - 2 * MARGIN, 0.5).set(xticks=[], yticks=[])
    text = f"No errors: all {count:,} rows have a score."
    write(figure, WIDTH / 2, 0.55, text, HEAD, ha="center", va="center")
    return figure


def _key_lines(kinds: Sequence[str]) -> list[list[tuple[str, float]]]:
    """Kinds with their places from the left, wrapped to the figure's width."""
    lines: list[list[tuple[str, float]]] = [[]]
    left = MARGIN
    for kind in kinds:
        width = _SWATCH + 0.06 + text_width(kind, SMALL) + 0.2
        if lines[-1] and left + width > WIDTH - MARGIN:
            lines.append([])
            left = MARGIN
        lines[-1].append((kind, left))
        left += width
    return lines


def _draw_key(
    figure: Figure, top: float, lines: Sequence[Sequence[tuple[str, float]]], looks: dict[str, tuple[str, str]]
) -> None:
    for number, line in enumerate(lines):
        at = top + number * (LINE + 0.03)
        for kind, left in line:
            face, hatch = looks[kind]
            swatch = place(figure, left, at, _SWATCH, LINE * 0.8)
            swatch.set(xticks=[], yticks=[])
            swatch.add_patch(Rectangle((0, 0), 1, 1, facecolor=face, hatch=hatch, edgecolor=INK, linewidth=0.5))
            write(figure, left + _SWATCH + 0.06, at + LINE * 0.4, kind, SMALL, va="center_baseline")
