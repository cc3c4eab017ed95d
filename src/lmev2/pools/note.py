"""Procedure and hint notes of a trajectory, made by rules: no model, and nothing that the trajectory does not show.

The two notes have the form that the paper's note prompt asks of a model (paper, Table 9): title, description and a
content of bullets.
"""

from __future__ import annotations

import json
from typing import Any

from lmev2.pools.note_facts import hint_note
from lmev2.pools.note_steps import procedure_note
from lmev2.pools.note_view import RunView
from lmev2.pools.settings import NoteSettings
from lmev2.trajectory import Trajectory

NOTE_POOLS = ("procedure_note", "hint_note")


def note_text(note: dict[str, str]) -> str:
    """The text of a note that is embedded and shown: title, description and content, parted by blank lines."""
    return "\n\n".join(note[part] for part in ("title", "description", "content") if note[part])


def note_entry(pool: str, trajectory: Trajectory, note: dict[str, str], origin: str) -> dict[str, Any]:
    """A note as a pool entry row that spans the whole trajectory."""
    return {
        "entry_id": f"{pool}/{trajectory.trajectory_id}",
        "pool": pool,
        "trajectory_id": trajectory.trajectory_id,
        "first_state": 0,
        "last_state": len(trajectory.states) - 1,
        "center_state": 0,
        "text": note_text(note),
        "payload": json.dumps(note, ensure_ascii=False),
        "origin": origin,
    }


def build_notes(trajectory: Trajectory, settings: NoteSettings) -> list[dict[str, Any]]:
    """The trajectory's procedure note and hint note, as pool entries of origin ``rules``, in this order."""
    view = RunView(trajectory, settings.literal_chars)
    notes = (procedure_note(view, settings), hint_note(view, settings))
    return [note_entry(pool, trajectory, note, "rules") for pool, note in zip(NOTE_POOLS, notes, strict=True)]
