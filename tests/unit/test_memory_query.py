"""Queries of a memory over a small real index: what is searched, in which order it is shown, and what is timed."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from dataroot import make_data_root

from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.index import PoolIndex, build_index, cosine
from lmev2.memory.base import ContextItem, MemoryContext, MemoryQuery
from lmev2.memory.none import NoMemory
from lmev2.memory.query import open_memory, query_rows
from lmev2.memory.rag import RagMemory
from lmev2.memory.settings import RenderSettings
from lmev2.models.cache import CallCache
from lmev2.models.scripted import ScriptedEmbedder
from lmev2.models.settings import EmbedderSettings
from lmev2.models.stopwatch import account
from lmev2.models.types import ModelCallError
from lmev2.pools.embed import embedding_rows
from lmev2.pools.note import NOTE_POOLS, build_notes
from lmev2.pools.raw_state import embedded_text, raw_state_entries
from lmev2.pools.settings import NoteSettings
from lmev2.rows import CONTEXT, EMBEDDING, HAYSTACK, POOL_ENTRY, QUESTION, read_rows, write_rows

DIMENSION = 64
TABLES = (*NOTE_POOLS, "raw_state")
Spec = dict[str, Any]


def ignore(done: int, total: int) -> None:
    pass


def make_embedder(dimension: int = DIMENSION) -> ScriptedEmbedder:
    return ScriptedEmbedder(EmbedderSettings(backend="scripted", model="scripted", dimension=dimension))


def make_spec(**method: Any) -> Spec:
    """Settings of a query job, as the workflow gives them."""
    row = {"family": "rag", "pools": ["note", "raw_state"], "queries": "question", "top_k": {"raw_state": 3, "note": 2}}
    return {
        "name": "rag",
        "tier": "medium",
        "shard": "000-of-001",
        "method": row | method,
        "render": {"mode": "focused", "slice_chars": 400, "note_chars": 200},
        "embedder": {"backend": "scripted", "model": "scripted", "dimension": DIMENSION},
        "code": "c1",
    }


NONE_SPEC: Spec = {"name": "none", "tier": "small", "shard": "000-of-001", "method": {"family": "none"}}


@dataclasses.dataclass(frozen=True)
class World:
    """An ingested data root with its pools in indexes."""

    store: StateStore
    indexes: dict[str, PoolIndex]
    questions: list[dict[str, Any]]
    haystacks: dict[str, list[str]]
    notes: list[dict[str, Any]]

    def memory(self, **method: Any) -> RagMemory:
        memory = open_memory(make_spec(**method), self.indexes, self.store, make_embedder)
        assert isinstance(memory, RagMemory)
        return memory


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    root = make_data_root(folder / "root", trajectories=8, states=4, questions=14)
    data = folder / "data"
    ingest_dataset(root.path, data, ["medium"])
    with StateStore(data / "states.parquet", data / "trajectories.parquet") as store:
        runs = [store.trajectory(name) for name in store.trajectory_ids]
        notes = [entry for run in runs for entry in build_notes(run, NoteSettings())]
        entries = {pool: [entry for entry in notes if entry["pool"] == pool] for pool in NOTE_POOLS}
        entries["raw_state"] = [entry for run in runs for entry in raw_state_entries(run, 1)]
        indexes = {}
        for table, rows in entries.items():
            pool, vectors = folder / f"{table}.parquet", folder / f"{table}-vectors.parquet"
            write_rows(pool, POOL_ENTRY, rows)
            write_rows(vectors, EMBEDDING, embedding_rows(rows, store, make_embedder(), ignore))
            build_index(table, [pool], [vectors], folder / f"{table}.lance", folder / f"{table}.json")
            indexes[table] = PoolIndex(folder / f"{table}.lance", folder / f"{table}.json")
        haystacks = {
            row["question_id"]: row["trajectory_ids"] for row in read_rows(data / "haystacks.parquet", HAYSTACK)
        }
        yield World(store, indexes, list(read_rows(data / "questions.parquet", QUESTION)), haystacks, notes)


def query_of(world: World, number: int = 0) -> MemoryQuery:
    question = world.questions[number]
    return MemoryQuery(question["question"], None, tuple(world.haystacks[question["question_id"]]))


def texts_of(context: MemoryContext, pool: str) -> list[ContextItem]:
    return [item for item in context.items if item.type == "text" and item.pool == pool]


def nearest(texts: Mapping[Any, str], query: str, k: int) -> list[Any]:
    """Brute force: the keys of the texts most similar to a query, ties in the given order."""
    embedder = make_embedder()
    scores = cosine(embedder.embed_documents(list(texts.values())), embedder.embed_query(query))
    ranked = sorted(zip(texts, scores, strict=True), key=lambda pair: -pair[1])
    return [key for key, _ in ranked[:k]]


@pytest.mark.parametrize("pools", [["note", "raw_state"], ["raw_state", "note"]])
def test_notes_come_before_slices_each_of_the_two_kinds_with_its_own_number(world: World, pools: list[str]) -> None:
    context = world.memory(pools=pools).query(query_of(world))
    assert [item.pool for item in context.items if item.type == "text"] == (
        ["procedure_note"] * 2 + ["hint_note"] * 2 + ["raw_state"] * 3
    )
    headings = [item.value.split("\n", 1)[0] for item in context.items if item.type == "text"]
    assert [text.startswith("## ") for text in headings] == [True, False, False, False, True, False, False]
    assert context.queries == {pool: [query_of(world).text] for pool in pools}


@pytest.mark.parametrize(
    ("pools", "top_k", "expected"),
    [
        (["raw_state"], {"raw_state": 5, "note": 2}, {"raw_state": 5}),
        (["note"], {"raw_state": 5, "note": 1}, {"procedure_note": 1, "hint_note": 1}),
        (["note", "raw_state"], {"raw_state": 1, "note": 3}, {"procedure_note": 3, "hint_note": 3, "raw_state": 1}),
        # The haystack has four trajectories of four states each.
        (["note", "raw_state"], {"raw_state": 99, "note": 99}, {"procedure_note": 4, "hint_note": 4, "raw_state": 16}),
    ],
)
def test_each_pool_gives_as_many_as_asked_for(
    world: World, pools: list[str], top_k: dict[str, int], expected: dict[str, int]
) -> None:
    context = world.memory(pools=pools, top_k=top_k).query(query_of(world))
    assert {pool: len(texts_of(context, pool)) for pool in TABLES if texts_of(context, pool)} == expected


def test_what_is_shown_is_what_brute_force_finds(world: World) -> None:
    memory = world.memory()
    for number in range(len(world.questions)):
        query = query_of(world, number)
        context = memory.query(query)
        slices = {
            (name, entry["center_state"]): embedded_text(
                world.store.states(name, entry["first_state"], entry["last_state"])
            )
            for name in query.haystack
            for entry in raw_state_entries(world.store.trajectory(name), 1)
        }
        images = [item for item in context.items if item.type == "image"]
        assert [(item.trajectory_id, item.states[0]) for item in images] == nearest(slices, query.text, 3)
        for pool in NOTE_POOLS:
            by_run = {entry["trajectory_id"]: entry["text"] for entry in world.notes if entry["pool"] == pool}
            notes = {name: by_run[name] for name in query.haystack}
            assert [item.trajectory_id for item in texts_of(context, pool)] == nearest(notes, query.text, 2)


def test_only_the_haystack_is_searched(world: World) -> None:
    query = query_of(world)
    for haystack in (query.haystack[1:3], (world.store.trajectory_ids[0],)):
        context = world.memory(top_k={"raw_state": 50, "note": 50}).query(
            dataclasses.replace(query, haystack=tuple(haystack))
        )
        assert {item.trajectory_id for item in context.items} == set(haystack)
    assert world.memory().query(dataclasses.replace(query, haystack=())).items == []


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_empty_question_searches_nothing(world: World, text: str) -> None:
    class Refusing(ScriptedEmbedder):
        def embed_query(self, text: str) -> Any:
            raise AssertionError("an empty question was embedded")

    settings = EmbedderSettings(backend="scripted", model="scripted", dimension=DIMENSION)
    memory = open_memory(make_spec(), world.indexes, world.store, lambda: Refusing(settings))
    context = memory.query(MemoryQuery(text, None, query_of(world).haystack))
    assert (list(context.items), context.queries) == ([], {})
    with pytest.raises(AssertionError, match="was embedded"):
        memory.query(query_of(world))


def test_an_index_of_another_dimension_is_refused_when_the_memory_opens(world: World) -> None:
    message = "index 'procedure_note' has 64 dimensions, the embedder scripted 32"
    with pytest.raises(ValueError, match=message):
        open_memory(make_spec(), world.indexes, world.store, lambda: make_embedder(32))


def test_a_missing_index_is_named(world: World) -> None:
    indexes = {name: index for name, index in world.indexes.items() if name != "hint_note"}
    with pytest.raises(ValueError, match=r"searches 'hint_note', but only \['procedure_note', 'raw_state'\] are open"):
        open_memory(make_spec(), indexes, world.store, make_embedder)
    open_memory(make_spec(pools=["raw_state"]), indexes, world.store, make_embedder)


def test_rendering_follows_the_jobs_settings(world: World) -> None:
    spec = make_spec(pools=["raw_state"])
    focused = open_memory(spec, world.indexes, world.store, make_embedder).query(query_of(world))
    spec["render"] = RenderSettings(mode="full").model_dump(mode="json")
    full = open_memory(spec, world.indexes, world.store, make_embedder).query(query_of(world))
    assert "Accessibility tree:" in full.items[0].value and "Accessibility tree:" not in focused.items[0].value


# The stage: rows, the clock, and what the memory is shown.


class Clock:
    """Time that only moves when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 1000.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


