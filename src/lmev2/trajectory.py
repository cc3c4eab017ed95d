"""Trajectories and their states, with the alignment of actions stated once.

``action`` and ``thought`` of a state led *to* it: the transition from state k to k+1 uses the action that stands on
state k+1, and state 0 has none. Code that needs a transition's action asks the trajectory, never a state's neighbour.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lmev2.tree import decode_literal

NO_ACTION = "(no action recorded)"

_ROOT = re.compile(r"^[ \t]*(?:\[[^\]\s]+\] )?RootWebArea ('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")", re.MULTILINE)


@dataclass(frozen=True)
class State:
    """One observed state of the browser.

    Attributes:
        trajectory_id: the trajectory that it belongs to.
        state_index: 0-based position in the trajectory.
        step: the run's original step number; None when unknown.
        url: address of the page.
        action: BrowserGym action that led to this state; None for state 0.
        action_annotated: the same with the tree lines of the elements that it names.
        thought: what the agent thought when it chose that action.
        tree: accessibility tree, as text.
        screenshot: image file; None in a run without images.
    """

    trajectory_id: str
    state_index: int
    step: int | None
    url: str
    action: str | None
    action_annotated: str | None
    thought: str | None
    tree: str
    screenshot: Path | None

    @property
    def title(self) -> str | None:
        """Title of the page, from the tree's first ``RootWebArea`` with a name; None without one."""
        names = (decode_literal(match[1]).strip() for match in _ROOT.finditer(self.tree))
        return next(filter(None, names), None)


@dataclass(frozen=True)
class Trajectory:
    """One recorded run; ``states`` are in order and not empty."""

    trajectory_id: str
    domain: str
    environment: str
    goal: str
    outcome: str
    start_url: str
    states: tuple[State, ...]

    def transition_action(self, pre: int) -> str:
        """Annotated action of the transition from state ``pre`` to ``pre + 1``; :data:`NO_ACTION` when it is null.

        Raises:
            IndexError: there is no such transition.
        """
        if not 0 <= pre < len(self.states) - 1:
            raise IndexError(
                f"trajectory {self.trajectory_id} has {len(self.states)} states and no transition {pre} -> {pre + 1}"
            )
        return self.states[pre + 1].action_annotated or NO_ACTION

    def next_action(self, state: int) -> str | None:
        """Annotated action taken from a state; None for the last state.

        Raises:
            IndexError: there is no such state.
        """
        return None if state == len(self.states) - 1 else self.transition_action(state)

    def action_sequence(self) -> tuple[str, ...]:
        """Annotated actions of all transitions in order, one less than there are states."""
        return self.local_actions(0, len(self.states) - 1)

    def local_actions(self, first: int, last: int) -> tuple[str, ...]:
        """Annotated actions of the transitions within states ``first`` to ``last``, both included.

        Raises:
            IndexError: a bound lies outside the trajectory, or ``first`` lies behind ``last``.
        """
        if not 0 <= first <= last < len(self.states):
            raise IndexError(f"trajectory {self.trajectory_id} has {len(self.states)} states, not {first} to {last}")
        return tuple(self.transition_action(pre) for pre in range(first, last))
