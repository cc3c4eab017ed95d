"""Checking the trajectories of ``trajectories.jsonl`` and turning them into rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lmev2.actions import annotate_actions
from lmev2.data.images import KINDS, image_fault
from lmev2.data.layout import SCREENSHOTS_FOLDER, path_fault
from lmev2.data.schema import TrajectoryRecord

_SHOWN = 3


def order_faults(trajectory: TrajectoryRecord) -> list[str]:
    """What is wrong with a trajectory's states: none, numbered wrongly, or actions that stand one state too early."""
    if not trajectory.states:
        return ["field 'states': found no state, expected at least one"]
    faults = []
    for position, state in enumerate(trajectory.states):
        if state.state_index != position:
            faults.append(f"field 'states[{position}].state_index': found {state.state_index}, expected {position}")
            break
    if trajectory.states[0].action:
        faults.append(
            f"field 'states[0].action': found {trajectory.states[0].action!r:.80}, expected null: an action stands on "
            "the state that it led to, so that the first state has none"
        )
    return faults


@dataclass(frozen=True)
class Screenshots:
    """Screenshots of a trajectory's states.

    Attributes:
        paths: per state its file, absolute, or None.
        faults: what is wrong with them.
        absent: paths, as the states give them, at which there is no file.
    """

    paths: tuple[Path | None, ...]
    faults: tuple[str, ...]
    absent: tuple[str, ...]


def find_screenshots(trajectory: TrajectoryRecord, folder: Path, required: bool) -> Screenshots:
    """Look up the screenshots of all states with one listing of the trajectory's folder, and the first bytes of each.

    Args:
        folder: the folder that the ``screenshots`` of the data root's paths stand for.
        required: a state without a screenshot is a fault; else its path is None. A file that is there and is no picture
            is a fault in any case.
    """
    own = folder / trajectory.id
    there = _list_files(own)
    paths: list[Path | None] = []
    faults: list[str] = []
    absent: list[int] = []
    unnamed: list[int] = []
    elsewhere: list[int] = []
    broken: dict[int, str] = {}
    for state in trajectory.states:
        path: Path | None = None
        if state.screenshot is None:
            unnamed.append(state.state_index)
        elif not _is_own(state.screenshot, trajectory.id):
            elsewhere.append(state.state_index)
        elif (name := PurePosixPath(state.screenshot).name) not in there:
            absent.append(state.state_index)
        else:
            path = own / name
            fault = image_fault(path)
            if fault is not None:
                broken[state.state_index] = f"{state.screenshot}, which {fault}"
        paths.append(path)
    if elsewhere:
        found = f"found path {trajectory.states[elsewhere[0]].screenshot!r:.120} and the like"
        faults.append(
            f"field 'screenshot' of {_states(elsewhere)}: {found}, expected {SCREENSHOTS_FOLDER}/{trajectory.id}/<file>"
        )
    if required and unnamed:
        faults.append(f"found no screenshot path on {_states(unnamed)}, expected one on every state")
    if required and absent:
        first = trajectory.states[absent[0]].screenshot
        found = f"{len(there)} files there" if there else "no such folder, or an empty one"
        faults.append(f"found no screenshot file of {_states(absent)}, expected {first} as {own} ({found})")
    if broken:
        first_broken = next(iter(broken.values()))
        faults.append(f"field 'screenshot' of {_states(list(broken))}: found {first_broken}, expected {KINDS}")
    shots = (trajectory.states[position].screenshot for position in absent)
    return Screenshots(tuple(paths), tuple(faults), tuple(path for path in shots if path is not None))


def _list_files(folder: Path) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def _is_own(path: str, trajectory_id: str) -> bool:
    parts = PurePosixPath(path).parts
    return path_fault(path) is None and len(parts) == 3 and parts[:2] == (SCREENSHOTS_FOLDER, trajectory_id)


def _states(indices: Sequence[int]) -> str:
    shown = ", ".join(str(index) for index in indices[:_SHOWN])
    more = f" and {len(indices) - _SHOWN} more" if len(indices) > _SHOWN else ""
    return f"state{'s' if len(indices) > 1 else ''} {shown}{more}"


def trajectory_row(trajectory: TrajectoryRecord) -> dict[str, Any]:
    """The trajectory as a row of ``trajectories.parquet``."""
    return {
        "trajectory_id": trajectory.id,
        "domain": trajectory.domain,
        "environment": trajectory.environment,
        "goal": trajectory.goal,
        "outcome": trajectory.outcome,
        "start_url": trajectory.start_url,
        "state_count": len(trajectory.states),
    }


def state_rows(trajectory: TrajectoryRecord, screenshots: Sequence[Path | None]) -> list[dict[str, Any]]:
    """The trajectory's states as rows of ``states.parquet``, with annotated actions."""
    actions = [state.action or None for state in trajectory.states]
    annotated = annotate_actions(actions, [state.accessibility_tree for state in trajectory.states])
    return [
        {
            "trajectory_id": trajectory.id,
            "state_index": state.state_index,
            "step": state.step,
            "url": state.url,
            "action": action,
            "action_annotated": text,
            "thought": state.thought,
            "tree": state.accessibility_tree,
            "screenshot": None if path is None else str(path),
        }
        for state, action, text, path in zip(trajectory.states, actions, annotated, screenshots, strict=True)
    ]
