"""Files: hashes, and names that never show half a content."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# What a file system says that takes no more: it is full, a quota or a limit is reached, or it may only be read.
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
ROOM: Final = "make room, or see that the folder can be written to, and run again: finished work is kept"


class StorageError(OSError):
    """A file system that takes no more; the message names the file and says what to do."""

    def __str__(self) -> str:
        return str(self.strerror)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal digits, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``, with its suffix; what was written there gets the name ``path`` at the end.

    If the body fails, nothing is left and what stood at ``path`` stays.

    Raises:
        StorageError: the file system takes no more; names the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in FULL and not isinstance(error, StorageError):
            raise StorageError(error.errno, f"cannot write {path} ({os.strerror(error.errno)}); {ROOM}") from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
