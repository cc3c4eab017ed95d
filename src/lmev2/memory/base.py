"""What a memory system sees and returns.

A memory gets a :class:`MemoryQuery` and nothing else about a question: no id, no gold answer, no scorer, no evidence
labels; its type only where the query-generation prompt asks for it (paper, Table 9) and the method's row allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class MemoryQuery:
    """A question as a memory may see it: text, optional image, and the haystack's trajectory ids in order.

    Attributes:
        question_type: for generated queries with ``question_type: true`` in the method's row; None for all others.
    """

    text: str
    image: Path | None
    haystack: tuple[str, ...]
    question_type: str | None = None


@dataclass(frozen=True)
class ContextItem:
    """One piece of a memory context.

    Attributes:
        type: ``text`` or ``image``.
        value: the text, or the image's path.
        trajectory_id, pool, score: where the item comes from, None where that has no meaning.
        states: indices of the states whose content the item shows.
    """

    type: Literal["text", "image"]
    value: str
    trajectory_id: str | None = None
    states: tuple[int, ...] = ()
    pool: str | None = None
    score: float | None = None

    def as_row(self) -> dict[str, Any]:
        """The item as a row of the context contract."""
        return {
            "type": self.type,
            "value": self.value,
            "trajectory_id": self.trajectory_id,
            "states": list(self.states),
            "pool": self.pool,
            "score": self.score,
        }


def empty_row(question_id: str, method: str, tier: str) -> dict[str, Any]:
    """A row of the context contract without items, queries, time or error."""
    return {
        "question_id": question_id,
        "method": method,
        "tier": tier,
        "items": [],
        "queries": "{}",
        "latency_s": 0.0,
        "waited_s": 0.0,
        "replayed": False,
        "query_origin": None,
        "rerank_origin": None,
        "error": None,
        "error_detail": None,
    }


@dataclass(frozen=True)
class MemoryContext:
    """What a memory returns.

    Attributes:
        items: most important first.
        queries: what was searched, by pool.
        query_origin: who wrote the queries: ``question`` (its text as it stands), ``rules``, ``model``, ``repaired``,
            ``fallback``; None for a memory without queries.
        rerank_origin: who chose among the results: ``model``, ``repaired`` or ``fallback``, the worst over the blocks;
            None where nothing was chosen.
    """

    items: Sequence[ContextItem]
    queries: dict[str, list[str]] = field(default_factory=dict)
    query_origin: str | None = None
    rerank_origin: str | None = None


class Memory(Protocol):
    """A memory system, open for queries."""

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Make ready for queries about a haystack: what a memory does when the history is inserted, not when it is
        asked. Called before the first query of each haystack, outside the measured latency; cheap when repeated."""
        ...

    def query(self, query: MemoryQuery) -> MemoryContext:
        """Evidence for one question from its haystack."""
        ...
