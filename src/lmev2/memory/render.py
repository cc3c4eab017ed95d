"""Retrieved entries written out as context items: notes, then events, then raw-state slices (paper, AgentRunbook-R).

An item names the states that it shows, which is what evidence coverage counts. A slice's text shows the states whose
tree lines it holds, a screenshot its own state. The text of an event describes what changed between two states without
showing either, as a note does, so it names none: with a reader that sees no images, an event alone covers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lmev2.index import Hit
from lmev2.memory.base import ContextItem
from lmev2.memory.focus import focus_lines
from lmev2.memory.focus_score import focus_bullets, focus_clauses
from lmev2.memory.settings import RenderSettings
from lmev2.trajectory import State, Trajectory

_NOTE_TITLES = {"procedure_note": "Procedure note", "hint_note": "Hint note"}
_LITERAL = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# One of the tree lines behind an action, up to the next one, of which role and name say which element it is. The
# literals in a line may hold what stands between two lines.
_ELEMENT = re.compile(rf"\[[^\[\]\s]+\] (\w+(?: {_LITERAL})?)(?=,| value=| \| \[|$)(?:(?! \| \[)(?:{_LITERAL}|.))*")
_ACTION_CHARS = 120
_GOAL_CHARS = 100


def render_notes(
    table: str, hits: Sequence[Hit], question: str, settings: RenderSettings, heading: bool
) -> list[ContextItem]:
    """One text item per note: rank, similarity, trajectory, then title, description and content.

    Args:
        table: ``procedure_note`` or ``hint_note``.
        hits: notes, best first.
        question: focused rendering keeps the title and the bullets that bear on it.
        heading: start the first item with the section's heading.
    """
    items = []
    for rank, hit in enumerate(hits, start=1):
        text = f"### {_NOTE_TITLES[table]} {rank} ({_source(hit, settings)})\n{note_body(hit, question, settings)}"
        if heading and rank == 1:
            text = _heading("Procedure and hint notes", settings) + text
        items.append(ContextItem("text", text, hit.trajectory_id, (), table, hit.score))
    return items


def render_event(
    rank: int, hit: Hit, question: str, trajectory: Trajectory, settings: RenderSettings, seen: set[str]
) -> list[ContextItem]:
    """One event: a text item, then the screenshots of the states before and after, where there are any.

    Args:
        rank: 1 for the best event, which carries the section's heading.
        question: focused rendering keeps what bears on it.
        seen: for focused rendering, screenshots that the context already shows are not repeated; grows.
    """
    pre, post = hit.first_state, hit.last_state
    heading = _heading("State-transition events", settings) if rank == 1 else ""
    body = event_body(hit, question, trajectory, settings)
    text = f"{heading}### Event {rank} ({_source(hit, settings)}, states {pre} -> {post})\n{body}"
    items = [ContextItem("text", text, hit.trajectory_id, (), "event", hit.score)]
    for state in (trajectory.states[pre], trajectory.states[post]):
        items += _screenshot(hit, state, "event", settings, seen)
    return items


def render_slice(
    rank: int, hit: Hit, query: str, trajectory: Trajectory, settings: RenderSettings, seen: set[str]
) -> list[ContextItem]:
    """One raw-state slice: a text item, then the centre state's screenshot if it has one.

    Args:
        rank: 1 for the best slice, which carries the section's heading.
        query: full rendering names it as the query that found the slice; focused rendering keeps what bears on it.
        seen: for focused rendering, tree lines and screenshots that the context already shows; grows.
    """
    body, shown = slice_body(hit, query, trajectory, settings, seen)
    heading = _heading("Raw state slices", settings) if rank == 1 else ""
    source = f"{_source(hit, settings)}, states {hit.first_state}-{hit.last_state}"
    text = f"{heading}### Slice {rank} ({source})\n{body}"
    items = [ContextItem("text", text, hit.trajectory_id, tuple(shown), "raw_state", hit.score)]
    return items + _screenshot(hit, trajectory.states[hit.center_state], "raw_state", settings, seen)


def note_body(hit: Hit, question: str, settings: RenderSettings) -> str:
    """Title, description and content of a note; in focused rendering the title and the bullets that bear on the
    question."""
    return note_text(hit.payload, question, settings)


def note_text(payload: Mapping[str, object], question: str, settings: RenderSettings) -> str:
    """The same of the note's fields."""
    title, content = str(payload["title"]), str(payload["content"])
    if settings.mode == "full":
        return f"Title: {title}\nDescription: {payload['description']}\n{content}"
    return f"{title}\n{focus_bullets(question, content, settings.note_chars)}"


