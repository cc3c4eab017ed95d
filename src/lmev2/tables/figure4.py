"""Figure 4 as a table: answers from oracle contexts, the paper's beside ours (paper, Figure 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lmev2.pilots.settings import CONTEXT_LABELS, FILES, published_name
from lmev2.tables.export import TableFiles, write_table
from lmev2.tables.layout import Block, Cell, Column, Layout
from lmev2.tables.paper import OVERALL, UNFLAWED_COUNTS, row_flags
from lmev2.tables.pilots import ACCURACIES, COUNTS, TOKENS

RUN: Final = "run"
PAPER: Final = "paper"
_CUTS: Final = ("states_shown", "states", "notes_shown", "notes", "questions_cut")
_REACHED: Final = ("covered_before", "covered", "gold_support")
_OF_CONTEXT: Final = ("tokens_before", "tokens")
HEADER: Final = (
    *("reader", "model", "context", "label", "tier", "source"),
    *COUNTS,
    *ACCURACIES,
    "paper_reader",
    *(f"paper_{name}" for name in ACCURACIES),
    *_REACHED,
    *_CUTS,
    *_OF_CONTEXT,
    *TOKENS,
)
_NOTES: Final = (
    "Questions without a flawed premise. Accuracy: mean over the questions with a score; paper: the paper's overall of "
    "the same reader and context.",
    "Covered: share of questions whose every hop of evidence has a state in the context as the reader saw it. Gold: of "
    "the phrase-match questions whose gold does not stand in the question, the share whose gold phrases all occur in "
    "the context's text. States: shown of those in the oracle trajectories or evidence windows, over all questions.",
    "What a reader's budget has no room for is left out: room goes to one state of each hop, to the notes, then to the "
    "states nearest to an annotated one; focused rendering also leaves out states with nothing on the question. "
    "Tokens: mean of the context, in the reader's tokens.",
)


def figure4_rows(
    cells: Sequence[tuple[Mapping[str, Any], Mapping[str, str]]],
    beside: Sequence[tuple[Mapping[str, Any], Mapping[str, str]]],
    published: Sequence[Mapping[str, str]],
) -> list[dict[str, str]]:
    """Rows of the table: ours with the paper's numbers where reader and context are the paper's, methods of the run,
    and the published rows.

    Args:
        cells: a reader's names (:func:`lmev2.pilots.specs.reader_facts`) with ``context``, and the numbers of the two.
        beside: the same of methods, with ``context`` their name, ``method_label`` and ``tier``.
        published: rows of the paper.
    """
    names = list(dict.fromkeys(row["reader"] for row in published))
    by_key = {(row["reader"], row["context"]): row for row in published}
    rows = []
    for cell, numbers in cells:
        theirs = by_key.get((published_name(cell["name"], names) or "", cell["context"]), {})
        paper = {f"paper_{name}": theirs.get(name, "") for name in ("reader", *ACCURACIES)}
        known = {**numbers, **paper}
        if cell["context"] == FILES:
            known |= dict.fromkeys(_OF_CONTEXT, "")  # an agent reads of its files what it likes
        rows.append({"tier": "oracle", **known, "source": RUN, **_named(cell)})
    for cell, numbers in beside:
        rows.append({**numbers, "source": RUN, "tier": cell["tier"], **_named(cell)})
    rows += [{**row, "source": PAPER, "tier": "oracle", "label": CONTEXT_LABELS[row["context"]]} for row in published]
    return [{name: row.get(name, "") for name in HEADER} for row in rows]


def export_figure4(rows: Sequence[Mapping[str, str]], files: TableFiles, title: str, notes: Iterable[str]) -> None:
    """Write the rows as CSV, and as Markdown and LaTeX with a block for each reader.

    Args:
        notes: how the rows were made, for below the table.
    """
    failed = [row for row in rows if row["errors"] not in ("", "0")]
    columns = (
        Column("Context"),
        Column("Questions", right=True, short="n"),
        *(Column(name.capitalize(), right=True) for name in ACCURACIES),
        Column("Overall", "Paper", right=True),
        Column("Covered", right=True),
        Column("Gold", right=True),
        Column("States", right=True),
        Column("Tokens", right=True),
        *([Column("Failed", right=True)] if failed else []),
    )
    headings = {RUN: "{}", PAPER: "Published: {}"}
    blocks: dict[str, list[tuple[Cell, ...]]] = {}
    for row in rows:
        blocks.setdefault(headings[row["source"]].format(row["reader"]), []).append(_cells(row, bool(failed)))
    below = [*_NOTES, *_odd(rows), *notes]
    if failed:
        kinds = "; ".join(f"{row['reader']}, {context_label(row)}: {row['error_kinds']}" for row in failed)
        below.append(f"A number beside failed rows is the mean over the others only: it is no result. Failed: {kinds}.")
    layout = Layout(
        f"INCOMPLETE: {title}" if failed else title,
        columns,
        tuple(Block(heading, tuple(cells)) for heading, cells in blocks.items()),
        tuple(below),
    )
    write_table(files, HEADER, [[row[name] for name in HEADER] for row in rows], layout)


def context_label(row: Mapping[str, str]) -> str:
    """What a row's context is called in tables and figures."""
    known = CONTEXT_LABELS.get(row["context"])
    return known if known is not None else f"{row['label']} ({row['tier']})"


def _named(cell: Mapping[str, Any]) -> dict[str, str]:
    shown = CONTEXT_LABELS.get(cell["context"], cell.get("method_label", ""))
    return {"reader": cell["label"], "model": cell["model"], "context": cell["context"], "label": shown}


def _cells(row: Mapping[str, str], failed: bool) -> tuple[Cell, ...]:
    states = f"{row['states_shown']} of {row['states']}" if row["states"] not in ("", "0") else ""
    texts = [
        context_label(row),
        row["questions"],
        *(row[name] for name in ACCURACIES),
        *(row[name] for name in ("paper_overall", "covered", "gold_support")),
        states,
        row["tokens"],
    ]
    of_errors = [f"{row['errors']} of {row['questions']}" if row["errors"] not in ("", "0") else ""] if failed else []
    return tuple(Cell(text) for text in [*texts, *of_errors])


def _odd(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """A note on published overalls that do not follow from their cells."""
    flags = [(row, row_flags(row, UNFLAWED_COUNTS)) for row in rows if row["source"] == PAPER]
    odd = [f"{row['reader']}, {context_label(row)} ({found[OVERALL]})" for row, found in flags if OVERALL in found]
    return [f"Published overalls that are not the mean of their cells: {'; '.join(odd)}."] if odd else []
