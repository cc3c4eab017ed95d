"""A table as it is printed: columns in groups, rows in blocks with headings, bold cells and marks; and its Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lmev2.visible import visible

# What Markdown, GitHub's included, would read as markup: anywhere in a text, at its start and at its end.
_MARKUP: Final = re.compile(
    r"[\\`*\[\]$]|<(?=[a-z/!?])|~(?=[^~\n]*~)|(?<![a-z0-9])_|_(?![a-z0-9])|&(?=#?\w+;)"
    # Addresses, of which GitHub makes links by itself.
    r"|(?<=http):(?=//)|(?<=https):(?=//)|(?<=ftp):(?=//)|(?<=mailto):|(?<=xmpp):|(?<=www)\.|@(?=[a-z0-9])",
    re.IGNORECASE,
)
_START: Final = re.compile(r"^(?=[-+>#=])|^(\d+)(?=[.)](?: |$))")
_END: Final = re.compile(r"(?=#{1,99}$)")


@dataclass(frozen=True)
class Cell:
    """A cell's text, empty where there is no value; ``bold`` and ``mark`` (an asterisk beside it) are for numbers."""

    text: str
    bold: bool = False
    mark: bool = False


@dataclass(frozen=True)
class Column:
    """A column's heading, the heading that it shares with its neighbours (empty: none), its alignment, and a shorter
    heading for where there is no room (empty: none)."""

    name: str
    group: str = ""
    right: bool = False
    short: str = ""


@dataclass(frozen=True)
class Block:
    """Rows under a heading; an empty heading is not printed."""

    heading: str
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Layout:
    """A table with its title and the notes below it."""

    title: str
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


def plain_layout(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    notes: Sequence[str],
    labels: Mapping[str, str] | None = None,
) -> Layout:
    """A table of rows as they are, but for methods, which go by their labels: a column ``method`` beside ``label`` is
    left out, and ``partner`` has labels. Columns of numbers stand to the right.

    Args:
        labels: by method.
    """
    kept = [number for number, name in enumerate(header) if name != "method" or "label" not in header]
    named = {number: labels or {} for number, name in enumerate(header) if name == "partner"}
    cells = [tuple(Cell(_text(named.get(number, {}).get(row[number], row[number]))) for number in kept) for row in rows]
    right = _numeric([[cell.text for cell in row] for row in cells], len(kept))
    columns = tuple(Column(header[number], right=flag) for number, flag in zip(kept, right, strict=True))
    return Layout(title, columns, (Block("", tuple(cells)),), tuple(notes))


def bold_best(rows: Sequence[Sequence[Cell]], columns: Sequence[int]) -> list[tuple[Cell, ...]]:
    """The rows with the highest number of each of these columns in bold, ties to the printed digit included.

    Nothing is bold where all rows have the same.
    """
    best: dict[int, float] = {}
    for number in columns:
        values = {float(row[number].text) for row in rows if row[number].text}
        if len(values) > 1:
            best[number] = max(values)

    def wins(number: int, cell: Cell) -> bool:
        return number in best and cell.text != "" and float(cell.text) == best[number]

    return [tuple(Cell(cell.text, wins(number, cell), cell.mark) for number, cell in enumerate(row)) for row in rows]


def layout_markdown(layout: Layout) -> str:
    """Title, pipe table and notes. Markdown has no merged cells: a group's name stands before its columns' names, a
    block's heading in bold in the first column of a row of its own. Texts are shown as they are."""
    header = [markdown_text(f"{column.group} {column.name}") for column in layout.columns]
    rows: list[list[str]] = []
    for block in layout.blocks:
        if block.heading:
            rows.append([f"**{markdown_text(block.heading)}**", *[" "] * (len(header) - 1)])
        rows += [[_marked(cell) for cell in row] for row in block.rows]
    table = markdown_table(header, rows, [column.right for column in layout.columns])
    notes = "".join(f"- {_paragraph(note)}\n" for note in layout.notes)
    return f"# {_paragraph(layout.title)}\n\n{table}\n" + (f"\n{notes}" if notes else "")


def markdown_text(text: str) -> str:
    """A text on one line that Markdown shows as it stands, within a paragraph; for ``|`` see :func:`markdown_table`."""
    return _MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[bool] | None = None) -> str:
    """A pipe table; missing values stand as a dash.

    Args:
        right: which columns stand to the right; by default those of numbers.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(len(name), *(len(row[i]) for row in cells), 3) if cells else len(name) for i, name in enumerate(header)
    ]
    aligned = _numeric(cells, len(header)) if right is None else list(right)
    rule = ["-" * (width - 1) + ":" if flag else "-" * width for width, flag in zip(widths, aligned, strict=True)]

    def line(values: Sequence[str]) -> str:
        padded = [
            value.rjust(width) if flag else value.ljust(width)
            for value, width, flag in zip(values, widths, aligned, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    return "\n".join([line(header), line(rule), *(line(row) for row in cells)])


def _paragraph(text: str) -> str:
    """A text that does not become a list, a quotation or a heading either."""
    return _START.sub(r"\1\\", _END.sub(r"\\", markdown_text(text), count=1))


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _marked(cell: Cell) -> str:
    text = markdown_text(cell.text)
    text = f"**{text}**" if cell.bold else text
    return f"{text}\\*" if cell.mark else text


def _numeric(cells: Sequence[Sequence[str]], columns: int) -> list[bool]:
    return [all(_is_number(row[number]) for row in cells) and bool(cells) for number in range(columns)]


def _cell(value: Any) -> str:
    return "-" if value is None or value == "" else " ".join(str(value).splitlines()).replace("|", "\\|")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("", "-")
    return True
