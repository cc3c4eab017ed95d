"""Notes and events by a model: requests, stated paths from a useless reply to an entry, and calls without a reply."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lmev2.actions import annotate_actions
from lmev2.data.store import StateStore
from lmev2.failures import TooManyErrors
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.json_reply import JsonReplyError, parse_json_object
from lmev2.models.openai_backend import parse_completion
from lmev2.models.retry import PassingFault
from lmev2.models.scripted import ScriptedChat, last_user_text
from lmev2.models.settings import ControllerSettings, ImageTokenSettings
from lmev2.models.types import ChatBackend, ChatReply, ChatRequest, ImagePart, ModelCallError
from lmev2.pools.controller import IMAGE_LEFT_OUT, Controller
from lmev2.pools.event import build_events
from lmev2.pools.event_jobs import event_entries
from lmev2.pools.event_model import event_schema
from lmev2.pools.note import build_notes
from lmev2.pools.note_jobs import note_entries
from lmev2.pools.note_model import note_schema
from lmev2.pools.settings import EventSettings, NoteSettings
from lmev2.prompts import load_prompt
from lmev2.rows import POOL_ENTRY, write_rows
from lmev2.trajectory import State, Trajectory

PROMPTS = Path(__file__).resolve().parents[2] / "workflow" / "prompts"
EVENT = {"overview": "Ordering a mug: the cart.", "state_transition": "The cart now shows 2 mugs."}
NOTE = {"title": "Order a mug", "description": "How mugs are ordered.", "content": "- Open the cart\n- Press Order"}
NOTES = {"procedure_note": NOTE, "hint_note": {**NOTE, "title": "Hints on mugs"}}
FENCED = "Here it is:\n```json\n{}\n```\nDone."
REPAIR = "Your last reply could not be used"

Answer = Callable[[ChatRequest], str | ChatReply]
Names = Sequence[str]


def trajectory(name: str, states: int, tree_lines: int = 1) -> Trajectory:
    """Each state's tree has its own long list; only every second state has a screenshot."""
    trees = [
        f"RootWebArea 'Page {k} of {name}'\n" + "\n".join(f"\t[{n}] button 'B{k}-{n}'" for n in range(tree_lines))
        for k in range(states)
    ]
    actions = [None, *(f"click('0') # to {k}" for k in range(1, states))]
    annotated = annotate_actions(actions, trees)
    rows = [
        State(name, k, k, f"http://h/{k}", actions[k], annotated[k], f"thought to {k}" if k else None, trees[k], None)
        for k in range(states)
    ]
    return Trajectory(name, "web", "shop", f"Goal of {name}", "success", "http://h/", tuple(rows))


def with_screenshots(run: Trajectory, folder: Path, indices: Sequence[int]) -> Trajectory:
    states = list(run.states)
    for index in indices:
        path = folder / f"{run.trajectory_id}-{index}.png"
        path.write_bytes(b"image " + path.name.encode())
        states[index] = replace(states[index], screenshot=path)
    return replace(run, states=tuple(states))


class Runs:
    """Trajectories by id, as a store gives them."""

    def __init__(self, *runs: Trajectory) -> None:
        self.runs = {run.trajectory_id: run for run in runs}

    def trajectory(self, name: str) -> Trajectory:
        return self.runs[name]


class World:
    """A pool's job over some trajectories."""

    def __init__(self, pool: str, answer: Answer, *runs: Trajectory, images: bool = False, **role: Any) -> None:
        self.pool = pool
        self.chat = ScriptedChat(answer, images=ImageTokenSettings() if images else None)
        self.settings = ControllerSettings(backend="scripted", **{"concurrency": 2, **role})
        self.store = cast(StateStore, Runs(*runs))
        self.names = [run.trajectory_id for run in runs]
        self.reports: list[tuple[int, int]] = []

    def entries(self, chat: ChatBackend | None = None, allow: int = 0, **sizes: int) -> list[dict[str, Any]]:
        prompt = load_prompt(PROMPTS / f"{self.pool}.md")
        controller = Controller(chat or self.chat, self.settings, prompt, allow, f"generate_{self.pool}/0of1")
        report = lambda done, total: self.reports.append((done, total))  # noqa: E731
        if self.pool == "event":
            return event_entries(self.names, self.store, controller, EventSettings(**sizes), report)
        return note_entries(self.names, self.store, controller, NoteSettings(**sizes), report)

    @property
    def thinking(self) -> list[bool | None]:
        return [request.thinking for request in self.chat.calls]


