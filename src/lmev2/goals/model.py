"""Goals rewritten by a model: the request, the shape of the reply, and the checker that decides about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pydantic

from lmev2.goals.check import check, names_route
from lmev2.goals.sanitize import Origin, Sanitized, sanitize_by_rules
from lmev2.models.types import ChatRequest
from lmev2.pools.controller import Controller, Written, ask, write_all
from lmev2.progress import Report

_WORD = re.compile(r"\w")
NO_VALUES = "(none)"


class GoalReply(pydantic.BaseModel):
    """The reply: the rewritten goal."""

    model_config = pydantic.ConfigDict(extra="forbid")

    goal: str

    @pydantic.field_validator("goal")
    @classmethod
    def _has_words(cls, goal: str) -> str:
        if not _WORD.search(goal):
            raise ValueError(f"must be the rewritten goal, found {goal.strip()[:20]!r}")
        return goal.strip()


def goal_request(goal: str, values: Sequence[str], controller: Controller) -> ChatRequest:
    """The request to rewrite one goal.

    Args:
        goal: the goal as it is.
        values: what the rewritten goal must keep.
        controller: with the prompt; its placeholders are ``goal`` and ``values``.
    """
    listed = "\n".join(f"- {value}" for value in values) or NO_VALUES
    return controller.request(controller.prompt.render_messages(goal=goal, values=listed))


def sanitize_by_model(goals: Sequence[tuple[str, str]], controller: Controller, report: Report) -> list[Sanitized]:
    """Many goals, by a model.

    A goal that names no route is not shown to the model. A reply that the checker objects to is no use: the rules'
    result stands in for it, with the origin ``fallback``.

    Args:
        goals: goals with their domains.
        controller: the model, with the prompt.
        report: progress callback, in goals that name a route.

    Raises:
        TooManyErrors: more calls than ``controller.allow`` got no reply.
    """
    results = sanitize_by_rules(goals)
    texts = [goal for goal, _ in goals]
    asked = [
        number
        for number, (goal, domain) in enumerate(goals)
        if results[number].text != goal or names_route(goal, domain)
    ]

    def write(number: int) -> Written:
        request = goal_request(texts[number], results[number].values, controller)
        return ask(controller.chat, [("", request)], GoalReply, 0)

    written = write_all(controller, asked, write, lambda number: f"goal {number}: {texts[number][:60]!r}", report)
    for number, one in zip(asked, written, strict=True):
        results[number] = _decide(*goals[number], results[number], one)
    return results


def _decide(goal: str, domain: str, by_rules: Sanitized, written: Written) -> Sanitized:
    if written.value is None:
        return replace(by_rules, origin="fallback", detail=written.origin.detail)
    text = str(written.value["goal"])
    flags = check(goal, text, domain)
    if flags:
        told = "; ".join(map(str, flags))
        return replace(by_rules, origin="fallback", detail=f"the checker objects to the reply: {told}")
    kind: Origin = "repaired" if written.origin.kind == "repaired" else "model"
    return replace(by_rules, text=text, flags=(), origin=kind, detail=written.origin.detail)
