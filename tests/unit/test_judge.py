"""The judges: requests, labels, and asking again."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.models.settings import ChatSettings, SamplingSettings
from lmev2.models.types import ChatReply, ChatRequest, ErrorKind, Message, ModelCallError, TokenCounter
from lmev2.prompts import load_prompt
from lmev2.scoring.judge import JudgeError, JudgeReplyError, Verdict, judge_answer, judge_request, parse_label

PROMPT = load_prompt(Path(__file__).resolve().parents[2] / "workflow" / "prompts" / "judge_abstention.md")
SETTINGS = ChatSettings(
    backend="scripted",
    model="judge",
    reasoning_effort="medium",
    thinking=True,
    sampling=SamplingSettings(temperature=0.5, top_p=0.9, top_k=7, max_tokens=4096, seed=3),
)
GOOD = '{"label": 1, "reason": "fine"}'


class ListChat:
    """Answers with the given replies in turn; an exception is raised, a pair is text and finish reason."""

    model = "judge"
    supports_images = False
    context_length: int | None = None

    def __init__(self, replies: Sequence[str | tuple[str, str] | ModelCallError]):
        self.replies = list(replies)
        self.requests: list[ChatRequest] = []

    def identity(self) -> dict[str, Any]:
        return {"model": self.model}

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        reply = self.replies[len(self.requests) - 1]
        if isinstance(reply, ModelCallError):
            raise reply
        text, finish_reason = (reply, "stop") if isinstance(reply, str) else reply
        return ChatReply(text, finish_reason, 10, 5, self.model, 0.1)

    def counter(self) -> TokenCounter:
        raise NotImplementedError


def ask(*replies: str | tuple[str, str] | ModelCallError, attempts: int = 3) -> tuple[Verdict, ListChat]:
    chat = ListChat(replies)
    return judge_answer(chat, PROMPT, "Q?", "gold", "reply", "parsed", SETTINGS, attempts), chat


def fail(*replies: str | tuple[str, str] | ModelCallError, attempts: int) -> tuple[JudgeError, ListChat]:
    chat = ListChat(replies)
    with pytest.raises(JudgeError) as caught:
        judge_answer(chat, PROMPT, "Q?", "gold", "reply", "parsed", SETTINGS, attempts)
    return caught.value, chat


# Requests


def test_request_holds_the_four_values_and_all_settings() -> None:
    tricky = '{model_final_answer} {"label": 1} }{'
    request = judge_request(PROMPT, f"Q {tricky}", "GOLD", f"REPLY {tricky}", "PARSED", SETTINGS, sample=2)
    system, user = request.messages
    assert system == Message.text("system", PROMPT.system)
    text = user.parts[0].text  # type: ignore[union-attr]
    assert f"Question:\nQ {tricky}\n\nReference answer:\nGOLD\n\nModel full response:\nREPLY {tricky}\n\n" in text
    assert "Model extracted final answer:\nPARSED\n\nScoring rubric:" in text
    assert text.endswith('Output JSON only: {"label": 0 or 1, "reason": "short rationale"}')
    assert vars(request.sampling) == {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "max_tokens": 4096, "seed": 3}
    assert (request.reasoning_effort, request.thinking, request.sample) == ("medium", True, 2)


def test_schema_allows_the_two_labels_only() -> None:
    schema = judge_request(PROMPT, "q", "g", "r", "p", SETTINGS).schema
    assert schema is not None
    assert schema["properties"]["label"]["enum"] == [0, 1]
    assert schema["properties"]["reason"]["maxLength"] > 0
    assert schema["required"] == ["label", "reason"]
    assert schema["additionalProperties"] is False


# Labels


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "```json\n{}\n```",
        "```\n{}\n```\n",
        "Here is my verdict: {}",
        "{}\nI hope this helps.",
        "The model said \\boxed{{UNKNOWN}}, so {} it is.",
        "{{note}} {}",
    ],
)
def test_one_object_in_fences_or_prose(frame: str, label: int) -> None:
    assert parse_label(frame.format(json.dumps({"label": label, "reason": "why"}))) == (label, "why")


@given(st.sampled_from([0, 1]), st.text(), st.booleans())
def test_any_reason_survives(label: int, reason: str, ascii_only: bool) -> None:
    tricky = reason + '{"label": 0} } { "'
    reply = json.dumps({"reason": tricky, "label": label}, ensure_ascii=ascii_only)
    assert parse_label(f"Verdict:\n{reply}\nDone.") == (label, tricky)


def test_reason_may_hold_raw_line_breaks() -> None:
    assert parse_label('{"label": 1, "reason": "one\n\ttwo"}') == (1, "one\n\ttwo")


def test_reason_may_be_missing() -> None:
    assert parse_label('{"label": 0}') == (0, "")
    assert parse_label('{"label": 0, "reason": null}') == (0, "")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        " \n",
        "1",
        "label: 1",
        "CORRECT",
        "INCORRECT",
        "[1]",
        "{}",
        '{"label": 2}',
        '{"label": -1}',
        '{"label": "1"}',
        '{"label": "0 or 1"}',
        '{"label": true}',
        '{"label": false}',
        '{"label": null}',
        '{"label": 1.0}',
        '{"label": [1]}',
        '{"Label": 1}',
        '{"verdict": {"label": 1}}',
        '{"label": 1} {"label": 1}',
        '{"label": 0, "reason": "a"}\n{"label": 1, "reason": "b"}',
        '{"scratch": "x"} {"label": 1}',
        '{"label": 1, "label": 0}',
        '{"label": 1, "reason": "cut of',
        '{"label": 1, "reason": "say "{"label": 0}" twice"}',
        '{"label": 1, "rea {"label": 0, "reason": "x"}',
        '{"label": 0, "reason": "x"} {"label": 1, "reason": "cut',
        '{"label": 0, "reason": "x"} {label: 1}',
        '{"label": 0} {"reason": "cut',
        '{"reason": "say "x"", "inner": {"label": 1}}',
        '{label: 1} {"label": 0, "reason": "x"}',
        "{'label': 1}",
        '{"label": 0 or 1, "reason": "short rationale"}',
        '{"a":' * 20_000,
    ],
)
def test_anything_else_has_no_label(reply: str) -> None:
    with pytest.raises(JudgeReplyError):
        parse_label(reply)


@given(st.text(alphabet='{}[]",: label01\\n', max_size=60))
def test_noise_never_breaks_the_parser(text: str) -> None:
    try:
        label, _ = parse_label(text)
    except JudgeReplyError:
        return
    assert label in (0, 1)
    assert '"label"' in text


@given(st.integers(1, len(GOOD) - 1))
def test_a_cut_reply_has_no_label(length: int) -> None:
    with pytest.raises(JudgeReplyError):
        parse_label(GOOD[:length])


# Attempts


def test_first_usable_reply_counts() -> None:
    verdict, chat = ask(GOOD)
    assert verdict == Verdict(1, "fine", 1)
    assert [request.sample for request in chat.requests] == [0]


def test_bad_replies_are_asked_again_with_new_sample_numbers() -> None:
    verdict, chat = ask("", (GOOD, "length"), '{"label": 0, "reason": "no"}')
    assert verdict == Verdict(0, "no", 3)
    assert [request.sample for request in chat.requests] == [0, 1, 2]
    assert len({request.messages for request in chat.requests}) == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("", "the reply is empty"),
        ("I would say it is correct", "found 0 in 'I would say it is correct'"),
        ('{"label": 3}', "label must be 0 or 1, found 3"),
        ((GOOD, "length"), 'cut at the completion limit: \'{"label": 1'),
        (ModelCallError("length", "4096 tokens"), "length: 4096 tokens"),
        (ModelCallError("malformed_reply", "no choices"), "malformed_reply: no choices"),
    ],
)
def test_no_label_in_all_attempts_is_a_judge_error(reply: str | tuple[str, str] | ModelCallError, said: str) -> None:
    error, chat = fail(reply, reply, attempts=2)
    assert (error.attempts, len(chat.requests)) == (2, 2)
    assert said in error.detail


def test_detail_is_the_beginning_of_the_reply() -> None:
    error, _ = fail("word " * 10_000, attempts=1)
    assert "'word word" in error.detail
    assert len(error.detail) < 500


@pytest.mark.parametrize("kind", ["api_error", "context_overflow"])
def test_failures_of_the_call_are_told_and_not_repeated(kind: ErrorKind) -> None:
    error, chat = fail("", ModelCallError(kind, "503"), GOOD, attempts=3)
    assert (error.detail, error.attempts, len(chat.requests)) == (f"{kind}: 503", 2, 2)


def test_attempts_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ask(GOOD, attempts=0)


def test_a_reason_with_half_a_character_can_be_stored() -> None:
    assert parse_label('{"label": 1, "reason": "so \\ud83d"}') == (1, "so \ufffd")


@pytest.mark.parametrize("label", ["9" * 5000, "[" * 900 + "]" * 900, "1e999"])
def test_a_label_that_is_no_small_number_is_no_label(label: str) -> None:
    with pytest.raises(JudgeReplyError):
        parse_label(f'{{"label": {label}}}')


def test_long_replies_take_no_long() -> None:
    many = ",".join(f'"k{number}":1' for number in range(9_000))
    for reply in ("{" * 90_000, '{"label":1,' + many + "}", "{x}" * 300_000):
        start = time.process_time()
        with suppress(JudgeReplyError):
            parse_label(reply)
        assert time.process_time() - start < 3, reply[:20]
