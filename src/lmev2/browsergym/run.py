"""A recorded run, whatever it was recorded with, and the trajectory that it becomes.

A run is recorded as the agent saw it: an observation, then the action that the agent chose on it. A trajectory stores
an action on the state that it led to. :func:`trajectory_object` is the one place where the two meet.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from lmev2.data.images import image_fault
from lmev2.data.layout import SCREENSHOTS_FOLDER

_PNG = b"\x89PNG\r\n\x1a\n"
_ID_DIGITS = 12
_BLANK_ACTIONS = ("", "None")
SUCCESS_REWARD = 1.0


class RunFault(ValueError):
    """A run that cannot be taken in.

    Attributes:
        faults: one text per fault, each naming a file of the run folder.
    """

    def __init__(self, faults: Sequence[str]):
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True)
class Picture:
    """A screenshot: a PNG or JPEG file, or pixels (height, width, 3) as bytes."""

    source: Path | np.ndarray[Any, Any]

    def digest(self) -> str:
        """SHA-256 of the file, or of shape and pixels."""
        if isinstance(self.source, Path):
            return hashlib.sha256(self.source.read_bytes()).hexdigest()
        return hashlib.sha256(repr(self.source.shape).encode() + self.source.tobytes()).hexdigest()

    def png(self) -> bytes:
        """The picture as PNG; a PNG file byte for byte.

        Raises:
            OSError: the file cannot be read as a picture; names it.
        """
        if isinstance(self.source, Path):
            data = self.source.read_bytes()
            if data.startswith(_PNG) and image_fault(self.source) is None:
                return data
            image = _decoded(self.source.name, data)
        else:
            image = Image.fromarray(self.source)
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return buffer.getvalue()


def _decoded(name: str, data: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data)).convert("RGB")
    except UnidentifiedImageError as error:  # its text would name the object that the bytes stand in
        raise OSError(f"{name} is no picture") from error
    except Exception as error:  # a damaged picture can fail in any way
        raise OSError(f"{name}: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Step:
    """An observation and what the agent did on it.

    Attributes:
        name: the file that it was read from, for messages.
        url: address of the page.
        tree: accessibility tree, as text.
        action: BrowserGym action that the agent chose on this observation; None if it chose none.
        thought: what it thought when it chose the action.
        error: the browser's error of the action *before* this observation; empty without one.
        screenshot: of the page.
    """

    name: str
    url: str
    tree: str
    action: str | None
    thought: str | None
    error: str
    screenshot: Picture


@dataclass(frozen=True)
class Run:
    """A recorded run: its steps in order, not empty.

    Attributes:
        goal: the task, as text.
        success: its cumulative reward is at least 1, or it is said to have succeeded.
        start_url: where it began; None for the address of the first step.
        steps: observations in order.
        notes: what was left out or is worth knowing.
    """

    goal: str
    success: bool
    start_url: str | None
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


def clean_action(action: str | None) -> str | None:
    """An action as text; None where a recorder wrote that there was none."""
    return None if action is None or action.strip() in _BLANK_ACTIONS else action.strip()


def alignment_faults(steps: Sequence[Step]) -> list[str]:
    """Actions that seem to stand on the observation that they led to, as in a data root, rather than on the one that
    they were chosen on."""
    if len(steps) > 1 and steps[0].action is None and steps[-1].action is not None:
        return [
            f"{steps[0].name} has no action, but {steps[-1].name}, the last one, has: the action of a step is the one "
            "that the agent chose on its observation, so that the first step has one and the last has none"
        ]
    return []


def run_id(run: Run, prefix: str | None) -> str:
    """An id that depends on the run's content alone: twelve hexadecimal digits, behind the prefix and a hyphen."""
    content = {
        "goal": run.goal,
        "success": run.success,
        "start_url": run.start_url or run.steps[0].url,
        "steps": [[step.url, step.tree, step.action, step.thought, step.screenshot.digest()] for step in run.steps],
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_ID_DIGITS]
    return f"{prefix}-{digest}" if prefix else digest


def screenshot_path(trajectory_id: str, step: int) -> str:
    """Path of a screenshot below the data root."""
    return f"{SCREENSHOTS_FOLDER}/{trajectory_id}/{step}.png"


def trajectory_object(run: Run, trajectory_id: str, domain: str, environment: str) -> dict[str, Any]:
    """The run as an object of ``trajectories.jsonl``.

    The action and thought of state k + 1 are those that the agent chose on observation k; state 0 has none.
    """
    before: list[Step | None] = [None, *run.steps[:-1]]
    return {
        "id": trajectory_id,
        "domain": domain,
        "environment": environment,
        "goal": run.goal,
        "outcome": "success" if run.success else "failure",
        "start_url": run.start_url or run.steps[0].url,
        "states": [
            {
                "state_index": index,
                "step": index,
                "url": step.url,
                "action": None if previous is None else previous.action,
                "thought": None if previous is None else previous.thought,
                "accessibility_tree": step.tree,
                "screenshot": screenshot_path(trajectory_id, index),
            }
            for index, (previous, step) in enumerate(zip(before, run.steps, strict=True))
        ],
    }


def run_notes(steps: Sequence[Step]) -> list[str]:
    """What the format cannot hold of these steps."""
    notes = []
    if steps[-1].action is not None:
        notes.append("the last action led to no recorded observation and is left out")
    failed = sum(bool(step.error) for step in steps)
    if failed:
        notes.append(f"{failed} action(s) failed in the browser; they are kept, the texts of the errors are not")
    return notes


def numbered(paths: Sequence[Path], pattern: re.Pattern[str]) -> tuple[list[Path], list[str]]:
    """Paths in the order of the number in their name, and what is wrong with the numbers: they must be 0, 1, 2, …"""
    by_number: dict[int, Path] = {}
    faults = []
    for path in sorted(paths):
        match = pattern.fullmatch(path.name)
        if match is None:
            continue
        number = int(match[1])
        if number in by_number:
            faults.append(f"{by_number[number].name} and {path.name} have the same number")
        by_number[number] = path
    absent = [number for number in range(len(by_number)) if number not in by_number]
    if absent:
        faults.append(f"found {len(by_number)} steps, but none of number {absent[0]}; expected 0, 1, 2 and so on")
    return [path for _, path in sorted(by_number.items())], faults
