"""What a memory of the user's own is given, and how it is called."""

from __future__ import annotations

import errno
import gc
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugin_world import STATES, Hooked, Made, Recorder, World, fault, open_world

from lmev2.files import StorageError
from lmev2.memory.base import MemoryQuery
from lmev2.memory.plugin import PluginMemory, trajectory_object
from lmev2.memory.plugin_items import ItemError, context_items
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.scripted import ScriptedChat
from lmev2.models.stopwatch import account, collect
from lmev2.models.types import ChatRequest, Message, Sampling


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("plugins")) as opened:
        yield opened


@pytest.fixture
def made() -> Made:
    return Made()


def test_a_trajectory_is_the_official_object(world: World, made: Made) -> None:
    memory = made.memory(world)
    memory.prepare(world.web)
    inserted = [value for name, value in made[0].calls if name == "insert"]
    for trajectory, name in zip(inserted, world.web, strict=True):
        official = json.loads(json.dumps(world.runs[name]))
        for state in official["states"]:
            state["screenshot"] = str(world.root / state["screenshot"])
        assert trajectory == official
        assert all(Path(state["screenshot"]).is_file() for state in trajectory["states"])
    assert inserted[0]["states"][0]["action"] is None
    assert inserted[0]["states"][1]["action"] == "click('a0')"  # raw, on the state that it led to


def test_a_state_without_screenshot_has_none(world: World) -> None:
    trajectory = world.store.trajectory(world.web[0])
    bare = type(trajectory)(
        **{one.name: getattr(trajectory, one.name) for one in fields(trajectory)}
        | {
            "states": tuple(
                type(state)(**{one.name: getattr(state, one.name) for one in fields(state)} | {"screenshot": None})
                for state in trajectory.states
            )
        }
    )
    assert [state["screenshot"] for state in trajectory_object(bare)["states"]] == [None] * STATES


def test_insertion_follows_the_haystacks_order(world: World, made: Made) -> None:
    memory = made.memory(world)
    for haystack in (world.web, world.web[::-1]):
        memory.prepare(haystack)
        assert tuple(value["id"] for name, value in made[-1].calls if name == "insert") == haystack
    assert len(made) == 2  # the order belongs to the haystack


def test_a_plugin_may_change_what_it_gets(world: World, made: Made) -> None:
    class Greedy(Recorder):
        def insert(self, trajectory: dict[str, Any]) -> None:
            super().insert(json.loads(json.dumps(trajectory)))
            trajectory["states"].clear()
            trajectory.clear()
            self.options["seen"].append(1)

    memory = made.memory(world, Greedy, seen=[])
    memory.prepare(world.web)
    memory.prepare(world.web[:1])
    first, second = made
    assert second.calls[0] == first.calls[0] and second.calls[0][1]["states"]
    assert (first.options, second.options) == ({"seen": [1, 1, 1]}, {"seen": [1]})


def test_one_instance_per_haystack_whatever_is_called(world: World, made: Made) -> None:
    memory = made.memory(world)
    memory.prepare(world.web)
    memory.prepare(world.web)
    query = MemoryQuery("what?", None, world.web)
    assert [item.value for item in memory.query(query).items] == ["about what?"]
    memory.query(query)
    assert len(made) == 1
    memory.query(MemoryQuery("what?", None, world.web[:2]))  # unprepared
    assert [len([name for name, _ in one.calls if name == "insert"]) for one in made] == [3, 2]


def test_the_old_instance_is_gone_before_the_next_is_made(world: World) -> None:
    alive: list[weakref.ref[Any]] = []
    counts = []

    class Counting(Recorder):
        def __init__(self) -> None:
            super().__init__()
            counts.append(sum(reference() is not None for reference in alive))
            alive.append(weakref.ref(self))
            self.circle = self

    memory = PluginMemory(Counting, {}, world.store)
    gc.disable()
    try:
        for haystack in (world.web, world.web[:2], world.web[:1]):
            memory.prepare(haystack)
    finally:
        gc.enable()
    assert counts == [0, 0, 0]


