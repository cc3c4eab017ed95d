"""Table 6: direct answers without context, on the questions without a flawed premise; published ones and ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lmev2.metrics import TABLE_CATEGORIES
from lmev2.tables.export import TableFiles, write_table
from lmev2.tables.layout import Block, Cell, Column, Layout, bold_best
from lmev2.tables.paper import OVERALL, UNFLAWED_COUNTS, row_flags
from lmev2.tables.pilots import ACCURACIES

PAPER: Final = "paper"
RUN: Final = "run"
_HEADINGS: Final = {PAPER: "Published", RUN: "This run"}
# What is known of our own rows only.
_OWN: Final = ("questions", "errors", "error_kinds", "prompt_tokens", "completion_tokens", "cost", "currency")
HEADER: Final = ("model", "source", *ACCURACIES, *_OWN)


def own_row(cell: Mapping[str, Any], numbers: Mapping[str, str], cost: str, currency: str) -> dict[str, str]:
    """A row of ours.

    Args:
        cell: the reader's names (:func:`lmev2.pilots.specs.reader_facts`).
        numbers: of its answers (:func:`lmev2.tables.pilots.facts`).
        cost, currency: of all its answers; empty without a price.
    """
    return {**numbers, "model": cell["label"], "source": RUN, "cost": cost, "currency": currency}


def export_table6(rows: Sequence[Mapping[str, str]], files: TableFiles, title: str, notes: Iterable[str] = ()) -> None:
    """Write rows with ``model``, ``source`` (``paper`` for the published ones, ``run`` for ours) and the accuracies, a
    block a source. Ours have counts, mean tokens and cost besides; the columns are printed where there are such rows.

    Args:
        notes: how our rows were made, for below the table.
    """
    own = any(row["source"] == RUN for row in rows)
    blocks = []
    for source in dict.fromkeys(row["source"] for row in rows):
        cells = [_cells(row, own) for row in rows if row["source"] == source]
        best = bold_best(cells, range(1, 1 + len(ACCURACIES)))
        blocks.append(Block(_HEADINGS.get(source, source), tuple(best)))
    columns = [Column("Model"), *(Column(name.capitalize(), right=True) for name in ACCURACIES)]
    if own:
        columns += [Column(name, right=True) for name in ("Questions", "Failed", "Tokens in", "Tokens out", "Cost")]
    failed = [f"{row['model']}: {row['error_kinds']}" for row in rows if row.get("errors") not in (None, "", "0")]
    below = [*_paper_notes(rows), *(_own_notes(failed) if own else []), *notes]
    name = f"INCOMPLETE: {title}" if failed else title
    content = [[row.get(column, "") for column in HEADER] for row in rows]
    write_table(files, HEADER, content, Layout(name, tuple(columns), tuple(blocks), tuple(below)))


def _cells(row: Mapping[str, str], own: bool) -> tuple[Cell, ...]:
    texts = [row["model"], *(row[name] for name in ACCURACIES)]
    if own:
        cost = f"{row.get('cost', '')} {row.get('currency', '')}".strip()
        texts += [row.get(name, "") for name in ("questions", "errors", "prompt_tokens", "completion_tokens")] + [cost]
    return tuple(Cell(text) for text in texts)


def _paper_notes(rows: Sequence[Mapping[str, str]]) -> list[str]:
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
    return notes


def _own_notes(failed: Sequence[str]) -> list[str]:
    notes = [
        "Rows of this run: accuracy over its own questions without a flawed premise; tokens: mean of a call; cost: of "
        "all answers, by the price in pilots.readers, with cached input counted as any other."
    ]
    if failed:
        notes.append(
            "A number beside failed rows is the mean over the others only: it is not a result. Failed rows: "
            f"{'; '.join(failed)}."
        )
    return notes
