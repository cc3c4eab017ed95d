"""Text for a terminal: fitted to its width, and free of control characters that data could bring."""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

_LEAST_WIDTH = 40
_GAP = "  "
_CUT = "…"
# Runs that may be broken between their characters only where a line cannot hold them.
_WORD = re.compile(r"\S+")


def terminal_width() -> int:
    """Columns of the terminal (or ``COLUMNS``); 80 where there is none, and at least 40."""
    return max(shutil.get_terminal_size((80, 24)).columns, _LEAST_WIDTH)


def plain(text: str) -> str:
    """Text of a data set as it can be printed: escape sequences would command the terminal, so control characters but
    tab and newline become U+FFFD, and invisible format characters (such as those that turn the reading order) go."""
    return "".join(map(_plain_character, text))


def _plain_character(character: str) -> str:
    if character in "\n\t":
        return character
    category = unicodedata.category(character)
    return "\ufffd" if category in ("Cc", "Cs") else "" if category == "Cf" else character


def one_line(text: str) -> str:
    """:func:`plain` text with each run of white space as one space."""
    return " ".join(plain(text).split())


def display_width(text: str) -> int:
    """Columns that a text takes: two for East Asian wide characters, none for combining marks."""
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """Text that takes at most ``width`` columns, cut with an ellipsis."""
    if display_width(text) <= width:
        return text
    return _fitting(text, width - 1) + _CUT


def shorten_middle(text: str, width: int) -> str:
    """Text that takes at most ``width`` columns, an ellipsis in the place of its middle."""
    if display_width(text) <= width:
        return text
    end = _fitting(text[::-1], (width - 1) // 2)[::-1]
    return _fitting(text, width - 1 - display_width(end)) + _CUT + end


def _fitting(text: str, width: int) -> str:
    """The longest beginning of a text that takes at most ``width`` columns."""
    used = 0
    for position, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:position]
    return text


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns, broken between words; a longer word is broken inside."""
    lines: list[str] = []
    line = ""
    for word in _pieces(text, max(width, 2)):
        if line and display_width(line) + 1 + display_width(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line] if line else lines


def _pieces(text: str, width: int) -> Iterator[str]:
    for word in _WORD.findall(text):
        while display_width(word) > width:
            piece = _fitting(word, width)
            yield piece
            word = word[len(piece) :]
        yield word


def fields(pairs: Iterable[tuple[str, str]], width: int, indent: str = "") -> str:
    """Lines of labels with their texts beside them, wrapped under themselves; an empty label goes on below."""
    rows = list(pairs)
    column = max((display_width(label) for label, _ in rows), default=0)
    lines: list[str] = []
    for label, text in rows:
        room = width - len(indent) - column - len(_GAP)
        for number, line in enumerate(wrap(text, room) or [""]):
            head = label + " " * (column - display_width(label)) if number == 0 else " " * column
            lines.append(f"{indent}{head}{_GAP}{line}".rstrip())
    return "\n".join(lines)


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int, share: Sequence[int], middle: Collection[int] = ()
) -> str:
    """A table of one-line cells that takes at most ``width`` columns.

    Args:
        header: names of the columns.
        rows: texts of the cells.
        width: columns of the terminal.
        share: per column 0 if it is never cut, else its share of what the others leave; room that a column does not
            need goes to the others.
        middle: numbers of the columns, from 0, of whose cells both ends count.
    """
    needs = [max(display_width(row[column]) for row in (header, *rows)) for column in range(len(header))]
    room = (
        width - len(_GAP) * (len(header) - 1) - sum(need for need, part in zip(needs, share, strict=True) if not part)
    )
    widths = _allot(needs, share, room)
    lines = []
    for row in (header, ["-" * size for size in widths], *rows):
        cells = [
            (shorten_middle if number in middle else shorten)(cell, size)
            for number, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        padded = [cell + " " * (size - display_width(cell)) for cell, size in zip(cells, widths, strict=True)]
        lines.append(_GAP.join(padded).rstrip())
    return "\n".join(lines)


def _allot(needs: Sequence[int], share: Sequence[int], room: int) -> list[int]:
    """Widths of the columns: what they need where that is within their share, the rest by share."""
    widths = list(needs)
    open_columns = [column for column, part in enumerate(share) if part]
    while open_columns:
        parts = sum(share[column] for column in open_columns)
        modest = [column for column in open_columns if needs[column] <= room * share[column] // parts]
        if not modest:
            for column in open_columns:
                widths[column] = max(room * share[column] // parts, 1)
            break
        for column in modest:
            open_columns.remove(column)
            room -= needs[column]
    return widths
