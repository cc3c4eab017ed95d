"""Events by rules: a transition described from the difference between its two trees, with no model.

The two texts have the form that the paper's event prompt asks of a model (paper, Table 9): ``overview`` recaps goal and
workflow stage, ``state_transition`` compares the state after with the state before, with the page's own labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmev2.pools.event_changes import FlagChange, ValueChange, flag_changes, value_changes
from lmev2.pools.note_changes import changes
from lmev2.pools.note_pages import joined
from lmev2.pools.note_view import RunView, SeenLine, Step, shorten
from lmev2.pools.settings import EventSettings
from lmev2.tree import CONTROL_ROLES, clean

_GOAL_CHARS = 420
_STAGE_CHARS = 200
_MOST_PARTS = 24  # of one sentence
# What tells most about a page comes first; all other roles stand between fields and plain text.
_ORDER = {
    role: rank
    for rank, roles in enumerate(
        (
            ("alert", "alertdialog", "dialog", "status"),
            ("heading", "sectionheader"),
            (*sorted(CONTROL_ROLES), "tab"),
            (),
            ("link", "menuitem"),
            ("option",),
            ("StaticText", "generic", ""),
        )
    )
    for role in roles
}
_MIDDLE = 3
_NAMES = {
    "": "",
    "LabelText": "label",
    "RootWebArea": "document",
    "StaticText": "",
    "generic": "",
    "searchbox": "field",
    "sectionheader": "heading",
    "textbox": "field",
}


def rule_event(view: RunView, pre: int, settings: EventSettings) -> dict[str, str]:
    """``overview`` and ``state_transition`` of the transition from state ``pre`` to the next.

    Raises:
        IndexError: there is no such transition.
    """
    view.trajectory.transition_action(pre)
    return {"overview": _overview(view, pre), "state_transition": _transition(view, pre, settings.change_chars)}


def _overview(view: RunView, pre: int) -> str:
    trajectory = view.trajectory
    goal = shorten(clean(trajectory.goal), _GOAL_CHARS) or "none given"
    before = _words(view.steps_to(pre)) if pre else ""
    stage = f"Action {pre + 1} of {len(trajectory.states) - 1} of a run in {trajectory.environment}"
    stage += f", after the action: {shorten(before, _STAGE_CHARS)}" if before else ""
    ended = "succeeded" if trajectory.outcome == "success" else "failed"
    return f"{_sentence(f'Goal: {goal}')} {_sentence(stage)} The run {ended}."


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _words(steps: Sequence[Step]) -> str:
    return ", then ".join(step.words for step in steps if step.words)


def _transition(view: RunView, pre: int, limit: int) -> str:
    steps = view.steps_to(pre + 1)
    page, page_after = view.q(view.pages[pre]), view.q(view.pages[pre + 1])
    moved = view.pages[pre] != view.pages[pre + 1]
    action = _words(steps)
    sentences = [_sentence(f"Action on page {page}: {action}" if action else f"On page {page}, no action is recorded")]
    seen = _differences(view, pre, steps, moved)
    if moved:
        sentences.append(f"The page changed to {page_after}.")
    elif view.states[pre].url != view.states[pre + 1].url:
        sentences.append(f"The page stayed {page}, its address changed to {view.q(view.states[pre + 1].url)}.")
    elif not any(parts for _, parts in seen):
        sentences.append("No visible change.")
    for number, (lead, parts) in enumerate(seen):
        if parts:
            room = limit - len(" ".join(sentences)) - len(lead) - 8
            later = any(others for _, others in seen[number + 1 :])
            text = joined(parts[:_MOST_PARTS], room * 2 // 3 if later else room)
            sentences.append(f"{lead} {text}{', …' if len(parts) > _MOST_PARTS and not text.endswith('…') else ''}.")
    return shorten(" ".join(sentences), limit)


def _differences(view: RunView, pre: int, steps: Sequence[Step], moved: bool) -> list[tuple[str, list[str]]]:
    """What a user sees differently, as beginnings of sentences with their parts, which may be none."""
    before, after = view.seen[pre], view.seen[pre + 1]
    messages = [text for step in steps for text in step.messages]
    values = [] if moved else value_changes(before, after)
    flags = [] if moved else flag_changes(before, after)
    said = (*(text for step in steps for text in step.typed), *(change.new for change in values))
    change = changes(view, replace(steps[-1], label="", typed=said, messages=tuple(messages)))
    new = [label for label in change.appeared if not moved or label != view.pages[pre + 1]]
    appeared = _named(view, pre + 1, new)
    gone = [] if moved else _named(view, pre, change.gone)
    found = [
        ("Message:", [view.q(text) for text in messages]),
        ("Changed values:", [_value(view, value) for value in values]),
        ("Changed controls:", [_flag(view, flag) for flag in flags]),
        (f"Page {view.q(view.pages[pre + 1])} newly shows:" if moved else "Appeared:", appeared),
        ("Disappeared:", gone),
    ]
    if any(parts for _, parts in found) or moved or before.keys() == after.keys():
        return found
    # Only labels too short to tell anything by themselves, or contained in others: better than nothing.
    rest = [[line for line in lines if line not in others] for lines, others in ((after, before), (before, after))]
    appeared, gone = [[_thing(view, line.role, line.label or line.value) for line in lines] for lines in rest]
    return [("Appeared:", appeared), ("Disappeared:", gone)]


def _named(view: RunView, state: int, labels: Sequence[str]) -> list[str]:
    """Labels of a state with what they are, the most telling first."""
    lines: dict[str, SeenLine] = {}
    for line in view.seen[state]:
        known = lines.get(line.label)
        if known is None or _rank(line.role) < _rank(known.role):
            lines[line.label] = line
    tree = view.trees[state]
    shown = sorted((lines[label] for label in labels), key=lambda line: _rank(line.role))
    return [
        _thing(view, line.role, tree.tab_text(view.seen[state][line]) if line.role == "tab" else line.label)
        for line in shown
    ]


def _rank(role: str) -> int:
    return _ORDER.get(role, _MIDDLE)


def _thing(view: RunView, role: str, label: str) -> str:
    name = _NAMES.get(role, role)
    if not label:
        return f"a {name or 'part'} without a name"
    return f"{name} {view.q(label)}".strip()


def _value(view: RunView, change: ValueChange) -> str:
    thing = _thing(view, change.role, change.label)
    if not change.new:
        return f"{thing} was cleared of {view.q(change.old or '')}"
    came_from = f" from {view.q(change.old)}" if change.old else ""
    return f"{thing}{came_from} to {view.q(change.new)}"


def _flag(view: RunView, change: FlagChange) -> str:
    return f"{_thing(view, change.role, change.label)} is {'now' if change.on else 'no longer'} {change.flag}"
