"""Queries of a memory over a small real index: what is searched, in which order it is shown, and what is timed."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from memoryworld import (
    DIMENSION,
    NONE_SPEC,
    Spec,
    World,
    ignore,
    make_embedder,
    make_spec,
    nearest,
    open_world,
    query_of,
    texts_of,
)

from lmev2.memory.base import ContextItem, MemoryContext, MemoryQuery
from lmev2.memory.families import open_memory
from lmev2.memory.none import NoMemory
from lmev2.memory.query import data_digest, haystack_digest, prompt_digests, query_rows, questions_of_shard
from lmev2.memory.settings import RenderSettings
from lmev2.models.cache import CallCache
from lmev2.models.scripted import ScriptedEmbedder
from lmev2.models.settings import EmbedderSettings
from lmev2.models.stopwatch import account
from lmev2.models.types import ModelCallError
from lmev2.pools.note import NOTE_POOLS
from lmev2.pools.raw_state import embedded_text, raw_state_entries
from lmev2.prompts import Prompt
from lmev2.rows import CONTEXT, read_rows, write_rows
from lmev2.shards import shard_names

TABLES = (*NOTE_POOLS, "raw_state")
DIGESTS = {"raw_state": "d1"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("world")) as found:
        yield found


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
    memory = open_memory(make_spec(), world.tools(lambda: Refusing(settings)))
    context = memory.query(MemoryQuery(text, None, query_of(world).haystack))
    assert (list(context.items), context.queries) == ([], {"note": [], "raw_state": []})
    with pytest.raises(AssertionError, match="was embedded"):
        memory.query(query_of(world))


def test_an_index_of_another_dimension_is_refused_when_the_memory_opens(world: World) -> None:
    message = "index 'procedure_note' has 64 dimensions, the embedder scripted 32"
    with pytest.raises(ValueError, match=message):
        open_memory(make_spec(), world.tools(lambda: make_embedder(32)))


def test_a_missing_index_is_named(world: World) -> None:
    tools = world.tools(without="hint_note")
    with pytest.raises(ValueError, match=r"searches 'hint_note', but only \['event', 'procedure_note', 'raw_state'\]"):
        open_memory(make_spec(), tools)
    open_memory(make_spec(pools=["raw_state"]), tools)


def test_rendering_follows_the_jobs_settings(world: World) -> None:
    spec = make_spec(pools=["raw_state"])
    focused = open_memory(spec, world.tools()).query(query_of(world))
    spec["render"] = RenderSettings(mode="full").model_dump(mode="json")
    full = open_memory(spec, world.tools()).query(query_of(world))
    assert "Accessibility tree:" in full.items[0].value and "Accessibility tree:" not in focused.items[0].value


# The stage: rows, the clock, and what the memory is shown.


class Clock:
    """Time that only moves when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 1000.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


