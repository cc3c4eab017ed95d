"""Notes by a model: the request (paper, Table 9) and the shape of the reply."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pydantic

from lmev2.models.types import ChatRequest, ImagePart, TextPart
from lmev2.pools.controller import NO_THOUGHT, Controller, object_of_texts
from lmev2.pools.note import NOTE_FIELDS, NOTE_POOLS
from lmev2.trajectory import State, Trajectory

_LAST = "(none: the run ends here)"


@cache
def note_schema(max_chars: int | None) -> type[pydantic.BaseModel]:
    """The reply's schema: both notes with title, description and content; ``max_chars`` limits each text."""
    note = object_of_texts("Note", NOTE_FIELDS, max_chars)
    definitions: dict[str, Any] = dict.fromkeys(NOTE_POOLS, (note, ...))
    return pydantic.create_model("Notes", __config__=pydantic.ConfigDict(extra="forbid"), **definitions)


def note_request(trajectory: Trajectory, controller: Controller) -> ChatRequest:
    """The request for both notes of a trajectory. Thinking is as the role says."""
    states = [part for state in trajectory.states for part in _block(state, trajectory, controller)]
    messages = controller.prompt.render_messages(
        goal=trajectory.goal, outcome=trajectory.outcome, start_url=trajectory.start_url, states=states
    )
    return controller.request(messages)


def _block(state: State, trajectory: Trajectory, controller: Controller) -> Iterator[TextPart | ImagePart]:
    """A state with the action taken *from* it and the thought behind that action, which stand on the next state."""
    index = state.state_index
    action = trajectory.next_action(index)
    thought = trajectory.states[index + 1].thought if action is not None else None
    break_before = "\n\n" if index else ""
    yield TextPart(
        f"{break_before}[State {index}]\nURL: {state.url}\nThought: {thought or NO_THOUGHT}\n"
        f"Action: {_LAST if action is None else action}\nScreenshot: "
    )
    yield controller.screenshot(state)