GOOD = {"event": json.dumps(EVENT), "note": json.dumps(NOTES)}
POOLS = pytest.mark.parametrize("pool", ["event", "note"])


def by_rules(world: World) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in world.names:
        run = world.store.trajectory(name)
        rows += build_events(run, EventSettings()) if world.pool == "event" else build_notes(run, NoteSettings())
    return rows


def is_fallback(world: World, rows: list[dict[str, Any]], *said: str) -> None:
    """Rows that hold what the rules say, and why."""
    for row, rule in zip(rows, by_rules(world), strict=True):
        assert row["origin"] == "fallback"
        assert all(part in row["origin_detail"] for part in said), row["origin_detail"]
        assert {**row, "origin": "rules", "origin_detail": None} == rule


# What a good reply becomes


def test_events_of_a_model(tmp_path: Path) -> None:
    world = World("event", lambda _: GOOD["event"], trajectory("a", 3), trajectory("one", 1), trajectory("b", 2))
    rows = world.entries()
    assert write_rows(tmp_path / "events.parquet", POOL_ENTRY, rows) == 3
    ids = ["event/a/event_0000_0001", "event/a/event_0001_0002", "event/b/event_0000_0001"]
    assert [row["entry_id"] for row in rows] == ids
    assert len(world.chat.calls) == 3
    assert sorted(world.reports) == [(1, 3), (2, 3), (3, 3)]
    for row in rows:
        assert (row["origin"], row["origin_detail"], row["images_left_out"]) == ("model", None, 0)
        assert row["text"] == f"{EVENT['overview']}\n\n{EVENT['state_transition']}"
    payload = json.loads(rows[1]["payload"])
    assert payload == {"event_id": "event_0001_0002", **EVENT, "action": "click('0') # to 2 -> [0] button 'B1-0'"}


def test_notes_of_a_model(tmp_path: Path) -> None:
    world = World("note", lambda _: GOOD["note"], trajectory("a", 3), trajectory("one", 1))
    rows = world.entries()
    assert write_rows(tmp_path / "notes.parquet", POOL_ENTRY, rows) == 4
    assert [row["entry_id"] for row in rows] == [
        "procedure_note/a",
        "hint_note/a",
        "procedure_note/one",
        "hint_note/one",
    ]
    assert len(world.chat.calls) == 2
    assert {(row["origin"], row["origin_detail"]) for row in rows} == {("model", None)}
    assert json.loads(rows[0]["payload"]) == NOTE
    assert rows[1]["text"] == f"Hints on mugs\n\n{NOTE['description']}\n\n{NOTE['content']}"
    assert (rows[0]["first_state"], rows[0]["last_state"], rows[0]["center_state"]) == (0, 2, 0)


@POOLS
def test_no_trajectories_make_no_rows_and_no_calls(pool: str) -> None:
    world = World(pool, lambda _: GOOD[pool])
    assert world.entries() == []
    assert world.chat.calls == []


def test_without_a_controller_rules_write() -> None:
    world = World("event", lambda _: "", trajectory("a", 3))
    reports: list[tuple[int, int]] = []
    rows = event_entries(world.names, world.store, None, EventSettings(), lambda *n: reports.append(n))
    assert rows == by_rules(world) and len(rows) == 2
    world.pool = "note"
    notes = note_entries(world.names, world.store, None, NoteSettings(), lambda *n: reports.append(n))
    assert notes == by_rules(world) and len(notes) == 2
    assert reports == [(1, 1), (1, 1)] and world.chat.calls == []


@POOLS
def test_a_fenced_reply_needs_no_repair(pool: str) -> None:
    world = World(pool, lambda _: FENCED.replace("{}", GOOD[pool]), trajectory("a", 2))
    assert {row["origin"] for row in world.entries()} == {"model"}
    assert len(world.chat.calls) == 1


