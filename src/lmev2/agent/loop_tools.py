"""The tools of the agent loop: a shell in the sandbox, a look at an image, and the result, checked at once.

Paths and commands come from a model that has read pages which anybody may have written. Commands run in the sandbox
only; an image is read on this side, so its path is followed to the end and must stay within what the sandbox shows.

Tools run in the event loop, that is in the main thread, which alone is told of signals; only a command is waited for in
another one, so that the wait can be cut short.
"""

from __future__ import annotations

import io
import json
import os
import posixpath
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import BaseModel
from pydantic_ai import BinaryContent, ModelRetry, Tool, ToolOutput, ToolReturn

from lmev2.agent.in_thread import in_thread
from lmev2.agent.output import OutputError, read_answer, read_memory, remove_outputs, write_output
from lmev2.agent.types import ANSWER_FILE, MEMORY_FILE, TRAJECTORIES_FOLDER, Box
from lmev2.models.text import cut_middle, well_formed

RESULT_TOOL = "write_result"
_COMMAND_CHARS = 30_000  # far below what one argument of a program can hold
_IMAGE_BYTES = 8_000_000
_IMAGE_PIXELS = 30_000_000
_IMAGE_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_MENDING_CALLS = 2  # results with dropped spans that are handed back before one is taken as it is


class SpanArguments(BaseModel):
    """A span of states, zero-based, both ends included."""

    trajectory_id: str
    start_state_index: int
    end_state_index: int


class Toolbox:
    """Tools of one attempt in one sandbox.

    Args:
        box: the sandbox.
        output_file: what the task asks for.
        max_states: states that a memory output may name.
        command_s: seconds of one command.
        output_chars: so many characters of a command's output reach the model.
        deadline: when the attempt ends, on the clock of :func:`time.monotonic`.
        faulty_calls: so many calls of a tool in a row may be refused until the run is given up.

    Attributes:
        commands: shell commands started.
    """

    def __init__(
        self,
        box: Box,
        output_file: str,
        max_states: int,
        command_s: float,
        output_chars: int,
        deadline: float,
        faulty_calls: int,
    ):
        self._box, self._output_file, self._max_states = box, output_file, max_states
        self._command_s, self._output_chars, self._deadline = command_s, output_chars, deadline
        self._faulty_calls, self._mending_left = faulty_calls, _MENDING_CALLS
        self.commands = 0

    def tools(self, images: bool) -> list[Tool[object]]:
        """The tools that do not end the run; ``view_image`` only for a model that reads images.

        One at a time: a sandbox has one owner.
        """
        functions: list[Callable[..., Any]] = [self.shell, *([self.view_image] if images else [])]
        return [Tool(function, sequential=True, max_retries=self._faulty_calls) for function in functions]

    def result(self) -> ToolOutput[str]:
        """The tool that ends the run."""
        function = self.write_answer if self._output_file == ANSWER_FILE else self.write_memory
        return ToolOutput(function, name=RESULT_TOOL, max_retries=self._faulty_calls)

    async def shell(self, command: str) -> str:
        """Run a command with bash in the sandbox's folder. Nothing keeps running after it: no background processes, no
        variables, no change of folder. /tmp and the home folder are new for every command: keep files in the sandbox's
        folder.

        Args:
            command: the command line.
        """
        left = self._deadline - time.monotonic()
        if len(command) > _COMMAND_CHARS or "\0" in command:
            raise ModelRetry(f"a command has at most {_COMMAND_CHARS} characters, none of them null")
        self.commands += 1
        stop = threading.Event()
        done = await in_thread(
            partial(
                self._box.execute,
                ["bash", "-c", well_formed(command)],
                max(min(self._command_s, left), 0.1),
                output_chars=self._output_chars,
                stop=stop,
            ),
            end=stop.set,
        )
        status = (
            f"ended after {done.wall_s:.0f} s, the most it may take"
            if done.timed_out
            else f"exit code {done.returncode}"
        )
        parts = [
            status,
            done.stdout.rstrip("\n"),
            f"[standard error]\n{done.stderr.rstrip()}" if done.stderr.strip() else "",
        ]
        return cut_middle(well_formed("\n".join(filter(None, parts))), self._output_chars)

    async def view_image(self, path: str) -> ToolReturn[str]:
        """Look at an image file: the question's image, or a screenshot of a trajectory.

        Args:
            path: relative to the sandbox's folder, such as trajectories/ID/screenshots/0003.png.
        """
        try:
            data, kind = read_image(host_path(self._box, path))
        except ValueError as error:
            raise ModelRetry(f"{cut_middle(well_formed(path), 200)!r}: {error}") from None
        return ToolReturn(f"the image {path}", content=[BinaryContent(data, media_type=kind)])

    async def write_memory(self, memory_markdown: str, trajectory_spans: list[SpanArguments]) -> str:
        """Write memory_module_output.json and finish.

        Args:
            memory_markdown: the support analysis, and relevant notes.
            trajectory_spans: spans of states, the most important first.
        """
        spans = [span.model_dump() for span in trajectory_spans]
        self._write(MEMORY_FILE, {"memory_markdown": memory_markdown, "trajectory_spans": spans})
        try:
            output = read_memory(self._box.folder, StateCounts(self._box), self._max_states)
        except OutputError as error:
            remove_outputs(self._box.folder)
            raise ModelRetry(str(error)) from None
        lost = [f"{span.reason}: {span.written}" for span in output.dropped if span.reason != "repeated"]
        if lost and self._mending_left:
            self._mending_left -= 1
            raise ModelRetry("these spans name no states and would be dropped: " + "; ".join(lost[:10]))
        return "written"

    async def write_answer(self, answer: str) -> str:
        """Write answer.json and finish.

        Args:
            answer: the final answer.
        """
        self._write(ANSWER_FILE, {"answer": answer})
        try:
            read_answer(self._box.folder)
        except OutputError as error:
            raise ModelRetry(str(error)) from None
        return "written"

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        try:
            write_output(self._box.folder, name, value)
        except OSError as error:
            raise ModelRetry(f"{name} cannot be written: {error.strerror}") from None


