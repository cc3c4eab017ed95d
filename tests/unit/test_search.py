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
from lmev2.memory.search import Distinct, PoolSearch, reciprocal_rank_fusion, strip_question
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
            build_index(table, [pool], [vectors], folder / f"{table}.lance", folder / f"{table}.json")
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
