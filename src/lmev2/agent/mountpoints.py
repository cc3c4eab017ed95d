"""Mount points in a sandbox's folder, made by this process where an agent may have left anything: a link out, a FIFO, a
folder that nobody can open. No link is followed, and what stands in the way is moved aside."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_mount_point(folder: Path, target: str, is_folder: bool) -> None:
    """Make an empty folder or file at a path relative to the sandbox's folder, where there is none yet."""
    with _parent(folder, target) as (parent, name):
        if is_folder:
            os.close(_open_folder(parent, name))
            return
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                return
            _move_aside(parent, name)
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent))


def make_link(folder: Path, target: str, source: Path) -> None:
    """Make a symbolic link to the source instead of a mount."""
    with _parent(folder, target) as (parent, name):
        with contextlib.suppress(OSError):
            if os.readlink(name, dir_fd=parent) == str(source):
                return
        with contextlib.suppress(FileNotFoundError):
            _move_aside(parent, name)
        os.symlink(source, name, dir_fd=parent)


def remove_link(folder: Path, target: str) -> None:
    """Remove such a link; anything else stays."""
    with _parent(folder, target) as (parent, name), contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)


@contextlib.contextmanager
def _parent(folder: Path, target: str) -> Iterator[tuple[int, str]]:
    """The open folder in which the target lies, and the target's name in it."""
    *folders, name = PurePosixPath(target).parts
    parent = os.open(folder, _FOLDER)
    try:
        for part in folders:
            inner = _open_folder(parent, part)
            os.close(parent)
            parent = inner
        yield parent, name
    finally:
        os.close(parent)


def _open_folder(parent: int, name: str) -> int:
    try:
        opened = os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError:  # a link, no folder, or one that cannot be opened
        _move_aside(parent, name)
    else:
        mode = stat.S_IMODE(os.fstat(opened).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:  # root opens it nevertheless, but not so inside
            os.fchmod(opened, mode | stat.S_IRWXU)
        return opened
    os.mkdir(name, 0o700, dir_fd=parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _move_aside(parent: int, name: str) -> None:
    os.rename(name, f".{name[:100]}.{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent)
