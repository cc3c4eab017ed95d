"""What a memory system sees and returns.

A memory gets a :class:`MemoryQuery` and nothing else about a question: no id, no type, no gold answer, no scorer, no
evidence labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class MemoryQuery:
    """A question as a memory may see it: text, optional image, and the haystack's trajectory ids in order."""

    text: str
    image: Path | None
    haystack: tuple[str, ...]


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


@dataclass(frozen=True)
class MemoryContext:
    """What a memory returns: items in order of importance, and what it searched for, by pool."""

    items: Sequence[ContextItem]
    queries: dict[str, list[str]] = field(default_factory=dict)


class Memory(Protocol):
    """A memory system, open for queries."""

    def query(self, query: MemoryQuery) -> MemoryContext:
        """Evidence for one question from its haystack."""
        ...
