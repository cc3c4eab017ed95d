"""What passes between a sandbox, an agent that works in it, and the memory that asks it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

# What AgentRunbook-C adds to a plain coding agent; each can be left out, from the files and from the text.
PartName = Literal["workflow", "manifest", "helper"]
PARTS: tuple[PartName, ...] = ("workflow", "manifest", "helper")

# Where things lie in a sandbox, relative to its folder.
TRAJECTORIES_FOLDER = "trajectories"
QUESTION_FILE = "question.json"
INSTRUCTION_FILE = "INSTRUCTION.md"
MEMORY_FILE = "memory_module_output.json"
ANSWER_FILE = "answer.json"
HELPER_FILE = "scripts/inspect_trajectory.py"
CONCISE_MANIFEST = "TRAJECTORY_SUMMARY_CONCISE.md"
FULL_MANIFEST = "TRAJECTORY_SUMMARY_FULL.md"


@dataclass(frozen=True)
class Usage:
    """What model calls cost, summed.

    Attributes:
        requests: calls of the model.
        input_tokens: prompt tokens, the cached ones included.
        cached_tokens: of these, read from the endpoint's own cache.
        output_tokens: completion tokens, thinking included.
        reasoning_tokens: of these, thinking.
    """

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine that a sandbox shows, read only.

    Attributes:
        source: absolute path here.
        target: path inside: absolute, or relative to the sandbox's folder.
    """

    source: Path
    target: str


@dataclass(frozen=True)
class Execution:
    """What came of a command in a sandbox.

    Attributes:
        returncode: None when the time ran out.
        stdout, stderr: text, cut in the middle to the limit that was asked for.
        timed_out: the time ran out and everything that the command had started was ended.
        wall_s: seconds.
    """

    returncode: int | None
    stdout: str
    stderr: str
    timed_out: bool
    wall_s: float


class Box(Protocol):
    """A sandbox: a folder that an agent may write to, shown to commands together with read-only mounts and little else.

    It is all that stays between commands: the temporary folder and home are new for every command.

    Attributes:
        folder: the sandbox's folder on this machine.
        inside: the same folder as commands see it.
        mounts: what every command is shown besides.
    """

    folder: Path
    inside: str
    mounts: Sequence[Mount]

    def path_inside(self, mount: Mount) -> str:
        """Where commands find what a mount shows: its target, as an absolute path; without isolation an absolute target
        is not possible, and this is the source itself. Commands name mounted programs and files by this path only."""
        ...

    def execute(
        self,
        command: Sequence[str],
        timeout_s: float,
        *,
        stdin: str = "",
        variables: Mapping[str, str] | None = None,
        mounts: Sequence[Mount] = (),
        model_socket: Path | None = None,
        model_port: int | None = None,
        stdout_file: Path | None = None,
        output_chars: int = 100_000,
        stop: threading.Event | None = None,
    ) -> Execution:
        """Run a command in the sandbox's folder and end all that it started.

        Args:
            command: program and arguments; ``python`` is the interpreter of this process's base installation.
            timeout_s: seconds until everything is ended.
            stdin: what the command reads.
            variables: environment variables besides the few that every command gets; nothing of this process's own.
            mounts: files and folders for this command only, besides the sandbox's own.
            model_socket: a Unix socket here that the sandbox reaches at ``127.0.0.1:model_port``; there is no other way
                out.
            model_port: that port.
            stdout_file: write standard output there as it comes, whole; ``Execution.stdout`` is then empty.
            output_chars: at most so many characters of each output are kept.
            stop: when another thread sets it, everything is ended as if the time had run out.

        Raises:
            ModelSetupError: the sandbox itself cannot be made here.
        """
        ...


@dataclass(frozen=True)
class Task:
    """What an agent is asked to do in a sandbox.

    Attributes:
        prompt: the invocation prompt; everything else stands in the sandbox's files.
        output_file: the file that it must write, relative to the sandbox's folder.
        images: question images in the sandbox, relative to its folder.
    """

    prompt: str
    output_file: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentRun:
    """What came of one attempt.

    Attributes:
        outcome: ``finished``: the agent ended by itself, whatever it wrote; ``timeout``; ``crashed``: it could not go
            on.
        detail: why, where it did not finish; no addresses with keys, no keys.
        usage: of its model calls.
        commands: programs and shell commands that it started.
        wall_s: seconds.
        events: what it did, in order, as JSON objects; kept as the trace.
    """

    outcome: Literal["finished", "timeout", "crashed"]
    detail: str | None
    usage: Usage
    commands: int
    wall_s: float
    events: tuple[Mapping[str, Any], ...] = field(default=())


class Agent(Protocol):
    """A coding agent. Every failure of an attempt is an outcome; only what the configuration or the environment lacks
    is raised, as a :class:`~lmev2.models.types.ModelSetupError`.

    Attributes:
        name: what results call it, such as ``search`` or ``codex 0.117.0``.
        model: the model behind it, as results call it; ``rules`` where there is none.
    """

    name: str
    model: str

    def check(self) -> None:
        """Look for everything that a run needs (program, version, address, key), before any work.

        Raises:
            ModelSetupError: something is missing; says what, and how to get it.
        """
        ...

    def run(self, box: Box, task: Task, timeout_s: float) -> AgentRun:
        """One attempt. Called again in the same sandbox for a further attempt."""
        ...
