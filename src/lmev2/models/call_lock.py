"""One process at a time for a piece of work, by a lock on a file."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

# A file system that has no locks, or no more files that may be open. Then the work is done without: at worst twice.
_NO_LOCKS: Final = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMFILE, errno.ENFILE}
_DENIED: Final = {errno.EACCES, errno.EPERM}
_WAIT_S = 1800.0  # a process that was stopped, or whose machine is gone, may hold a lock for ever
_WARN_S = 60.0
_PAUSES_S: Final = (0.02, 0.5)  # the first and the longest between two looks


@contextmanager
def locked(path: Path, work_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file, which is made for it and removed afterwards; wait while another process or thread holds
    it.

    Who has waited for half an hour goes on without, with a warning. The system lets go of the locks of a process that
    ends, however it ends. Its file may stay; the next who works on the same removes it.

    Args:
        work_s: seconds that the work may rightly take; nobody gives up waiting before.

    Raises:
        OSError: the file cannot be made, for another reason than that there are no locks.
    """
    handle = _acquire(path, max(_WAIT_S, work_s))
    try:
        yield
    finally:
        if handle is not None:
            try:
                # Before the lock is let go, so that whoever waits sees it and starts anew. Where it cannot be removed
                # it stays: what went wrong in the work is what is to be told.
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            finally:
                os.close(handle)


def _acquire(path: Path, most_s: float) -> int | None:
    """An open file whose lock is held; None where there are no locks, or after so many seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    pause, longest = _PAUSES_S
    warned = False
    while True:
        try:
            handle = _held(path)
        except OSError as error:
            # A file that is there and denied is another user's, in a folder that may well be written to.
            if error.errno in _NO_LOCKS or (error.errno in _DENIED and path.exists()):
                return None
            raise
        if handle is not None:
            return handle
        waited = time.monotonic() - started
        if waited >= most_s:
            logger.warning(
                "another process still holds %s after %.0f s; going on without it: the call is made, at worst twice",
                path,
                waited,
            )
            return None
        if waited >= _WARN_S and not warned:
            warned = True
            logger.warning(
                "for %.0f s another process has held %s for the same call; if it is stopped, end it. "
                "Waiting %.0f s at most",
                waited,
                path,
                most_s,
            )
        time.sleep(min(pause, most_s - waited))
        pause = min(longest, 1.5 * pause)


def _held(path: Path) -> int | None:
    """An open file whose lock is held; None while somebody else holds it, or has just removed it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is(path, handle):
            return handle
    except BlockingIOError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _is(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
