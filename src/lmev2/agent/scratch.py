"""Folders of this machine in which an agent works for a while, removed also when the process that made them was killed.

All of a user's lie in one folder below the temporary folder. Beside each is a file that the process which made it keeps
locked. A lock ends with its process, however that ended; so the next process that makes such a folder can remove what
others left behind, and nothing of those that still run. The paths say nothing about the work: a sandbox can see its own
in ``/proc/self/mountinfo``.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lmev2.agent.removal import remove_at, remove_tree_or_warn

_log = logging.getLogger(__name__)
_LOCK = ".lock"
_TRIES = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder that other users cannot enter, removed at the end with whatever an agent left in it.

    What cannot be removed is logged; the next process that makes such a folder tries again.

    Raises:
        OSError: no folder can be made.
    """
    with contextlib.ExitStack() as stack:
        common, directory, name = _make(stack)
        _remove_abandoned(directory)
        path = common / name
        try:
            yield path
        finally:
            remove_tree_or_warn(path)
            with contextlib.suppress(OSError):
                if not os.path.lexists(path):
                    os.unlink(name + _LOCK, dir_fd=directory)
                os.rmdir(common)  # the last one there; else it is not empty


def _make(stack: contextlib.ExitStack) -> tuple[Path, int, str]:
    """The common folder, its descriptor, and a new folder's name in it, whose lock is held until the stack ends."""
    for _ in range(_TRIES):
        # The common folder may be removed by its last user, and the new lock be taken for an abandoned one.
        with contextlib.suppress(FileNotFoundError, BlockingIOError), contextlib.ExitStack() as opened:
            common, directory = _open_common()
            opened.callback(os.close, directory)
            name = secrets.token_hex(8)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(name + _LOCK, flags, 0o600, dir_fd=directory)
            opened.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:  # no locks here: then nobody else can take this one for abandoned, either
                _log.debug("no locks in %s", common, exc_info=True)
            if _stands(lock, directory, name + _LOCK):
                os.mkdir(name, 0o700, dir_fd=directory)
                stack.push(opened.pop_all())
                return common, directory, name
    raise OSError(f"no folder could be made in {tempfile.gettempdir()} in {_TRIES} tries")


def _open_common() -> tuple[Path, int]:
    """The user's folder; where another user has taken its name, one for this process."""
    path = Path(tempfile.gettempdir()).absolute() / f"lmev2-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    try:
        directory = os.open(path, _FOLDER)
    except FileNotFoundError:
        raise
    except OSError as error:
        fault = error.strerror
    else:
        status = os.fstat(directory)
        if status.st_uid == os.geteuid():
            if stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
                os.fchmod(directory, stat.S_IRWXU)
            return path, directory
        os.close(directory)
        fault = f"it belongs to user {status.st_uid}"
    _log.warning("%s cannot be used for sandboxes (%s); what a killed process leaves will stay", path, fault)
    path = Path(tempfile.mkdtemp(prefix="lmev2-"))
    return path, os.open(path, _FOLDER)


def _remove_abandoned(directory: int) -> None:
    for name in os.listdir(directory):
        if name.endswith(_LOCK):
            try:
                _remove_if_abandoned(directory, name)
            except FileNotFoundError:
                pass  # its owner, or another process, was quicker
            except OSError as error:
                _log.warning("what a killed process left could not be removed: %s", error)


def _remove_if_abandoned(directory: int, name: str) -> None:
    """Remove a folder and its lock, unless a process holds the lock."""
    lock = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # held; or there are no locks here, and nothing is known
            return
        if _stands(lock, directory, name):
            remove_at(directory, name.removesuffix(_LOCK))
            os.unlink(name, dir_fd=directory)
    finally:
        os.close(lock)


def _stands(lock: int, directory: int, name: str) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return False