class StateCounts(Mapping[str, int]):
    """Number of states of each trajectory that a sandbox shows, counted when it is asked for."""

    def __init__(self, box: Box):
        self._box = box
        self._ids = [
            mount.target.removeprefix(f"{TRAJECTORIES_FOLDER}/")
            for mount in box.mounts
            if mount.target.startswith(f"{TRAJECTORIES_FOLDER}/")
        ]
        self._counts: dict[str, int] = {}

    def __getitem__(self, trajectory_id: str) -> int:
        if trajectory_id not in self._counts:
            if trajectory_id not in self._ids:
                raise KeyError(trajectory_id)
            path = host_path(self._box, f"{TRAJECTORIES_FOLDER}/{trajectory_id}/trajectory.json")
            self._counts[trajectory_id] = len(json.loads(path.read_bytes())["states"])
        return self._counts[trajectory_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def host_path(box: Box, path: str) -> Path:
    """The file on this machine that a sandbox shows under a path, links followed.

    Args:
        path: absolute as commands see it, or relative to the sandbox's folder.

    Raises:
        ValueError: nothing is there, or it lies outside of the sandbox's folder and its mounts.
    """
    if "\0" in path:
        raise ValueError("a path holds no null characters")
    inside = posixpath.normpath(posixpath.join(box.inside, well_formed(path)))
    roots = {box.inside: box.folder}
    roots |= {posixpath.normpath(posixpath.join(box.inside, mount.target)): mount.source for mount in box.mounts}
    around = [root for root in roots if inside == root or inside.startswith(root.rstrip("/") + "/")]
    if not around:
        raise ValueError("the path leads out of the sandbox's folder")
    root = max(around, key=len)
    try:
        real = (roots[root] / posixpath.relpath(inside, root)).resolve(strict=True)
    except FileNotFoundError:
        raise ValueError("there is no such file") from None
    except (OSError, RuntimeError):
        raise ValueError("the path cannot be followed") from None
    if not any(real.is_relative_to(source.resolve()) for source in roots.values()):
        raise ValueError("the path leads out of the sandbox's folder through a link")
    return real


def read_image(path: Path) -> tuple[bytes, str]:
    """An image file's bytes and media type, after decoding it once.

    Raises:
        ValueError: no regular file, too large, or no image of a known format.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("it is no file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(_IMAGE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    if len(data) > _IMAGE_BYTES:
        raise ValueError(f"it has more than {_IMAGE_BYTES:,} bytes")
    return data, _media_type(data)


def _media_type(data: bytes) -> str:
    try:
        with Image.open(io.BytesIO(data), formats=list(_IMAGE_TYPES)) as image:
            size, kind = image.width * image.height, _IMAGE_TYPES[str(image.format)]
            if size <= _IMAGE_PIXELS:
                image.load()
    except Exception:  # a decoder raises whatever it meets in a broken file
        raise ValueError("it is no PNG, JPEG, GIF or WebP image, or a broken one") from None
    if size > _IMAGE_PIXELS:
        raise ValueError(f"it has more than {_IMAGE_PIXELS:,} pixels")
    return kind
