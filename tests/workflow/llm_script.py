"""What the models of the test of the whole LLM path reply, and what the pipeline must make of each reply.

Trajectories, transitions and questions each have one behaviour: the forms of the controller's replies by stage of the
conversation. Every stage that is not named replies well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chatserver import Answer, Call, bags_of_words, completion

from lmev2.models.text import OMISSION

DIMENSION = 32
QUERY_DELAY_S = 0.2
RETRY_AFTER_S = 3
CUT = "length: the reply was cut after 3 tokens"
REPAIRED = "the first reply was not the JSON object asked for"
SHORT = "with trees of 200 characters"
USELESS = "malformed_reply: neither the reply"

Forms = Mapping[str, str | tuple[str, ...]]  # by stage; several: one for each time that the same request comes


@dataclass(frozen=True)
class Behaviour:
    """Replies of one conversation.

    Attributes:
        forms: form of the reply by stage: ``first``, ``repair``, and of an event with cut trees ``short`` and
            ``short repair``.
        origin: what the entry or query must say where it comes from.
        detail: pieces of the entry's ``origin_detail`` in order; none: it is null.
    """

    forms: Forms
    origin: str = "model"
    detail: tuple[str, ...] = ()

    def requests(self) -> int:
        """Requests that it takes."""
        return sum(1 if isinstance(forms, str) else len(forms) for forms in self.forms.values())


FENCED, PROSE = Behaviour({"first": "fenced"}), Behaviour({"first": "prose"})
THOUGHT = Behaviour({"first": "thought"})
REPEATED = Behaviour({"first": ("no choices", "good")})
EMPTY = Behaviour({"first": "empty", "repair": "good"}, "repaired", (REPAIRED,))
MISSHAPEN = Behaviour({"first": "misshapen", "repair": "fenced"}, "repaired", (REPAIRED,))
NO_JSON = Behaviour({"first": "text", "repair": "text"}, "fallback", (USELESS,))
GOOD = Behaviour({"first": "good"})

NOTES = {
    0: FENCED,
    1: PROSE,
    2: EMPTY,
    3: Behaviour({"first": "cut"}, "fallback", (CUT,)),
    4: NO_JSON,
    5: REPEATED,
}  # by trajectory
EVENTS = {
    (0, 0): FENCED,
    (0, 1): PROSE,
    (1, 0): EMPTY,
    (1, 1): Behaviour({"first": "cut", "short": "good"}, "model", (CUT,)),
    (2, 0): Behaviour({"first": "cut", "short": "cut"}, "fallback", (CUT, f"{SHORT}: {CUT}")),
    (2, 1): NO_JSON,
    (3, 0): Behaviour({"first": "cut", "short": "text", "short repair": "good"}, "repaired", (CUT, REPAIRED)),
    (4, 0): Behaviour({"first": "too long", "short": "good"}, "model", ("context_overflow: ",)),
    (4, 1): REPEATED,
    (5, 0): Behaviour({"first": "cut"}, "fallback", (CUT,)),  # its trees are short already
    (5, 1): MISSHAPEN,
    (6, 0): Behaviour({"first": "text", "repair": "cut", "short": "good"}, "model", (CUT,)),
}  # by trajectory and state before
QUERIES = {
    0: FENCED,
    1: PROSE,
    2: EMPTY,
    3: Behaviour({"first": "cut", "repair": "good"}, "repaired"),
    4: NO_JSON,  # dynamic
    5: MISSHAPEN,
    6: Behaviour({"first": "cut", "repair": "cut"}, "fallback"),  # dynamic, flawed premise
    7: THOUGHT,
    8: NO_JSON,  # procedure
    12: NO_JSON,  # gotcha
}  # by question
RERANKS = {1: NO_JSON, 7: EMPTY}  # by question
SLOW_DOWN = 9  # the question whose first request for queries is sent away
NO_REPLY: dict[str, dict[Any, str]] = {
    "note": {6: "no choices", 7: "no message"},
    "event": {(3, 1): "no content"},
    "query": {10: "no message", 11: "no choices"},
}  # while the endpoint is broken; of queries, those of the row without events


@dataclass
class Script:
    """The models' replies; ``broken`` names the tasks of which the endpoint answers some requests with no message."""

    broken: set[str] = field(default_factory=set)

    def __call__(self, call: Call) -> Answer:
        """The reply to one request."""
        if call.task == "embedding":
            return Answer(bags_of_words(call.body, DIMENSION))
        if call.task == "reader":
            return Answer(completion(f"\\boxed{{It is {case_of(call)}.}}"))
        if call.task == "judge":
            return Answer(completion('{"label": 1, "reason": "it says so"}'))
        subject = subject_of(call)
        form = self._form(call, subject)
        if call.task == "query" and subject == SLOW_DOWN and call.repeat == 0 and sees_events(call):
            return Answer({"error": {"message": "slow down"}}, 429, {"retry-after": str(RETRY_AFTER_S)})
        answer = Answer(*in_form(form, value_of(call.task, subject)))
        answer.delay_s = QUERY_DELAY_S if call.task == "query" else 0.0
        return answer

    def _form(self, call: Call, subject: Any) -> str:
        if call.task in self.broken and subject in NO_REPLY[call.task] and not sees_events(call):
            return NO_REPLY[call.task][subject]
        forms = behaviour_of(call.task, subject).forms.get(stage_of(call), "good")
        return forms if isinstance(forms, str) else forms[min(call.repeat, len(forms) - 1)]


