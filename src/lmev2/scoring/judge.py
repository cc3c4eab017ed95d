"""The two LLM judges (paper, Table 5): the request, the label in the reply, asking again when there is none, and
several verdicts on one answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from lmev2.models.fault_counts import FAULTS
from lmev2.models.settings import MOST_ATTEMPTS, ChatSettings
from lmev2.models.text import well_formed
from lmev2.models.types import ChatBackend, ChatReply, ChatRequest, ModelCallError, Sampling
from lmev2.prompts import Prompt

_REASON_CHARS: Final = 240  # "short rationale"; the bound lets a small local model come to an end
_DETAIL_CHARS: Final = 300
_MOST_CHARS: Final = 100_000  # no verdict is longer; reading a text of broken JSON takes time with its square
_REPEAT_SAMPLES: Final = MOST_ATTEMPTS  # sample numbers of one repeat, so that no two repeats share a call
_BROKEN_LABEL: Final = re.compile(r"\{[^{}]*\blabel\b", re.IGNORECASE)

LABEL_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "label": {"type": "integer", "enum": [0, 1]},
        "reason": {"type": "string", "maxLength": _REASON_CHARS},
    },
    "required": ["label", "reason"],
    "additionalProperties": False,
}


class JudgeReplyError(ValueError):
    """A judge's reply without a usable label."""


class JudgeError(Exception):
    """The judge gave no verdict (error kind ``judge_error``); the question has no score.

    Attributes:
        detail: what went wrong last: the kind of a failed call, or the beginning of a reply without a usable label.
        attempts: how many calls were made.
    """

    def __init__(self, detail: str, attempts: int):
        super().__init__(f"no verdict after {attempts} attempt(s): {detail}")
        self.detail = detail
        self.attempts = attempts


@dataclass(frozen=True)
class Verdict:
    """A judge's verdict: ``label`` is 0 or 1; ``attempts`` counts the calls up to the one that gave it."""

    label: int
    reason: str
    attempts: int


@dataclass(frozen=True)
class Decision:
    """What the repeats of a judge say together.

    Attributes:
        label: of more than half of all repeats, failed ones included; None where none has that.
        reason: of the first repeat with that label; None without one.
        labels: of the repeats that gave a verdict, in order.
        detail: without a label, what went wrong last.
    """

    label: int | None
    reason: str | None
    labels: tuple[int, ...]
    detail: str | None = None


def judge_request(
    prompt: Prompt, question: str, gold: str, reply: str, parsed: str, settings: ChatSettings, sample: int = 0
) -> ChatRequest:
    """The request of one judge call.

    Args:
        prompt: the abstention or the gotchas prompt.
        question, gold: the question's text and its reference answer.
        reply, parsed: the reader's full reply and the prediction taken from it.
        settings: sampling and reasoning settings of the judge.
        sample: number of the call, counted from 0 over repeats and attempts.
    """
    rendered = prompt.render(
        question_text=question, reference_answer=gold, model_full_response=reply, model_final_answer=parsed
    )
    return ChatRequest(
        messages=rendered.messages(),
        sampling=Sampling(**settings.sampling.model_dump()),
        schema=LABEL_SCHEMA,
        thinking=settings.thinking,
        reasoning_effort=settings.reasoning_effort,
        sample=sample,
        role="judge",
        usable=_has_label,
    )


def judge_answer(
    chat: ChatBackend,
    prompt: Prompt,
    question: str,
    gold: str,
    reply: str,
    parsed: str,
    settings: ChatSettings,
    attempts: int = 3,
    repeat: int = 0,
) -> Verdict:
    """Ask the judge for a verdict, again with a new sample number while its reply has no usable label.

    The call cache knows a call by the judge, the prompt with question, reference answer and model answer in it, and the
    sample number. Two methods that give one answer to a question therefore share one verdict.

    A reply that is cut, empty or malformed counts as one without a label. Other failures of the call (the endpoint, a
    prompt that does not fit) are not repeated here: the backend has already retried what can pass.

    Raises:
        JudgeError: no verdict; never turned into a label.
        ValueError: ``attempts`` is not between 1 and the most that a repeat has sample numbers for.
    """
    if not 1 <= attempts <= _REPEAT_SAMPLES:
        raise ValueError(f"attempts must be at least 1 and at most {_REPEAT_SAMPLES}, found {attempts}")
    problem = ""
    for sample in range(attempts):
        number = repeat * _REPEAT_SAMPLES + sample
        try:
            answer = chat.complete(judge_request(prompt, question, gold, reply, parsed, settings, number))
            label, reason = _label_of(answer)
        except JudgeReplyError as error:
            problem = str(error)
            FAULTS.add("asked again" if sample + 1 < attempts else "failed", "no label")
        except ModelCallError as error:
            if error.kind not in ("length", "malformed_reply"):
                raise JudgeError(f"{error.kind}: {error.detail}", sample + 1) from error
            problem = f"{error.kind}: {error.detail}"
        else:
            return Verdict(label, reason, sample + 1)
    raise JudgeError(problem, attempts)


