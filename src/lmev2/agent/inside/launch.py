"""Runs one command of a sandbox: sets limits, opens the way to the model, waits, and ends what the command left behind.

Standard library only; runs in the sandbox, before and beside the command:

    launch.py READY PARENT PORT SOCKET COMMAND...

READY is a descriptor that gets one byte when all is set up, before the command starts. PARENT is ``-`` in namespaces
of its own, where this is process 1 and its end ends everything; without them it is the process that started this one,
whose death, or a SIGTERM, ends the command and its descendants. PORT and SOCKET, or ``-`` twice: connections to this
port of loopback are passed on to the Unix socket.

Exit code: the command's, 128 + N where signal N ended it, 127 or 126 where it cannot be started, 125 where nothing was.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence

FILE_BYTES = 256 << 20
OPEN_FILES = 4096
_CHUNK = 1 << 16
_END_S = 5.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> int:
    """Run the command of the arguments; returns the exit code."""
    ready, parent, port, path, *command = arguments
    set_limits()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent != "-":
        _die_with(int(parent))
    try:
        listener = None if port == "-" else socket.create_server(("127.0.0.1", int(port)))
    except OSError as error:
        print(f"port {port} of loopback cannot be opened: {error.strerror}", file=sys.stderr)
        return 125
    os.write(int(ready), b"1")
    os.close(int(ready))
    child = _start(command)
    if listener is not None:
        threading.Thread(target=_bridge, args=(listener, path), daemon=True).start()
    code = _wait(child)
    if parent != "-":
        _end_descendants()
    return code


def set_limits() -> None:
    """Limits of size for files, of number for open ones; no core dumps. As low as they were, if that is lower."""
    for what, most in (
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (limit, limit))
    os.umask(0o022)


def _start(command: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    # Python ignores the last two, and the command would inherit it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _wait(child: int) -> int:
    """The exit code of the child; orphans are waited for as well, since they become children of this process."""
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _bridge(listener: socket.socket, path: str) -> None:
    while True:
        here, _ = listener.accept()
        there = socket.socket(socket.AF_UNIX)
        try:
            there.connect(path)
        except OSError:
            here.close()
            there.close()
            continue
        for source, sink in ((here, there), (there, here)):
            threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _die_with(parent: int) -> None:
    """End everything when the parent dies, and become the parent of orphans; where the system can do that."""
    signal.signal(signal.SIGTERM, _on_end)
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    library = ctypes.CDLL(None)
    library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(125)


def _on_end(number: int, _: object) -> None:
    _end_descendants()
    os._exit(128 + number)


def _end_descendants() -> None:
    """Kill them, again while there are new ones."""
    until = time.monotonic() + _END_S
    while time.monotonic() < until and (found := _descendants(os.getpid())):
        for process in found:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)


def _descendants(ancestor: int) -> set[int]:
    parents: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
                # The name, in parentheses, may hold anything.
                fields = stream.read().rpartition(b")")[2].split()
                parents[int(name)] = int(fields[1])
    found = {ancestor}
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {ancestor}


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