@POOLS
def test_rows_keep_the_order_of_the_tasks_while_many_run_at_once(pool: str) -> None:
    together = threading.Barrier(4, timeout=20)
    order: list[str] = []

    def answer(request: ChatRequest) -> str:
        text = last_user_text(request)
        (name,) = [name for name in "abcd" if f"Goal of {name}" in text]
        together.wait()  # passes only when four calls run at once
        time.sleep(0.02 * (3 - "abcd".index(name)))  # the last task ends first
        order.append(name)
        return GOOD[pool].replace("mugs", f"mugs of {name}")

    world = World(pool, answer, *(trajectory(name, 2) for name in "abcd"), concurrency=4)
    rows = world.entries()
    assert [row["trajectory_id"] for row in rows] == [name for name in "abcd" for _ in range(len(rows) // 4)]
    assert all(f"mugs of {row['trajectory_id']}" in row["text"] for row in rows)
    assert order[0] == "d"


# What the model is shown


def test_the_event_prompt_keeps_actions_with_their_states() -> None:
    world = World("event", lambda _: GOOD["event"], trajectory("a", 4))
    world.entries()
    request = next(call for call in world.chat.calls if "transition 1 -> 2" in last_user_text(call))
    text = last_user_text(request)
    trace, pre, post = text.partition("Pre-state:")[0], *text.partition("Pre-state:")[2].split("Post-state:")
    assert "Goal: Goal of a\nOutcome: success\n" in trace
    for k in range(3):
        assert f"{k} -> {k + 1}: click('0') # to {k + 1} -> [0] button 'B{k}-0'\n" in trace
    assert "[State 1]\nURL: http://h/1\n" in pre and "thought to 1\n" in pre
    assert "Action that led here: click('0') # to 1 -> [0] button 'B0-0'\n" in pre
    assert "RootWebArea 'Page 1 of a'" in pre and "Page 2" not in pre and "# to 2" not in pre
    assert "[State 2]\nURL: http://h/2\n" in post and "thought to 2\n" in post
    assert "Action that led here: click('0') # to 2 -> [0] button 'B1-0'\n" in post
    assert "RootWebArea 'Page 2 of a'" in post and "# to 3" not in post
    first = next(last_user_text(call) for call in world.chat.calls if "transition 0 -> 1" in last_user_text(call))
    assert first.count("(none: the run begins here)") == 2


def test_the_note_prompt_shows_each_state_with_the_action_taken_from_it_and_no_tree() -> None:
    world = World("note", lambda _: GOOD["note"], trajectory("a", 3))
    world.entries()
    text = last_user_text(world.chat.calls[0])
    blocks = text.split("[State ")[1:]
    assert len(blocks) == 3
    for k, block in enumerate(blocks[:2]):
        assert block.startswith(f"{k}]\nURL: http://h/{k}\nThought: thought to {k + 1}\n")
        assert f"Action: click('0') # to {k + 1} -> [0] button 'B{k}-0'\n" in block
    assert "Action: (none: the run ends here)\n" in blocks[2]
    assert "RootWebArea" not in text
    assert "Goal: Goal of a\nOutcome: success\nStart URL: http://h/\n" in text


@pytest.mark.parametrize(("pool", "shown"), [("event", [1, 2]), ("note", [3])])
def test_a_vision_model_sees_the_screenshots_that_there_are(tmp_path: Path, pool: str, shown: list[int]) -> None:
    run = with_screenshots(trajectory("a", 4), tmp_path, [1, 2, 3])
    world = World(pool, lambda _: GOOD[pool], run, images=True)
    rows = world.entries()
    assert {row["images_left_out"] for row in rows} == {0}
    images = [
        [part.path.stem for part in call.messages[-1].parts if isinstance(part, ImagePart)] for call in world.chat.calls
    ]
    expected = [["a-1"], ["a-1", "a-2"], ["a-2", "a-3"]] if pool == "event" else [["a-1", "a-2", "a-3"]]
    assert sorted(images) == expected
    assert all(IMAGE_LEFT_OUT not in last_user_text(call) for call in world.chat.calls)
    # each image follows its own state's block
    for call in world.chat.calls:
        seen = ""
        for part in call.messages[-1].parts:
            if isinstance(part, ImagePart):
                assert seen.rpartition("[State ")[2].startswith(f"{part.path.stem[-1]}]")
                seen = ""
            else:
                seen += part.text


def test_a_text_model_sees_none_and_they_are_counted(tmp_path: Path) -> None:
    run = with_screenshots(trajectory("a", 4), tmp_path, [1, 2, 3])
    world = World("event", lambda _: GOOD["event"], run)
    assert [row["images_left_out"] for row in world.entries()] == [1, 2, 2]
    assert not any(isinstance(part, ImagePart) for call in world.chat.calls for part in call.messages[-1].parts)
    texts = sorted(map(last_user_text, world.chat.calls))
    assert [text.count(IMAGE_LEFT_OUT) for text in texts] == [1, 2, 2]
    world = World("note", lambda _: GOOD["note"], run)
    assert [row["images_left_out"] for row in world.entries()] == [3, 3]
    world = World("note", lambda _: "no", run)
    assert [(row["origin"], row["images_left_out"]) for row in world.entries()] == [("fallback", 3)] * 2


@pytest.mark.parametrize(
    ("pool", "role", "flags"),
    [
        ("note", True, [True, False]),
        ("note", False, [False, False]),
        ("note", None, [None, None]),
        ("event", True, [False, False]),
        ("event", None, [None, None]),
    ],
)
def test_thinking_is_as_the_role_says_for_notes_and_off_for_events_and_repairs(
    pool: str, role: bool | None, flags: list[bool | None]
) -> None:
    world = World(
        pool,
        lambda request: GOOD[pool] if REPAIR in last_user_text(request) else "no",
        trajectory("a", 2),
        thinking=role,
    )
    assert {row["origin"] for row in world.entries()} == {"repaired"}
    assert world.thinking == flags


# Stated paths


@POOLS
@pytest.mark.parametrize("first", ["I think the cart opened.", "", '{"overview": ', "[1, 2]"])
def test_a_reply_without_the_object_is_repaired(pool: str, first: str) -> None:
    world = World(pool, lambda request: GOOD[pool] if REPAIR in last_user_text(request) else first, trajectory("a", 2))
    rows = world.entries()
    assert {row["origin"] for row in rows} == {"repaired"}
    assert all("not the JSON object" in row["origin_detail"] for row in rows)
    assert len(world.chat.calls) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"overview": "  ", "state_transition": "x"},
        {"overview": "...", "state_transition": "..."},
        {"overview": "x"},
        {"overview": "x", "state_transition": ["a"]},
        {"overview": "x", "state_transition": "y", "more": "z"},
    ],
)
def test_events_of_another_shape_are_repaired(wrong: dict[str, Any]) -> None:
    answer = lambda request: GOOD["event"] if REPAIR in last_user_text(request) else json.dumps(wrong)  # noqa: E731
    (row,) = World("event", answer, trajectory("a", 2)).entries()
    assert (row["origin"], row["text"]) == ("repaired", f"{EVENT['overview']}\n\n{EVENT['state_transition']}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"procedure_note": NOTE},
        {**NOTES, "hint_note": {**NOTE, "content": ["- one", "- two"]}},
        {**NOTES, "hint_note": {**NOTE, "content": "- ..."}},
        {**NOTES, "hint_note": {"title": "t", "content": "c"}},
    ],
)
def test_notes_of_another_shape_are_repaired(wrong: dict[str, Any]) -> None:
    answer = lambda request: GOOD["note"] if REPAIR in last_user_text(request) else json.dumps(wrong)  # noqa: E731
    rows = World("note", answer, trajectory("a", 2)).entries()
    assert [row["origin"] for row in rows] == ["repaired", "repaired"]
    assert json.loads(rows[1]["payload"]) == NOTES["hint_note"]