def behaviour_of(task: str, subject: Any) -> Behaviour:
    """How the controller replies in a task about a trajectory, a transition or a question."""
    scripted: dict[str, Mapping[Any, Behaviour]] = {"note": NOTES, "event": EVENTS, "query": QUERIES, "rerank": RERANKS}
    return scripted[task].get(subject, GOOD)


def subject_of(call: Call) -> Any:
    """What a controller's request is about: number of the trajectory or question, or trajectory and state before."""
    if call.task in ("query", "rerank"):
        return int(case_of(call).split()[1])
    run = re.search(r"^Goal: Find the code of record (\d+)$", call.prompt, re.MULTILINE)
    assert run, call.prompt
    if call.task == "note":
        return int(run[1])
    pre = re.match(r"Generate an event for transition (\d+) -> (\d+)\.", call.prompt)
    assert pre, call.prompt
    return int(run[1]), int(pre[1])


def case_of(call: Call) -> str:
    """The question's own mark."""
    marks: set[str] = set(re.findall(r"Case \d\d", call.prompt))
    assert len(marks) == 1, call.prompt
    return marks.pop()


def stage_of(call: Call) -> str:
    """Where in its conversation a request stands."""
    short = call.task == "event" and any(OMISSION in tree for tree in trees_of(call))
    return " ".join(["short"] * short + ["repair"] * (call.kind == "repair")) or "first"


def trees_of(call: Call) -> list[str]:
    """The accessibility trees in a request for an event."""
    return re.findall(r"Accessibility tree:\n(.*?)\nScreenshot: ", call.prompt, re.DOTALL)


def sees_events(call: Call) -> bool:
    """Whether the memory that a request for queries describes has events."""
    return re.search(r"; entries: .*state-transition events", call.prompt) is not None


def value_of(task: str, subject: Any) -> dict[str, Any]:
    """The object that the controller replies with where it replies well."""
    if task == "note":
        return {
            f"{part}_note": {
                "title": f"{part} {subject}",
                "description": f"of {subject}",
                "content": f"- code {subject}",
            }
            for part in ("procedure", "hint")
        }
    if task == "event":
        return {"overview": f"Run {subject[0]} looks for a code.", "state_transition": f"Page {subject[1]} is left."}
    if task == "query":
        return {
            "raw_state_queries": [f"page of case {subject}", "Code heading"],
            "event_query": f"change of case {subject}",
            "note_query": f"how to find case {subject}",
        }
    return {"keep": [2], "reason": f"case {subject}"}


def in_form(form: str, value: dict[str, Any]) -> tuple[Any, int]:
    """Body and status of a reply with a value."""
    text = json.dumps(value)
    if form == "no choices":
        return completion() | {"choices": []}, 200
    if form == "no message":
        return completion() | {"choices": [{"index": 0, "finish_reason": "stop", "message": None}]}, 200
    if form == "no content":
        return completion(None), 200
    if form == "too long":
        return {"error": {"message": "the prompt has too many tokens", "code": "context_length_exceeded"}}, 400
    texts = {
        "good": text,
        "fenced": f"```json\n{json.dumps(value, indent=2)}\n```",
        "prose": f"Here is what you asked for: {text}\nI hope that it helps {{a lot}}.",
        "thought": f"What could help? {{Perhaps}} the page.\n</think>\n\n{text}",
        "empty": "",
        "misshapen": json.dumps({**value, "more": 1}),
        "text": "I cannot say.",
        "cut": text[: len(text) // 2],
    }
    return completion(texts[form], "length" if form == "cut" else "stop"), 200
