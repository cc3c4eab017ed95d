"""How a table is fitted to the width of a page: type, lines in headings and texts, and panels below each other.

All widths are in points. Columns never become wider than the text of ``article`` at 10 points; whatever a table holds,
there is a way to print it so, because every text can be broken.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lmev2.tables.latex_text import BOLD, ITALIC, MARK, SCALES, text_width
from lmev2.tables.layout import Block, Cell, Layout

PAGE_WIDTH: Final = 345.0
LEADING: Final = {9: 11.0, 8: 9.5, 7: 8.0}  # points from line to line, by the type's size
_NARROW: Final = 48.0  # texts are wrapped to this at the least, if their words allow it
_ROWS_OF_GROUP: Final = 4  # on average, for a heading to be worth its line
_BREAK = re.compile(r"(?<=[^\W_][_/-])(?=[^\W_]{2})|(?<= )")  # covered_|before, query -> |slice; latency_s stays
_INDENT: Final = "  "


@dataclass(frozen=True)
class Type:
    """Type of a size, half the space between columns, and what is broken into lines: texts, or headings only."""

    size: int
    gap: float
    headings: bool = False
    texts: bool = False


@dataclass(frozen=True)
class Panel:
    """Columns that stand beside each other: their places in the layout, and the widths of their texts."""

    columns: tuple[int, ...]
    widths: tuple[float, ...]


@dataclass(frozen=True)
class Fit:
    """A layout as it is printed; where it has several panels, they stand below each other."""

    layout: Layout
    type: Type
    panels: tuple[Panel, ...]

    def heading_lines(self, number: int, width: float) -> list[str]:
        """Lines of a column's heading."""
        return wrap(self.layout.columns[number].name, width, self.type.size)

    def cell_lines(self, cell: Cell, width: float) -> list[Cell]:
        """A cell in lines; those after the first are indented where it is a text."""
        if cell_width(cell, self.type.size) <= width:
            return [cell]
        indent = text_width(_INDENT, self.type.size)
        first, *rest = wrap(cell.text, width, self.type.size, indent)
        return [Cell(first, cell.bold, cell.mark), *(Cell(_INDENT + line) for line in rest)]

    def block_lines(self, block: Block, panel: Panel) -> list[str]:
        """Lines of a block's heading, as wide as the panel if that is not too narrow."""
        width = max(panel_width(panel.widths, self.type.gap), PAGE_WIDTH * 0.6)
        return wrap(block.heading, width / ITALIC, self.type.size) if block.heading else []


# In the order in which they are tried; type of 7 points comes after lines in texts.
_BESIDE: Final = (Type(9, 4), Type(9, 3, True), Type(8, 3), Type(8, 3, True))
_WRAPPED: Final = (Type(8, 3, True, True), Type(7, 3, True), Type(7, 2.5, True, True))


def fit_layout(layout: Layout) -> Fit:
    """The first way that fits: all columns beside each other, with repeated texts as headings, with short headings and
    texts in lines, or in panels."""
    grouped = _grouped(layout)
    for one, types in ((layout, _BESIDE), (grouped, _BESIDE), (_shortened(grouped), _WRAPPED)):
        for type_ in types:
            panel = _panel(one, range(len(one.columns)), type_)
            if panel is not None:
                return Fit(one, type_, (panel,))
    ways = [(panels, type_) for type_ in (*_BESIDE, *_WRAPPED) if (panels := _panels(grouped, type_))]
    panels, type_ = min(ways, key=lambda way: len(way[0]))
    return Fit(grouped, type_, panels)


def panel_width(widths: Sequence[float], gap: float) -> float:
    """Width of columns with the space between them."""
    return sum(widths) + 2 * gap * (len(widths) - 1)


def cell_width(cell: Cell, size: int) -> float:
    """Width of a cell on one line."""
    width = text_width(cell.text or "--", size, BOLD if cell.bold else 1)
    return width + (MARK * SCALES[size] if cell.mark else 0)


def wrap(text: str, width: float, size: int, indent: float = 0) -> list[str]:
    """Lines of at most ``width``, broken after spaces, ``_``, ``/`` and ``-``, and where need be anywhere.

    Args:
        indent: of the lines after the first.
    """
    lines, room = [""], width
    for piece in _BREAK.split(unicodedata.normalize("NFC", " ".join(text.split()))):
        if text_width((lines[-1] + piece).rstrip(), size) <= room:
            lines[-1] += piece
            continue
        if lines[-1]:
            lines.append("")
            room = width - indent
        for character in piece:
            if lines[-1] and text_width(lines[-1] + character, size) > room and not character.isspace():
                lines.append("")
                room = width - indent
            lines[-1] += character
    return [line.rstrip() for line in lines]


def _panels(layout: Layout, type_: Type) -> tuple[Panel, ...] | None:
    """Columns in panels, each with the texts that the rows begin with, or the first of them; groups stay together.
    None where one is too wide; never where texts are wrapped."""
    keys = _keys(layout)
    several = tuple(keys) if len(keys) < len(layout.columns) else tuple(keys[:1])
    for texts in (several, several[:1]):
        panels = _panels_behind(layout, texts, type_, squeezed=type_.texts and len(texts) < 2)
        if panels:
            return panels
    return None


