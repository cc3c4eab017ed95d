"""A small world around a sandbox: a gold file, another question's sandbox, a pool with one trajectory; and users in it."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from lmev2.agent import isolation, sandbox
from lmev2.agent.isolation import Interpreter, Isolation
from lmev2.agent.sandbox import Sandbox
from lmev2.agent.types import Execution, Mount

GOLD = "gold-answer-7311"
NEIGHBOUR = "neighbour-note-4802"
STATE = "a page of the shop"
_NOBODY = 65534
_OTHER_PYTHON = Path("/usr/bin/python3")

Result = TypeVar("Result")


class World:
    """The world's folders, and one sandbox in it that shows the trajectory ``t1``.

    Attributes:
        root: everything lies below.
        gold, neighbour, trajectory: files with ``GOLD``, ``NEIGHBOUR`` and ``STATE`` in them.
        folder: the sandbox's.
    """

    def __init__(self, root: Path, user: int | None):
        self.root, self.user = root, user
        self.gold = _write(root / "data" / "questions.json", json.dumps({"answer": GOLD}))
        self.neighbour = _write(root / "boxes" / "q2" / "memory_module_output.json", NEIGHBOUR)
        self.trajectory = _write(root / "pool" / "t1" / "trajectory.json", json.dumps({"text": STATE}))
        self.folder = root / "boxes" / "q1"
        _write(self.folder / "question.json", "{}")
        self.mounts = (Mount(root / "pool" / "t1", "trajectories/t1"),)
        if user is not None:
            for path in (root, *root.rglob("*")):
                os.chown(path, user, user)

    def execute(
        self,
        command: Sequence[str] | str,
        timeout_s: float = 20,
        kind: Isolation = "bubblewrap",
        **options: Any,
    ) -> Execution:
        """Run a command, or a shell script, in the sandbox."""
        words = ["sh", "-c", command] if isinstance(command, str) else list(command)

        def run() -> Execution:
            return Sandbox(self.folder, kind, self.mounts).execute(words, timeout_s, **options)

        return run() if self.user is None else as_user(self.user, run)

    def snapshot(self) -> dict[str, tuple[int, bytes | None]]:
        """Mode and content of everything outside of the sandbox's folder."""
        return {
            str(path.relative_to(self.root)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
            for path in sorted(self.root.rglob("*"))
            if not path.is_relative_to(self.folder)
        }


def as_user(user: int, function: Callable[[], Result]) -> Result:
    """What the function returns, or raises, in a child process of another user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        outcome: tuple[bool, object]
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            outcome = True, function()
        except BaseException as error:  # it must not return into the test runner
            outcome = False, error
        with os.fdopen(writing, "wb") as stream:
            pickle.dump(outcome, stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        done, value = pickle.load(stream)
    os.waitpid(child, 0)
    if not done:
        raise value
    return value


@contextmanager
def make_world(user: int | None = None) -> Iterator[World]:
    """A world whose folders any user can pass through, unlike pytest's."""
    root = Path(tempfile.mkdtemp(prefix="lmev2-world-"))
    root.chmod(0o755)
    try:
        yield World(root.resolve(), user)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def use_bwrap(program: Path, patch: pytest.MonkeyPatch) -> None:
    """Let sandboxes be made by this bwrap alone."""
    patch.setattr(isolation, "_programs", lambda: [program])


def use_other_user(patch: pytest.MonkeyPatch) -> int:
    """A user without rights, with an interpreter and a bwrap that it can run; else the test is skipped."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if not _OTHER_PYTHON.exists():
        pytest.skip(f"{_OTHER_PYTHON} is not there for the other user")
    real = _OTHER_PYTHON.resolve()
    for module in (isolation, sandbox):
        patch.setattr(module, "interpreter", lambda: Interpreter(real, str(real), (), None))

    def usable() -> bool:
        isolation._refusal.cache_clear()
        readable = os.access(isolation.LAUNCH, os.R_OK)
        return readable and any(isolation._refusal(program) is None for program in isolation._programs())

    if not as_user(_NOBODY, usable):
        pytest.skip("another user cannot make a sandbox here, or cannot read this checkout")
    isolation._refusal.cache_clear()
    return _NOBODY


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
