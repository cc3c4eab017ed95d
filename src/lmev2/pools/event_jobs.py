"""Events of many trajectories: by rules, or by a model with rules as its fallback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lmev2.data.store import StateStore
from lmev2.pools.controller import Controller, Written, ask, write_all
from lmev2.pools.event import EVENT_FIELDS, build_events, event_entry, event_name
from lmev2.pools.event_model import event_requests, event_schema
from lmev2.pools.event_rules import rule_event
from lmev2.pools.note_view import RunView
from lmev2.pools.settings import EventSettings
from lmev2.progress import Report


class _Transition(NamedTuple):
    trajectory_id: str
    pre: int


def event_entries(
    names: Sequence[str], store: StateStore, controller: Controller | None, settings: EventSettings, report: Report
) -> list[dict[str, Any]]:
    """Entry rows of the trajectories' events, in order; a trajectory of one state has none.

    Args:
        names: trajectory ids.
        controller: the model; None for rules.
        report: progress callback, in trajectories for rules, in transitions for a model.

    Raises:
        TooManyErrors: more calls than ``controller.allow`` got no reply.
    """
    if controller is None:
        rows: list[dict[str, Any]] = []
        for number, name in enumerate(names, start=1):
            rows += build_events(store.trajectory(name), settings)
            report(number, len(names))
        return rows
    schema = event_schema(settings.reply_chars)
    tasks = [_Transition(name, pre) for name in names for pre in range(len(store.trajectory(name).states) - 1)]

    def write(task: _Transition) -> Written:
        trajectory = store.trajectory(task.trajectory_id)
        requests = event_requests(trajectory, task.pre, controller, settings.retry_tree_chars)
        shown = trajectory.states[task.pre : task.pre + 2]
        return ask(controller.chat, requests, schema, controller.images_left_out(shown))

    written = write_all(controller, tasks, write, lambda task: event_name(*task), report)
    return [_row(store, task, one, settings) for task, one in zip(tasks, written, strict=True)]


def _row(store: StateStore, task: _Transition, written: Written, settings: EventSettings) -> dict[str, Any]:
    trajectory = store.trajectory(task.trajectory_id)
    if written.value is not None:
        event = {part: written.value[part].strip() for part in EVENT_FIELDS}
    else:
        event = rule_event(RunView(trajectory, settings.literal_chars), task.pre, settings)
    return event_entry(trajectory, task.pre, event, written.origin)
