"""What answers and faults of a memory of the user's own become."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from dataroot import write_png
from plugin_world import STATES, Hooked, Made, Recorder, World, answering, fault, open_world, raising

from lmev2.memory.base import ContextItem, MemoryQuery
from lmev2.memory.plugin import PluginMemory
from lmev2.models.types import ModelCallError, ModelSetupError


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("plugins")) as opened:
        yield opened


@pytest.fixture
def made() -> Made:
    return Made()


def test_items_become_items_of_the_context(world: World, made: Made, tmp_path: Path) -> None:
    write_png(tmp_path / "shot.png", 3)
    name = world.web[1]
    answer = [
        {"type": "text", "value": " as it is \n", "score": 1, "else": None},
        {"type": "image", "value": str(tmp_path / "shot.png"), "trajectory_id": name, "states": [2, 0, 2]},
        {"type": "text", "value": "x", "trajectory_id": name, "states": []},
        {"type": "text", "value": "y", "trajectory_id": None, "states": None},
    ]
    context = made.memory(world, answering(answer)).query(MemoryQuery("?", None, world.web))
    assert context.items == [
        ContextItem("text", " as it is \n"),
        ContextItem("image", str(tmp_path / "shot.png"), name, (2, 0)),
        ContextItem("text", "x", name),
        ContextItem("text", "y"),
    ]
    assert (context.queries, context.query_origin) == ({}, None)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "Answering.query returned NoneType, expected a list of items"),
        ("text", "returned str, expected a list"),
        (iter([]), "returned list_iterator, expected a list"),
        (({"type": "text", "value": "x"},), "returned tuple, expected a list"),
        (["text"], "as item 0 'text', expected {"),
        ([{"type": "text", "value": "x"}, {"type": "video", "value": "x"}], "as item 1 {'type': 'video'"),
        ([{"type": ["text"], "value": "x"}], "as item 0 {'type': ['text']"),
        ([{"value": "x"}], "as item 0 {'value': 'x'}"),
        ([{"type": "text"}], "as item 0 the value None, expected a text"),
        ([{"type": "text", "value": 3}], "as item 0 the value 3"),
        ([{"type": "text", "value": b"x"}], "as item 0 the value b'x'"),
        ([{"type": "text", "value": " \n"}], "as item 0 the value ' \\n', expected a text that is not blank"),
        ([{"type": "image", "value": "a/b.png"}], "as item 0 the relative image path 'a/b.png'"),
        ([{"type": "image", "value": "/no/such.png"}], "as item 0 the image path '/no/such.png', but there is no"),
        ([{"type": "image", "value": "/"}], "as item 0 the image path '/', but there is no such file"),
        ([{"type": "text", "value": "x", "trajectory_id": "nobody"}], "the trajectory_id 'nobody', expected an id of"),
        ([{"type": "text", "value": "x", "trajectory_id": 7}], "the trajectory_id 7"),
        ([{"type": "text", "value": "x", "trajectory_id": ["a"]}], "the trajectory_id ['a']"),
        ([{"type": "text", "value": "x", "states": [0]}], "the states [0] without a trajectory_id"),
    ],
)
def test_a_malformed_answer_is_a_failed_memory(world: World, made: Made, answer: Any, message: str) -> None:
    memory = made.memory(world, answering(lambda _: answer))
    assert message in fault(memory, MemoryQuery("?", None, world.web))


@pytest.mark.parametrize("states", [[STATES], [-1], [True], ["0"], [0.0], (0,), 0, "0"])
def test_states_must_be_those_of_the_trajectory(world: World, made: Made, states: Any) -> None:
    answer = [{"type": "text", "value": "x", "trajectory_id": world.web[0], "states": states}]
    detail = fault(made.memory(world, answering(answer)), MemoryQuery("?", None, world.web))
    assert f"expected a list of indices from 0 to {STATES - 1}, the states of trajectory {world.web[0]}" in detail


def test_a_trajectory_outside_the_haystack_cannot_be_shown(world: World, made: Made) -> None:
    answer = [{"type": "text", "value": "x", "trajectory_id": world.web[2]}]
    assert "expected an id of the question's haystack" in (
        fault(made.memory(world, answering(answer)), MemoryQuery("?", None, world.web[:2]))
    )


def test_images_of_the_workspace_must_outlast_it(world: World, made: Made, tmp_path: Path) -> None:
    write_png(tmp_path / "shot.png", 3)

    def image(link: bool) -> Callable[[Any], Any]:
        def answer(memory: Any) -> list[dict[str, str]]:
            path = Path(memory.options["folder"], "made.png")
            path.symlink_to(tmp_path / "shot.png") if link else write_png(path, 9)
            return [{"type": "image", "value": str(path)}]

        return answer

    query = MemoryQuery("?", None, world.web)
    linked = made.memory(world, answering(image(link=True)), folder="{workspace}").query(query)
    assert [item.value for item in linked.items] == [str((tmp_path / "shot.png").resolve())]
    detail = fault(made.memory(world, answering(image(link=False)), folder="{workspace}"), query)
    assert "made.png' of its workspace, which is removed after the queries; keep it elsewhere" in detail


def test_the_questions_own_image_may_be_returned(world: World, made: Made) -> None:
    class Mirror(Hooked):
        def query(self, query: str, query_image: str | None = None) -> list[dict[str, Any]]:
            super().query(query, query_image)
            return [{"type": "image", "value": query_image}]

    number = next(number for number, question in enumerate(world.questions) if question["image"])
    memory = made.memory(world, Mirror)
    assert [item.value for item in memory.query(world.query(number)).items] == [str(world.query(number).image)]
    # The hook gets what the plugin returned, not the file that is named after the question.
    _, image, context = dict(made[0].calls)["post_query_hook"]
    assert context == [{"type": "image", "value": image}] and world.questions[number]["id"] not in image


# When it fails.


@pytest.mark.parametrize("method", ["query", "set_query_context", "post_query_hook", "clear_query_context"])
@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(0), MemoryError("full")])
def test_what_a_query_raises_is_a_failed_memory(
    world: World, made: Made, method: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    memory = made.memory(world, raising(error, method))
    with caplog.at_level(logging.WARNING):
        assert fault(memory, world.query()) == f"Raising.{method}: {type(error).__name__}: {error}"
    assert made[0].calls[-1][0] == "clear_query_context"
    assert any(record.exc_info and record.exc_info[1] is error for record in caplog.records)
    fault(memory, world.query(2))  # asked again, with the same instance if the haystack is the same
    assert [name for name, _ in made[-1].calls].count(method) >= 1


@pytest.mark.parametrize("method", ["insert", "configure_runtime"])
@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(0)])
def test_a_failed_insertion_is_remembered_for_its_haystack(
    world: World, made: Made, method: str, error: BaseException
) -> None:
    memory = made.memory(world, raising(error, method))
    query = MemoryQuery("?", None, world.web)
    details = []
    for _ in range(2):
        with pytest.raises(ModelCallError) as caught:
            memory.prepare(world.web)
        details += [caught.value.detail, fault(memory, query)]
    where = f" of trajectory {world.web[0]}" if method == "insert" else ""
    assert details == [f"Raising.{method}{where}: {type(error).__name__}: {error}"] * 4
    assert len(made) == 1
    fault(memory, MemoryQuery("?", None, world.web[:2]))
    assert len(made) == 2  # another haystack is tried
    assert "query" not in [name for name, _ in made[1].calls]


def test_a_haystack_that_failed_leaves_the_others_alone(world: World, made: Made) -> None:
    bad = world.web[2]

    class Picky(Recorder):
        def insert(self, trajectory: dict[str, Any]) -> None:
            super().insert(trajectory)
            if trajectory["id"] == bad:
                raise KeyError("what")

    memory = made.memory(world, Picky)
    good, failing = (MemoryQuery("?", None, haystack) for haystack in (world.web[:2], world.web))
    for query in (good, failing, failing, good):
        if query is good:
            assert len(memory.query(query).items) == 1
        else:
            assert fault(memory, query) == f"Picky.insert of trajectory {bad}: KeyError: 'what'"
    assert len(made) == 3  # good, failing once, good again: only the latest is kept


@pytest.mark.parametrize("method", ["query", "insert", "set_query_context", "post_query_hook"])
@pytest.mark.parametrize("error", [ModelCallError("length", "cut"), ModelSetupError("no key")])
def test_errors_of_models_pass_through(world: World, made: Made, method: str, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        made.memory(world, raising(error, method)).query(world.query())
    assert str(caught.value) == str(error)
    if method != "insert":
        assert made[0].calls[-1][0] == "clear_query_context"


@pytest.mark.parametrize("method", ["insert", "query"])
def test_an_interruption_stops_the_run(world: World, made: Made, method: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        made.memory(world, raising(KeyboardInterrupt(), method)).query(world.query())


def test_what_failed_first_is_reported(world: World, made: Made) -> None:
    class Twice(raising(ValueError("first"))):  # type: ignore[misc]
        def clear_query_context(self) -> None:
            raise ValueError("second")

    assert fault(made.memory(world, Twice), world.query()) == "Twice.query: ValueError: first"


def test_a_class_that_refuses_its_options_ends_the_job(world: World) -> None:
    class Strict(Recorder):
        def __init__(self, size: int) -> None:
            super().__init__()

    with pytest.raises(
        ModelSetupError, match=r"Strict could not be made with the options \['secret'\]: TypeError"
    ) as e:
        PluginMemory(Strict, {"secret": "s3cr3t"}, world.store).prepare(world.web)
    assert "s3cr3t" not in str(e.value)


# When it misbehaves.


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Nameless:
    def __repr__(self) -> str:
        raise RuntimeError("no name")


class Shout(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("method", ["query", "insert", "set_query_context", "configure_runtime"])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (asyncio.CancelledError("stop"), "CancelledError: stop"),
        (BaseException("odd"), "BaseException: odd"),
        (ValueError("half \ud800"), "ValueError: half \\ud800"),
        (Unspeakable(), "Unspeakable, whose text cannot be made (RuntimeError)"),
    ],
)
def test_no_exception_of_a_plugin_ends_the_job(
    world: World, made: Made, method: str, error: BaseException, said: str
) -> None:
    detail = fault(made.memory(world, raising(error, method)), world.query())
    assert detail.endswith(f": {said}") and detail.encode("utf-8")


def test_a_models_error_with_half_a_character_can_be_written(world: World, made: Made) -> None:
    with pytest.raises(ModelCallError) as caught:
        made.memory(world, raising(ModelCallError("length", "cut \ud800"))).query(world.query())
    assert (caught.value.kind, caught.value.detail) == ("length", "cut \\ud800")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([{"type": "text", "value": "half \ud800"}], "the value 'half \\ud800', which holds a lone surrogate"),
        ([{"type": "image", "value": "/half\ud800.png"}], "which holds a lone surrogate"),
        ([Nameless()], "as item 0 an object of Nameless whose repr raises RuntimeError, expected {"),
        ([{"type": "text", "value": Nameless()}], "the value an object of Nameless whose repr raises"),
        ([{"type": "image", "value": "/" + "a" * 5000}], "cannot be opened as an image (OSError"),
        ([{"type": "image", "value": __file__}], "cannot be opened as an image (UnidentifiedImageError"),
    ],
)
def test_no_answer_of_a_plugin_ends_the_job(world: World, made: Made, answer: Any, message: str) -> None:
    detail = fault(made.memory(world, answering(lambda _: answer)), MemoryQuery("?", None, world.web))
    assert message in detail and detail.encode("utf-8")


def test_an_item_that_fails_when_looked_at_is_a_failed_memory(world: World, made: Made) -> None:
    class Item(dict[str, str]):
        def get(self, *args: Any) -> Any:
            raise asyncio.CancelledError("looked")

    memory = made.memory(world, answering(lambda _: [Item()]))
    assert fault(memory, world.query()) == "Answering.query: CancelledError: looked"


def test_a_broken_picture_is_a_failed_memory(world: World, made: Made, tmp_path: Path) -> None:
    write_png(tmp_path / "cut.png", 3)
    whole = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[:40] + b"x" + whole[41:])
    memory = made.memory(world, answering(lambda _: [{"type": "image", "value": str(tmp_path / "cut.png")}]))
    assert "cannot be opened as an image" in fault(memory, MemoryQuery("?", None, world.web))


def test_a_subclass_of_str_becomes_a_plain_text(world: World, made: Made) -> None:
    memory = made.memory(world, answering(lambda _: [{"type": "text", "value": Shout("words")}]))
    value = memory.query(MemoryQuery("?", None, world.web)).items[0].value
    assert type(value) is str and value == "words"


@pytest.mark.parametrize("method", ["__init__", "insert", "query", "set_query_context", "clear_query_context"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_working_directory_stays(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, fails: bool
) -> None:
    def stray(self: Any, *args: Any, **kwargs: Any) -> Any:
        os.chdir(tmp_path / "elsewhere")
        if fails:
            raise ValueError("boom")
        return getattr(Hooked, method)(self, *args, **kwargs)

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with suppress(ModelCallError, ModelSetupError):
        PluginMemory(type("Stray", (Hooked,), {method: stray}), {}, world.store).query(world.query())
    assert Path.cwd() == tmp_path
