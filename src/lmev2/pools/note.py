"""Procedure and hint notes of a trajectory as pool entries, and those made by rules.

Rules use no model and nothing that the trajectory does not show. Their two notes have the form that the paper's note
prompt asks of a model (paper, Table 9): title, description and a content of bullets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmev2.pools.entry import RULES, Origin, text_entry
from lmev2.pools.note_facts import hint_note
from lmev2.pools.note_steps import procedure_note
from lmev2.pools.note_view import RunView
from lmev2.pools.settings import NoteSettings
from lmev2.trajectory import Trajectory

NOTE_POOLS = ("procedure_note", "hint_note")
NOTE_FIELDS = ("title", "description", "content")


def note_text(note: Mapping[str, str]) -> str:
    """The text of a note that is embedded and shown: title, description and content, parted by blank lines."""
    return "\n\n".join(note[part] for part in NOTE_FIELDS if note[part])


def note_entry(pool: str, trajectory: Trajectory, note: Mapping[str, str], origin: Origin) -> dict[str, Any]:
    """A note as a pool entry row that spans the whole trajectory."""
    name = trajectory.trajectory_id
    states = (0, len(trajectory.states) - 1, 0)
    return text_entry(f"{pool}/{name}", pool, name, states, note_text(note), note, origin)


def build_notes(trajectory: Trajectory, settings: NoteSettings, origin: Origin = RULES) -> list[dict[str, Any]]:
    """The trajectory's procedure note and hint note by rules, as pool entries in this order.

    Args:
        origin: another one than ``rules`` where these notes stand in for a model's.
    """
    view = RunView(trajectory, settings.literal_chars)
    notes = (procedure_note(view, settings), hint_note(view, settings))
    return [note_entry(pool, trajectory, note, origin) for pool, note in zip(NOTE_POOLS, notes, strict=True)]