def judge_repeatedly(
    chat: ChatBackend,
    prompt: Prompt,
    question: str,
    gold: str,
    reply: str,
    parsed: str,
    settings: ChatSettings,
    attempts: int = 3,
    repeats: int = 1,
) -> Decision:
    """Ask the judge for several verdicts, each a call of its own; the majority decides.

    All are made even where the first ones already decide, since they are there to be compared, unless so many failed
    that no majority is left to be found. A repeat without a
    verdict stands for no label: it can leave an answer undecided, and never turns a majority.

    Raises:
        ValueError: ``repeats`` is even, so that there could be a tie, or less than 1.
    """
    if repeats < 1 or repeats % 2 == 0:
        raise ValueError(f"repeats must be odd, so that a majority decides, found {repeats}")
    verdicts: list[Verdict] = []
    failures: list[JudgeError] = []
    for repeat in range(repeats):
        try:
            verdicts.append(judge_answer(chat, prompt, question, gold, reply, parsed, settings, attempts, repeat))
        except JudgeError as error:
            failures.append(error)
            if 2 * len(failures) > repeats:
                break  # no majority is left to be found
    labels = tuple(verdict.label for verdict in verdicts)
    for verdict in verdicts:
        if 2 * labels.count(verdict.label) > repeats:
            return Decision(verdict.label, verdict.reason, labels)
    detail = failures[-1].detail
    if repeats > 1:
        given = ", ".join(map(str, labels)) or "none"
        detail = f"no label has a majority of {repeats} repeats (found {given}): {detail}"
    return Decision(None, None, labels, detail)


def parse_label(reply: str) -> tuple[int, str]:
    """Label and reason of a judge's reply.

    The reply must hold exactly one JSON object, at the top level; code fences and prose around it are tolerated. Its
    ``label`` must be the JSON number 0 or 1: strings, booleans and decimals are refused, since a judge that leaves the
    format may have left the rubric too, and asking again costs little. A missing reason is an empty one.

    Raises:
        JudgeReplyError: anything else; holds the beginning of the reply.
    """
    if not reply.strip():
        raise JudgeReplyError("the reply is empty")
    if len(reply) > _MOST_CHARS:
        raise JudgeReplyError(f"the reply has {len(reply):,} characters, at most {_MOST_CHARS:,} are read")
    objects = list(_json_objects(reply))
    if len(objects) != 1:
        raise JudgeReplyError(f"expected one JSON object, found {len(objects)} in {_beginning(reply)}")
    found = objects[0]
    label = found.get("label")
    if type(label) is not int or label not in (0, 1):  # bool is a subclass of int
        if "label" not in found:
            described = "none"
        else:
            described = type(label).__name__ if isinstance(label, dict | list) else json.dumps(label)
        raise JudgeReplyError(f"label must be 0 or 1, found {described:.40} in {_beginning(reply)}")
    reason = found.get("reason")
    return label, well_formed(reason) if isinstance(reason, str) else ""


def _has_label(answer: ChatReply) -> bool:
    try:
        _label_of(answer)
    except JudgeReplyError:
        return False
    return True


def _label_of(answer: ChatReply) -> tuple[int, str]:
    if answer.finish_reason == "length":
        raise JudgeReplyError(f"the reply was cut at the completion limit: {_beginning(answer.text)}")
    return parse_label(answer.text)


def _json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that stand at the top level of a text.

    A brace that opens no JSON object is prose, such as ``\\boxed{UNKNOWN}``. But an object inside such braces, braces
    that never close, and braces around a label are pieces of a broken object, whose label may be another one: refused.
    """
    # Not strict: models write line breaks into strings, and a grammar made from a schema lets them.
    decoder = json.JSONDecoder(object_pairs_hook=_without_repeats, strict=False)
    position = depth = 0
    outside = ""
    while position < len(text):
        character = text[position]
        position += 1
        outside += character
        if character == "}":
            depth = max(0, depth - 1)
        elif character == "{":
            try:
                found, end = decoder.raw_decode(text, position - 1)
            except JudgeReplyError:
                raise
            except ValueError:  # no JSON, or a number of thousands of digits
                depth += 1
                continue
            except RecursionError as error:
                raise JudgeReplyError(f"JSON is nested too deeply in {_beginning(text)}") from error
            if depth:
                raise JudgeReplyError(f"a JSON object stands inside broken JSON in {_beginning(text)}")
            yield found
            position = end
            outside = outside[:-1]
    if depth or _BROKEN_LABEL.search(outside):
        raise JudgeReplyError(f"broken JSON stands beside the answer in {_beginning(text)}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated = sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise JudgeReplyError(f"a JSON object gives {repeated!r:.200} twice")
    return found


def _beginning(reply: str) -> str:
    text = " ".join(reply.split())
    return repr(text if len(text) <= _DETAIL_CHARS else f"{text[:_DETAIL_CHARS]}…")
