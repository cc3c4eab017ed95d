"""Queries written by the controller's model: every kind of reply, and what the prompt holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_prompts import squeeze, table_cell

from lmev2.memory.base import MemoryQuery
from lmev2.memory.queries import QueryBundle
from lmev2.memory.query_model import ModelQueries, QueryReply
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.json_reply import parse_json_object
from lmev2.models.openai_backend import is_closed
from lmev2.models.scripted import Rule, ScriptedChat, last_user_text
from lmev2.models.settings import ControllerSettings, SamplingSettings
from lmev2.models.types import ChatBackend, ModelCallError, TextPart
from lmev2.prompts import load_prompt

PROMPT = load_prompt(Path(__file__).resolve().parents[2] / "workflow" / "prompts" / "query.md")
SETTINGS = ControllerSettings(
    backend="scripted", model="scripted", script="none", thinking=True, sampling=SamplingSettings(temperature=0.6)
)
HAYSTACK = ("t1", "t2")
QUESTION = "Which courier does the order use? Wrap it in \\boxed{}."


class Summaries:
    """Counts how often a summary is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def of(self, haystack: tuple[str, ...]) -> str:
        self.asked.append(haystack)
        return "2 trajectories {question}"


def ask(kind: str | None = None, image: Path | None = None) -> MemoryQuery:
    return MemoryQuery(QUESTION, image, HAYSTACK, kind)


def reply(raw: list[str], event: str = "", note: str = "") -> str:
    return json.dumps({"raw_state_queries": raw, "event_query": event, "note_query": note})


def writer(chat: ChatBackend) -> ModelQueries:
    return ModelQueries(chat, SETTINGS, PROMPT, Summaries())  # type: ignore[arg-type]


def write(*rules: Rule, kind: str | None = None) -> tuple[QueryBundle, ScriptedChat]:
    chat = ScriptedChat(rules)
    return writer(chat).write(ask(kind)), chat


GOOD = reply(["order form courier", "courier dropdown"], "courier changes", "choose a courier")
BUNDLE = ("order form courier", "courier dropdown"), "courier changes", "choose a courier"


@pytest.mark.parametrize("text", [GOOD, f"```json\n{GOOD}\n```", f"Sure, here it is: {GOOD} I hope it helps."])
def test_a_valid_reply_is_taken_with_fences_and_prose_around_it(text: str) -> None:
    bundle, chat = write(Rule(text))
    assert bundle == QueryBundle(*BUNDLE, "model")
    assert len(chat.calls) == 1


def test_queries_are_normalised() -> None:
    raw = [" order \n form ", "", "Order form", "a", "b", "  ", "c", "d", "e"]
    bundle, _ = write(Rule(reply(raw, "\tcourier  changes\n", "  ")))
    assert bundle == QueryBundle(("order form", "a", "b", "c", "d"), "courier changes", "", "model")


@pytest.mark.parametrize(
    "first",
    [
        Rule("I would search for the order form."),
        Rule(""),
        Rule("{}"),
        Rule(reply([])),
        Rule(reply([" ", ""], "\n", "\t")),
        Rule(f"{GOOD} {GOOD}"),
        Rule('{"raw_state_queries": "order form", "event_query": "", "note_query": ""}'),
        Rule('{"raw_state_queries": ["order form"], "event_query": null, "note_query": ""}'),
        Rule('{"raw_state_queries": ["order form"], "event_query": "", "note_query": "", "answer": "42"}'),
        Rule(GOOD[:-10]),
        Rule(GOOD, finish_reason="length"),
        Rule("", finish_reason="length"),
    ],
)
def test_anything_else_is_repaired_once_with_thinking_off(first: Rule) -> None:
    bundle, chat = write(first, Rule(GOOD))
    assert bundle == QueryBundle(*BUNDLE, "repaired")
    assert [request.thinking for request in chat.calls] == [True, False]
    assert chat.calls[1].messages[:2] == chat.calls[0].messages
    assert [message.role for message in chat.calls[1].messages] == ["system", "user", "assistant", "user"]
    assert all(
        "".join(part.text for part in message.parts if isinstance(part, TextPart)).strip()
        for message in chat.calls[1].messages
    )
    assert "could not be used" in last_user_text(chat.calls[1])


