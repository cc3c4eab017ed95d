"""Tables in LaTeX. A document that shows them needs ``\\usepackage{booktabs}`` and nothing else.

No table is wider than 345 points, the text of ``article``; see :mod:`lmev2.tables.latex_fit`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from lmev2.tables.latex_fit import LEADING, PAGE_WIDTH, Fit, Panel, fit_layout
from lmev2.tables.latex_text import latex_text, text_width
from lmev2.tables.layout import Block, Cell, Layout

_PAGE_HEIGHT: Final = 530.0  # points of a float; 550 has the page of article on letter paper
_CAPTION_LINE: Final = 12.0
_RULE: Final = 6.0  # with the space around it
_ROWS_BELOW_HEADING: Final = 3
_LONG_WORD: Final = 24  # letters; longer words in notes may be broken

__all__ = ["latex_table", "latex_text"]


def latex_table(layout: Layout, label: str) -> str:
    """One ``table`` environment, or several where there are more rows than fit on a page.

    Args:
        label: for ``\\ref``; parts after the first have their number behind it.
    """
    fit = fit_layout(layout)
    parts = _parts(fit)
    floats = []
    for number, blocks in enumerate(parts, start=1):
        title = f"{layout.title} (part {number} of {len(parts)})" if len(parts) > 1 else layout.title
        name = label if number == 1 else f"{label}-{number}"
        notes = fit.layout.notes if number == len(parts) else ()
        floats.append(_float(title, name, fit, blocks, notes))
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(floats)


def _float(title: str, label: str, fit: Fit, blocks: Sequence[Block], notes: Sequence[str]) -> str:
    type_ = rf"\fontsize{{{fit.type.size}}}{{{LEADING[fit.type.size]:g}}}\selectfont"
    lines = [
        r"\begin{table}[tp]",
        r"\centering",
        rf"\caption{{{latex_text(title)}}}",
        rf"\label{{tab:{label}}}",
        # In points: names of sizes stand for others in a document of 11 or 12 points.
        type_,
        rf"\setlength{{\tabcolsep}}{{{fit.type.gap:g}pt}}",
    ]
    for number, panel in enumerate(fit.panels):
        lines += [r"\par\medskip"] if number else []
        lines += _tabular(fit, panel, blocks)
    text = " ".join(map(_note, notes))
    if not notes:
        return "\n".join([*lines, r"\end{table}", ""])
    if sum(_block_height(fit, block) for block in blocks) + _notes_height(fit) > _room(fit):
        # A float cannot go on over the page.
        text = rf"\par{{{type_}\raggedright Notes on Table \ref{{tab:{label}}}. {text}\par}}"
        return "\n".join([*lines, r"\end{table}", text, ""])
    lines.append(rf"\par\smallskip\begin{{minipage}}{{\linewidth}}\raggedright {text}\end{{minipage}}")
    return "\n".join([*lines, r"\end{table}", ""])


def _tabular(fit: Fit, panel: Panel, blocks: Sequence[Block]) -> list[str]:
    columns = [fit.layout.columns[number] for number in panel.columns]
    headings = [fit.heading_lines(number, width) for number, width in zip(panel.columns, panel.widths, strict=True)]
    height = max(map(len, headings))
    lines = [
        rf"\begin{{tabular}}{{@{{}}{''.join('r' if column.right else 'l' for column in columns)}@{{}}}}",
        r"\toprule",
        *_group_lines([column.group for column in columns]),
        *(
            _row(latex_text(["", *heading][max(0, len(heading) - height + line + 1)]) for heading in headings)
            for line in range(height)
        ),
    ]
    for block in blocks:
        lines.append(r"\midrule")
        for line in fit.block_lines(block, panel):
            lines.append(_row([rf"\multicolumn{{{len(columns)}}}{{@{{}}l@{{}}}}{{\textit{{{latex_text(line)}}}}}"]))
        for row in block.rows:
            lines += _row_lines(fit, panel, row)
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _row_lines(fit: Fit, panel: Panel, row: Sequence[Cell]) -> list[str]:
    """A row; where a text is broken, its further lines are rows with nothing in the other columns."""
    cells = [fit.cell_lines(row[number], width) for number, width in zip(panel.columns, panel.widths, strict=True)]
    return [
        _row(_cell(lines[number], first=number == 0) if number < len(lines) else "" for lines in cells)
        for number in range(max(map(len, cells)))
    ]


def _group_lines(groups: Sequence[str]) -> list[str]:
    """The line of group headings and the rules below them; none without groups."""
    if not any(groups):
        return []
    cells, rules, start = [], [], 1
    for group, members in itertools.groupby(groups):
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


def _cell(cell: Cell, first: bool) -> str:
    text = latex_text(cell.text.lstrip()) if cell.text else "--"
    text = rf"\textbf{{{text}}}" if cell.bold else text
    text = text if first else rf"\enspace {text}"
    return text + "$^{*}$" if cell.mark else text


def _note(text: str) -> str:
    """A text whose long words, such as paths, may be broken."""
    return " ".join(
        r"\allowbreak{}".join(latex_text(part) for part in re.findall(f".{{1,{_LONG_WORD}}}", word))
        for word in text.split()
    )


def _parts(fit: Fit) -> list[list[Block]]:
    """The blocks in parts of a page; a block that is cut carries its heading on."""
    return _filled(fit, fit.layout.blocks, _room(fit))


def _room(fit: Fit) -> float:
    """Height that a float has for blocks and notes."""
    return _PAGE_HEIGHT - 3 * _CAPTION_LINE - _frame_height(fit)


def _filled(fit: Fit, blocks: Sequence[Block], page: float) -> list[list[Block]]:
    """The blocks in parts of a height; no heading stands above less than a few rows because of it."""
    parts: list[list[Block]] = [[]]
    room = page
    for block in blocks:
        if parts[-1] and _block_height(fit, Block(block.heading, block.rows[:_ROWS_BELOW_HEADING])) > room:
            parts.append([])
            room = page
        parts[-1].append(Block(block.heading, ()))
        room -= _block_height(fit, parts[-1][-1])
        for row in block.rows:
            height = _row_height(fit, row)
            if height > room and parts[-1][-1].rows:
                parts.append([Block(block.heading, ())])
                room = page - _block_height(fit, parts[-1][-1])
            parts[-1][-1] = Block(block.heading, (*parts[-1][-1].rows, row))
            room -= height
    return parts


def _frame_height(fit: Fit) -> float:
    """Of the headings and the outer rules of all panels."""
    lines = 0
    for panel in fit.panels:
        numbers = zip(panel.columns, panel.widths, strict=True)
        lines += max(len(fit.heading_lines(number, width)) for number, width in numbers) + 1
        lines += any(fit.layout.columns[number].group for number in panel.columns)
    return lines * LEADING[fit.type.size] + 3 * _RULE * len(fit.panels)


def _notes_height(fit: Fit) -> float:
    width = sum(text_width(f"{note} ", fit.type.size) for note in fit.layout.notes)
    return math.ceil(1.1 * width / PAGE_WIDTH) * LEADING[fit.type.size]


def _block_height(fit: Fit, block: Block) -> float:
    headings = sum(len(fit.block_lines(block, panel)) for panel in fit.panels) * LEADING[fit.type.size]
    return headings + _RULE * len(fit.panels) + sum(_row_height(fit, row) for row in block.rows)


def _row_height(fit: Fit, row: Sequence[Cell]) -> float:
    return (
        sum(
            max(
                len(fit.cell_lines(row[number], width))
                for number, width in zip(panel.columns, panel.widths, strict=True)
            )
            for panel in fit.panels
        )
        * LEADING[fit.type.size]
    )
