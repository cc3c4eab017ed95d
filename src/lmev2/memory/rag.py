"""Retrieval from vector pools with the question's text as the query (paper, Table 2, RAG rows)."""

from __future__ import annotations

from collections.abc import Mapping

from lmev2.data.store import StateStore
from lmev2.index import PoolIndex
from lmev2.memory.base import ContextItem, MemoryContext, MemoryQuery
from lmev2.memory.render import render_notes, render_slice
from lmev2.memory.settings import RagMethod, RenderSettings
from lmev2.models.types import EmbeddingBackend


class RagMemory:
    """Embeds the question and shows the nearest notes and raw-state slices of its haystack.

    Args:
        method: the method's row.
        render: how the context is written out.
        indexes: an open index per table that the method searches.
        embedder: the embedding model of the indexes.
        store: states of the trajectories.

    Raises:
        ValueError: an index is missing or has another dimension than the embedder.
    """

    def __init__(
        self,
        method: RagMethod,
        render: RenderSettings,
        indexes: Mapping[str, PoolIndex],
        embedder: EmbeddingBackend,
        store: StateStore,
    ):
        for table in method.tables():
            if table not in indexes:
                raise ValueError(f"the method searches {table!r}, but only {sorted(indexes)} are open")
            dimension = indexes[table].manifest["dimension"]
            if dimension != embedder.dimension:
                raise ValueError(
                    f"index {table!r} has {dimension} dimensions, the embedder {embedder.model} {embedder.dimension}"
                )
        self._method, self._render = method, render
        self._indexes, self._embedder, self._store = indexes, embedder, store

    def query(self, query: MemoryQuery) -> MemoryContext:
        """Notes, then raw slices, for the question's text; an empty text searches nothing."""
        if not query.text.strip():
            return MemoryContext(items=())
        vector = self._embedder.embed_query(query.text)
        items: list[ContextItem] = []
        for table in self._method.tables():
            if table == "raw_state":
                continue
            hits = self._indexes[table].search(vector, query.haystack, self._method.top_k.note)
            items += render_notes(table, hits, query.text, self._render, heading=not items)
        if "raw_state" in self._method.tables():
            seen: set[str] = set()
            hits = self._indexes["raw_state"].search(vector, query.haystack, self._method.top_k.raw_state)
            for rank, hit in enumerate(hits, start=1):
                trajectory = self._store.trajectory(hit.trajectory_id)
                items += render_slice(rank, hit, query.text, trajectory, self._render, seen)
        return MemoryContext(items, {pool: [query.text] for pool in self._method.pools})
