"""Hybrid search: rankings fused by reciprocal rank, slices out of chunks, nothing shown twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.data.store import StateStore
from lmev2.index import Hit, PoolIndex, build_index
from lmev2.memory.search import Distinct, PoolSearch, _by_words_of_slice, reciprocal_rank_fusion, strip_question
from lmev2.memory.settings import RagMethod, SearchSettings
from lmev2.models.scripted import ScriptedEmbedder
from lmev2.models.settings import EmbedderSettings
from lmev2.pools.embed import embedding_rows
from lmev2.pools.raw_state import CENTER_STATE_POOL, raw_state_entries
from lmev2.pools.settings import ChunkSettings
from lmev2.pools.state_chunk import state_chunk_entries
from lmev2.rows import EMBEDDING, POOL_ENTRY, STATE, TRAJECTORY, write_rows
from lmev2.trajectory import Trajectory

EMBEDDER = ScriptedEmbedder(EmbedderSettings(backend="scripted", model="scripted", dimension=64))
PAGES = {
    "t1": ["orders list", "order detail copper kettle fare", "order detail copper kettle fare total", "basket"],
    "t2": ["orders list", "velvet curtain detail", "returns policy thirty days"],
    "t3": ["orders list", "anchor shipment tracking number"],
}
CHUNKS = ChunkSettings(chars=200, overlap_chars=40)
MAKERS: dict[str, Callable[[Trajectory], list[dict[str, Any]]]] = {
    "raw_state": lambda run: raw_state_entries(run, 1),
    "center_state": lambda run: raw_state_entries(run, 1, CENTER_STATE_POOL),
    "state_chunk": lambda run: state_chunk_entries(run, 1, CHUNKS),
}
HYBRID = {"vectors": "chunk", "full_text": True, "distinct": "window"}


def hit(name: str, state: int, score: float = 0.5, first: int | None = None, last: int | None = None) -> Hit:
    return Hit(
        f"raw_state/{name}/{state:04d}",
        name,
        state if first is None else first,
        state if last is None else last,
        state,
        {"title": f"page {state}", "url": f"http://h/{name}/{state}"},
        score,
    )


def tree(text: str) -> str:
    words = [f"\tStaticText '{word}'" for word in text.split()]
    return "\n".join(["RootWebArea 'shop'", *words, *["\tStaticText 'footer imprint'"] * 30])


def write_runs(folder: Path) -> None:
    facts = {"domain": "web", "environment": "shop", "goal": "g", "outcome": "success", "start_url": "http://h/"}
    runs = ({"trajectory_id": name, "state_count": len(pages), **facts} for name, pages in PAGES.items())
    write_rows(folder / "trajectories.parquet", TRAJECTORY, runs)
    with pq.ParquetWriter(folder / "states.parquet", STATE) as writer:
        for name, pages in PAGES.items():
            rows = [
                {"trajectory_id": name, "state_index": number, "url": f"http://h/{name}/{number}", "tree": tree(text)}
                for number, text in enumerate(pages)
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema=STATE))


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PoolIndex]:
    folder = tmp_path_factory.mktemp("search")
    write_runs(folder)
    opened = {}
    with StateStore(folder / "states.parquet", folder / "trajectories.parquet") as store:
        for table, make in MAKERS.items():
            entries = [entry for name in PAGES for entry in make(store.trajectory(name))]
            pool, vectors = folder / f"{table}.pool", folder / f"{table}.vectors"
            write_rows(pool, POOL_ENTRY, entries)
            write_rows(vectors, EMBEDDING, embedding_rows(entries, store, EMBEDDER, lambda done, total: None))
            build_index(
                table, [pool], [vectors], folder / f"{table}.lance", folder / f"{table}.json", EMBEDDER.dimension
            )
            opened[table] = PoolIndex(folder / f"{table}.lance", folder / f"{table}.json")
    return opened


def search(indexes: dict[str, PoolIndex], text: str, k: int = 3, **settings: Any) -> list[Hit]:
    method = RagMethod(family="rag", label="x", pools=("raw_state",), search=SearchSettings(**settings))
    tables = {table: indexes[table] for table in method.tables()}
    return PoolSearch(tables, EMBEDDER, method.search).search("raw_state", text, list(PAGES), k)


def test_the_default_is_the_exact_search_of_slices(indexes: dict[str, PoolIndex]) -> None:
    text = "where is the anchor shipment"
    assert search(indexes, text) == indexes["raw_state"].search(EMBEDDER.embed_query(text), list(PAGES), 3)


@pytest.mark.parametrize("more", [{}, {"strip": True}, {"vectors": "center"}, {"vectors": "slice"}])
def test_words_and_chunks_find_a_page(indexes: dict[str, PoolIndex], more: dict[str, Any]) -> None:
    first = search(indexes, "How many days does the returns policy give?", **HYBRID | more)[0]
    assert (first.entry_id, first.first_state, first.last_state) == ("raw_state/t2/0002", 1, 2)
    assert first.payload["url"] == "http://h/t2/2"


def test_no_state_is_shown_twice(indexes: dict[str, PoolIndex]) -> None:
    found = search(indexes, "copper kettle fare", k=6, **HYBRID)
    shown: set[tuple[str, int]] = set()
    for one in found:
        assert (one.trajectory_id, one.center_state) not in shown
        shown |= {(one.trajectory_id, state) for state in range(one.first_state, one.last_state + 1)}
    assert found[0].trajectory_id == "t1"
    # without the rule, the neighbour of the best slice comes second
    plain = search(indexes, "copper kettle fare", k=6, **HYBRID | {"distinct": "none"})
    assert {plain[0].center_state, plain[1].center_state} == {1, 2}


def test_an_empty_text_finds_nothing(indexes: dict[str, PoolIndex]) -> None:
    assert search(indexes, " \n", **HYBRID) == []


def test_a_wrong_dimension_is_refused(indexes: dict[str, PoolIndex]) -> None:
    other = ScriptedEmbedder(EmbedderSettings(backend="scripted", model="scripted", dimension=32))
    with pytest.raises(ValueError, match="64 dimensions, the embedder scripted 32"):
        PoolSearch({"raw_state": indexes["raw_state"]}, other, SearchSettings())


@given(st.lists(st.permutations(range(8)).map(lambda order: order[:5]), min_size=1, max_size=3), st.integers(0, 90))
def test_fusion_equals_its_definition(orders: list[list[int]], k: int) -> None:
    rankings = [[hit("t", state, score=0.1 * number) for state in order] for number, order in enumerate(orders)]
    fused = reciprocal_rank_fusion(rankings, k, ["t"])
    points: dict[int, float] = {}
    for order in orders:
        for rank, state in enumerate(order, start=1):
            points[state] = points.get(state, 0.0) + 1 / (k + rank)
    assert [one.center_state for one in fused] == sorted(points, key=lambda state: (-points[state], state))
    for one in fused:
        assert one.score == max(h.score for ranking in rankings for h in ranking if h.entry_id == one.entry_id)


def test_ties_of_a_fusion_stand_in_haystack_order_then_by_state() -> None:
    rankings = [[hit("a", 0), hit("b", 2)], [hit("b", 1), hit("c", 0)], [hit("c", 3), hit("a", 5)]]
    for haystack in (["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]):
        fused = reciprocal_rank_fusion(rankings, 60, haystack)
        position = {name: number for number, name in enumerate(haystack)}
        first, second = fused[:3], fused[3:]
        assert {(one.trajectory_id, one.center_state) for one in first} == {("a", 0), ("b", 1), ("c", 3)}
        for tied in (first, second):
            assert tied == sorted(tied, key=lambda one: position[one.trajectory_id])
    assert [one.center_state for one in reciprocal_rank_fusion([[hit("a", 7)], [hit("a", 4)]], 60, ["a"])] == [4, 7]


def test_the_two_best_chunks_of_a_state_count_for_the_words_of_its_slice() -> None:
    scores = {"many": [1.0, 1.0, 1.0, 1.0], "two": [1.2, 1.2], "one": [1.5]}
    chunks = [replace(hit(name, 0), text_score=score) for name, found in scores.items() for score in found]
    ranked = sorted(chunks, key=lambda one: -one.text_score)
    assert [one.trajectory_id for one in _by_words_of_slice(ranked)] == ["two", "many", "one"]


# More results than the first round of candidates gives.

LONG = {f"r{run}": 40 for run in range(3)}


class ManyChunks:
    """An index in which each state has many chunks: its answers are those of :class:`lmev2.index.PoolIndex`, by brute
    force, and the chunks of the first states are the best of all."""

    def __init__(self, chunks: int, window: int = 1):
        self.manifest = {"dimension": 64, "entries": chunks * sum(LONG.values())}
        self.depths: list[int] = []
        self._hits = [
            replace(
                hit(
                    name, state, 1 - state / 100 - number / 1000, max(0, state - window), min(last - 1, state + window)
                ),
                entry_id=f"state_chunk/{name}/{state:04d}/{chunk:03d}",
                text_score=10 - state / 10,
            )
            for number, (name, last) in enumerate(LONG.items())
            for state in range(last)
            for chunk in range(chunks)
        ]

    def candidates(self, vector: Any, haystack: list[str], k: int) -> list[Hit]:
        self.depths.append(k)
        found = sorted((one for one in self._hits if one.trajectory_id in haystack), key=lambda one: -one.score)
        return found if len(found) <= k else [one for one in found if one.score > found[k].score]

    def text_candidates(self, text: str, vector: Any, haystack: list[str], k: int) -> list[Hit]:
        return self.candidates(vector, haystack, k)


def deep(table: str, chunks: int, k: int, haystack: list[str] | None = None, **settings: Any) -> tuple[Any, list[Hit]]:
    index: Any = ManyChunks(chunks)
    tables = {"state_chunk": index, "event": index}
    searcher = PoolSearch(tables, EMBEDDER, SearchSettings(vectors="chunk", **settings))
    return index, searcher.search(table, "fare", list(LONG) if haystack is None else haystack, k)


@pytest.mark.parametrize("full_text", [False, True])
@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.parametrize("haystack", [["r0"], ["r2", "r0"], ["r0", "r1", "r2"]])
def test_as_many_states_come_back_as_are_asked_for_and_there_are(
    full_text: bool, chunks: int, haystack: list[str]
) -> None:
    every = {(name, state) for name in haystack for state in range(LONG[name])}
    for k in (1, 12, 39, 120, 500):
        _, found = deep("raw_state", chunks, k, haystack, full_text=full_text, candidates=10)
        states = [(one.trajectory_id, one.center_state) for one in found]
        assert len(states) == len(set(states)) == min(k, len(every))
        assert set(states) <= every


def test_all_states_of_a_real_index_come_back(indexes: dict[str, PoolIndex]) -> None:
    found = search(indexes, "copper kettle fare", k=500, vectors="chunk", full_text=True, candidates=10)
    assert {(one.trajectory_id, one.center_state) for one in found} == {
        (name, state) for name, pages in PAGES.items() for state in range(len(pages))
    }


@pytest.mark.parametrize("full_text", [False, True])
def test_what_may_not_stand_beside_others_is_made_up_for(full_text: bool) -> None:
    _, found = deep("raw_state", 4, 12, full_text=full_text, candidates=10, distinct="window")
    assert len(found) == 12
    shown: set[tuple[str, int]] = set()
    for one in found:
        assert (one.trajectory_id, one.center_state) not in shown
        shown |= {(one.trajectory_id, state) for state in range(one.first_state, one.last_state + 1)}
    # each slice shows two states that may not follow it: at best every second state is left
    assert len(deep("raw_state", 4, 500, full_text=full_text, candidates=10, distinct="window")[1]) == 3 * 20


def test_entries_found_by_words_and_vectors_are_as_many_as_asked_for() -> None:
    for k in (5, 120, 480, 500):
        _, found = deep("event", 4, k, full_text=True, candidates=10)
        assert len(found) == len({one.entry_id for one in found}) == min(k, 480)


def test_one_round_of_candidates_is_read_where_it_gives_enough() -> None:
    assert deep("raw_state", 4, 6, candidates=200)[0].depths == [200]
    assert deep("raw_state", 4, 6, full_text=True, candidates=200, distinct="window")[0].depths == [200, 200]
    assert deep("raw_state", 4, 6, ["r0"], candidates=200, distinct="page")[0].depths == [200]
    assert deep("raw_state", 4, 50, ["r0"], candidates=400)[0].depths == [400]  # all there is


def test_distinct_windows_and_pages() -> None:
    first, inside = hit("a", 3, first=2, last=4), hit("a", 4, first=3, last=5)
    same_page = replace(hit("b", 9), payload={"title": "page 3", "url": "http://h/a/3#part"})
    every, window, page = Distinct("none"), Distinct("window"), Distinct("page")
    assert [every.take(one) for one in (first, inside, same_page)] == [True, True, True]
    assert [window.take(one) for one in (first, inside, same_page)] == [True, False, True]
    assert [page.take(one) for one in (first, inside, same_page, hit("b", 1))] == [True, False, False, True]


def test_stripping_keeps_choices_and_labels() -> None:
    text = (
        "I am working with our ServiceNow portal. Which entry does the `Arrange` list show? Select ONE.\n"
        "A. Dearest first\nB. Best fared\n\nMark your final answer in \\boxed{}."
    )
    lines = strip_question(text).split("\n")
    assert lines == ["Which entry does the `Arrange` list show?", "Dearest first", "Best fared"]


def test_tables_of_a_method() -> None:
    def tables(**settings: Any) -> list[str]:
        search = SearchSettings(**settings)
        return RagMethod(family="rag", label="x", pools=("note", "raw_state"), search=search).tables()

    notes = ["procedure_note", "hint_note"]
    assert tables() == [*notes, "raw_state"]
    assert tables(vectors="chunk", full_text=True) == [*notes, "state_chunk"]
    assert tables(vectors="center", full_text=True) == [*notes, "center_state", "state_chunk"]