class RecordingMemory:
    """Keeps what it was asked, takes as many seconds as it is told, and fails on some questions."""

    def __init__(self, clock: Clock | None = None, seconds: float = 0.5, failing: Sequence[str] = (), unready: int = 0):
        self.asked: list[Any] = []
        self.prepared: list[tuple[str, ...]] = []
        self._clock, self._seconds, self._failing, self._unready = clock, seconds, failing, unready

    def prepare(self, haystack: tuple[str, ...]) -> None:
        self.prepared.append(haystack)
        if self._clock is not None:
            self._clock.now += 60.0
        if len(self.prepared) <= self._unready:
            raise ModelCallError("api_error", "502")

    def query(self, query: MemoryQuery) -> MemoryContext:
        self.asked.append(query)
        if self._clock is not None:
            self._clock.now += self._seconds
        if query.text in self._failing:
            raise ModelCallError("api_error", "503")
        return MemoryContext(
            [ContextItem("text", f"about {query.text}", "t1", (0,), "raw_state", 0.5)], {"raw_state": ["x"]}, "rules"
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


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
    return query_rows(memory, asked, haystacks or world.haystacks, spec or make_spec(), digests, cache, ignore)


def latencies(rows: list[dict[str, Any]]) -> list[tuple[float, bool]]:
    return [(row["latency_s"], row["replayed"]) for row in rows]


def test_a_memory_sees_text_image_and_haystack_and_nothing_else(world: World, tmp_path: Path) -> None:
    assert [field.name for field in dataclasses.fields(MemoryQuery)] == ["text", "image", "haystack", "question_type"]
    memory = RecordingMemory()
    ask(world, memory, CallCache(tmp_path), questions=14)
    expected = [
        MemoryQuery(
            question["question"],
            Path(question["image"]) if question["image"] else None,
            tuple(world.haystacks[question["question_id"]]),
        )
        for question in world.questions
    ]
    assert sorted(map(repr, memory.asked)) == sorted(map(repr, expected))
    assert {type(query) for query in memory.asked} == {MemoryQuery}
    assert any(query.image for query in expected) and not all(query.image for query in expected)


@pytest.mark.parametrize(
    ("method", "seen"),
    [
        ({"queries": "generated", "question_type": True}, True),
        ({"queries": "generated", "question_type": False}, False),
        ({"queries": "question", "question_type": True}, False),
    ],
)
def test_the_type_is_seen_by_generated_queries_that_may(
    world: World, tmp_path: Path, method: dict[str, Any], seen: bool
) -> None:
    memory = RecordingMemory()
    ask(world, memory, CallCache(tmp_path), spec=make_spec(**method), questions=14)
    kinds = [question["question_type"] for question in world.questions]
    assert len(set(kinds)) == 7
    texts = [question["question"] for question in world.questions]
    expected = zip(texts, kinds if seen else [None] * 14, strict=True)
    assert sorted(map(repr, expected)) == sorted(repr((query.text, query.question_type)) for query in memory.asked)


def test_a_plugin_sees_no_type(world: World, tmp_path: Path) -> None:
    memory = RecordingMemory()
    spec = {"name": "own", "tier": "small", "shard": "0of1", "method": {"family": "plugin", "class": "a:B"}}
    ask(world, memory, CallCache(tmp_path), spec=spec)
    assert [query.question_type for query in memory.asked] == [None] * 3


def test_rows_hold_what_the_memory_returned(world: World, tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    rows = query_rows(
        world.memory(),
        world.questions,
        world.haystacks,
        make_spec(),
        DIGESTS,
        CallCache(tmp_path / "cache"),
        lambda number, total: done.append((number, total)),
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
        assert (row["query_origin"], row["waited_s"]) == ("question", 0.0)
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


def test_waits_stand_beside_the_latency_also_when_the_query_fails(world: World, tmp_path: Path, clock: Clock) -> None:
    class WaitingMemory(RecordingMemory):
        def query(self, query: MemoryQuery) -> MemoryContext:
            clock.now += 9.0
            account(9.0, 2.0, 7.0)
            return super().query(query)

    failing = [world.questions[1]["question"]]
    for replayed in (False, True):
        memory = WaitingMemory(clock, seconds=0.25, failing=failing)
        rows = ask(world, memory, CallCache(tmp_path))
        assert latencies(rows) == [(2.25, replayed), (0.0, False), (2.25, replayed)]
        assert [row["waited_s"] for row in rows] == [7.0] * 3


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


def test_a_memory_that_cannot_be_prepared_fails_the_question_and_is_prepared_again_for_the_next(
    world: World, tmp_path: Path, clock: Clock
) -> None:
    same = dict.fromkeys(world.haystacks, world.store.trajectory_ids[:2])
    memory = RecordingMemory(clock, seconds=0.25, unready=1)
    rows = ask(world, memory, CallCache(tmp_path), haystacks=same)
    assert [row["error"] for row in rows] == ["memory_error", None, None]
    assert rows[0]["error_detail"] == "api_error: 502"
    assert len(memory.prepared) == 2 and len(memory.asked) == 2
    assert latencies(rows) == [(0.0, False), (0.25, False), (0.25, False)]


def test_each_haystack_is_prepared_once_and_its_questions_are_asked_together(world: World, tmp_path: Path) -> None:
    one, other = world.store.trajectory_ids[:2], world.store.trajectory_ids[2:4]
    haystacks = {row["question_id"]: [one, other][number % 2] for number, row in enumerate(world.questions)}
    memory = RecordingMemory()
    rows = ask(world, memory, CallCache(tmp_path), questions=7, haystacks=haystacks)
    assert memory.prepared == [tuple(one), tuple(other)]
    assert [query.text for query in memory.asked] == [world.questions[n]["question"] for n in (0, 2, 4, 6, 1, 3, 5)]
    assert [row["question_id"] for row in rows] == [row["question_id"] for row in world.questions[:7]]
    assert [row["items"][0]["value"] for row in rows] == [f"about {row['question']}" for row in world.questions[:7]]


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
        {"controller": {"backend": "scripted", "model": "other"}},
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


def test_another_prompt_or_type_is_measured_anew(world: World, tmp_path: Path, clock: Clock) -> None:
    spec = make_spec(queries="generated", question_type=True)
    prompts = [prompt_digests({"query": Prompt("s", text)}) for text in ("one", "two", "one")]
    assert prompts[0] == prompts[2] != prompts[1]
    found = [
        latencies(ask(world, RecordingMemory(clock, seconds=seconds), CallCache(tmp_path), spec, digests))
        for seconds, digests in zip((0.25, 0.5, 0.75), prompts, strict=True)
    ]
    assert found == [[(0.25, False)] * 3, [(0.5, False)] * 3, [(0.25, True)] * 3]
    retyped = [question | {"question_type": f"{question['question_type']}x"} for question in world.questions[:3]]
    memory = RecordingMemory(clock, seconds=8.0)
    rows = query_rows(memory, retyped, world.haystacks, spec, prompts[0], CallCache(tmp_path), ignore)
    assert latencies(rows) == [(8.0, False)] * 3


def test_another_image_is_measured_anew(world: World, tmp_path: Path, clock: Clock) -> None:
    image = tmp_path / "question.png"
    question = world.questions[0] | {"image": str(image)}
    found = []
    for content, seconds in ((b"one", 0.25), (b"two", 7.0), (b"one", 9.0)):
        image.write_bytes(content)
        memory = RecordingMemory(clock, seconds=seconds)
        cache = CallCache(tmp_path / "cache")
        found += latencies(query_rows(memory, [question], world.haystacks, make_spec(), DIGESTS, cache, ignore))
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

    memory = open_memory(NONE_SPEC, world.tools(refuse))
    assert isinstance(memory, NoMemory)
    rows = ask(world, memory, CallCache(tmp_path), spec=NONE_SPEC, digests={})
    assert [(row["items"], row["queries"], row["latency_s"], row["replayed"]) for row in rows] == [
        ([], "{}", 0.0, False)
    ] * 3
    assert list(tmp_path.iterdir()) == []
    unasked = RecordingMemory(clock)
    rows = ask(world, unasked, CallCache(tmp_path), spec=NONE_SPEC)
    assert latencies(rows) == [(0.0, False)] * 3


def test_a_shard_without_questions_asks_nothing(world: World, tmp_path: Path) -> None:
    memory = RecordingMemory()
    assert ask(world, memory, CallCache(tmp_path), questions=0) == []
    assert (memory.asked, memory.prepared) == ([], [])


def test_a_lone_surrogate_anywhere_in_a_context_can_be_written(world: World, tmp_path: Path) -> None:
    class BrokenText(RecordingMemory):
        def query(self, query: MemoryQuery) -> MemoryContext:
            if query.text in self._failing:
                raise ModelCallError("api_error", "it said \udc00")
            return MemoryContext([ContextItem("text", "a\ud83d b", "t1", (0,))], {"raw_state": ["c\ud83d"]}, "model")

    memory = BrokenText(failing=[world.questions[1]["question"]])
    rows = ask(world, memory, CallCache(tmp_path / "cache"))
    write_rows(tmp_path / "contexts.parquet", CONTEXT, rows)
    assert list(read_rows(tmp_path / "contexts.parquet", CONTEXT)) == rows
    assert [item["value"] for row in rows for item in row["items"]] == ["a\ufffd b"] * 2
    assert json.loads(rows[0]["queries"]) == {"raw_state": ["c\ufffd"]}
    assert rows[1]["error_detail"] == "api_error: it said \ufffd"


def test_other_data_below_the_same_ids_are_measured_anew(world: World, tmp_path: Path, clock: Clock) -> None:
    spec = {"name": "own", "tier": "small", "shard": "0of1", "method": {"family": "plugin", "class": "a:B"}}
    found = []
    runs = [("f1", None), ("f2", None), ("f1", "g"), ("f1", "h"), ("f1", None), ("f1", "g")]
    for seconds, (fingerprint, changed) in enumerate(runs, start=1):
        manifest, goals = tmp_path / "manifest.json", tmp_path / "summary.json"
        manifest.write_text(json.dumps({"fingerprint": fingerprint}), encoding="utf-8")
        goals.write_text(json.dumps({"mode": "rules", "digest": changed}), encoding="utf-8")
        digests = data_digest(manifest, goals)
        memory = RecordingMemory(clock, seconds=seconds)
        found += latencies(ask(world, memory, CallCache(tmp_path / "cache"), spec, digests, questions=1))
    assert found == [(1.0, False), (2.0, False), (3.0, False), (4.0, False), (1.0, True), (3.0, True)]


# Shards


def test_questions_are_spread_by_id_or_by_haystack(world: World) -> None:
    lists = [["t1", "t2"], ["t2", "t1"], ["t1t2"]]
    haystacks = {row["question_id"]: lists[number % 3] for number, row in enumerate(world.questions)}
    for by_haystack in (False, True):
        shards = [questions_of_shard(world.questions, haystacks, name, by_haystack) for name in shard_names(5)]
        assert sorted(row["question_id"] for shard in shards for row in shard) == (
            sorted(row["question_id"] for row in world.questions)
        )
        for shard in shards:
            assert shard == [row for row in world.questions if row in shard]
        together = [{tuple(haystacks[row["question_id"]]) for row in shard} for shard in shards]
        assert (sum(map(len, together)) == 3) is by_haystack


def test_a_haystack_is_known_by_its_ids_in_order() -> None:
    digests = [haystack_digest(ids) for ids in (["a", "b"], ["b", "a"], ["ab"], ["a", "b", "c"])]
    assert len(set(digests)) == 4 and digests[0] == haystack_digest(("a", "b"))
