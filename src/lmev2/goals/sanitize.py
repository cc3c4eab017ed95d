"""Sanitising a goal: the rewriter's result with the checker's judgement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lmev2.goals.check import Flag, check, kept_values
from lmev2.goals.rewrite import Rewritten, is_generic, rewrite

Origin = Literal["unchanged", "rules", "model", "repaired", "fallback"]


@dataclass(frozen=True)
class Sanitized:
    """A goal without its routes.

    Attributes:
        text: the goal; the original one, to the character, where no route was found.
        removed_routes: the routes that were removed, as the goal wrote them.
        values: the values of the original goal that must be kept, such as field names, hashtags and amounts.
        flags: what the checker objects to; empty for a sound result.
        origin: ``unchanged``, or who rewrote it: ``rules``, ``model``, ``repaired`` (by a second call) or
            ``fallback`` (rules in place of a model).
        detail: why it is repaired or a fallback; else None.
    """

    text: str
    removed_routes: tuple[str, ...]
    values: tuple[str, ...]
    flags: tuple[Flag, ...]
    origin: Origin
    detail: str | None = None


def sanitize(goal: str, domain: str = "enterprise") -> Sanitized:
    """Rewrite a goal by rules: remove the routes, keep the intent and every value (paper, Table 3).

    A goal that names no route comes back unchanged, and so does the result of an earlier call.

    Args:
        domain: in ``web`` only clauses that go to a module or an application are removed, since a path may be data
            there (a shop's categories); in ``enterprise`` also menu paths and hints where something lies.
    """
    rewritten = rewrite(goal, hints=domain != "web")
    return judge(goal, rewritten, domain)


def judge(goal: str, rewritten: Rewritten, domain: str = "enterprise") -> Sanitized:
    """The rules' result with its flags."""
    flags = check(goal, rewritten.text, domain)
    if rewritten.only_route and not rewritten.opened:
        flags.append(Flag("destination_unclear", "the goal is nothing but a route, which names no page"))
    elif rewritten.only_route and (unclear := [name for name in rewritten.opened if is_generic(name)]):
        flags.append(Flag("destination_unclear", ", ".join(unclear)))
    return Sanitized(
        rewritten.text,
        tuple(rewritten.removed),
        tuple(kept_values(goal, domain)),
        tuple(flags),
        "unchanged" if rewritten.text == goal else "rules",
    )


def sanitize_by_rules(goals: Sequence[tuple[str, str]]) -> list[Sanitized]:
    """Many goals with their domains, by :func:`sanitize`."""
    return [sanitize(goal, domain) for goal, domain in goals]


def check_only(goals: Sequence[tuple[str, str]]) -> list[Sanitized]:
    """Many goals with their domains, by :func:`only_check`."""
    return [only_check(goal, domain) for goal, domain in goals]


def only_check(goal: str, domain: str = "enterprise") -> Sanitized:
    """The goal as it is, with flags where it names a route: for data that claims to be sanitised already."""
    return Sanitized(goal, (), tuple(kept_values(goal, domain)), tuple(check(goal, goal, domain)), "unchanged")
