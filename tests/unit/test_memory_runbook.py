"""AgentRunbook-R's memory over a small real index: three pools, generated queries, choice among results."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from memoryworld import World, ignore, make_embedder, make_spec, nearest, open_world, query_of, texts_of

from lmev2.index import Hit
from lmev2.memory.base import MemoryContext, MemoryQuery
from lmev2.memory.families import Controller, open_memory
from lmev2.memory.merge import merge_hits
from lmev2.memory.queries import QueryBundle, make_bundle
from lmev2.memory.query import query_rows
from lmev2.memory.query_rules import RuleQueries
from lmev2.memory.rag import RagMemory
from lmev2.memory.search import PoolSearch
from lmev2.memory.settings import RagMethod, RenderSettings, SearchSettings
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.scripted import Rule, ScriptedChat, last_user_text
from lmev2.models.settings import ControllerSettings
from lmev2.models.types import ChatRequest, ModelSetupError
from lmev2.pools.raw_state import embedded_text, raw_state_entries
from lmev2.prompts import load_prompt
from lmev2.rows import CONTEXT, read_rows, write_rows

PROMPTS = {
    name: load_prompt(Path(__file__).resolve().parents[2] / "workflow" / "prompts" / f"{name}.md")
    for name in ("query", "rerank")
}
SETTINGS = ControllerSettings(backend="scripted", model="scripted", script="none")
ALL = ["note", "event", "raw_state"]
RAW = ("Page 1 of run 0", "Record 2 code", "Next page 3")
FULL = RenderSettings(mode="full")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("world")) as found:
        yield found


class Fixed:
    """Writes the queries that it is given."""

    def __init__(self, raw: Sequence[str] = RAW, event: str = "note page changed", note: str = "code record"):
        self.bundle = make_bundle(raw, event, note, "model")
        self.prepared: list[tuple[str, ...]] = []

    def prepare(self, haystack: tuple[str, ...]) -> None:
        self.prepared.append(haystack)

    def write(self, query: MemoryQuery) -> QueryBundle:
        return self.bundle


class Recording(PoolSearch):
    """Remembers what was searched."""

    def __init__(self, world: World):
        super().__init__(world.indexes, make_embedder(), SearchSettings())
        self.searched: list[tuple[str, str, int]] = []

    def search(self, table: str, text: str, haystack: Sequence[str], k: int) -> list[Hit]:
        self.searched.append((table, text, k))
        return super().search(table, text, haystack, k)


def make_method(**method: Any) -> RagMethod:
    row = {"family": "rag", "label": "R", "pools": ALL, "queries": "generated"}
    return RagMethod.model_validate(row | method)


def memory_with(world: World, writer: Any, render: RenderSettings = FULL, **method: Any) -> tuple[RagMemory, Recording]:
    searcher = Recording(world)
    return RagMemory(make_method(**method), render, searcher, world.store, writer), searcher


def headings(context: MemoryContext) -> list[str]:
    return [
        match for item in context.items if item.type == "text" for match in re.findall(r"^##+ .*", item.value, re.M)
    ]


@pytest.mark.parametrize("pools", [ALL, ALL[::-1], ["event", "raw_state"], ["note", "event"], ["event"]])
def test_notes_then_events_then_slices(world: World, pools: list[str]) -> None:
    memory, _ = memory_with(world, Fixed(), pools=pools)
    context = memory.query(query_of(world))
    tables = {"note": ["procedure_note", "hint_note"], "event": ["event"], "raw_state": ["raw_state"]}
    order = [table for pool in ALL if pool in pools for table in tables[pool]]
    texts = [item for item in context.items if item.type == "text"]
    assert list(dict.fromkeys(item.pool for item in context.items)) == order
    assert [item.pool for item in texts] == sorted((item.pool for item in texts), key=order.index)  # type: ignore[arg-type]
    sections = [line for line in headings(context) if not line.startswith("###")]
    titles = {"note": "Procedure and hint notes", "event": "State-transition events", "raw_state": "Raw state slices"}
    assert sections == [f"## {titles[pool]}" for pool in ALL if pool in pools]
    for item in texts:
        (line,) = re.findall(r"^### .*", item.value, re.M)
        assert f"(similarity {item.score:.3f}, trajectory {item.trajectory_id}" in line
    numbers = [int(re.findall(r"^### \D*(\d+) \(", item.value, re.M)[0]) for item in texts]
    assert numbers == [n for table in order for n in range(1, 1 + sum(item.pool == table for item in texts))]
    assert context.query_origin == "model"
    expected = {"raw_state": list(RAW), "event": ["note page changed"], "note": ["code record"]}
    assert context.queries == {pool: expected[pool] for pool in pools}


@pytest.mark.parametrize(
    ("raw", "event", "note", "searched"),
    [
        (
            ["a", "b"],
            "e",
            "n",
            [("procedure_note", "n", 3), ("hint_note", "n", 3), ("event", "e", 6), ("raw_state", "a", 6), ("raw_state", "b", 6)],
        ),
        ([], "e", "", [("event", "e", 6)]),
        (["a"], "", "", [("raw_state", "a", 6)]),
        ([], "", "n", [("procedure_note", "n", 3), ("hint_note", "n", 3)]),
        ([], "", "", []),
    ],
)  # fmt: skip
def test_each_query_searches_its_own_pool_and_an_empty_one_none(
    world: World, raw: list[str], event: str, note: str, searched: list[tuple[str, str, int]]
) -> None:
    memory, searcher = memory_with(world, Fixed(raw, event, note))
    context = memory.query(query_of(world))
    assert searcher.searched == searched
    assert bool(context.items) == bool(searched)


def test_events_are_the_nearest_with_both_screenshots(world: World) -> None:
    memory, _ = memory_with(world, Fixed(), pools=["event"], top_k={"event": 4})
    query = query_of(world)
    context = memory.query(query)
    texts = {
        (name, entry["first_state"]): entry["text"]
        for name in query.haystack
        for entry in world.events
        if entry["trajectory_id"] == name
    }
    expected = nearest(texts, "note page changed", 4)
    found = [(item.type, item.trajectory_id, item.states) for item in context.items]
    assert found == [
        one
        for name, pre in expected
        for one in (("text", name, ()), ("image", name, (pre,)), ("image", name, (pre + 1,)))
    ]
    for item in context.items:
        if item.type == "image":
            assert item.value == str(world.store.trajectory(str(item.trajectory_id)).states[item.states[0]].screenshot)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_raw_results_are_merged_and_name_the_query_that_found_them(world: World, count: int) -> None:
    memory, _ = memory_with(world, Fixed(RAW[:count]), pools=["raw_state"])
    query = query_of(world)
    context = memory.query(query)
    slices = {
        (name, entry["center_state"]): embedded_text(
            world.store.states(name, entry["first_state"], entry["last_state"])
        )
        for name in query.haystack
        for entry in raw_state_entries(world.store.trajectory(name), 1)
    }
    ranked = [[Hit(str(key), *key, 0, 0, {}, 0.0) for key in nearest(slices, text, 6)] for text in RAW[:count]]  # type: ignore[call-arg]
    expected = [(RAW[number], (hit.trajectory_id, hit.first_state)) for number, hit in merge_hits(ranked, 6)]
    shown = [re.findall(r"^Query: (.*)$", item.value, re.M)[0] for item in texts_of(context, "raw_state")]
    images = [(item.trajectory_id, item.states[0]) for item in context.items if item.type == "image"]
    assert list(zip(shown, images, strict=True)) == expected
    assert len(expected) == 6


def test_focused_rendering_looks_at_the_question_not_at_the_queries(world: World) -> None:
    render = RenderSettings(mode="focused", slice_chars=300, note_chars=200, event_chars=100)
    question = dataclasses.replace(query_of(world), text="Which `Note` fields are there?")
    writer = Fixed(["Code heading link", "Record"], "Record heading", "Code link")
    context = memory_with(world, writer, render)[0].query(question)
    text = "\n".join(item.value for item in context.items if item.type == "text")
    assert "textbox 'Note " in text and "StaticText 'Code" not in text
    assert "Query:" not in text and "Overview:" not in text


def test_a_focused_context_shows_no_screenshot_twice_a_full_one_as_often_as_it_is_due(world: World) -> None:
    for mode in ("focused", "full"):
        context = memory_with(world, Fixed(), RenderSettings(mode=mode))[0].query(query_of(world))  # type: ignore[arg-type]
        images = [item.value for item in context.items if item.type == "image"]
        events = len(texts_of(context, "event"))
        slices = len(texts_of(context, "raw_state"))
        assert (len(images) == len(set(images))) is (mode == "focused")
        assert (len(images) == 2 * events + slices) is (mode == "full")


def test_preparing_makes_the_writer_ready_and_searches_each_table_once(world: World) -> None:
    writer = Fixed()
    memory, searcher = memory_with(world, writer)
    memory.prepare(("a",))
    memory.prepare(("b",))
    assert writer.prepared == [("a",), ("b",)]
    assert [table for table, _, _ in searcher.searched] == ["procedure_note", "hint_note", "event", "raw_state"]


# From the settings


def spec_of(**method: Any) -> dict[str, Any]:
    return make_spec(pools=ALL, queries="generated", question_type=True, **method)


def reply(raw: list[str], event: str = "", note: str = "") -> str:
    return json.dumps({"raw_state_queries": raw, "event_query": event, "note_query": note})


def model_memory(world: World, chat: Any, **method: Any) -> RagMemory:
    tools = world.tools(controller=lambda: Controller(chat, SETTINGS, PROMPTS))
    memory = open_memory(spec_of(**method), tools)
    assert isinstance(memory, RagMemory)
    return memory


def test_without_a_model_the_rules_write(world: World) -> None:
    context = world.memory(pools=ALL, queries="generated").query(query_of(world))
    bundle = RuleQueries().write(query_of(world))
    assert context.queries == {pool: list(bundle.of_pool(pool)) for pool in ALL}  # type: ignore[arg-type]
    assert context.query_origin == "rules"
    assert "\\boxed" not in json.dumps(context.queries)


def test_the_models_queries_are_searched(world: World) -> None:
    chat = ScriptedChat([Rule(reply(["Record 2 code"], "", "code record"), regex=".")])
    context = model_memory(world, chat).query(query_of(world))
    assert context.queries == {"raw_state": ["Record 2 code"], "event": [], "note": ["code record"]}
    assert (context.query_origin, len(chat.calls)) == ("model", 1)


def test_reranking_takes_a_model(world: World) -> None:
    with pytest.raises(ModelSetupError, match="method 'rag' reranks, which takes a model, but the controller is rules"):
        open_memory(make_spec(rerank={}), world.tools(controller=lambda: None))


def test_each_block_is_reranked(world: World) -> None:
    def answer(request: ChatRequest) -> str:
        asked = last_user_text(request)
        if "Memory pool summary" in asked:
            return reply(list(RAW), "note page changed", "code record")
        return '{"keep": [2, 1], "reason": "They do."}'

    plain = model_memory(world, ScriptedChat(answer), top_k={"raw_state": 6, "event": 6, "note": 3})
    chat = ScriptedChat(answer)
    picky = model_memory(world, chat, top_k={"raw_state": 6, "event": 6, "note": 3}, rerank={"candidates": 4})
    before, after = plain.query(query_of(world)), picky.query(query_of(world))
    for table in ("procedure_note", "hint_note", "event", "raw_state"):
        scores = [(item.trajectory_id, item.score) for item in texts_of(before, table)]
        assert [(item.trajectory_id, item.score) for item in texts_of(after, table)] == [scores[1], scores[0]]
    blocks = [last_user_text(request) for request in chat.calls[1:]]
    titles = [re.findall(r"^Candidates \((.*)\):$", text, re.M)[0] for text in blocks]
    assert titles == ["procedure notes", "hint notes", "state-transition events", "raw state slices"]
    assert [len(re.findall(r"^\[\d+\] ", text, re.M)) for text in blocks] == [3, 3, 4, 4]
    assert "[1] Page: Page " in blocks[3]
    assert (before.rerank_origin, after.rerank_origin) == (None, "model")


def test_the_worst_choice_of_a_context_is_told(world: World, tmp_path: Path) -> None:
    def answer(request: ChatRequest) -> str:
        asked = last_user_text(request)
        if "Memory pool summary" in asked:
            return reply(list(RAW), "note page changed", "code record")
        return "none" if "(hint notes)" in asked else '{"keep": [1], "reason": "It does."}'

    memory = model_memory(world, ScriptedChat(answer), rerank={})
    assert memory.query(query_of(world)).rerank_origin == "repaired"
    rows = query_rows(memory, world.questions[:1], world.haystacks, spec_of(rerank={}), {}, CallCache(tmp_path), ignore)
    assert [row["rerank_origin"] for row in rows] == ["repaired"]


def test_no_prompt_holds_more_than_the_question_its_type_and_its_haystacks_memory(world: World, tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: ChatRequest) -> str:
        asked.extend(part.text for message in request.messages for part in message.parts)  # type: ignore[union-attr]
        if "Memory pool summary" in asked[-1]:
            return reply(list(RAW), "note page changed", "code record")
        return '{"keep": [1], "reason": "It does."}'

    secret = [
        question | {"answer": f"gold-{number}-gold", "eval_function": f"secret_scorer_{number}"}
        for number, question in enumerate(world.questions)
    ]
    memory = model_memory(world, ScriptedChat(answer), rerank={})
    rows = query_rows(memory, secret, world.haystacks, spec_of(rerank={}), {}, CallCache(tmp_path), ignore)
    text = "\n".join(asked)
    assert all(question["question"] in text for question in secret) and "Question type: procedure-abs." in text
    for question in secret:
        for hidden in ("question_id", "answer", "eval_function"):
            assert question[hidden] not in text
    assert "question_screenshots" not in text
    for row in rows:
        assert {item["trajectory_id"] for item in row["items"]} <= set(world.haystacks[row["question_id"]])
    write_rows(tmp_path / "contexts.parquet", CONTEXT, rows)
    assert list(read_rows(tmp_path / "contexts.parquet", CONTEXT)) == rows
    assert {row["query_origin"] for row in rows} == {"model"}


def test_a_repeated_run_makes_no_request_and_the_same_rows(world: World, tmp_path: Path) -> None:
    refusals = [Rule("nor this", match="could not be used"), Rule("not this", match="run0")]
    chat = ScriptedChat([*refusals, Rule(reply(["Record"], "page", "code"), regex=".")])
    cache = CallCache(tmp_path)
    runs = []
    for _ in range(2):
        memory = model_memory(world, CachedChat(chat, cache))
        rows = query_rows(memory, world.questions, world.haystacks, spec_of(), {}, cache, ignore)
        runs.append(([row | {"replayed": None} for row in rows], len(chat.calls)))
    assert runs[0] == runs[1]
    assert {row["query_origin"] for row in runs[0][0]} == {"model", "fallback"}


def test_without_the_controllers_api_the_question_is_an_error_row(world: World, tmp_path: Path) -> None:
    memory = model_memory(world, ScriptedChat([Rule("503", regex=".", error="api_error")]))
    rows = query_rows(memory, world.questions[:2], world.haystacks, spec_of(), {}, CallCache(tmp_path), ignore)
    assert [(row["error"], row["error_detail"], row["items"]) for row in rows] == [
        ("memory_error", "api_error: 503", [])
    ] * 2