def _panels_behind(layout: Layout, keys: tuple[int, ...], type_: Type, squeezed: bool) -> tuple[Panel, ...] | None:
    rest = range(len(keys), len(layout.columns))
    units = itertools.groupby(rest, key=lambda number: layout.columns[number].group or number)
    panels: list[Panel] = []
    for unit in (tuple(members) for _, members in units):
        wider = _panel(layout, panels[-1].columns + unit, type_) if panels else None
        alone = _panel(layout, keys + unit, type_)
        if wider is not None:
            panels[-1] = wider
        elif alone is not None:
            panels.append(alone)
        elif squeezed:
            panels += [_squeezed(layout, (*keys, column), type_) for column in unit]
        else:
            return None
    return tuple(panels)


def _keys(layout: Layout) -> list[int]:
    """The columns of texts that rows begin with."""
    return list(itertools.takewhile(lambda number: not layout.columns[number].right, range(len(layout.columns))))


def _panel(layout: Layout, columns: Sequence[int], type_: Type) -> Panel | None:
    """These columns beside each other, if they fit."""
    natural = [_natural(layout, number, type_) for number in columns]
    if type_.texts:
        shrinkable = [number for number, column in enumerate(columns) if not layout.columns[column].right]
        natural = _shrunk(layout, columns, natural, shrinkable, type_)
    groups = itertools.groupby(zip(columns, natural, strict=True), key=lambda pair: layout.columns[pair[0]].group)
    widths = [
        max(
            panel_width([width for _, width in members], type_.gap),
            # Its rule ends before those of its neighbours begin.
            text_width(name, type_.size) if name else 0,
        )
        for name, group in groups
        if (members := list(group))
    ]
    if panel_width(widths, type_.gap) > PAGE_WIDTH:
        return None
    return Panel(tuple(columns), tuple(natural))


def _natural(layout: Layout, number: int, type_: Type) -> float:
    cells = [cell_width(row[number], type_.size) for block in layout.blocks for row in block.rows]
    name = layout.columns[number].name
    heading = max(_piece_widths(name, type_.size)) if type_.headings else text_width(name, type_.size)
    return max([heading, *cells])


def _shrunk(
    layout: Layout, columns: Sequence[int], widths: list[float], shrinkable: Sequence[int], type_: Type
) -> list[float]:
    """The widths, the widest texts made narrower until all fit or no word can be narrower."""
    least = {number: _narrowest(layout, columns[number], widths[number], type_) for number in shrinkable}
    widths = list(widths)
    while panel_width(widths, type_.gap) > PAGE_WIDTH:
        wide = [number for number in shrinkable if widths[number] > least[number]]
        if not wide:
            break
        widest = max(wide, key=lambda number: widths[number])
        widths[widest] = max(widths[widest] - 1, least[widest])
    return widths


def _narrowest(layout: Layout, number: int, natural: float, type_: Type) -> float:
    texts = [row[number].text for block in layout.blocks for row in block.rows]
    indent = text_width(_INDENT, type_.size)
    pieces = [width + indent for text in texts for width in _piece_widths(text, type_.size)]
    pieces += _piece_widths(layout.columns[number].name, type_.size)
    return min(natural, max([_NARROW, *(width for width in pieces if width <= PAGE_WIDTH / 4)]))


def _squeezed(layout: Layout, columns: tuple[int, ...], type_: Type) -> Panel:
    """Columns of which one is too wide for a panel, all broken wherever they must be."""
    most = PAGE_WIDTH / len(columns) - 2 * type_.gap
    return Panel(columns, tuple(min(most, _natural(layout, column, type_)) for column in columns))


def _piece_widths(text: str, size: int) -> list[float]:
    return [text_width(piece.rstrip(), size) for piece in _BREAK.split(text)]


def _shortened(layout: Layout) -> Layout:
    """With the short headings of columns that have one, and a note that tells them."""
    short = [column for column in layout.columns if column.short]
    if not short:
        return layout
    columns = tuple(replace(column, name=column.short or column.name) for column in layout.columns)
    note = f"{', '.join(f'{column.short}: {column.name}' for column in short)}."
    return replace(layout, columns=columns, notes=(note, *layout.notes))


def _grouped(layout: Layout) -> Layout:
    """Rows that begin with the same texts under one heading, where that is worth it; else the layout itself."""
    if len(layout.blocks) != 1 or layout.blocks[0].heading:
        return layout
    rows = layout.blocks[0].rows
    for count in range(len(_keys(layout)), 0, -1):
        groups = [
            (texts, list(members))
            for texts, members in itertools.groupby(rows, key=lambda row: tuple(cell.text for cell in row[:count]))
        ]
        if len(rows) >= _ROWS_OF_GROUP * len(groups) and count < len(layout.columns):
            blocks = [
                Block(", ".join(text for text in texts if text), tuple(tuple(row[count:]) for row in members))
                for texts, members in groups
            ]
            return replace(layout, columns=layout.columns[count:], blocks=tuple(blocks))
    return layout
