"""Retrieved entries written out as context items: notes first, then raw-state slices (paper, AgentRunbook-R)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lmev2.index import Hit
from lmev2.memory.base import ContextItem
from lmev2.memory.focus import focus_lines
from lmev2.memory.focus_score import focus_bullets
from lmev2.memory.settings import RenderSettings
from lmev2.trajectory import State, Trajectory

_NOTE_TITLES = {"procedure_note": "Procedure note", "hint_note": "Hint note"}
_URL_PROPERTY = re.compile(r""", url=(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_ACTION_CHARS = 120


def render_notes(
    pool: str, hits: Sequence[Hit], query: str, settings: RenderSettings, heading: bool
) -> list[ContextItem]:
    """One text item per note: rank, similarity, trajectory, then title, description and content.

    Args:
        pool: ``procedure_note`` or ``hint_note``.
        hits: notes, best first.
        query: what was searched; focused rendering keeps the title and the bullets that bear on it.
        heading: start the first item with the section's heading.
    """
    items = []
    for rank, hit in enumerate(hits, start=1):
        title, content = str(hit.payload["title"]), str(hit.payload["content"])
        if settings.mode == "full":
            body = f"Title: {title}\nDescription: {hit.payload['description']}\n{content}"
        else:
            body = f"{title}\n{focus_bullets(query, content, settings.note_chars)}"
        text = f"### {_NOTE_TITLES[pool]} {rank} ({_source(hit)})\n{body}"
        if heading and rank == 1:
            text = f"## Procedure and hint notes\n\n{text}"
        items.append(ContextItem("text", text, hit.trajectory_id, (), pool, hit.score))
    return items


def render_slice(
    rank: int, hit: Hit, query: str, trajectory: Trajectory, settings: RenderSettings, seen: set[str]
) -> list[ContextItem]:
    """One raw-state slice: a text item, then the centre state's screenshot if it has one.

    Args:
        rank: 1 for the best slice, which carries the section's heading.
        query: what was searched.
        seen: for focused rendering, tree lines that the context already shows; grows.
    """
    states = trajectory.states[hit.first_state : hit.last_state + 1]
    if settings.mode == "full":
        body, shown = _full_states(trajectory, hit, query, states), [state.state_index for state in states]
    else:
        body, shown = _focused_states(trajectory, query, states, settings, seen)
    heading = "## Raw state slices\n\n" if rank == 1 else ""
    text = f"{heading}### Slice {rank} ({_source(hit)}, states {hit.first_state}-{hit.last_state})\n{body}"
    items = [ContextItem("text", text, hit.trajectory_id, tuple(shown), "raw_state", hit.score)]
    screenshot = trajectory.states[hit.center_state].screenshot
    if screenshot is not None:
        items.append(_screenshot(hit, screenshot))
    return items


def _screenshot(hit: Hit, path: Path) -> ContextItem:
    return ContextItem("image", str(path), hit.trajectory_id, (hit.center_state,), "raw_state", hit.score)


def _source(hit: Hit) -> str:
    return f"similarity {hit.score:.3f}, trajectory {hit.trajectory_id}"


def _full_states(trajectory: Trajectory, hit: Hit, query: str, states: Sequence[State]) -> str:
    actions = trajectory.action_sequence()
    local = trajectory.local_actions(hit.first_state, hit.last_state)
    blocks = [
        f"Query: {query}",
        f"Goal: {trajectory.goal}",
        "Action sequence:\n" + _numbered(actions, 0),
        "Actions in this slice:\n" + _numbered(local, hit.first_state),
    ]
    for state in states:
        step = "" if state.step is None else f" (step {state.step})"
        led_here = actions[state.state_index - 1] if state.state_index else "none (first state)"
        blocks.append(
            f"[State {state.state_index}{step}]\nURL: {state.url}\n"
            f"Action that led here: {led_here}\nAccessibility tree:\n{state.tree}"
        )
    return "\n".join(blocks)


def _numbered(actions: Sequence[str], first: int) -> str:
    """Transitions as ``pre -> post: action`` lines; states are numbered as in the trajectory."""
    return (
        "\n".join(f"  {number} -> {number + 1}: {action}" for number, action in enumerate(actions, start=first))
        or "  none"
    )


def _focused_states(
    trajectory: Trajectory, query: str, states: Sequence[State], settings: RenderSettings, seen: set[str]
) -> tuple[str, list[int]]:
    goal = f"Goal: {trajectory.goal}"
    blocks = [] if goal in seen else [goal]
    seen.add(goal)
    shown = []
    excerpts = focus_lines(query, [state.tree for state in states], settings.slice_chars, seen)
    for state, excerpt in zip(states, excerpts, strict=True):
        if excerpt is None:
            continue
        action = f", after {_short_action(state.action_annotated)}" if state.action_annotated else ""
        blocks.append(f"[State {state.state_index}{action}]\n{excerpt}")
        shown.append(state.state_index)
    return "\n".join(blocks), shown


def _short_action(annotated: str) -> str:
    """An annotated action without the addresses and properties of its element."""
    text = _URL_PROPERTY.sub("", annotated)
    return text if len(text) <= _ACTION_CHARS else text[: _ACTION_CHARS - 1] + "…"
