"""The haystack as files: one folder per trajectory, made once and shown read-only to every sandbox that needs it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmev2.agent.types import CONCISE_MANIFEST, FULL_MANIFEST
from lmev2.data.errors import DataError
from lmev2.files import file_sha256, replacing
from lmev2.trajectory import State, Trajectory

TRAJECTORY_FILE = "trajectory.json"
SCREENSHOTS_FOLDER = "screenshots"
_REWARDS = {"success": 1.0, "failure": 0.0}
# What is a plain name on every file system and needs no quoting in a shell; never hidden, `..` or an option.
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(?<!\.)")


@dataclass(frozen=True)
class TrajectoryEntry:
    """What the manifests say of a trajectory.

    Attributes:
        trajectory_id: id, and name of the folder.
        goal: the task.
        reward: final reward: 1 for the outcome ``success``, 0 for ``failure``.
        states: how many there are.
        start_url: address at which the run began.
        actions: annotated actions in order, one less than there are states.
        thoughts: what the agent thought when it chose each action; None where nothing was recorded.
        digest: SHA-256 of the trajectory's files as agents see them; empty before they are written.
    """

    trajectory_id: str
    goal: str
    reward: float
    states: int
    start_url: str
    actions: tuple[str, ...]
    thoughts: tuple[str | None, ...]
    digest: str = ""


def checked_folder_name(trajectory_id: str) -> str:
    """A trajectory's id, which names its folder.

    Raises:
        DataError: the id could escape the folder, hide in it, or collide with a file there.
    """
    taken = trajectory_id.casefold() in {CONCISE_MANIFEST.casefold(), FULL_MANIFEST.casefold()}
    if taken or not _FOLDER_NAME.fullmatch(trajectory_id):
        raise DataError(
            f"trajectory {trajectory_id!r}: its id names a folder in an agent's sandbox and may have at most 100 "
            "letters, digits, '_', '-' and '.', must not begin with '-' or '.', nor end with '.', and must not be the "
            "name of a manifest"
        )
    return trajectory_id


def final_reward(trajectory_id: str, outcome: str) -> float:
    """Final reward of an outcome.

    Raises:
        DataError: there is no such outcome.
    """
    if outcome not in _REWARDS:
        raise DataError(f"trajectory {trajectory_id!r}: outcome {outcome!r}, expected one of {sorted(_REWARDS)}")
    return _REWARDS[outcome]


def trajectory_entry(trajectory: Trajectory) -> TrajectoryEntry:
    """What the manifests say of a trajectory.

    Raises:
        DataError: its outcome is unknown.
    """
    return TrajectoryEntry(
        trajectory_id=trajectory.trajectory_id,
        goal=trajectory.goal,
        reward=final_reward(trajectory.trajectory_id, trajectory.outcome),
        states=len(trajectory.states),
        start_url=trajectory.start_url,
        actions=trajectory.action_sequence(),
        thoughts=tuple(state.thought for state in trajectory.states[1:]),
    )


def write_entries(entries: Iterable[TrajectoryEntry], path: Path) -> None:
    """Write entries as JSON lines, sorted by id; the file appears whole."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for entry in sorted(entries, key=lambda entry: entry.trajectory_id):
            stream.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")


def read_entries(path: Path) -> dict[str, TrajectoryEntry]:
    """Read what :func:`write_entries` wrote, by trajectory id.

    Raises:
        DataError: the file is missing, or a line is no entry; names file and line.
    """
    found: dict[str, TrajectoryEntry] = {}
    try:
        with path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                entry = _read_entry(path, number, line)
                found[entry.trajectory_id] = entry
    except OSError as error:
        raise DataError(f"{path}: the pool's entries cannot be read ({error}); make the pool again") from error
    return found


def _read_entry(path: Path, number: int, line: str) -> TrajectoryEntry:
    try:
        fields = json.loads(line)
        sequences = {name: tuple(fields[name]) for name in ("actions", "thoughts")}
        return TrajectoryEntry(**{**fields, **sequences})
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"{path}, line {number}: not an entry of a trajectory ({error}); make the pool again"
        ) from error


def write_trajectory_folder(trajectory: Trajectory, folder: Path) -> str:
    """Write ``<folder>/<id>/trajectory.json`` and the screenshots beside it, in ``screenshots/``.

    Screenshots are hard links to the originals, or copies where the file system has no links to them; they are named
    by state index and keep their suffix. The trajectory's folder appears whole, and takes the place of an older one.

    Args:
        trajectory: the trajectory.
        folder: the pool; made when it is missing.

    Returns:
        SHA-256 over names and content of its files, for :attr:`TrajectoryEntry.digest`.

    Raises:
        DataError: the id is no safe name of a folder, or a screenshot is missing.
    """
    name = checked_folder_name(trajectory.trajectory_id)
    folder.mkdir(parents=True, exist_ok=True)
    with _new_folder(folder / name) as new:
        states = [_state_object(state, new) for state in trajectory.states]
        content = {
            "id": trajectory.trajectory_id,
            "goal": trajectory.goal,
            "start_url": trajectory.start_url,
            "outcome": trajectory.outcome,
            "actions": list(trajectory.action_sequence()),
            "states": states,
        }
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (new / TRAJECTORY_FILE).write_text(text + "\n", encoding="utf-8", newline="\n")
        digest = hashlib.sha256()
        for path in sorted(path for path in new.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(new)} {file_sha256(path)}\n".encode())
        return digest.hexdigest()


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A folder beside ``path`` that takes its place at the end; nothing is left of it when the body fails."""
    new, old = (path.with_name(f".{path.name}.{os.getpid()}.{kind}") for kind in ("new", "old"))
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir()
    try:
        yield new
        if path.exists():
            os.rename(path, old)
        os.rename(new, path)
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)


def _state_object(state: State, folder: Path) -> dict[str, Any]:
    return {
        "state_index": state.state_index,
        "step": state.step,
        "url": state.url,
        "action": state.action,
        "thoughts": state.thought,
        "text": state.tree,
        "screenshot": None if state.screenshot is None else _add_screenshot(state, state.screenshot, folder),
    }


def _add_screenshot(state: State, source: Path, folder: Path) -> str:
    """Add a state's screenshot and return its path in the folder."""
    name = f"{SCREENSHOTS_FOLDER}/{state.state_index:04d}{source.suffix.lower()}"
    target = folder / name
    target.parent.mkdir(exist_ok=True)
    try:
        # The file itself: a link to a link of the unpacked bundles would lead out of the sandbox, to nothing.
        link_or_copy(source.resolve(strict=True), target)
    except OSError as error:
        raise DataError(
            f"trajectory {state.trajectory_id!r}, state {state.state_index}: cannot read screenshot {source} ({error})"
        ) from error
    return name


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that is impossible, as on another file system.

    Raises:
        OSError: the file cannot be read, or the target cannot be written.
    """
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