@POOLS
def test_a_repair_that_fails_too_makes_a_fallback_by_rules(pool: str) -> None:
    world = World(pool, lambda _: "no", trajectory("a", 2))
    is_fallback(world, world.entries(), "malformed_reply", "neither the reply")
    assert len(world.chat.calls) == 2


def cut(text: str = "") -> ChatReply:
    return ChatReply(text, "length", 9, 8192, "m", 1.0)


def overflow() -> str:
    raise ModelCallError("context_overflow", "maximum context length is 9 tokens")


@pytest.mark.parametrize("fail", [cut, overflow])
def test_an_event_that_fails_for_length_is_asked_again_with_shorter_trees(fail: Callable[[], str | ChatReply]) -> None:
    run = trajectory("a", 2, tree_lines=100)
    short = replace(run, states=(run.states[0], replace(run.states[1], tree="RootWebArea 'Small'")))

    def answer(request: ChatRequest) -> str | ChatReply:
        return GOOD["event"] if len(last_user_text(request)) < 2000 else fail()

    world = World("event", answer, run)
    (row,) = world.entries(retry_tree_chars=200)
    assert row["origin"] == "model"  # and it says that it was made from less than the whole
    faults = {
        cut: "length: the reply was cut after 8192 tokens",
        overflow: "context_overflow: maximum context length is 9 tokens",
    }
    assert row["origin_detail"] == f"{faults[fail]}; with trees of 200 characters"
    texts = [last_user_text(call) for call in world.chat.calls]
    assert len(texts) == 2
    for k in (0, 1):
        tree = run.states[k].tree
        assert len(tree) > 1000 and tree in texts[0]
        assert f"Accessibility tree:\n{tree[:90]}" in texts[1] and f"{tree[-90:]}\nScreenshot" in texts[1]
        assert f"[40] button 'B{k}-40'" not in texts[1]
    assert "\n…\n" in texts[1]
    world = World("event", answer, short)  # a tree that is short enough stays whole
    world.entries(retry_tree_chars=200)
    assert "\nRootWebArea 'Small'\nScreenshot" in last_user_text(world.chat.calls[-1])


