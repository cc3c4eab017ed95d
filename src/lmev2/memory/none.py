"""The baseline without memory."""

from __future__ import annotations

from lmev2.memory.base import MemoryContext, MemoryQuery


class NoMemory:
    """Returns an empty context."""

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Nothing to do."""

    def query(self, query: MemoryQuery) -> MemoryContext:
        """An empty context, whatever the question."""
        return MemoryContext(items=())
