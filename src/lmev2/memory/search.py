"""Search of a pool for a query's text, within a haystack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lmev2.index import Hit, PoolIndex
from lmev2.models.types import EmbeddingBackend


class Searcher(Protocol):
    """Finds the entries of a table that fit a text best."""

    def search(self, table: str, text: str, haystack: Sequence[str], k: int) -> list[Hit]:
        """At most k hits within the haystack, best first; an empty text finds nothing."""
        ...


class VectorSearch:
    """The paper's search: exact cosine similarity between the query's vector and those of the entries.

    Args:
        indexes: an open index per table.
        embedder: the embedding model of the indexes.

    Raises:
        ValueError: an index has another dimension than the embedder.
    """

    def __init__(self, indexes: Mapping[str, PoolIndex], embedder: EmbeddingBackend):
        for table, index in indexes.items():
            dimension = index.manifest["dimension"]
            if dimension != embedder.dimension:
                raise ValueError(
                    f"index {table!r} has {dimension} dimensions, the embedder {embedder.model} {embedder.dimension}"
                )
        self._indexes, self._embedder = indexes, embedder

    def search(self, table: str, text: str, haystack: Sequence[str], k: int) -> list[Hit]:
        """The k entries most similar to the text, best first."""
        if not text.strip():
            return []
        return self._indexes[table].search(self._embedder.embed_query(text), haystack, k)
