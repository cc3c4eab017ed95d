"""Search of a pool for a query's text, within a haystack: the paper's, by vectors, and hybrid search beyond it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lmev2.index import Hit, PoolIndex
from lmev2.memory.focus_query import statements
from lmev2.memory.settings import RAW_STATE_TABLES, SearchSettings
from lmev2.models.types import EmbeddingBackend

_RAW_STATE = "raw_state"
_BEST_CHUNKS = 2  # of a state, that count for the words of its slice


class Searcher(Protocol):
    """Finds the entries of a table that fit a text best."""

    def search(self, table: str, text: str, haystack: Sequence[str], k: int) -> list[Hit]:
        """At most k hits within the haystack, best first; an empty text finds nothing.

        Args:
            table: ``raw_state``, ``event``, ``procedure_note`` or ``hint_note``; a hit of ``raw_state`` is a slice,
                whichever table it was found in.
        """
        ...


class Distinct:
    """Which raw states may stand beside those that were taken before.

    Args:
        mode: ``none``, ``window`` or ``page``, see :class:`lmev2.memory.settings.SearchSettings`.
    """

    def __init__(self, mode: str):
        self._mode = mode
        self._shown: set[tuple[str, int]] = set()
        self._pages: set[tuple[str | None, str]] = set()

    def take(self, hit: Hit) -> bool:
        """Whether a slice adds something; if so, it counts as taken."""
        page = (hit.payload.get("title"), str(hit.payload.get("url", "")).partition("#")[0])
        if self._mode != "none" and (hit.trajectory_id, hit.center_state) in self._shown:
            return False
        if self._mode == "page" and page in self._pages:
            return False
        self._shown.update((hit.trajectory_id, state) for state in range(hit.first_state, hit.last_state + 1))
        self._pages.add(page)
        return True


class PoolSearch:
    """Search by vectors (exact cosine similarity, the paper's), and by words beside them where the settings say so.

    Rankings are fused by reciprocal rank (Cormack, Clarke and Büttcher, SIGIR 2009). Raw states have three: their
    vectors, the words of their best chunk, and the words of the whole slice, since that is what the context shows.

    Args:
        indexes: an open index per table that the method searches.
        embedder: the embedding model of the indexes.
        settings: the method's search settings.

    Raises:
        ValueError: an index has another dimension than the embedder.
    """

    def __init__(self, indexes: Mapping[str, PoolIndex], embedder: EmbeddingBackend, settings: SearchSettings):
        for table, index in indexes.items():
            dimension = index.manifest["dimension"]
            if dimension != embedder.dimension:
                raise ValueError(
                    f"index {table!r} has {dimension} dimensions, the embedder {embedder.model} {embedder.dimension}"
                )
        self._indexes, self._embedder, self._settings = indexes, embedder, settings
        self._latest: tuple[str, npt.NDArray[np.float32]] | None = None

    def search(self, table: str, text: str, haystack: Sequence[str], k: int) -> list[Hit]:
        """The k entries that fit the text best, best first; their score is the cosine similarity.

        There are fewer only where the haystack, or ``distinct``, allows no more.
        """
        asked = strip_question(text) if self._settings.strip else text
        if not asked.strip():
            return []
        vector = self._vector(asked)
        if table != _RAW_STATE:
            return self._entries(table, asked, vector, haystack, k)
        return self._states(asked, vector, haystack, k)

    def _vector(self, text: str) -> npt.NDArray[np.float32]:
        """The text's vector; several tables are searched for one text, which is embedded once."""
        if self._latest is None or self._latest[0] != text:
            self._latest = text, self._embedder.embed_query(text)
        return self._latest[1]

    def _entries(
        self, table: str, text: str, vector: npt.NDArray[np.float32], haystack: Sequence[str], k: int
    ) -> list[Hit]:
        index = self._indexes[table]
        if not self._settings.full_text:
            return index.search(vector, haystack, k)

        def rankings(nearest: list[Hit], depth: int) -> list[list[Hit]]:
            return [nearest, index.text_candidates(text, vector, haystack, depth)]

        return self._deepened(index, vector, haystack, rankings, lambda fused: fused[:k], k)

    def _states(self, text: str, vector: npt.NDArray[np.float32], haystack: Sequence[str], k: int) -> list[Hit]:
        settings = self._settings
        index = self._indexes[RAW_STATE_TABLES[settings.vectors]]
        if settings.distinct == "none" and settings.vectors != "chunk" and not settings.full_text:
            return [_as_slice(hit) for hit in index.search(vector, haystack, k)]

        def rankings(nearest: list[Hit], depth: int) -> list[list[Hit]]:
            if not settings.full_text:
                return [_best_of_states(nearest)]
            found = self._indexes[RAW_STATE_TABLES["chunk"]].text_candidates(text, vector, haystack, depth)
            return [_best_of_states(nearest), _best_of_states(found), _by_words_of_slice(found)]

        def take(fused: list[Hit]) -> list[Hit]:
            distinct = Distinct(settings.distinct)
            return list(islice(filter(distinct.take, fused), k))

        return self._deepened(index, vector, haystack, rankings, take, k)

    def _deepened(
        self,
        index: PoolIndex,
        vector: npt.NDArray[np.float32],
        haystack: Sequence[str],
        rankings: Callable[[list[Hit], int], list[list[Hit]]],
        take: Callable[[list[Hit]], list[Hit]],
        k: int,
    ) -> list[Hit]:
        """What is taken from the fused rankings: of so many candidates as the settings say, and of twice as many for as
        long as less than k are taken and the haystack has more.

        Chunks become one state, and some results may not stand beside others, so candidates can be fewer than k.

        Args:
            rankings: the rankings to fuse, out of the nearest entries and the number of candidates of any other.
            take: picks at most k of the fused ranking.
        """
        depth = self._settings.candidates
        while True:
            nearest = index.candidates(vector, haystack, depth)
            taken = take(self._fuse(rankings(nearest, depth), haystack))
            # An incomplete ranking holds at least half of the candidates asked for, see `PoolIndex.candidates`.
            if len(taken) >= k or 2 * len(nearest) < depth or depth >= index.manifest["entries"]:
                return taken
            depth *= 2

    def _fuse(self, rankings: Sequence[Sequence[Hit]], haystack: Sequence[str]) -> list[Hit]:
        return reciprocal_rank_fusion(rankings, self._settings.rrf_k, haystack) if len(rankings) > 1 else [*rankings[0]]


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Hit]], k: int, haystack: Sequence[str]) -> list[Hit]:
    """One ranking out of several: an entry counts 1 / (k + rank) in each that holds it, ranks from 1.

    A hit keeps its best cosine similarity. Ties stand in haystack order, then by state.
    """
    position = {name: number for number, name in enumerate(haystack)}
    points: defaultdict[str, float] = defaultdict(float)
    best: dict[str, Hit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            points[hit.entry_id] += 1 / (k + rank)
            known = best.get(hit.entry_id)
            if known is None or hit.score > known.score:
                best[hit.entry_id] = hit
    return sorted(
        best.values(),
        key=lambda hit: (-points[hit.entry_id], position[hit.trajectory_id], hit.center_state, hit.entry_id),
    )


def strip_question(text: str) -> str:
    """A question without instructions on the form of its answer and without lead-in; choices stay, a line each."""
    return "\n".join(statement.text for statement in statements(text))


def _as_slice(hit: Hit) -> Hit:
    """The slice that a hit of any table of raw states stands for."""
    return replace(hit, entry_id=f"{_RAW_STATE}/{hit.trajectory_id}/{hit.center_state:04d}")


def _best_of_states(ranked: Sequence[Hit]) -> list[Hit]:
    """Slices in the order of their best chunk."""
    slices: dict[Hashable, Hit] = {}
    for hit in ranked:
        slices.setdefault((hit.trajectory_id, hit.center_state), _as_slice(hit))
    return list(slices.values())


def _by_words_of_slice(ranked: Sequence[Hit]) -> list[Hit]:
    """Slices by the words of all their states: the sum of the best chunks' scores of each."""
    slices = _best_of_states(ranked)
    scores: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for hit in ranked:  # best first
        scores[hit.trajectory_id, hit.center_state].append(hit.text_score)

    def total(hit: Hit) -> float:
        states = range(hit.first_state, hit.last_state + 1)
        return sum(sum(scores[hit.trajectory_id, state][:_BEST_CHUNKS]) for state in states)

    return sorted(slices, key=lambda hit: -total(hit))
