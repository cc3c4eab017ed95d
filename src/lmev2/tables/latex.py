"""Tables in LaTeX. A document that shows them needs ``\\usepackage{booktabs}`` and nothing else."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from lmev2.tables.layout import Block, Cell, Column, Layout

# Rows of one float; a longer table is cut into parts, so that each fits on a page.
_MOST_ROWS: Final = 40
_SIZES: Final = ((8, "small"), (11, "footnotesize"))  # most columns of a font size; beyond the last: scriptsize

_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"$\sim$",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    '"': "''",
    "`": r"{`}",  # with a neighbour it would make another sign
    # At the start of a row they would be read as arguments of the line break before.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}
_SIGNS: Final = {
    "✓": r"$\surd$",
    "✗": r"$\times$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "µ": r"$\mu$",
    "–": "--",
    "—": "---",
    "“": "``",
    "”": "''",
    "‘": "{`}",
    "’": "'",
    "…": r"\ldots{}",
    "ß": r"\ss{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
}
_ACCENTS: Final = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0308": '"',
    "\u030a": "r",
    "\u030c": "v",
    "\u0327": "c",
}


def latex_text(text: str) -> str:
    """A text that LaTeX prints as it stands; what plain LaTeX cannot print becomes its code, such as ``[U+4E2D]``."""
    pieces: list[str] = []
    before = ""
    for character in unicodedata.normalize("NFC", text):
        # Two hyphens in a row would become a dash.
        pieces.append("{}-" if character == before == "-" else _character(character))
        before = character
    return "".join(pieces)


def latex_table(layout: Layout, label: str) -> str:
    """One ``table`` environment, or several where there are more rows than fit on a page.

    Args:
        label: for ``\\ref``; parts after the first have their number behind it.
    """
    parts = _parts(layout.blocks)
    floats = []
    for number, blocks in enumerate(parts, start=1):
        title = f"{layout.title} (part {number} of {len(parts)})" if len(parts) > 1 else layout.title
        name = label if number == 1 else f"{label}-{number}"
        notes = layout.notes if number == len(parts) else ()
        floats.append(_float(title, name, layout.columns, blocks, notes))
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(floats)


def _float(title: str, label: str, columns: Sequence[Column], blocks: Sequence[Block], notes: Sequence[str]) -> str:
    size = next((name for most, name in _SIZES if len(columns) <= most), "scriptsize")
    lines = [
        r"\begin{table}[tp]",
        r"\centering",
        rf"\caption{{{latex_text(title)}}}",
        rf"\label{{tab:{label}}}",
        rf"\{size}",
        r"\setlength{\tabcolsep}{3pt}",
        rf"\begin{{tabular}}{{{''.join('r' if column.right else 'l' for column in columns)}}}",
        r"\toprule",
        *_group_lines(columns),
        _row(latex_text(column.name) for column in columns),
    ]
    for block in blocks:
        lines.append(r"\midrule")
        if block.heading:
            lines.append(_row([rf"\multicolumn{{{len(columns)}}}{{l}}{{\textit{{{latex_text(block.heading)}}}}}"]))
        lines += [_row(_cell(cell) for cell in row) for row in block.rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if notes:
        text = " ".join(latex_text(note) for note in notes)
        lines.append(rf"\par\smallskip\begin{{minipage}}{{\linewidth}}\raggedright {text}\end{{minipage}}")
    return "\n".join([*lines, r"\end{table}", ""])


def _group_lines(columns: Sequence[Column]) -> list[str]:
    """The line of group headings and the rules below them; none without groups."""
    if not any(column.group for column in columns):
        return []
    cells, rules, start = [], [], 1
    for group, members in itertools.groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        if group:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{latex_text(group)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        else:
            cells += [""] * width
        start += width
    return [_row(cells), " ".join(rules)]


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(cell: Cell) -> str:
    text = latex_text(cell.text) if cell.text else "--"
    text = rf"\textbf{{{text}}}" if cell.bold else text
    return text + "$^{*}$" if cell.mark else text


def _character(character: str) -> str:
    known = _SPECIAL.get(character) or _SIGNS.get(character)
    if known is not None:
        return known
    if character.isspace():
        return " "
    if " " <= character <= "~":
        return character
    parts = unicodedata.normalize("NFD", character)
    base, accent = parts[0], _ACCENTS.get(parts[1:])
    if accent is not None and base.isascii() and base.isalpha():
        return rf"\{accent}{{{base}}}"
    return f"{{[}}U+{ord(character):04X}{{]}}"


def _parts(blocks: Sequence[Block]) -> list[list[Block]]:
    """The blocks in parts of a page; a block that is cut carries its heading on."""
    parts: list[list[Block]] = [[]]
    room = _MOST_ROWS
    for block in blocks:
        rows = block.rows
        while len(rows) > room:
            if room:
                parts[-1].append(Block(block.heading, rows[:room]))
            rows, room = rows[room:], _MOST_ROWS
            parts.append([])
        if rows or not block.rows:
            parts[-1].append(Block(block.heading, rows))
            room -= len(rows)
    return [part for part in parts if part] or [[]]
