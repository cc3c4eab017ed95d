"""The files of a sandbox: manifest, trajectories and helper, whichever are there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TRAJECTORIES = "trajectories"
FULL_MANIFEST = f"{TRAJECTORIES}/TRAJECTORY_SUMMARY_FULL.md"
HELPER = "scripts/inspect_trajectory.py"
_HEAD_CHARS = 20_000  # of a trajectory's file: what comes before the states
_LINES = 60  # of a state, that match
_OUTPUT_CHARS = 400_000
_LINE_CHARS = 300
_COMMAND_SECONDS = 60
_TITLE = re.compile(r"RootWebArea '((?:[^'\\\n]|\\.)+)'")

Emit = Callable[..., None]


@dataclass
class Candidate:
    """A trajectory, as far as it is known before it is opened.

    Attributes:
        text: what is known of it besides its goal and start url: its actions and thoughts, one a line.
    """

    trajectory_id: str
    goal: str = ""
    start_url: str = ""
    succeeded: bool = False
    text: list[str] = field(default_factory=list)


@dataclass
class Found:
    """A state in which words of the question stand.

    Attributes:
        lines: the lines of its tree with such words.
        action: what led to it.
    """

    trajectory_id: str
    index: int
    url: str = ""
    title: str = ""
    action: str = ""
    lines: list[str] = field(default_factory=list)


@dataclass
class Opened:
    """What was found in a trajectory.

    Attributes:
        count: number of its states.
        states: those with words of the question, in order.
    """

    count: int
    states: list[Found]


def read_candidates(emit: Emit) -> list[Candidate]:
    """All trajectories, from the manifest or else from the heads of their files."""
    started = time.monotonic()
    if os.path.isfile(FULL_MANIFEST):
        with open(FULL_MANIFEST, encoding="utf-8", errors="replace") as stream:
            found = parse_manifest(stream.read())
        emit("read", what=FULL_MANIFEST, seconds=time.monotonic() - started)
        return found
    found = [_read_head(name) for name in sorted(os.listdir(TRAJECTORIES)) if os.path.isfile(_file_of(name))]
    emit("read", what=f"the heads of {len(found)} trajectories", seconds=time.monotonic() - started)
    return found


def parse_manifest(text: str) -> list[Candidate]:
    """The sections of the full manifest."""
    found: list[Candidate] = []
    for line in text.split("\n"):
        if line.startswith("## "):
            found.append(Candidate(line[3:].strip()))
        elif not found:
            continue
        elif line.startswith("- Goal: "):
            found[-1].goal = line[8:]
        elif line.startswith("- Start url: "):
            found[-1].start_url = line[13:]
        elif line.startswith("- Final reward: "):
            found[-1].succeeded = not line[16:].startswith("0")
        elif line.startswith("  ") and line.strip():
            found[-1].text.append(line.strip())
    return found


def _file_of(trajectory_id: str) -> str:
    return os.path.join(TRAJECTORIES, trajectory_id, "trajectory.json")


def _read_head(trajectory_id: str) -> Candidate:
    """Goal and start url from the first part of a trajectory's file."""
    with open(_file_of(trajectory_id), encoding="utf-8", errors="replace") as stream:
        head = stream.read(_HEAD_CHARS)
    values = {}
    for name in ("goal", "start_url", "outcome"):
        match = re.search(rf'"{name}":\s*("(?:[^"\\]|\\.)*")', head)
        values[name] = str(json.loads(match[1])) if match else ""
    return Candidate(trajectory_id, values["goal"], values["start_url"], values["outcome"] == "success")


def open_trajectory(trajectory_id: str, stems: list[str], emit: Emit) -> Opened:
    """States of a trajectory with any of the words, by the helper where it is there, else from the file itself."""
    pattern = "|".join(re.escape(_prefix(stem)) for stem in sorted(stems))
    started = time.monotonic()
    if not os.path.isfile(HELPER):
        opened = _scan(trajectory_id, pattern)
        emit("read", what=_file_of(trajectory_id), seconds=time.monotonic() - started)
        return opened
    arguments = [HELPER, trajectory_id, f"--match={pattern}", f"--lines={_LINES}", f"--chars={_OUTPUT_CHARS}"]
    try:
        python = shutil.which("python") or sys.executable
        done = subprocess.run([python, *arguments], capture_output=True, timeout=_COMMAND_SECONDS)
        # Not the text mode of `run`, which would take a carriage return within a line for a line's end.
        output, problem = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
        code = done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        code, output, problem = 1, "", str(error)
    shown = shlex.join(["python", *arguments])
    emit("command", command=shown, exit_code=code, seconds=time.monotonic() - started, error=problem[-500:])
    return parse_helper(trajectory_id, output) if code == 0 else Opened(0, [])


def _prefix(stem: str) -> str:
    """What all forms of a word begin with."""
    return stem[:-1] if len(stem) > 3 and stem.endswith("y") else stem


def parse_helper(trajectory_id: str, output: str) -> Opened:
    """What the helper printed for a match."""
    opened = Opened(0, [])
    for line in output.split("\n"):
        count = re.match(r"states: (\d+)", line) if not opened.count else None
        state = re.match(r"state (\d+): (.*)", line)
        if count:
            opened.count = int(count[1])
        elif state and int(state[1]) < opened.count:
            opened.states.append(Found(trajectory_id, int(state[1]), state[2]))
        elif opened.states and line.startswith("    "):
            opened.states[-1].lines.append(line[4:])
        elif opened.states and line.startswith("  title: "):
            opened.states[-1].title = line[9:]
        elif opened.states and line.startswith("  action: "):
            opened.states[-1].action = line[10:]
    return opened


def _scan(trajectory_id: str, pattern: str) -> Opened:
    """The same without the helper."""
    try:
        with open(_file_of(trajectory_id), encoding="utf-8") as stream:
            trajectory: dict[str, Any] = json.load(stream)
    except (OSError, ValueError):
        return Opened(0, [])
    regex = re.compile(pattern)
    states = trajectory["states"]
    opened = Opened(len(states), [])
    seen: dict[str, list[str]] = {}
    for index, state in enumerate(states):
        tree = state["text"]
        if tree not in seen:
            lines = (line.strip() for line in tree.split("\n") if regex.search(line.lower()))
            seen = {tree: [line[:_LINE_CHARS] for line in lines][:_LINES]}
        action = trajectory["actions"][index - 1] if index else ""
        if seen[tree] or regex.search(f"{state['url']} {action}".lower()):
            title = _TITLE.search(tree)
            shown = " ".join(action.split())[:_LINE_CHARS]
            opened.states.append(
                Found(trajectory_id, index, state["url"], title[1] if title else "", shown, seen[tree])
            )
    return opened