@pytest.mark.parametrize(("fail", "kind"), [(cut, "length"), (overflow, "context_overflow")])
def test_an_event_that_fails_for_length_twice_is_a_fallback(fail: Callable[[], str | ChatReply], kind: str) -> None:
    world = World("event", lambda _: fail(), trajectory("a", 2, tree_lines=100))
    rows = world.entries(retry_tree_chars=500)
    is_fallback(world, rows, kind, "with trees of 500 characters")
    assert len(world.chat.calls) == 2


def test_there_is_no_second_request_when_there_is_nothing_to_cut() -> None:
    world = World("event", lambda _: cut(), trajectory("a", 2))
    is_fallback(world, world.entries(), "length: the reply was cut after 8192 tokens")
    assert len(world.chat.calls) == 1


def test_a_repair_that_is_cut_counts_as_a_failure_for_length() -> None:
    def answer(request: ChatRequest) -> str | ChatReply:
        return (
            cut()
            if REPAIR in last_user_text(request)
            else "no"
            if len(last_user_text(request)) > 2000
            else GOOD["event"]
        )

    world = World("event", answer, trajectory("a", 2, tree_lines=100))
    (row,) = world.entries(retry_tree_chars=200)
    assert (row["origin"], len(world.chat.calls)) == ("model", 3)
    assert row["origin_detail"].endswith("; with trees of 200 characters")


def test_an_event_repaired_after_its_trees_were_cut_says_both() -> None:
    def answer(request: ChatRequest) -> str | ChatReply:
        text = last_user_text(request)
        return GOOD["event"] if REPAIR in text else cut() if len(text) > 2000 else "no"

    world = World("event", answer, trajectory("a", 2, tree_lines=100))
    (row,) = world.entries(retry_tree_chars=200)
    assert (row["origin"], len(world.chat.calls)) == ("repaired", 3)
    assert "; with trees of 200 characters; the first reply was not the JSON object" in row["origin_detail"]


@pytest.mark.parametrize(("fail", "kind"), [(cut, "length"), (overflow, "context_overflow")])
def test_notes_that_fail_for_length_are_a_fallback(fail: Callable[[], str | ChatReply], kind: str) -> None:
    world = World("note", lambda _: fail(), trajectory("a", 2))
    is_fallback(world, world.entries(), kind)
    assert len(world.chat.calls) == 1


@POOLS
@pytest.mark.parametrize("reply", ["", "no", "cut", "good"])
def test_a_repeated_run_takes_the_same_path_without_a_request(tmp_path: Path, pool: str, reply: str) -> None:
    answer = lambda _: cut("half") if reply == "cut" else GOOD[pool] if reply == "good" else reply  # noqa: E731
    world = World(pool, answer, trajectory("a", 3, tree_lines=100), trajectory("b", 2))
    chat = CachedChat(world.chat, CallCache(tmp_path))
    sizes = {"retry_tree_chars": 200} if pool == "event" else {}
    first = world.entries(chat, **sizes)
    asked = len(world.chat.calls)
    again = world.entries(chat, **sizes)
    assert asked > 0 and len(world.chat.calls) == asked
    assert again == first
    assert {row["origin"] for row in first} == {"model" if reply == "good" else "fallback"}


