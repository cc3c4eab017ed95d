"""A sandbox in which an agent's commands run, with Bubblewrap or without isolation.

The temporary folder and home are new for every command; only the sandbox's folder stays between commands.

Without isolation a command runs as this user in the sandbox's folder, with the same few variables; mounts are symbolic
links while a command runs. Its end is then best effort: descendants are found by their parents, also those that started
a session of their own, and orphans by a variable of their environment; a process that kills its supervisor *and* clears
its environment stays.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lmev2.agent.inside.launch import FILE_BYTES
from lmev2.agent.isolation import (
    HOME,
    INSIDE,
    LAUNCH,
    LAUNCH_INSIDE,
    PYTHON,
    SOCKET_INSIDE,
    Isolation,
    bubblewrap_options,
    bwrap_command,
    inside_path,
    interpreter,
    is_shown,
    restored_devices,
    standard_variables,
    working_bwrap,
)
from lmev2.agent.mountpoints import make_link, make_mount_point, remove_link
from lmev2.agent.scratch import scratch_folder
from lmev2.agent.supervise import KeptFile, KeptText, Sink, supervise
from lmev2.agent.types import Execution, Mount
from lmev2.models.types import ModelSetupError

_END_S = 10.0
_WORDS_CHARS = 500
_MARK = "LMEV2_SANDBOX"
_RESERVED = (INSIDE, "/proc", "/dev", "/launch", PYTHON)  # and what is in them
_TAKEN = ("/", "/usr", "/etc", "/tmp", "/home", HOME)


class Sandbox:
    """See :class:`~lmev2.agent.types.Box`.

    Args:
        folder: the sandbox's folder, which must exist; its mode is given back before every command.
        isolation: ``bubblewrap`` or ``none``.
        mounts: what every command sees.

    Raises:
        ValueError: a mount that cannot be: a relative source, a target outside the folder, or twice the same.
        ModelSetupError: the folder lies where every sandbox can read.
    """

    def __init__(self, folder: Path, isolation: Isolation = "bubblewrap", mounts: Sequence[Mount] = ()):
        self.folder = folder.resolve(strict=True)
        self.isolation: Isolation = isolation
        self.inside = INSIDE if isolation == "bubblewrap" else str(self.folder)
        self.mounts: Sequence[Mount] = tuple(mounts)
        self._mode = stat.S_IMODE(self.folder.stat().st_mode) | stat.S_IRWXU
        self._guard = threading.Lock()
        self._running, self._linked = 0, set[str]()
        _check_mounts(self.mounts)
        if isolation == "bubblewrap" and is_shown(self.folder):
            raise ModelSetupError(
                f"the sandbox {self.folder} lies in a folder that every sandbox shows; move it elsewhere"
            )

    def path_inside(self, mount: Mount) -> str:
        """See :class:`~lmev2.agent.types.Box`."""
        if self.isolation == "bubblewrap":
            return inside_path(mount)
        return str(mount.source) if mount.target.startswith("/") else str(self.folder / mount.target)

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
        """See :class:`~lmev2.agent.types.Box`.

        ``returncode`` is 128 + N where signal N ended the command, 127 or 126 where it could not be started. Files,
        ``stdout_file`` included, end at 256 MB.

        Raises:
            ValueError: no command, a socket without a port or the reverse, or a mount that cannot be.
            ModelSetupError: the sandbox cannot be made.
        """
        if not command or (model_socket is None) != (model_port is None):
            raise ValueError("expected a command, and model_socket and model_port together or not at all")
        began = time.monotonic()
        all_mounts = (*self.mounts, *mounts)
        _check_mounts(all_mounts)
        unfit = _unfit(command)
        if unfit is not None:
            return _not_started(unfit, began)
        kept, errors = KeptText(output_chars), KeptText(output_chars)
        with contextlib.ExitStack() as stack:
            stdout: Sink = kept
            if stdout_file is not None:
                stdout = KeptFile(stack.enter_context(stdout_file.open("wb")), FILE_BYTES)
            bridge = ("-", "-") if model_socket is None else (str(model_port), str(model_socket))
            ready = stack.enter_context(_pipe())
            prepare = self._bubblewrap if self.isolation == "bubblewrap" else self._plain
            prepared = stack.enter_context(prepare(all_mounts, dict(variables or {}), bridge, ready[1]))
            try:
                code = supervise(
                    [*prepared.prefix, *command],
                    environment=prepared.environment,
                    folder=self.folder,
                    descriptors=(ready[1], *prepared.descriptors),
                    stdin=stdin.encode("utf-8", "replace"),
                    stdout=stdout,
                    stderr=errors,
                    deadline=began + timeout_s,
                    end=prepared.end,
                    stop=stop,
                )
            except OSError as error:
                if error.errno != errno.E2BIG:
                    raise
                return _not_started(str(error.strerror), began)
            started = _receive(ready[0]) != b""
        if code is not None and not started:
            words = " ".join(errors.text().split())[-_WORDS_CHARS:]
            raise ModelSetupError(f"the sandbox {self.folder} cannot be made: {words or f'exit code {code}'}")
        if code is not None and code < 0:
            code = 128 - code
        return Execution(code, kept.text(), errors.text(), code is None, time.monotonic() - began)

    @contextlib.contextmanager
    def _bubblewrap(
        self, mounts: Sequence[Mount], variables: Mapping[str, str], bridge: tuple[str, str], ready: int
    ) -> Iterator[_Prepared]:
        port, socket = bridge
        with self._guard:
            self.folder.chmod(self._mode)
            for mount in mounts:
                if not mount.target.startswith("/"):
                    make_mount_point(self.folder, mount.target, mount.source.is_dir())
        options = bubblewrap_options(self.folder, mounts, variables, None if port == "-" else Path(socket))
        with (
            bwrap_command(working_bwrap(), options) as (command, descriptors),
            _pipe() as (info, info_end),
            restored_devices(),
        ):
            prefix = [*command, "--info-fd", str(info_end), "--"]
            prefix += [interpreter().inside, "-I", "-S", LAUNCH_INSIDE, str(ready), "-", port]
            prefix.append("-" if port == "-" else SOCKET_INSIDE)
            # An environment of bwrap's own could be read in /proc, for the moment until it is replaced.
            yield _Prepared(prefix, {}, (info_end, *descriptors), lambda process: _end_namespace(process, info))

    @contextlib.contextmanager
    def _plain(
        self, mounts: Sequence[Mount], variables: Mapping[str, str], bridge: tuple[str, str], ready: int
    ) -> Iterator[_Prepared]:
        mark = secrets.token_hex(16)
        with scratch_folder() as private, self._links(mounts):
            for part in ("bin", "home", "tmp"):
                (private / part).mkdir()
            for program in ("python", "python3"):
                (private / "bin" / program).symlink_to(interpreter().executable)
            environment = standard_variables(str(private / "bin"), str(private / "home"), str(private / "tmp"))
            environment |= {**variables, _MARK: mark}
            prefix = [str(interpreter().executable), "-I", "-S", str(LAUNCH), str(ready), str(os.getpid()), *bridge]
            yield _Prepared(prefix, environment, (), lambda process: _end_session(process, mark))

    @contextlib.contextmanager
    def _links(self, mounts: Sequence[Mount]) -> Iterator[None]:
        """Relative mounts as links, while at least one command runs."""
        with self._guard:
            self.folder.chmod(self._mode)
            self._running += 1
            for mount in mounts:
                if not mount.target.startswith("/"):
                    make_link(self.folder, mount.target, mount.source)
                    self._linked.add(mount.target)
        try:
            yield
        finally:
            with self._guard:
                self._running -= 1
                # A fault here must not take the place of what ended the command, such as a signal to this process.
                with contextlib.suppress(OSError):
                    self.folder.chmod(self._mode)
                while not self._running and self._linked:
                    with contextlib.suppress(OSError):
                        remove_link(self.folder, self._linked.pop())


@dataclass(frozen=True)
class _Prepared:
    """How to run a command: what stands before it, its environment, descriptors to inherit, and how to end it all."""

    prefix: list[str]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...]
    end: Callable[[subprocess.Popen[bytes]], None]


def _end_namespace(process: subprocess.Popen[bytes], info: int) -> None:
    """End process 1 inside, and with it everything there: bwrap sees its end only when all the others are gone."""
    if process.poll() is None:
        told = _receive(info)
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            os.kill(json.loads(told)["child-pid"], signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        process.kill()
    process.wait()


def _end_session(process: subprocess.Popen[bytes], mark: str) -> None:
    """Have the supervisor end its descendants; then end what is left of the process group, and what has the mark."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + _END_S
    while time.monotonic() < until and (found := _marked(mark)):
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _marked(mark: str) -> list[int]:
    """Processes with the mark in their environment; none where there is no /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{_MARK}={mark}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """A pipe whose reading end does not block."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def _receive(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return b""


def _unfit(command: Sequence[str]) -> str | None:
    """Why the system could not take these arguments."""
    try:
        return "an argument contains a null character" if b"\0" in b"".join(map(os.fsencode, command)) else None
    except UnicodeEncodeError as error:
        return f"an argument contains a character that cannot be encoded ({error.reason})"


def _not_started(why: str, began: float) -> Execution:
    return Execution(126, "", f"the command cannot be started: {why}\n", False, time.monotonic() - began)


def _check_mounts(mounts: Sequence[Mount]) -> None:
    seen: set[str] = set()
    for mount in mounts:
        target = mount.target
        path = PurePosixPath(target)
        if not mount.source.is_absolute():
            raise ValueError(f"the mount source {mount.source} is not absolute")
        if target != str(path) or ".." in path.parts or target == ".":
            raise ValueError(f"the mount target {target!r} is no plain path inside the sandbox")
        if target in _TAKEN or any(path.is_relative_to(taken) for taken in _RESERVED):
            raise ValueError(f"the mount target {target!r} would hide what every sandbox has; choose another")
        if target in seen:
            raise ValueError(f"the mount target {target!r} is given twice")
        seen.add(target)
