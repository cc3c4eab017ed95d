"""Notes of many trajectories: by rules, or by a model with rules as its fallback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lmev2.data.store import StateStore
from lmev2.pools.controller import Controller, Written, ask, write_all
from lmev2.pools.note import NOTE_FIELDS, NOTE_POOLS, build_notes, note_entry
from lmev2.pools.note_model import note_request, note_schema
from lmev2.pools.settings import NoteSettings
from lmev2.progress import Report


def note_entries(
    names: Sequence[str], store: StateStore, controller: Controller | None, settings: NoteSettings, report: Report
) -> list[dict[str, Any]]:
    """Entry rows of the trajectories' notes, in order: of each the procedure note, then the hint note.

    Args:
        names: trajectory ids.
        controller: the model; None for rules.
        report: progress callback, in trajectories.

    Raises:
        TooManyErrors: more calls than ``controller.allow`` got no reply.
    """
    rows: list[dict[str, Any]] = []
    if controller is None:
        for number, name in enumerate(names, start=1):
            rows += build_notes(store.trajectory(name), settings)
            report(number, len(names))
        return rows
    schema = note_schema(settings.reply_chars)

    def write(name: str) -> Written:
        trajectory = store.trajectory(name)
        request = note_request(trajectory, controller)
        return ask(controller.chat, [("", request)], schema, controller.images_left_out(trajectory.states))

    written = write_all(controller, names, write, str, report)
    for name, one in zip(names, written, strict=True):
        rows += _rows(store, name, one, settings)
    return rows


def _rows(store: StateStore, name: str, written: Written, settings: NoteSettings) -> list[dict[str, Any]]:
    trajectory = store.trajectory(name)
    if written.value is None:
        return build_notes(trajectory, settings, written.origin)
    notes = written.value
    return [
        note_entry(pool, trajectory, {part: notes[pool][part].strip() for part in NOTE_FIELDS}, written.origin)
        for pool in NOTE_POOLS
    ]
