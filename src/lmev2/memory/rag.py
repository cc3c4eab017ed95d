"""Retrieval from vector pools: the RAG rows and AgentRunbook-R (paper, Tables 2 and 9)."""

from __future__ import annotations

from collections.abc import Sequence

from lmev2.data.store import StateStore
from lmev2.index import Hit
from lmev2.memory.base import ContextItem, MemoryContext, MemoryQuery
from lmev2.memory.merge import merge_hits
from lmev2.memory.queries import QueryBundle, QueryWriter
from lmev2.memory.render import event_body, note_body, render_event, render_notes, render_slice, slice_body
from lmev2.memory.rerank import Reranker, RerankOrigin, worst_origin
from lmev2.memory.search import Distinct, Searcher
from lmev2.memory.settings import POOL_TABLES, RagMethod, RenderSettings

_WARM_UP = "warm-up"
# How a candidate is shown to the model that chooses among results: what bears on the question, whatever the context's
# own rendering is.
_CANDIDATE = RenderSettings(mode="focused", slice_chars=800, note_chars=600, event_chars=600)


class RagMemory:
    """Searches the pools of a method with the queries that a writer makes of the question.

    The context shows notes, then events, then raw slices, each with rank, similarity and trajectory. Focused rendering
    always looks for what bears on the question itself; full rendering of a slice names the query that found it.

    Args:
        method: the method's row.
        render: how the context is written out.
        searcher: search in the tables of the method's pools.
        store: states of the trajectories.
        writer: writes the queries.
        reranker: picks from each block of results; None keeps all.
    """

    def __init__(
        self,
        method: RagMethod,
        render: RenderSettings,
        searcher: Searcher,
        store: StateStore,
        writer: QueryWriter,
        reranker: Reranker | None = None,
    ):
        self._method, self._render, self._searcher, self._store = method, render, searcher, store
        self._writer, self._reranker = writer, reranker
        self._warm = False

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Let the writer make ready, and, the first time, load the embedding model and open the tables by one search
        in each.

        Raises:
            ModelCallError: a model call failed.
        """
        self._writer.prepare(haystack)
        if not self._warm:
            for pool in self._method.pools:
                for table in POOL_TABLES[pool]:
                    self._searcher.search(table, _WARM_UP, haystack, 1)
            self._warm = True

    def query(self, query: MemoryQuery) -> MemoryContext:
        """Evidence for one question; a pool whose query is empty is not searched.

        Raises:
            ModelCallError: a model call failed.
        """
        bundle = self._writer.write(query)
        seen: set[str] = set()
        items: list[ContextItem] = []
        origins: list[RerankOrigin | None] = []
        if "note" in self._method.pools:
            items += self._notes(query, bundle.note, origins)
        if "event" in self._method.pools:
            items += self._events(query, bundle.event, seen, origins)
        if "raw_state" in self._method.pools:
            items += self._slices(query, bundle, seen, origins)
        queries: dict[str, list[str]] = {pool: list(bundle.of_pool(pool)) for pool in self._method.pools}
        return MemoryContext(items, queries, bundle.origin, worst_origin(origins))

    def _notes(self, query: MemoryQuery, text: str, origins: list[RerankOrigin | None]) -> list[ContextItem]:
        items: list[ContextItem] = []
        for table in POOL_TABLES["note"]:
            hits = self._search(table, text, query, self._method.top_k.note)
            kept = self._choose(query, table, hits, origins)
            notes = [hits[number] for number in kept]
            items += render_notes(table, notes, query.text, self._render, heading=not items)
        return items

    def _events(
        self, query: MemoryQuery, text: str, seen: set[str], origins: list[RerankOrigin | None]
    ) -> list[ContextItem]:
        items: list[ContextItem] = []
        hits = self._search("event", text, query, self._method.top_k.event)
        for rank, number in enumerate(self._choose(query, "event", hits, origins), start=1):
            trajectory = self._store.trajectory(hits[number].trajectory_id)
            items += render_event(rank, hits[number], query.text, trajectory, self._render, seen)
        return items

    def _slices(
        self, query: MemoryQuery, bundle: QueryBundle, seen: set[str], origins: list[RerankOrigin | None]
    ) -> list[ContextItem]:
        items: list[ContextItem] = []
        top_k = self._method.top_k.raw_state
        ranked = [self._search("raw_state", text, query, top_k) for text in bundle.raw_state]
        merged = merge_hits(ranked, top_k, Distinct(self._method.search.distinct).take)
        kept = self._choose(query, "raw_state", [hit for _, hit in merged], origins)
        for rank, position in enumerate(kept, start=1):
            number, hit = merged[position]
            shown = bundle.raw_state[number] if self._render.mode == "full" else query.text
            items += render_slice(rank, hit, shown, self._store.trajectory(hit.trajectory_id), self._render, seen)
        return items

    def _search(self, table: str, text: str, query: MemoryQuery, k: int) -> list[Hit]:
        return self._searcher.search(table, text, query.haystack, k) if text else []

    def _choose(
        self, query: MemoryQuery, table: str, hits: Sequence[Hit], origins: list[RerankOrigin | None]
    ) -> Sequence[int]:
        """Positions of the hits to show, in order; who chose them is added to ``origins``."""
        if self._reranker is None:
            return range(len(hits))
        block = hits[: self._reranker.candidates]
        shown = [self._candidate(query.text, table, hit) for hit in block]
        choice = self._reranker.choose(query.text, table, shown)
        origins.append(choice.origin)
        return choice.positions

    def _candidate(self, question: str, table: str, hit: Hit) -> str:
        if table not in ("event", "raw_state"):
            return note_body(hit, question, _CANDIDATE)
        trajectory = self._store.trajectory(hit.trajectory_id)
        if table == "event":
            return f"Goal: {trajectory.goal}\n{event_body(hit, question, trajectory, _CANDIDATE)}"
        page = f"Page: {hit.payload['title'] or 'untitled'}, {hit.payload['url']}"
        return f"{page}\n{slice_body(hit, question, trajectory, _CANDIDATE, set())[0]}"