@pytest.mark.parametrize("second", [Rule("no"), Rule(""), Rule(reply([])), Rule(GOOD, finish_reason="length")])
@pytest.mark.parametrize(
    ("kind", "event", "note"),
    [
        ("static-environment", False, False),
        ("dynamic-environment", True, False),
        ("dynamic-environment-abs", True, False),
        ("procedure", False, True),
        ("procedure-abs", False, True),
        ("errors-gotchas", False, False),
        (None, False, False),
    ],
)
def test_then_comes_the_fallback(second: Rule, kind: str | None, event: bool, note: bool) -> None:
    bundle, chat = write(Rule("no"), second, kind=kind)
    assert bundle == QueryBundle((QUESTION,), QUESTION if event else "", QUESTION if note else "", "fallback")
    assert len(chat.calls) == 2


@pytest.mark.parametrize("kind", ["api_error", "malformed_reply", "context_overflow"])
@pytest.mark.parametrize("before", [[], [Rule("no")]])
def test_a_failed_call_is_never_a_fallback(before: list[Rule], kind: str) -> None:
    with pytest.raises(ModelCallError) as caught:
        write(*before, Rule("503", error=kind))  # type: ignore[arg-type]
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("rules", "calls"),
    [
        ([Rule(GOOD)], 1),
        ([Rule("no"), Rule(GOOD)], 2),
        ([Rule("no"), Rule("no")], 2),
        ([Rule("", finish_reason="length"), Rule("x", finish_reason="length")], 2),
    ],
)
def test_a_repeated_run_asks_nothing_and_ends_the_same(tmp_path: Path, rules: list[Rule], calls: int) -> None:
    chat = ScriptedChat(rules)
    first = writer(CachedChat(chat, CallCache(tmp_path))).write(ask("procedure"))
    again = writer(CachedChat(chat, CallCache(tmp_path))).write(ask("procedure"))
    assert again == first
    assert len(chat.calls) == calls


# The prompt


def test_the_prompt_is_that_of_table_9() -> None:
    text = squeeze(f"System: {PROMPT.system} User: {PROMPT.user}")
    assert text.replace("{image_path}", "{image_path or <none>}") == table_cell(9, "Query generation")


def test_the_user_message_holds_what_a_memory_may_know() -> None:
    chat = ScriptedChat([Rule(GOOD), Rule(GOOD)])
    writer(chat).write(ask())
    writer(chat).write(ask("procedure", Path("/data/question_screenshots/0badc0de.png")))
    plain, typed = (last_user_text(request) for request in chat.calls)
    assert "Memory pool summary: 2 trajectories {question}." in plain
    assert (
        f"Question ID: <none>.\nQuestion type: <none>.\nQuestion text: {QUESTION}.\nQuestion image path: <none>."
        in plain
    )
    assert plain.endswith("benchmark question: <none>.\n\nReturn only the JSON object.")
    assert "Question type: procedure.\n" in typed
    assert "Question image path: question.png.\n" in typed
    # Images are named by question id in the data set, and a memory gets no id.
    assert "0badc0de" not in typed and "/data" not in typed
    request = chat.calls[0]
    assert (request.thinking, request.sampling.temperature, request.usable) == (True, 0.6, None)
    assert request.schema == QueryReply.model_json_schema()
    assert is_closed(request.schema)  # endpoints can then hold the model to it


def test_the_examples_are_valid_replies() -> None:
    chat = ScriptedChat([Rule(GOOD)])
    writer(chat).write(ask())
    text = last_user_text(chat.calls[0])
    example = text.partition("Output schema example: ")[2].partition(".\n\nPrompt examples: ")[0]
    replies = [line.removeprefix("Reply: ") for line in text.split("\n") if line.startswith("Reply: ")]
    replies[-1] = replies[-1].removesuffix(".")
    assert len(replies) == 3
    for one in (example, *replies):
        parse_json_object(one, QueryReply)


def test_the_summary_is_made_when_the_haystack_is_prepared() -> None:
    summaries = Summaries()
    ModelQueries(ScriptedChat([]), SETTINGS, PROMPT, summaries).prepare(HAYSTACK)  # type: ignore[arg-type]
    assert summaries.asked == [HAYSTACK]
