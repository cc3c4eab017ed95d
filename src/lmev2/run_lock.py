"""What shows that a run lives in its folder, and what ends its jobs when it is killed.

Snakemake's own lock is a list of files, which a killed run leaves behind and which does not say whether that run still
lives. The lock here is one of the system's, which goes with the process that holds it, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(".snakemake")
_NAME: Final = "lmev2_run.lock"
# The run's process, for its jobs: machine, namespace of process numbers, number, and when it began.
_VARIABLE: Final = "LMEV2_RUN_PROCESS"
_GRACE_S: Final = 10.0

_held: dict[Path, int] = {}  # open files by folder; they stay open, and their locks held, until this process ends


def hold(directory: Path) -> bool:
    """Try to take the lock of a run in a folder, and keep it until this process ends. Never waits.

    Returns:
        Whether this process holds it. False where another process does, or where it cannot be had at all, as on a file
        system without locks.
    """
    if directory in _held:
        return True
    handle = _open(directory)
    if handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return False
    _held[directory] = handle
    return True


def hold_soon(directory: Path) -> None:
    """As :func:`hold`, for a run that begins: leave this machine's name in the lock's file. Where another process holds
    it, such as a dry run that is about to end, wait for it in the background."""
    if hold(directory):
        _sign(_held[directory])
        return
    handle = _open(directory)
    if handle is not None:
        threading.Thread(target=_wait_for, args=(directory, handle), daemon=True).start()


def stale_lock(directory: Path) -> str | None:
    """What to say of Snakemake's lock on a folder that a killed run left behind; None where there is no lock, or where
    a run may live on this machine. Keeps the lock of a run, as :func:`hold`.

    On some file systems locks do not hold between machines, so that a run on another one is never ruled out.
    """
    if not hold(directory) or not any((directory / _FOLDER / "locks").glob("*.lock")):
        return None
    host = _signed(_held[directory])
    elsewhere = host not in ("", socket.gethostname())
    return (
        f"No run lives in this folder any more{f', unless one lives on {host}' if elsewhere else ''}: the last one was "
        f"killed and left its lock ({directory / _FOLDER / 'locks'}). "
        f"{f'If none lives on {host}, remove' if elsewhere else 'Remove'} it with `snakemake --unlock` (or "
        "`make unlock`), then run again; nothing that is finished is repeated."
    )


def name_run() -> None:
    """Tell the jobs that this process starts whose they are."""
    os.environ[_VARIABLE] = " ".join([*_place(), str(os.getpid()), _start_of(os.getpid())])


def forget_run() -> None:
    """Let jobs go on without the run, as on a cluster, whose queue they belong to."""
    os.environ.pop(_VARIABLE, None)


def end_with_run() -> None:
    """Watch, in the background, the run whose job this process is, and end when it is gone.

    This process is first interrupted, as by Ctrl-C, so that it takes down what it has set up; ten seconds later it is
    ended. Does nothing in a process that no run on this machine has started, and where the system cannot watch a
    process (Linux can). Call it in the main thread.
    """
    parts = os.environ.get(_VARIABLE, "").split(" ")
    if len(parts) != 4 or parts[:2] != _place() or not hasattr(os, "pidfd_open"):
        return
    number, start = int(parts[2]), parts[3]
    handle: int | None
    try:
        handle = os.pidfd_open(number)
    except ProcessLookupError:
        handle = None
    except OSError:  # the system does not let us
        return
    now = _start_of(number)
    if handle is not None and start and now and now != start:  # another process has got the number
        os.close(handle)
        handle = None
    # Not SIGINT, which shells let their background jobs ignore.
    signal.signal(signal.SIGUSR1, signal.default_int_handler)
    threading.Thread(target=_end_after, args=(handle,), daemon=True).start()


def _end_after(handle: int | None) -> None:
    if handle is not None:
        watched = select.poll()
        watched.register(handle, select.POLLIN)
        watched.poll()
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(_GRACE_S)
    os._exit(1)


def _place() -> list[str]:
    """This machine, and the namespace in which its numbers of processes mean something."""
    try:
        return [socket.gethostname(), os.readlink("/proc/self/ns/pid")]
    except OSError:
        return [socket.gethostname(), ""]


def _start_of(number: int) -> str:
    """When a process began, in the system's ticks: with its number, its identity. Empty where that cannot be told."""
    try:
        facts = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return facts.rpartition(")")[2].split()[19]


def _open(directory: Path) -> int | None:
    try:
        (directory / _FOLDER).mkdir(exist_ok=True)
        return os.open(directory / _FOLDER / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


def _sign(handle: int) -> None:
    """Leave the name of this machine in the lock's file, for whoever finds it on another one."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, socket.gethostname().encode("utf-8"), 0)
    except OSError:  # no room: the next run is told less, this one is no worse for it
        return


def _signed(handle: int) -> str:
    """The machine of the last run; empty where it is unknown."""
    try:
        return os.pread(handle, 1000, 0).decode("utf-8", errors="replace").strip()
    except OSError:
        return ""


def _wait_for(directory: Path, handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        os.close(handle)
        return
    _held[directory] = handle
    _sign(handle)
