"""Contexts of the pilot studies: what lies in them, cut to the reader's budget, and how much was cut.

What does not fit the budget is left out by one rule. Room is given in this order: to one state of each hop of the
evidence; to the notes (slices and notes only); to the other states by their distance to the nearest annotated state of
their trajectory, ties in the order of trajectories and states. What does not fit any more is passed over. The context
itself keeps the order of trajectories and states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from lmev2.data.errors import DataError
from lmev2.data.store import StateStore
from lmev2.memory.base import ContextItem, empty_row
from lmev2.memory.settings import RenderSettings
from lmev2.models.types import TokenCounter
from lmev2.pilots.oracle import Oracle, StateName, ranked_states, windows
from lmev2.pilots.render import NOTE_POOLS, Layout, Shown
from lmev2.pilots.settings import NO_CONTEXT, ContextKind
from lmev2.progress import Report
from lmev2.rows import POOL_ENTRY, read_rows
from lmev2.truncate import IMAGE_LEFT_OUT, SEPARATOR, fit_context

TIER: Final = "oracle"
Notes = Mapping[tuple[str, str], Mapping[str, Any]]  # fields of a note by trajectory id and pool
Step = Callable[[Shown], Shown | None]


def read_notes(paths: Iterable[str | Path], wanted: Collection[str]) -> Notes:
    """Notes of these trajectories from files of the pools.

    Raises:
        RowError: a file does not keep its contract.
    """
    return {
        (row["trajectory_id"], row["pool"]): json.loads(row["payload"])
        for path in paths
        for row in read_rows(path, POOL_ENTRY)
        if row["trajectory_id"] in wanted
    }


@dataclass(frozen=True)
class Budget:
    """The room of a reader.

    Attributes:
        counter: the reader's token counter.
        tokens: at most so many.
        images: the reader accepts images; if not, a placeholder line stands for them.
    """

    counter: TokenCounter
    tokens: int
    images: bool


def context_rows(
    kind: ContextKind,
    questions: Sequence[Mapping[str, Any]],
    oracle: Mapping[str, Oracle],
    store: StateStore,
    notes: Notes,
    render: RenderSettings,
    budget: Budget | None,
    report: Report,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Context rows of the questions in order, with ``method`` the kind and ``tier`` ``oracle``; and per question how
    much of its oracle is shown.

    Args:
        kind: what the contexts hold.
        questions: question rows.
        oracle: evidence by question id; not looked at without context.
        store: the trajectories.
        notes: of the oracle trajectories; not looked at but for slices and notes.
        render: full, or focused on the question.
        budget: of the reader; None: nothing is cut.
        report: progress callback.

    Raises:
        DataError: an oracle trajectory has no note.
    """
    contexts, cuts = [], []
    for done, question in enumerate(questions, start=1):
        name = question["question_id"]
        items: list[ContextItem] = []
        cut = {"trajectories": 0, "notes": 0, "notes_shown": 0, "states": 0, "states_shown": 0}
        if kind != NO_CONTEXT:
            items, cut = _oracle_context(kind, question["question"], oracle[name], store, notes, render, budget)
        contexts.append(_context_row(name, kind, items))
        cuts.append({"question_id": name, "method": kind, "tier": TIER, **cut})
        report(done, len(questions))
    return contexts, cuts


def _oracle_context(
    kind: ContextKind,
    question: str,
    oracle: Oracle,
    store: StateStore,
    notes: Notes,
    render: RenderSettings,
    budget: Budget | None,
) -> tuple[list[ContextItem], dict[str, int]]:
    trajectories = {name: store.trajectory(name) for name in oracle.trajectories}
    sliced = kind == "oracle_slices_notes"
    annotated = {name: oracle.annotated(name) for name in trajectories}
    spans = {name: windows(annotated[name], len(one.states)) for name, one in trajectories.items()}
    layout = Layout(question, list(trajectories.values()), spans if sliced else None, annotated)
    whole = {name: [(0, len(one.states) - 1)] for name, one in trajectories.items()}
    candidates = {
        name: [state for first, last in found for state in range(first, last + 1)]
        for name, found in (spans if sliced else whole).items()
    }
    ranked = ranked_states(oracle, candidates)
    always = oracle.first_of_hops()

    def state_step(state: StateName) -> Step:
        name, index = state
        return lambda shown: shown.with_state(trajectories[name], index, question, render, state in always)

    def note_step(name: str, pool: str) -> Step:
        if (name, pool) not in notes:
            raise DataError(f"trajectory {name!r} has no {pool} among the notes of the memory's pools; make them again")
        return lambda shown: shown.with_note(name, pool, notes[name, pool], question, render)

    of_notes = [note_step(name, pool) for name in trajectories for pool in NOTE_POOLS] if sliced else []
    of_states = [state_step(state) for state in ranked]
    first = len(always)
    shown = choose([*of_states[:first], *of_notes, *of_states[first:]], layout, render, budget)
    return shown.items(layout, render), {
        "trajectories": len(trajectories),
        "notes": len(of_notes),
        "notes_shown": len(shown.notes),
        "states": len(ranked),
        "states_shown": len(shown.states),
    }


def choose(steps: Sequence[Step], layout: Layout, render: RenderSettings, budget: Budget | None) -> Shown:
    """Take each step, most important first, that leaves the context within the budget; pass over the others.

    While choosing, a context costs the sum of its items' own tokens and of the line breaks between them. As a tokenizer
    may count a joined text otherwise, the last steps are taken back while the whole context, counted exactly, is above
    the budget.
    """
    history = [Shown()]
    cost = _coster(budget) if budget is not None else None
    for step in steps:
        shown = step(history[-1])
        if shown is None:
            continue
        if budget is None or cost is None or cost(shown.items(layout, render)) <= budget.tokens:
            history.append(shown)
    while budget is not None and len(history) > 1:
        items = [item.as_row() for item in history[-1].items(layout, render)]
        if fit_context(items, budget.counter, budget.tokens, budget.images).kept == len(items):
            break
        history.pop()
    return history[-1]


def _coster(budget: Budget) -> Callable[[Iterable[ContextItem]], int]:
    """Tokens of items by themselves; each is counted once, however often it is asked for."""
    between = budget.counter.count(SEPARATOR)

    @cache
    def of_text(text: str) -> int:
        return budget.counter.count(text) + between

    @cache
    def of_image(path: str) -> int:
        return budget.counter.count_image(Path(path)) if budget.images else of_text(IMAGE_LEFT_OUT)

    return lambda items: sum(of_text(one.value) if one.type == "text" else of_image(one.value) for one in items)


def _context_row(question_id: str, kind: ContextKind, items: Sequence[ContextItem]) -> dict[str, Any]:
    return empty_row(question_id, kind, TIER) | {"items": [item.as_row() for item in items]}
