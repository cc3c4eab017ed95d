"""Sanitised goals put into the tables of trajectories and states, so that everything that reads these sees them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lmev2.actions import annotate_actions
from lmev2.data.errors import DataError
from lmev2.data.writer import StateWriter
from lmev2.files import replacing
from lmev2.goals.trees import rewrite_tree
from lmev2.rows import TRAJECTORY, read_rows, write_rows


def apply_goals(
    trajectories: Path, states: Path, goals: Iterable[Mapping[str, Any]], new_trajectories: Path, new_states: Path
) -> int:
    """Write both tables anew with the sanitised goals, and with copies of the goals in the states' trees rewritten.

    Actions are annotated again where a tree changed, since annotations quote it. Where no goal changed, the files are
    copied as they are, and no state is read.

    Args:
        trajectories, states: the ingested tables.
        goals: a row per trajectory, with ``trajectory_id``, ``goal`` and ``sanitized``.
        new_trajectories, new_states: the tables to write.

    Returns:
        the number of copies rewritten.

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
        return 0
    write_rows(new_trajectories, TRAJECTORY, ({**row, "goal": found[row["trajectory_id"]][1]} for row in rows))
    return _write_states(states, new_states, changed)


def _write_states(states: Path, new_states: Path, changed: Mapping[str, tuple[str, str]]) -> int:
    copies = 0
    with replacing(new_states) as temporary, pq.ParquetFile(states) as file, StateWriter(temporary) as writer:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group).to_pylist()
            texts = changed.get(rows[0]["trajectory_id"])
            if texts is not None:
                copies += _rewrite(rows, *texts)
            writer.write(rows)
    return copies


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
