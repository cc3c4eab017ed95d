"""Table 6: direct answers without context, on the questions without a flawed premise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lmev2.metrics import TABLE_CATEGORIES
from lmev2.tables.export import TableFiles, write_table
from lmev2.tables.layout import Block, Cell, Column, Layout, bold_best
from lmev2.tables.paper import OVERALL, UNFLAWED_COUNTS, row_flags

PAPER: Final = "paper"
_ACCURACIES: Final = (OVERALL, *TABLE_CATEGORIES)
_HEADINGS: Final = {PAPER: "Published"}


def export_table6(rows: Sequence[Mapping[str, str]], files: TableFiles, title: str) -> None:
    """Write rows with ``model``, ``source`` (``paper`` for the published ones) and the accuracies, a block a source."""
    blocks = []
    for source in dict.fromkeys(row["source"] for row in rows):
        own = [row for row in rows if row["source"] == source]
        cells = [(Cell(row["model"]), *(Cell(row[name]) for name in _ACCURACIES)) for row in own]
        best = bold_best(cells, range(1, 1 + len(_ACCURACIES)))
        blocks.append(Block(_HEADINGS.get(source, source), tuple(best)))
    columns = (Column("Model"), *(Column(name.capitalize(), right=True) for name in _ACCURACIES))
    total = sum(UNFLAWED_COUNTS.values())
    notes = [
        f"Answers without any context to the {total} questions without a flawed premise; bold: the best of a column."
    ]
    flags = {row["model"]: row_flags(row, UNFLAWED_COUNTS) for row in rows if row["source"] == PAPER}
    odd = [f"{model} ({found[OVERALL]})" for model, found in flags.items() if OVERALL in found]
    if odd:
        weights = "/".join(str(UNFLAWED_COUNTS[name]) for name in TABLE_CATEGORIES)
        notes.append(
            f"Published overalls that are not the mean of their cells over {weights} questions: {', '.join(odd)}."
        )
    header = ["model", "source", *_ACCURACIES]
    content = [[row[name] for name in header] for row in rows]
    write_table(files, header, content, Layout(title, columns, tuple(blocks), tuple(notes)))
