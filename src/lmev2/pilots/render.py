"""Oracle contexts as items: notes, then trajectories with their states (paper, Table 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lmev2.memory.base import ContextItem
from lmev2.memory.render import focused_states, goal_line, note_text, numbered_actions, state_text
from lmev2.memory.settings import RenderSettings
from lmev2.models.text import well_formed
from lmev2.trajectory import Trajectory

# Headings and order are the paper's.
NOTES_HEADING: Final = "## Procedure and Hint Notes Learned from Previous Tasks in the Environment"
STATES_HEADING: Final = "## Oracle Trajectories and Relevant State Slices from Previous Tasks in the Environment"
POOL: Final = "oracle"
NOTE_POOLS: Final = ("procedure_note", "hint_note")
_NOTE_TITLES: Final = {"procedure_note": "Procedure note", "hint_note": "Hint note"}


@dataclass(frozen=True)
class Layout:
    """What of a question's oracle may be shown, in the order of the context.

    Attributes:
        question: the question's text, for focused rendering.
        trajectories: the oracle trajectories.
        windows: first and last state of the evidence windows of each trajectory; None: its states are shown as a whole.
        annotated: annotated states of each trajectory.
    """

    question: str
    trajectories: Sequence[Trajectory]
    windows: Mapping[str, Sequence[tuple[int, int]]] | None
    annotated: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Shown:
    """What is shown so far. Grows by copies.

    Attributes:
        notes: texts by trajectory id and pool.
        states: items by trajectory id and state index.
        seen: for focused rendering, what the context shows already.
    """

    notes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    states: Mapping[tuple[str, int], tuple[ContextItem, ...]] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()

    def with_note(
        self, trajectory_id: str, pool: str, payload: Mapping[str, Any], question: str, render: RenderSettings
    ) -> Shown:
        """The same and a note."""
        text = well_formed(
            f"### {_NOTE_TITLES[pool]} of trajectory {trajectory_id}\n{note_text(payload, question, render)}"
        )
        return Shown({**self.notes, (trajectory_id, pool): text}, self.states, self.seen)

    def with_state(
        self, trajectory: Trajectory, index: int, question: str, render: RenderSettings, always: bool
    ) -> Shown | None:
        """The same and a state; None where focused rendering finds nothing in it that bears on the question.

        Args:
            always: such a state is shown by the beginning of its tree instead.
        """
        state = trajectory.states[index]
        seen = {*self.seen, goal_line(trajectory)}  # the goal stands above the trajectory's states
        if render.mode == "full":
            text = state_text(trajectory, state)
        else:
            text, shown = focused_states(trajectory, question, [state], render, seen)
            if not shown:
                if not always:
                    return None
                text = f"[State {index}]\n{state.tree[: render.slice_chars]}"
        items = [ContextItem("text", well_formed(text), trajectory.trajectory_id, (index,), POOL)]
        if state.screenshot is not None:
            items.append(ContextItem("image", str(state.screenshot), trajectory.trajectory_id, (index,), POOL))
        return Shown(self.notes, {**self.states, (trajectory.trajectory_id, index): tuple(items)}, frozenset(seen))

    def items(self, layout: Layout, render: RenderSettings) -> list[ContextItem]:
        """The context: notes by trajectory, then each trajectory with a state to show, and its states in order."""
        items: list[ContextItem] = []
        notes = [
            ContextItem("text", self.notes[one.trajectory_id, pool], one.trajectory_id, (), pool)
            for one in layout.trajectories
            for pool in NOTE_POOLS
            if (one.trajectory_id, pool) in self.notes
        ]
        if notes:
            items += [ContextItem("text", NOTES_HEADING), *notes]
        if self.states:
            items.append(ContextItem("text", STATES_HEADING))
        for trajectory in layout.trajectories:
            states = sorted(index for name, index in self.states if name == trajectory.trajectory_id)
            if states:
                items += self._of_trajectory(layout, trajectory, states, render)
        return items

    def _of_trajectory(
        self, layout: Layout, trajectory: Trajectory, states: Sequence[int], render: RenderSettings
    ) -> list[ContextItem]:
        name = trajectory.trajectory_id
        items = [ContextItem("text", well_formed(_head(trajectory, render)), name, (), POOL)]
        spans = layout.windows[name] if layout.windows is not None else [(0, len(trajectory.states) - 1)]
        for first, last in spans:
            inside = [index for index in states if first <= index <= last]
            if inside and layout.windows is not None and render.mode == "full":
                centres = [str(index) for index in layout.annotated[name] if first <= index <= last]
                text = f"#### Evidence window: states {first}-{last}, around {', '.join(centres)}"
                items.append(ContextItem("text", text, name, (), POOL))
            items += [item for index in inside for item in self.states[name, index]]
        return items


def _head(trajectory: Trajectory, render: RenderSettings) -> str:
    """Goal, outcome, start address and actions; goal and outcome alone in focused rendering."""
    title = f"### Trajectory {trajectory.trajectory_id}"
    if render.mode == "focused":
        return f"{title} ({trajectory.outcome})\n{goal_line(trajectory)}"
    return (
        f"{title}\nGoal: {trajectory.goal}\nOutcome: {trajectory.outcome}\nStart URL: {trajectory.start_url}\n"
        f"Actions:\n{numbered_actions(trajectory.action_sequence(), 0)}"
    )
