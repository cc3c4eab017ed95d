"""One process at a time for a piece of work, by a lock on a file."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

# A file system that has no locks, or a folder that takes no file. Then the work is done without: at worst twice.
_WITHOUT: Final = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made for it and removed afterwards; wait while another process or thread holds
    it.

    The system lets go of the locks of a process that ends, however it ends. Its file may stay; the next who works on
    the same removes it.
    """
    handle = _acquire(path)
    try:
        yield
    finally:
        if handle is not None:
            path.unlink(missing_ok=True)  # before the lock is let go, so that whoever waited sees it and starts anew
            os.close(handle)


def _acquire(path: Path) -> int | None:
    """An open file whose lock is held; None where there are no locks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno in _WITHOUT:
                return None
            raise
        try:
            _lock(handle, path)
            if _is(path, handle):
                return handle
            os.close(handle)  # whoever held it has removed it
        except OSError as error:
            os.close(handle)
            if error.errno in _WITHOUT:
                return None
            raise


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logger.info("waiting for another job that makes the same call (%s)", path.name)
        fcntl.flock(handle, fcntl.LOCK_EX)


def _is(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