class RecordingMemory:
    """Keeps what it was asked, takes as many seconds as it is told, and fails on some questions."""

    def __init__(
        self, clock: Clock | None = None, seconds: float = 0.5, warm_up: float = 60.0, failing: Sequence[str] = ()
    ):
        self.asked: list[Any] = []
        self._clock, self._seconds, self._warm_up, self._failing = clock, seconds, warm_up, failing

    def query(self, query: MemoryQuery) -> MemoryContext:
        self.asked.append(query)
        if self._clock is not None:
            self._clock.now += self._warm_up if query.text == "warm-up" else self._seconds
        if query.text in self._failing:
            raise ModelCallError("api_error", "503")
        return MemoryContext(
            [ContextItem("text", f"about {query.text}", "t1", (0,), "raw_state", 0.5)], {"raw_state": ["x"]}
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


DIGESTS = {"raw_state": "d1"}


def ask(
    world: World,
    memory: Any,
    cache: CallCache,
    spec: Spec | None = None,
    digests: Mapping[str, str] = DIGESTS,
    questions: int = 3,
    haystacks: Mapping[str, list[str]] | None = None,
) -> list[dict[str, Any]]:
    asked = world.questions[:questions]
    return list(query_rows(memory, asked, haystacks or world.haystacks, spec or make_spec(), digests, cache, ignore))


def latencies(rows: list[dict[str, Any]]) -> list[tuple[float, bool]]:
    return [(row["latency_s"], row["replayed"]) for row in rows]


def test_a_memory_sees_text_image_and_haystack_and_nothing_else(world: World, tmp_path: Path) -> None:
    assert [field.name for field in dataclasses.fields(MemoryQuery)] == ["text", "image", "haystack"]
    memory = RecordingMemory()
    ask(world, memory, CallCache(tmp_path), questions=14)
    warm_up, *asked = memory.asked
    assert warm_up == MemoryQuery("warm-up", None, tuple(world.haystacks[world.questions[0]["question_id"]]))
    assert asked == [
        MemoryQuery(
            question["question"],
            Path(question["image"]) if question["image"] else None,
            tuple(world.haystacks[question["question_id"]]),
        )
        for question in world.questions
    ]
    assert {type(query) for query in memory.asked} == {MemoryQuery}
    assert any(query.image for query in asked) and not all(query.image for query in asked)


def test_rows_hold_what_the_memory_returned(world: World, tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    rows = list(
        query_rows(
            world.memory(),
            world.questions,
            world.haystacks,
            make_spec(),
            DIGESTS,
            CallCache(tmp_path / "cache"),
            lambda number, total: done.append((number, total)),
        )
    )
    assert [row["question_id"] for row in rows] == [question["question_id"] for question in world.questions]
    assert {(row["method"], row["tier"], row["error"], row["error_detail"]) for row in rows} == {
        ("rag", "medium", None, None)
    }
    assert done == [(number, 14) for number in range(1, 15)]
    for number, row in enumerate(rows):
        expected = world.memory().query(query_of(world, number))
        assert row["items"] == [item.as_row() for item in expected.items]
        assert json.loads(row["queries"]) == expected.queries
        assert row["latency_s"] > 0
    write_rows(tmp_path / "contexts.parquet", CONTEXT, rows)
    assert list(read_rows(tmp_path / "contexts.parquet", CONTEXT)) == rows


def test_the_latency_is_that_of_the_call_alone_measured_once(world: World, tmp_path: Path, clock: Clock) -> None:
    first = ask(world, RecordingMemory(clock, seconds=0.25), CallCache(tmp_path))
    assert latencies(first) == [(0.25, False)] * 3
    again = ask(world, RecordingMemory(clock, seconds=7.0), CallCache(tmp_path))
    assert latencies(again) == [(0.25, True)] * 3
    assert [row["items"] for row in again] == [row["items"] for row in first]


def test_a_model_call_counts_for_as_long_as_it_first_took(world: World, tmp_path: Path, clock: Clock) -> None:
    class CallingMemory(RecordingMemory):
        def query(self, query: MemoryQuery) -> MemoryContext:
            account(0.125, 4.0)  # replayed in an eighth of a second, after it had once taken four
            return super().query(query)

    assert latencies(ask(world, CallingMemory(clock, seconds=0.25), CallCache(tmp_path))) == [(4.125, False)] * 3


def test_a_failed_query_is_an_error_row_without_a_latency_and_the_others_go_on(
    world: World, tmp_path: Path, clock: Clock
) -> None:
    failing = [world.questions[1]["question"]]
    rows = ask(world, RecordingMemory(clock, seconds=0.25, failing=failing), CallCache(tmp_path))
    assert [row["error"] for row in rows] == [None, "memory_error", None]
    assert rows[1]["error_detail"] == "api_error: 503"
    assert (rows[1]["items"], rows[1]["latency_s"], rows[1]["replayed"]) == ([], 0.0, False)
    write_rows(tmp_path / "contexts.parquet", CONTEXT, rows)
    again = ask(world, RecordingMemory(clock, seconds=7.0), CallCache(tmp_path))
    assert latencies(again) == [(0.25, True), (7.0, False), (0.25, True)]


def test_a_memory_that_cannot_warm_up_fails_the_first_question_only(world: World, tmp_path: Path, clock: Clock) -> None:
    rows = ask(world, RecordingMemory(clock, failing=["warm-up"]), CallCache(tmp_path))
    assert [row["error"] for row in rows] == ["memory_error", None, None]


def test_a_question_more_is_measured_and_the_others_replayed(world: World, tmp_path: Path, clock: Clock) -> None:
    ask(world, RecordingMemory(clock, seconds=0.25), CallCache(tmp_path), questions=2)
    rows = ask(world, RecordingMemory(clock, seconds=7.0), CallCache(tmp_path), questions=3)
    assert latencies(rows) == [(0.25, True), (0.25, True), (7.0, False)]


@pytest.mark.parametrize(
    "change",
    [
        {"method": {"family": "rag", "pools": ["raw_state"], "queries": "question", "top_k": {"raw_state": 3, "note": 2}}},
        {"render": {"mode": "focused", "slice_chars": 401, "note_chars": 200}},
        {"render": {"mode": "full", "slice_chars": 400, "note_chars": 200}},
        {"embedder": {"backend": "scripted", "model": "other", "dimension": DIMENSION}},
        {"code": "c2"},
    ],
)  # fmt: skip
def test_another_setting_is_measured_anew(world: World, tmp_path: Path, clock: Clock, change: dict[str, Any]) -> None:
    ask(world, RecordingMemory(clock, seconds=0.25), CallCache(tmp_path))
    rows = ask(world, RecordingMemory(clock, seconds=7.0), CallCache(tmp_path), spec=make_spec() | change)
    assert latencies(rows) == [(7.0, False)] * 3


def test_another_index_or_haystack_is_measured_anew(world: World, tmp_path: Path, clock: Clock) -> None:
    ask(world, RecordingMemory(clock, seconds=0.25), CallCache(tmp_path))
    rows = ask(world, RecordingMemory(clock, seconds=7.0), CallCache(tmp_path), digests={"raw_state": "d2"})
    assert latencies(rows) == [(7.0, False)] * 3
    same = dict.fromkeys(world.haystacks, world.store.trajectory_ids[:2])
    rows = ask(world, RecordingMemory(clock, seconds=7.5), CallCache(tmp_path), haystacks=same)
    assert latencies(rows) == [(7.5, False)] * 3
    turned = {name: names[::-1] for name, names in world.haystacks.items()}
    rows = ask(world, RecordingMemory(clock, seconds=8.0), CallCache(tmp_path), haystacks=turned)
    assert latencies(rows) == [(8.0, False)] * 3


def test_another_image_is_measured_anew(world: World, tmp_path: Path, clock: Clock) -> None:
    image = tmp_path / "question.png"
    question = world.questions[0] | {"image": str(image)}
    found = []
    for content, seconds in ((b"one", 0.25), (b"two", 7.0), (b"one", 9.0)):
        image.write_bytes(content)
        memory = RecordingMemory(clock, seconds=seconds)
        rows = query_rows(
            memory, [question], world.haystacks, make_spec(), DIGESTS, CallCache(tmp_path / "cache"), ignore
        )
        found += latencies(list(rows))
    assert found == [(0.25, False), (7.0, False), (0.25, True)]


def test_names_do_not_decide_about_the_latency(world: World, tmp_path: Path, clock: Clock) -> None:
    ask(world, RecordingMemory(clock, seconds=0.25), CallCache(tmp_path))
    renamed = make_spec() | {"name": "same work", "tier": "small", "shard": "001-of-002"}
    rows = ask(world, RecordingMemory(clock, seconds=7.0), CallCache(tmp_path), spec=renamed)
    assert latencies(rows) == [(0.25, True)] * 3
    assert {(row["method"], row["tier"]) for row in rows} == {("same work", "small")}


def test_without_memory_the_context_is_empty_and_costs_nothing(world: World, tmp_path: Path, clock: Clock) -> None:
    def refuse() -> Any:
        raise AssertionError("a method without memory loaded an embedder")

    memory = open_memory(NONE_SPEC, {}, world.store, refuse)
    assert isinstance(memory, NoMemory)
    rows = ask(world, memory, CallCache(tmp_path), spec=NONE_SPEC, digests={})
    assert [(row["items"], row["queries"], row["latency_s"], row["replayed"]) for row in rows] == [
        ([], "{}", 0.0, False)
    ] * 3
    assert list(tmp_path.iterdir()) == []
    unasked = RecordingMemory(clock)
    rows = ask(world, unasked, CallCache(tmp_path), spec=NONE_SPEC)
    assert latencies(rows) == [(0.0, False)] * 3
    assert "warm-up" not in [query.text for query in unasked.asked]


def test_a_shard_without_questions_asks_nothing(world: World, tmp_path: Path) -> None:
    memory = RecordingMemory()
    assert ask(world, memory, CallCache(tmp_path), questions=0) == []
    assert memory.asked == []
