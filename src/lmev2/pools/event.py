"""State-transition events of a trajectory as pool entries, one per pair of adjacent states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmev2.pools.entry import RULES, Origin, text_entry
from lmev2.pools.event_rules import rule_event
from lmev2.pools.note_view import RunView
from lmev2.pools.settings import EventSettings
from lmev2.trajectory import Trajectory

EVENT_POOL = "event"
EVENT_FIELDS = ("overview", "state_transition")


def event_id(pre: int) -> str:
    """Name of the transition from state ``pre`` to the next, within its trajectory: ``event_0003_0004``."""
    return f"event_{pre:04d}_{pre + 1:04d}"


def event_name(trajectory_id: str, pre: int) -> str:
    """Id of an event's pool entry: ``event/<trajectory_id>/event_0003_0004``."""
    return f"{EVENT_POOL}/{trajectory_id}/{event_id(pre)}"


def event_text(event: Mapping[str, str]) -> str:
    """The text of an event that is embedded: overview, blank line, state transition."""
    return "\n\n".join(event[part] for part in EVENT_FIELDS)


def event_entry(trajectory: Trajectory, pre: int, event: Mapping[str, str], origin: Origin) -> dict[str, Any]:
    """An event as a pool entry row; its payload also names the transition and its annotated action.

    Raises:
        IndexError: there is no such transition.
    """
    action = trajectory.transition_action(pre)
    payload = {"event_id": event_id(pre), **{part: event[part] for part in EVENT_FIELDS}, "action": action}
    name = trajectory.trajectory_id
    return text_entry(
        event_name(name, pre), EVENT_POOL, name, (pre, pre + 1, pre + 1), event_text(event), payload, origin
    )


def build_events(trajectory: Trajectory, settings: EventSettings) -> list[dict[str, Any]]:
    """Events of all transitions by rules, in order; none for a trajectory of one state."""
    view = RunView(trajectory, settings.literal_chars)
    return [
        event_entry(trajectory, pre, rule_event(view, pre, settings), RULES)
        for pre in range(len(trajectory.states) - 1)
    ]