def test_text_and_image_reach_the_query(world: World, made: Made) -> None:
    seen: list[bytes] = []

    class Looking(Recorder):
        def query(self, query: str, query_image: str | None = None) -> list[dict[str, Any]]:
            seen.append(Path(query_image).read_bytes() if query_image else b"")
            return super().query(query, query_image)

    memory = made.memory(world, Looking)
    for number, question in enumerate(world.questions):
        memory.query(world.query(number))
        text, image = made[-1].calls[-1][1]
        assert text == question["question"]
        assert (image is None) == (question["image"] is None)
        assert image is None or Path(image).is_absolute()
    assert seen == [
        (world.root / question["image"]).read_bytes() if question["image"] else b"" for question in world.questions
    ]
    assert any(seen)


def test_nothing_of_a_question_but_text_image_and_haystack_reaches_a_plugin(world: World, made: Made) -> None:
    memory = made.memory(world, Hooked)
    haystacks = {name for names in world.haystacks.values() for name in names}
    for number, question in enumerate(world.questions):
        query = world.query(number)
        # Even if the type stood in the query, as it does for generated queries.
        memory.query(MemoryQuery(query.text, query.image, query.haystack, question["question_type"]))
        asked = [call for call in made[-1].calls if call[0] not in ("insert", "configure_runtime")][-4:]
        assert [name for name, _ in asked] == ["set_query_context", "query", "post_query_hook", "clear_query_context"]
        told = repr(asked).replace(repr(question["question"])[1:-1], "TEXT")
        for secret in (question["id"], question["question_type"], question["eval_function"].split("|")[0]):
            assert secret not in told
        assert len(question["answer"]) < 3 or question["answer"] not in told
        hints = asked[0][1]
        assert set(hints) == {
            "query_invocation_id",
            "question_id",
            "question_type",
            "question_item",
            "haystack",
        }
        assert hints["question_id"] == hints["query_invocation_id"] and hints["question_type"] is None
        assert set(hints["question_item"]) == {"question"} and set(hints["haystack"]) <= haystacks
    everything = repr([one.calls for one in made])
    assert not [question["id"] for question in world.questions if question["id"] in everything]


def test_invocations_differ_also_for_the_same_question(world: World, made: Made) -> None:
    memory = made.memory(world, Hooked)
    for _ in range(3):
        memory.query(world.query())
    names = [hints["query_invocation_id"] for name, hints in made[0].calls if name == "set_query_context"]
    assert len(set(names)) == 3


def test_a_question_item_has_the_official_shape(world: World, made: Made) -> None:
    memory = made.memory(world, Hooked)
    pictured = next(number for number, question in enumerate(world.questions) if question["image"])
    for number in (0, pictured):
        memory.query(world.query(number))
        calls = dict(made[-1].calls)
        text, image = calls["query"]
        expected = {"text": text, "image": image} if image else text
        assert calls["set_query_context"]["question_item"] == {"question": expected}


def test_each_instance_has_a_workspace_of_its_own(world: World, made: Made) -> None:
    options = {"params": {"workspace_dir": "{workspace}/store", "list": ["a {workspace} b", 1]}, "plain": "x"}
    memory = made.memory(world, Hooked, **options)
    memory.prepare(world.web)
    memory.prepare(world.web[:1])
    first, second = (Path(one.options["params"]["workspace_dir"]).parent for one in made)
    assert first != second and second.is_dir() and not first.exists()
    assert made[1].options == {
        "params": {"workspace_dir": f"{second}/store", "list": [f"a {second} b", 1]},
        "plain": "x",
    }
    assert options["params"] == {"workspace_dir": "{workspace}/store", "list": ["a {workspace} b", 1]}
    runtime = dict(made[1].calls)["configure_runtime"]
    assert runtime["query_trace_dir"].parent == second
    assert (runtime["generation_temperature"], runtime["generation_top_p"]) == (None, None)
    assert isinstance(runtime["cancel_event"], threading.Event) and not runtime["cancel_event"].is_set()
    assert [name for name, _ in made[1].calls] == ["configure_runtime", "insert"]


# How it is called.


def test_hooks_are_called_around_the_query(world: World, made: Made) -> None:
    memory = made.memory(world, Hooked)
    memory.query(world.query())
    calls = [name for name, _ in made[0].calls]
    inserts = ["insert"] * len(world.query().haystack)
    assert calls == (
        ["configure_runtime", *inserts, "set_query_context", "query", "post_query_hook", "clear_query_context"]
    )
    text, image, context = dict(made[0].calls)["post_query_hook"]
    assert (text, image) == (world.query().text, None)
    assert context == [{"type": "text", "value": f"about {text}"}]