def event_body(hit: Hit, question: str, trajectory: Trajectory, settings: RenderSettings) -> str:
    """Transition, annotated action, overview and description of an event; in focused rendering what bears on the
    question in the description of the change, which names the action."""
    pre, post = hit.first_state, hit.last_state
    action, change = trajectory.transition_action(pre), str(hit.payload["state_transition"])
    if settings.mode == "full":
        return (
            f"Transition: state {pre} -> state {post}\nAction: {action}\n"
            f"Overview: {hit.payload['overview']}\nDescription: {change}"
        )
    return focus_clauses(question, change, settings.event_chars)


def slice_body(
    hit: Hit, query: str, trajectory: Trajectory, settings: RenderSettings, seen: set[str]
) -> tuple[str, list[int]]:
    """The text of a slice, and the states that it shows; arguments as for :func:`render_slice`."""
    states = trajectory.states[hit.first_state : hit.last_state + 1]
    if settings.mode == "full":
        return _full_states(trajectory, hit, query, states), [state.state_index for state in states]
    return focused_states(trajectory, query, states, settings, seen)


def _screenshot(hit: Hit, state: State, pool: str, settings: RenderSettings, seen: set[str]) -> list[ContextItem]:
    """A state's screenshot; none without one, and in focused rendering none that the context already shows."""
    mark = f"screenshot {state.screenshot}"
    if state.screenshot is None or (settings.mode == "focused" and mark in seen):
        return []
    seen.add(mark)
    return [ContextItem("image", str(state.screenshot), hit.trajectory_id, (state.state_index,), pool, hit.score)]


def _heading(title: str, settings: RenderSettings) -> str:
    """A section's heading; in focused rendering it says once what stands in each entry's brackets."""
    return f"## {title}\n\n" if settings.mode == "full" else f"## {title} (similarity, trajectory)\n\n"


def _source(hit: Hit, settings: RenderSettings) -> str:
    if settings.mode == "full":
        return f"similarity {hit.score:.3f}, trajectory {hit.trajectory_id}"
    return f"{hit.score:.2f}, {hit.trajectory_id}"


def _full_states(trajectory: Trajectory, hit: Hit, query: str, states: Sequence[State]) -> str:
    actions = trajectory.action_sequence()
    local = trajectory.local_actions(hit.first_state, hit.last_state)
    blocks = [
        f"Query: {query}",
        f"Goal: {trajectory.goal}",
        "Action sequence:\n" + numbered_actions(actions, 0),
        "Actions in this slice:\n" + numbered_actions(local, hit.first_state),
    ]
    return "\n".join(blocks + [state_text(trajectory, state) for state in states])


def state_text(trajectory: Trajectory, state: State) -> str:
    """A state in full: index, step, address, the action that led to it, and the whole tree."""
    step = "" if state.step is None else f" (step {state.step})"
    index = state.state_index
    led_here = trajectory.transition_action(index - 1) if index else "none (first state)"
    return (
        f"[State {index}{step}]\nURL: {state.url}\nAction that led here: {led_here}\nAccessibility tree:\n{state.tree}"
    )


def numbered_actions(actions: Sequence[str], first: int) -> str:
    """Transitions as ``pre -> post: action`` lines; states are numbered as in the trajectory."""
    return (
        "\n".join(f"  {number} -> {number + 1}: {action}" for number, action in enumerate(actions, start=first))
        or "  none"
    )


def focused_states(
    trajectory: Trajectory, query: str, states: Sequence[State], settings: RenderSettings, seen: set[str]
) -> tuple[str, list[int]]:
    """Goal and excerpts of states, as much as ``slice_chars`` allows, and the states that are shown."""
    goal = goal_line(trajectory)
    blocks = [] if goal in seen else [goal]
    seen.add(goal)
    shown = []
    # The goal takes its room from the trees, so that slices of many trajectories take no more than those of one.
    budget = settings.slice_chars - sum(map(len, blocks))
    excerpts = focus_lines(query, [state.tree for state in states], max(budget, settings.slice_chars // 2), seen)
    for state, excerpt in zip(states, excerpts, strict=True):
        if excerpt is None:
            continue
        action = f", after {_short_action(state.action, state.action_annotated)}" if state.action_annotated else ""
        blocks.append(f"[State {state.state_index}{action}]\n{excerpt}")
        shown.append(state.state_index)
    return "\n".join(blocks), shown


def goal_line(trajectory: Trajectory) -> str:
    """The goal as focused rendering shows it, once in a context."""
    return f"Goal: {_short(trajectory.goal, _GOAL_CHARS)}"


def _short_action(action: str | None, annotated: str) -> str:
    """An annotated action with its elements' roles and names only; a tree line in another format stays as it is."""
    plain = len(action or "")  # what the action itself types may look like an element
    text = annotated[:plain] + _ELEMENT.sub(r"\1", annotated[plain:])
    return _short(text, _ACTION_CHARS)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
