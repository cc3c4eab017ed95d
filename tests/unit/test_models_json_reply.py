"""JSON objects in replies: found, checked, repaired."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.models.json_reply import (
    JsonReplyError,
    UnusableReplyError,
    ask_json,
    find_json_objects,
    parse_json_object,
)
from lmev2.models.scripted import Rule, ScriptedChat
from lmev2.models.types import ChatRequest, Message, ModelCallError

SCHEMA = {
    "type": "object",
    "properties": {"label": {"enum": [0, 1]}},
    "required": ["label"],
    "additionalProperties": False,
}
REQUEST = ChatRequest((Message.text("user", "judge this"),), thinking=True)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), values, max_size=4)
prose = st.text(st.characters(exclude_characters="{}"), max_size=20)


@given(st.lists(st.tuples(prose, objects), max_size=3), prose, st.sampled_from([None, 2]))
def test_every_object_in_prose_is_found(pieces: list[tuple[str, dict[str, Any]]], end: str, indent: int | None) -> None:
    text = "".join(before + json.dumps(value, indent=indent) for before, value in pieces) + end
    assert find_json_objects(text) == [value for _, value in pieces]


@given(objects.filter(bool), st.data())
def test_nothing_inside_a_cut_object_is_taken(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps({"outer": value, "end": 1})
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    assert find_json_objects("so: " + cut) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("no {braces here} and {1, 2}", []),
        ('```json\n{"a": 1}\n```', [{"a": 1}]),
        ('the set {x} is {"a": "}{\\""} and that', [{"a": '}{"'}]),
        ('{"a": {"label": 1},}', []),
        ('{"a": {"label": 1},} then {"b": 2}', [{"b": 2}]),
        ('{"a": 1, "a": 0}', []),
        ('{"a": NaN}', []),
        ('{"a": 1} {"a": 1}', [{"a": 1}, {"a": 1}]),
        ("{}", [{}]),
        ('{"a":' * 100_000, []),
    ],
)
def test_hard_texts(text: str, found: list[dict[str, Any]]) -> None:
    assert find_json_objects(text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no complete JSON object"),
        ('{"label": 1', "no complete JSON object"),
        ('{"label": 1} or {"label": 0}', "2 JSON objects"),
        ('{"label": 2}', "label: 2 is not one of"),
        ('{"label": "1"}', "label"),
        ('{"label": 1, "more": 2}', "more"),
        ("{}", "'label' is a required property"),
    ],
)
def test_a_reply_that_is_not_the_object_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(JsonReplyError, match=words):
        parse_json_object(text, SCHEMA)


class Note(pydantic.BaseModel):
    title: str
    rank: int


def test_pydantic_models_check_too() -> None:
    assert parse_json_object('{"title": "a", "rank": 1}', Note) == {"title": "a", "rank": 1}
    value = parse_json_object('{"title": "a", "rank": "1"}', Note)
    assert value == {"title": "a", "rank": 1}  # what was checked, not what was written
    with pytest.raises(JsonReplyError, match="rank"):
        parse_json_object('{"title": "a"}', Note)


def test_a_good_first_reply_needs_no_repair() -> None:
    chat = ScriptedChat([Rule('Sure: {"label": 1}')])
    assert ask_json(chat, REQUEST, SCHEMA) == ({"label": 1}, "model")
    assert chat.calls == [replace(REQUEST, schema=SCHEMA)]


def test_one_repair_with_thinking_off_that_shows_the_reply_and_its_fault() -> None:
    chat = ScriptedChat([Rule('{"label": 7}'), Rule('{"label": 0}')])
    assert ask_json(chat, REQUEST, SCHEMA) == ({"label": 0}, "repaired")
    repair = chat.calls[1]
    assert repair.thinking is False
    assert repair.schema == SCHEMA
    assert repair.messages[:2] == (REQUEST.messages[0], Message.text("assistant", '{"label": 7}'))
    shown = repair.messages[2].parts[0]
    assert "7 is not one of" in shown.text  # type: ignore[union-attr]
    assert json.dumps(SCHEMA) in shown.text  # type: ignore[union-attr]


def test_a_model_that_cannot_switch_thinking_is_left_alone() -> None:
    chat = ScriptedChat([Rule("no"), Rule('{"title": "a", "rank": 1}')])
    value, origin = ask_json(chat, replace(REQUEST, thinking=None), Note)
    assert (value, origin) == ({"title": "a", "rank": 1}, "repaired")
    assert chat.calls[1].thinking is None
    assert chat.calls[0].schema == Note.model_json_schema()


@pytest.mark.parametrize(
    ("rules", "repair", "kind", "calls"),
    [
        ([Rule("no"), Rule("no")], True, "malformed_reply", 2),
        ([Rule("no")], False, "malformed_reply", 1),
        ([Rule('{"label": 1}', finish_reason="length")], True, "length", 1),
        ([Rule("no"), Rule('{"label', finish_reason="length")], True, "length", 2),
        ([Rule("down", error="api_error")], True, "api_error", 1),
    ],
)
def test_what_cannot_be_repaired_is_an_error(rules: list[Rule], repair: bool, kind: str, calls: int) -> None:
    chat = ScriptedChat(rules)
    with pytest.raises(ModelCallError) as caught:
        ask_json(chat, REQUEST, SCHEMA, repair=repair)
    assert caught.value.kind == kind
    assert len(chat.calls) == calls
    # What came back but cannot be used is told apart from a call that failed.
    assert isinstance(caught.value, UnusableReplyError) == (kind != "api_error")


@pytest.mark.parametrize(("text", "shown"), [('{"label": 1}', '{"label": 1}'), ("", "(no answer)")])
def test_a_cut_reply_is_repaired_where_the_caller_asks_for_it(text: str, shown: str) -> None:
    chat = ScriptedChat([Rule(text, finish_reason="length"), Rule('{"label": 0}')])
    assert ask_json(chat, REQUEST, SCHEMA, repair_cut=True) == ({"label": 0}, "repaired")
    repair = chat.calls[1]
    assert repair.messages[1] == Message.text("assistant", shown)
    assert "it was cut after" in repair.messages[2].parts[0].text  # type: ignore[union-attr]
    chat = ScriptedChat([Rule(text, finish_reason="length")])
    with pytest.raises(UnusableReplyError, match="length: the reply was cut"):
        ask_json(chat, REQUEST, SCHEMA, repair=False, repair_cut=True)


@pytest.mark.parametrize("value", ["1e999", "-1e999", "[" * 300 + "]" * 300, '{"a":' * 200 + "1" + "}" * 200])
def test_what_cannot_be_written_again_is_no_object(value: str) -> None:
    assert find_json_objects(f'{{"a": {value}}} {{"b": 1e300}}') == [{"b": 1e300}]
