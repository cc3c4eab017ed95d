"""The context that a coding agent's output becomes: its markdown, then the spans that it names (paper, Table 11)."""

from __future__ import annotations

from collections.abc import Sequence

from lmev2.agent.output import Span
from lmev2.data.store import StateStore
from lmev2.memory.base import ContextItem
from lmev2.memory.render import focused_states, numbered_actions, state_text
from lmev2.memory.settings import RenderSettings
from lmev2.trajectory import State, Trajectory

POOL = "span"
_HEADING = "## Trajectory spans"


def render_output(
    markdown: str, spans: Sequence[Span], question: str, store: StateStore, settings: RenderSettings
) -> list[ContextItem]:
    """The markdown; a list of the spans; per span its trajectory's goal, start address and actions, and each state with
    its tree and screenshot. Items stand by importance, so that truncation takes the least important state first.

    Focused rendering cuts the markdown to ``slice_chars``, leaves the list out, and shows of each span what bears on
    the question.

    Args:
        markdown: what the agent wrote; empty for nothing.
        spans: by importance; all exist in ``store``.
        question: the question's text.
    """
    items: list[ContextItem] = []
    text = markdown.strip()
    if text:
        short = text if settings.mode == "full" else _cut(text, settings.slice_chars)
        items.append(ContextItem("text", short))
    if settings.mode == "full" and spans:
        items.append(ContextItem("text", "\n".join([_HEADING, *map(_listed, range(1, len(spans) + 1), spans)])))
    seen: set[str] = set()
    for rank, span in enumerate(spans, start=1):
        trajectory = store.trajectory(span.trajectory_id)
        states = trajectory.states[span.first : span.last + 1]
        if settings.mode == "full":
            items += _full(rank, span, trajectory, states)
        else:
            items += _focused(rank, span, trajectory, states, question, settings, seen)
    return items


def _full(rank: int, span: Span, trajectory: Trajectory, states: Sequence[State]) -> list[ContextItem]:
    head = (
        f"### Span {_listed(rank, span)}\nGoal: {trajectory.goal}\nStart URL: {trajectory.start_url}\n"
        f"Actions:\n{numbered_actions(trajectory.action_sequence(), 0)}"
    )
    items = [ContextItem("text", head, span.trajectory_id, (), POOL)]
    for state in states:
        items.append(_text(state_text(trajectory, state), span, (state.state_index,)))
        items += _image(state, span)
    return items


def _focused(
    rank: int,
    span: Span,
    trajectory: Trajectory,
    states: Sequence[State],
    question: str,
    settings: RenderSettings,
    seen: set[str],
) -> list[ContextItem]:
    body, shown = focused_states(trajectory, question, states, settings, seen)
    heading = f"{_HEADING}\n\n" if rank == 1 else ""
    items = [_text(f"{heading}### Span {_listed(rank, span)}\n{body}", span, tuple(shown))]
    for state in states:
        mark = f"screenshot {state.screenshot}"
        if mark not in seen:
            seen.add(mark)
            items += _image(state, span)
    return items


def _listed(rank: int, span: Span) -> str:
    return f"{rank}. {span.trajectory_id}, states {span.first}-{span.last}"


def _text(text: str, span: Span, states: tuple[int, ...]) -> ContextItem:
    return ContextItem("text", text, span.trajectory_id, states, POOL)


def _image(state: State, span: Span) -> list[ContextItem]:
    if state.screenshot is None:
        return []
    return [ContextItem("image", str(state.screenshot), span.trajectory_id, (state.state_index,), POOL)]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