def test_hooks_get_the_arguments_that_they_take(world: World, made: Made) -> None:
    class Modest(Recorder):
        def configure_runtime(self) -> None:
            self.calls.append(("configure_runtime", ()))

        def set_query_context(self, query_invocation_id: str) -> None:
            self.calls.append(("set_query_context", query_invocation_id))

        def post_query_hook(self, memory_context: list[Any], *, extra: int = 7) -> None:
            self.calls.append(("post_query_hook", (memory_context, extra)))

    memory = made.memory(world, Modest)
    memory.query(world.query())
    calls = dict(made[0].calls)
    assert calls["configure_runtime"] == () and len(calls["set_query_context"]) == 32
    assert calls["post_query_hook"] == ([{"type": "text", "value": f"about {world.query().text}"}], 7)


@pytest.mark.parametrize(
    "query",
    [
        lambda self, query, query_image=None: self.note(query, query_image),
        lambda self, query, *, query_image: self.note(query, query_image),
        lambda self, query, k=5, query_image=None: self.note(query, query_image) if k == 5 else None,
        lambda self, text, image: self.note(text, image),
        lambda self, text, image=None, **more: self.note(text, image),
        lambda self, text, /, **more: self.note(text, more["query_image"]),
        lambda self, *args, **more: self.note(args[0], more["query_image"]),
    ],
)
def test_signatures_of_query(world: World, made: Made, query: Callable[..., Any]) -> None:
    def note(self: Recorder, text: str, image: str | None) -> list[Any]:
        self.calls.append(("asked", (text, image and Path(image).suffix)))
        return []

    memory = made.memory(world, type("Shaped", (Recorder,), {"query": query, "note": note}))
    pictured = next(number for number, question in enumerate(world.questions) if question["image"])
    assert memory.query(world.query(pictured)).items == []
    assert made[0].calls[-1] == ("asked", (world.query(pictured).text, ".png"))


def test_a_query_that_takes_no_image_is_a_failed_memory(world: World, made: Made) -> None:
    class Blind(Recorder):
        def query(self, query: str) -> list[Any]:  # type: ignore[override]
            return []

    assert "Blind.query: TypeError" in fault(made.memory(world, Blind), world.query())


def test_only_the_query_counts_as_latency(world: World, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def slow(seconds: float) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
            now[0] += seconds
            return []

        return call

    class Replaying(Recorder):
        def query(self, query: str, query_image: str | None = None) -> list[Any]:
            now[0] += 0.25
            account(0.125, 4.0)  # of which an eighth stands for a call that once took four seconds
            return []

    hooks = {name: slow(100.0) for name in ("insert", "configure_runtime", "set_query_context", "clear_query_context")}
    kind = type("Slow", (Replaying,), hooks | {"post_query_hook": slow(100.0)})
    memory = made.memory(world, kind)
    for _ in range(2):
        with collect() as ledger:
            memory.query(world.query())
        assert ledger.honest_s == pytest.approx(4.125)
    assert now[0] > 600


@pytest.mark.parametrize(
    "item",
    [
        {"type": np.array(["text", "image"]), "value": "x"},
        {"type": ["text"], "value": "x"},
        {"type": "text", "value": "x", "trajectory_id": "t", "states": np.array([0, 1])},
    ],
)
def test_arrays_in_an_item_are_named(item: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ItemError, match="as item 0"):
        context_items([item], {"t": 2}, tmp_path, {})


@pytest.mark.parametrize("method", ["__init__", "insert", "query", "set_query_context", "post_query_hook"])
def test_a_full_disk_of_the_call_cache_is_no_fault_of_the_memory(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("lmev2.models.cache.write_atomically", full)
    backend = ScriptedChat(lambda request: "reply")
    chat = CachedChat(backend, CallCache(tmp_path))

    def asks(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
        chat.complete(ChatRequest((Message.text("user", "Where?"),), Sampling(max_tokens=10), "memory"))
        return []

    memory = PluginMemory(type("Asking", (Hooked,), {method: asks}), {}, world.store)
    for _ in range(2):  # nor is it remembered as one
        with pytest.raises(StorageError, match=r"cannot write to the call cache .*No space left"):
            memory.query(world.query())
    assert len(backend.calls) == 1
