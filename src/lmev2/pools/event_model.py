"""Events by a model: the requests (paper, Table 9) and the shape of the reply."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pydantic

from lmev2.models.text import cut_middle
from lmev2.models.types import ChatRequest, ImagePart, TextPart
from lmev2.pools.controller import NO_THOUGHT, Controller, object_of_texts
from lmev2.pools.entry import CUT_TREES
from lmev2.pools.event import EVENT_FIELDS
from lmev2.trajectory import State, Trajectory

_NONE = "(none: the run begins here)"


@cache
def event_schema(max_chars: int | None) -> type[pydantic.BaseModel]:
    """The reply's schema: overview and state transition; ``max_chars`` limits each."""
    return object_of_texts("Event", EVENT_FIELDS, max_chars)


def event_requests(
    trajectory: Trajectory, pre: int, controller: Controller, retry_tree_chars: int
) -> Iterator[tuple[str, ChatRequest]]:
    """The request for the event of a transition, and the one for when it fails for length: with each of the two trees
    cut in the middle. There is no second one when no tree is that long. Thinking is off.

    Raises:
        IndexError: there is no such transition.
    """
    trajectory.transition_action(pre)
    yield "", _request(trajectory, pre, controller, None)
    if any(len(state.tree) > retry_tree_chars for state in trajectory.states[pre : pre + 2]):
        yield (
            f"{CUT_TREES} {retry_tree_chars} characters",
            _request(trajectory, pre, controller, retry_tree_chars),
        )


def _request(trajectory: Trajectory, pre: int, controller: Controller, tree_chars: int | None) -> ChatRequest:
    before, after = trajectory.states[pre : pre + 2]
    trace = "\n".join(
        f"{number} -> {number + 1}: {action}" for number, action in enumerate(trajectory.action_sequence())
    )
    messages = controller.prompt.render_messages(
        state_i=str(pre),
        state_j=str(pre + 1),
        goal=trajectory.goal,
        outcome=trajectory.outcome,
        actions=trace,
        pre_state=list(_block(before, trajectory, controller, tree_chars)),
        post_state=list(_block(after, trajectory, controller, tree_chars)),
    )
    return controller.request(messages, thinking=False)


def _block(
    state: State, trajectory: Trajectory, controller: Controller, tree_chars: int | None
) -> Iterator[TextPart | ImagePart]:
    """A state with the thought and the action that led *to* it: those of the post-state are the transition's own."""
    index = state.state_index
    action = trajectory.transition_action(index - 1) if index else _NONE
    thought = (state.thought or NO_THOUGHT) if index else _NONE
    tree = state.tree if tree_chars is None else cut_middle(state.tree, tree_chars)
    yield TextPart(
        f"[State {index}]\nURL: {state.url}\nThoughts before the action that led here: {thought}\n"
        f"Action that led here: {action}\nAccessibility tree:\n{tree}\nScreenshot: "
    )
    yield controller.screenshot(state)
