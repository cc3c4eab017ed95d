"""Sanitised goals put into the tables of trajectories and states, so that everything that reads these sees them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from lmev2.actions import annotate_actions
from lmev2.data.errors import DataError
from lmev2.data.writer import StateWriter
from lmev2.files import replacing
from lmev2.goals.trees import rewrite_tree
from lmev2.rows import STATE, TRAJECTORY, check_readable, read_rows, reading, write_rows

Row = Mapping[str, Any]


class Applied(NamedTuple):
    """What the sanitised goals changed in the tables.

    Attributes:
        copies: copies of goals that were rewritten in trees.
        digest: SHA-256 of the goals, trees and annotated actions that differ from the ingested ones; None if none does.
    """

    copies: int
    digest: str | None


def apply_goals(
    trajectories: Path, states: Path, goals: Sequence[Row], new_trajectories: Path, new_states: Path
) -> Applied:
    """Write both tables anew with the sanitised goals, and with copies of the goals in the states' trees rewritten.

    Actions are annotated again where a tree changed, since annotations quote it. Where no goal changed, the files are
    copied as they are, and no state is read.

    Args:
        trajectories, states: the ingested tables.
        goals: a row per trajectory, with ``trajectory_id``, ``goal`` and ``sanitized``.
        new_trajectories, new_states: the tables to write.

    Raises:
        DataError: the goals are not those of the trajectories.
    """
    found = {row["trajectory_id"]: (row["goal"], row["sanitized"]) for row in goals}
    rows = list(read_rows(trajectories, TRAJECTORY))
    for row in rows:
        name = row["trajectory_id"]
        if found.get(name, ("", ""))[0] != row["goal"]:
            raise DataError(f"{trajectories}: no sanitised goal of trajectory {name!r}, or of another text; run again")
    changed = {name: texts for name, texts in found.items() if texts[0] != texts[1]}
    if not changed:
        _copy(trajectories, new_trajectories)
        _copy(states, new_states)
        return Applied(0, None)
    write_rows(new_trajectories, TRAJECTORY, ({**row, "goal": found[row["trajectory_id"]][1]} for row in rows))
    return _write_states(states, new_states, changed)


def summary(mode: str, goals: Sequence[Row], applied: Applied) -> dict[str, Any]:
    """What was done to the goals of a data root, in numbers.

    Args:
        mode: ``rules``, ``model`` or ``check``.
        goals: rows of all trajectories.
        applied: what :func:`apply_goals` returned.

    Returns:
        ``mode``; ``goals``, ``changed``, ``unchanged`` and ``flagged``: numbers of goals; ``origins``: numbers by
        origin; ``copies`` and ``digest`` of what was changed.
    """
    changed = sum(row["goal"] != row["sanitized"] for row in goals)
    return {
        "mode": mode,
        "goals": len(goals),
        "changed": changed,
        "unchanged": len(goals) - changed,
        "flagged": sum(row["flags"] != "[]" for row in goals),
        "origins": dict(sorted(Counter(row["origin"] for row in goals).items())),
        **applied._asdict(),
    }


def _write_states(states: Path, new_states: Path, changed: Mapping[str, tuple[str, str]]) -> Applied:
    check_readable(states, STATE)
    copies = 0
    new: dict[str, list[Any]] = {name: [sanitized] for name, (_, sanitized) in changed.items()}
    with replacing(new_states) as temporary, pq.ParquetFile(states) as file, StateWriter(temporary) as writer:
        for group in range(file.num_row_groups):
            with reading(states):
                rows = file.read_row_group(group).to_pylist()
            name = rows[0]["trajectory_id"]
            if name in changed and (count := _rewrite(rows, *changed[name])):
                copies += count
                new[name] += [[row["tree"], row["action_annotated"]] for row in rows]
                new[name] = [_digest(new[name])]  # not the trees themselves, which are large
            writer.write(rows)
    return Applied(copies, _digest(sorted(new.items())))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _rewrite(rows: list[dict[str, Any]], goal: str, sanitized: str) -> int:
    """Rewrite the trees of one trajectory's states in place."""
    copies = 0
    for row in rows:
        row["tree"], count = rewrite_tree(row["tree"], goal, sanitized)
        copies += count
    if copies:
        annotated = annotate_actions([row["action"] for row in rows], [row["tree"] for row in rows])
        for row, text in zip(rows, annotated, strict=True):
            row["action_annotated"] = text
    return copies


def _copy(source: Path, target: Path) -> None:
    # No link: it would keep the source's time, and the workflow would take the table for older than the goals.
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)
