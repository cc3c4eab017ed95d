"""The procedure note of a run, by rules: what was to be done, the steps in words, and what the run ended with."""

from __future__ import annotations

import re
from itertools import groupby

from lmev2.pools.note_changes import changes
from lmev2.pools.note_view import RunView, Step, quote, shorten
from lmev2.pools.settings import NoteSettings
from lmev2.tree import clean

_FEW_CHANGES = 3  # so few new labels stand behind the step itself; the hint note has them all
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")


def procedure_note(view: RunView, settings: NoteSettings) -> dict[str, str]:
    """Title, description and content of a run's procedure note. A run that failed is called an attempt."""
    trajectory = view.trajectory
    failed = trajectory.outcome != "success"
    title = goal_title(trajectory.goal, settings.title_chars)
    pages = list(view.page_states)
    shown = ", then ".join(quote(page, 70) for page in pages[:6]) + (", and more" if len(pages) > 6 else "")
    outcome = "Attempted workflow (the run failed)" if failed else "Workflow of a run that succeeded"
    description = f"{outcome} in {trajectory.environment}: {_count(len(view.steps), 'action')} on {shown}."
    head = [f"- Goal: {shorten(clean(trajectory.goal), 420)}"] if clean(trajectory.goal) != title else []
    content = _fit([*head, *_step_bullets(view)], _ending(view, failed), settings.procedure_chars)
    return {"title": f"Attempted: {title}" if failed else title, "description": description, "content": content}


def goal_title(goal: str, limit: int) -> str:
    """The goal's first sentences, as many as fit whole, or the first one shortened at a word."""
    sentences = [part for part in map(clean, _SENTENCE_END.split(goal)) if part]
    title = ""
    for sentence in sentences:
        longer = f"{title} {sentence}".strip()
        if title and len(longer) > limit:
            break
        title = longer
    return shorten(title, limit) or "Run without a goal"


def _step_bullets(view: RunView) -> list[str]:
    steps = [step for step in view.steps if step.verb != "scroll" or step.changed]
    bullets, page = [], None
    for _, same in groupby(steps, key=_merge_key):
        group = list(same)
        step = group[-1]
        where = f"On page {view.q(step.page)}: " if step.page != page else ""
        times = f" ({len(group)} times)" if len(group) > 1 else ""
        bullets.append(f"- {where}{step.words}{times}{_result(view, group)}")
        page = step.page
    return bullets


def _merge_key(step: Step) -> tuple[str, str]:
    return ("scroll", step.page) if step.verb == "scroll" else (step.words, step.page)


def _result(view: RunView, group: list[Step]) -> str:
    last = group[-1]
    parts = [f"message {view.q(text)}" for step in group for text in step.messages[:2]]
    if last.page_after != last.page:
        parts.insert(0, f"page {view.q(last.page_after)}")
    if not parts and last.verb in {"click", "press"}:
        appeared = changes(view, last).appeared
        if 0 < len(appeared) <= _FEW_CHANGES:
            parts.append("appeared " + ", ".join(view.q(label) for label in appeared))
    if parts:
        return " -> " + ", ".join(dict.fromkeys(parts))
    if last.verb in {"send_msg_to_user", "report_infeasible", "scroll", "noop"} or any(step.changed for step in group):
        return ""
    return " (no visible change)"


def _ending(view: RunView, failed: bool) -> str:
    if not view.states:
        return "- The run has no states."
    messages = view.trees[-1].messages()
    shown = f", which shows the message {view.q(messages[0])}" if messages else ""
    verdict = "The attempt failed; it ended" if failed else "The run succeeded; it ended"
    return f"- {verdict} on page {view.q(view.pages[-1])}{shown}."


def _fit(bullets: list[str], ending: str, limit: int) -> str:
    """All bullets within the limit; when they are too many, steps in the middle give way to a count."""
    ending = shorten(ending, limit)
    kept, left_out = list(bullets), 0
    while kept and len("\n".join([*kept, ending])) + (40 if left_out else 0) > limit:
        kept.pop(len(kept) // 2)
        left_out += 1
    if left_out:
        kept.insert((len(kept) + 1) // 2, f"- … ({_count(left_out, 'step')} left out here)")
        if len("\n".join([*kept, ending])) > limit:
            return ending
    return "\n".join([*kept, ending])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
