"""A memory context as a person reads it: what was found where, and the lines that bear on the question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from lmev2.data.store import StateStore
from lmev2.memory.base import ContextItem
from lmev2.memory.focus import focus_lines
from lmev2.memory.focus_score import focus_bullets, focus_clauses
from lmev2.memory.settings import POOL_TABLES

_EXCERPT_CHARS = 280
_NOTES = POOL_TABLES["note"]
# Headings of sections and entries of a rendered context.
_HEADING = re.compile(r"^#{2,3} .*\n*", re.MULTILINE)
# The end of an event's heading: a rendered event names its states nowhere else.
_EVENT_STATES = re.compile(r"^### Event .*, states (\d+) -> (\d+)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A state of an item: its page, and the lines of its tree that bear on the question (None where none do)."""

    state_index: int
    title: str | None
    url: str
    excerpt: str | None


@dataclass(frozen=True)
class Evidence:
    """A text item of a context with the images that belong to it, or an image alone.

    Attributes:
        rank: place in the context, from 1.
        items: numbers of its items in the context, from 0.
        pool, trajectory_id, similarity: where it comes from; None where that has no meaning.
        states: indices of the states that it is about.
        pages: those of its states that have lines to show, or else the last of them.
        excerpt: of its text, where that is not made of trees; empty for an image.
        text: its whole text, as the reader gets it.
        images: paths.
    """

    rank: int
    items: tuple[int, ...]
    pool: str | None
    trajectory_id: str | None
    states: tuple[int, ...]
    similarity: float | None
    pages: tuple[Page, ...] = ()
    excerpt: str = ""
    text: str = ""
    images: tuple[str, ...] = field(default=())


def evidence_of(items: Sequence[ContextItem], question: str, store: StateStore) -> list[Evidence]:
    """The items of a context in their order; an image goes with the text before it if both are of one entry.

    Args:
        items: what the memory returned.
        question: decides which lines are shown.
        store: the trajectories that the items name.
    """
    groups: list[list[int]] = []
    for number, item in enumerate(items):
        head = items[groups[-1][0]] if groups else None
        same = head is not None and (head.pool, head.trajectory_id) == (item.pool, item.trajectory_id)
        if item.type == "image" and item.pool is not None and same:
            groups[-1].append(number)
        else:
            groups.append([number])
    return [_evidence(rank, group, items, question, store) for rank, group in enumerate(groups, start=1)]


def _evidence(
    rank: int, group: Sequence[int], items: Sequence[ContextItem], question: str, store: StateStore
) -> Evidence:
    head = items[group[0]]
    text = head.value if head.type == "text" else ""
    images = [items[number] for number in group if items[number].type == "image"]
    # A text that shows no state still belongs to the states of its screenshots.
    states = _states(head) or tuple(state for image in images for state in image.states)
    shows_trees = bool(head.states) and head.type == "text"
    return Evidence(
        rank=rank,
        items=tuple(group),
        pool=head.pool,
        trajectory_id=head.trajectory_id,
        states=states,
        similarity=head.score,
        pages=_pages(head.trajectory_id, states, question if shows_trees else None, store),
        excerpt="" if shows_trees else _excerpt(head.pool, _HEADING.sub("", text), question),
        text=text,
        images=tuple(image.value for image in images),
    )


def _states(item: ContextItem) -> tuple[int, ...]:
    found = _EVENT_STATES.search(item.value) if item.pool == "event" and item.type == "text" else None
    return (int(found[1]), int(found[2])) if found else item.states


def _pages(
    trajectory_id: str | None, states: Sequence[int], question: str | None, store: StateStore
) -> tuple[Page, ...]:
    """Pages of the states with the lines that bear on the question; without a question, of the last state only."""
    if trajectory_id is None or trajectory_id not in store:
        return ()
    known = store.trajectory(trajectory_id).states
    shown = [known[number] for number in states if 0 <= number < len(known)]
    if not shown:
        return ()
    trees = [state.tree for state in shown]
    excerpts = [None] * len(shown) if question is None else focus_lines(question, trees, _EXCERPT_CHARS)
    pages = [
        Page(state.state_index, state.title, state.url, excerpt) for state, excerpt in zip(shown, excerpts, strict=True)
    ]
    return tuple([page for page in pages if page.excerpt is not None] or pages[-1:])


def _excerpt(pool: str | None, text: str, question: str) -> str:
    """What of a text without trees bears on the question."""
    body = text.strip()
    if pool == "event":
        return focus_clauses(question, body, _EXCERPT_CHARS)
    if pool in _NOTES:
        title, _, bullets = body.partition("\n")
        return f"{title}\n{focus_bullets(question, bullets, _EXCERPT_CHARS)}".strip()
    return focus_bullets(question, body, _EXCERPT_CHARS) if body else ""