def test_an_empty_reply_of_an_endpoint_is_a_reply_and_a_null_one_is_not() -> None:
    def completion(content: str | None, reason: str = "stop") -> dict[str, Any]:
        return {"choices": [{"message": {"content": content}, "finish_reason": reason}]}

    assert parse_completion(completion(""), "m", False)["text"] == ""
    assert parse_completion(completion(None, "length"), "m", False)["finish_reason"] == "length"
    with pytest.raises(PassingFault):
        parse_completion(completion(None), "m", False)


# Calls without a reply


def flaky(pool: str, kind: Any) -> Answer:
    def answer(request: ChatRequest) -> str:
        if "Goal of b" in last_user_text(request):
            raise ModelCallError(kind, "503 the endpoint is down")
        return GOOD[pool]

    return answer


@POOLS
@pytest.mark.parametrize("kind", ["api_error", "malformed_reply"])
def test_calls_without_a_reply_are_listed_after_all_else_is_done(tmp_path: Path, pool: str, kind: str) -> None:
    world = World(pool, flaky(pool, kind), *(trajectory(name, 3) for name in "abc"))
    chat = CachedChat(world.chat, CallCache(tmp_path))
    with pytest.raises(TooManyErrors) as caught:
        world.entries(chat, allow=0)
    said = str(caught.value)
    names = ["event/b/event_0000_0001", "event/b/event_0001_0002"] if pool == "event" else ["b"]
    assert f"generate_{pool}/0of1: {len(names)} rows failed ({len(names)} {kind}), errors.allow is 0" in said
    assert all(f"  {name}: {kind}: 503 the endpoint is down" in said for name in names)
    assert "/a/" not in said and "let them through as fallback entries" in said
    asked = len(world.chat.calls)
    assert asked == (6 if pool == "event" else 3)
    with pytest.raises(TooManyErrors):
        world.entries(chat, allow=0)
    assert len(world.chat.calls) == asked + len(names)  # only those that failed are asked again


@POOLS
def test_allowed_failures_become_fallback_entries_that_say_so(pool: str) -> None:
    world = World(pool, flaky(pool, "api_error"), *(trajectory(name, 3) for name in "abc"))
    count = 2 if pool == "event" else 1
    with pytest.raises(TooManyErrors):
        world.entries(allow=count - 1)
    rows = world.entries(allow=count)
    assert [row["origin"] for row in rows] == ["model"] * 2 + ["fallback"] * 2 + ["model"] * 2
    rules = by_rules(world)
    for row, rule in zip(rows[2:4], rules[2:4], strict=True):
        assert (row["text"], row["origin_detail"]) == (rule["text"], "api_error: 503 the endpoint is down")


def test_an_endpoint_that_fails_at_the_repair_is_a_failure_too() -> None:
    def answer(request: ChatRequest) -> str:
        if REPAIR in last_user_text(request):
            raise ModelCallError("api_error", "down")
        return "no"

    with pytest.raises(TooManyErrors, match="event/a/event_0000_0001: api_error: down"):
        World("event", answer, trajectory("a", 2)).entries()


@POOLS
def test_an_unforeseen_fault_ends_the_job(pool: str) -> None:
    def answer(_: ChatRequest) -> str:
        raise RuntimeError("a fault of the code")

    with pytest.raises(RuntimeError, match="a fault of the code"):
        World(pool, answer, *(trajectory(name, 2) for name in "abc")).entries()


# Schemas


def test_schemas_limit_texts_only_when_asked() -> None:
    long = "x" * 300
    parse_json_object(json.dumps({"overview": long, "state_transition": "- a\n- b"}), event_schema(None))
    for text in (long, "- a bullet", "two\nlines", "1.1.1"):
        with pytest.raises(JsonReplyError, match="overview"):
            parse_json_object(json.dumps({"overview": text, "state_transition": "x"}), event_schema(100))
    parse_json_object(json.dumps({"overview": long[:100], "state_transition": "x"}), event_schema(100))
    assert "pattern" not in json.dumps(note_schema(None).model_json_schema())
    assert json.dumps(note_schema(100).model_json_schema()).count("{0,99}") == 3


def test_the_request_carries_the_schema_and_the_role() -> None:
    world = World("event", lambda _: GOOD["event"], trajectory("a", 2), sampling={"temperature": 0.6, "max_tokens": 77})
    world.entries()
    (request,) = world.chat.calls
    assert request.schema == event_schema(None).model_json_schema()
    assert (request.role, request.sampling.max_tokens, request.sampling.temperature) == ("controller", 77, 0.6)
    assert request.usable is None
