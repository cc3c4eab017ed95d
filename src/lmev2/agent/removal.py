"""Removing folders that an agent could write to.

The standard library's way is not for them: it calls itself once per level, so that deep folders end it, and in some
versions it changes modes through links (CVE-2023-6597). Here folders are opened by descriptors and never through a
link, only folders get new modes, and what is found below is moved up instead of going down: three descriptors do for
any depth.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger(__name__)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH = 1000  # names in memory at once
_MOST_S = 300.0  # what still runs there could add files for ever


def remove_tree(path: Path) -> None:
    """Remove a file, link or folder with all that is in it, whatever the modes are; nothing if there is none.

    What can be removed is, also where something else cannot.

    Raises:
        OSError: something is left; what was in the way first.
    """
    with contextlib.suppress(FileNotFoundError):
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_at(parent, path.name)
        finally:
            os.close(parent)


def remove_tree_or_warn(path: Path) -> None:
    """The same where work that is done must not be lost with it: what is left is logged."""
    try:
        remove_tree(path)
    except Exception as error:
        _log.warning("%s could not be removed: %s: %s", path, type(error).__name__, error)


def remove_at(directory: int, name: str) -> None:
    """Remove what stands under a name in an open folder; see :func:`remove_tree`."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=directory)
            return
        with _opened(directory, name) as root:
            _Emptying(root).run()
        os.rmdir(name, dir_fd=directory)


class _Emptying:
    """Empties an open folder: files below it are removed where they are, folders below it are moved up into it."""

    def __init__(self, root: int):
        self._root = root
        # Names that no agent could have taken.
        self._mark, self._moved = f".{secrets.token_hex(16)}.", itertools.count()
        self._stuck: set[str] = set()
        self._fault: OSError | None = None

    def run(self) -> None:
        """Raises the first fault in the end, if something is left."""
        until = time.monotonic() + _MOST_S
        while entries := _entries(self._root, self._stuck):
            for name, is_folder in entries:
                if time.monotonic() > until:
                    raise self._fault or TimeoutError(f"the folder is not empty after {_MOST_S:g} s")
                if not (self._lessen(name) if is_folder else self._unlink(self._root, name)):
                    self._stuck.add(name)
        if self._fault is not None and _entries(self._root):
            raise self._fault

    def _lessen(self, name: str) -> bool:
        """Take what is in a folder of the root out of it, and the folder itself once it is empty; False if stuck."""
        try:
            with _opened(self._root, name) as folder:
                entries = _entries(folder)
                taken = [
                    self._move_up(folder, one) if is_folder else self._unlink(folder, one) for one, is_folder in entries
                ]
            if all(taken) and len(entries) < _BATCH:
                os.rmdir(name, dir_fd=self._root)
                return True
        except OSError as error:
            return self._failed(error)
        return any(taken)

    def _move_up(self, folder: int, name: str) -> bool:
        new = f"{self._mark}{next(self._moved)}"
        try:
            try:
                os.rename(name, new, src_dir_fd=folder, dst_dir_fd=self._root)
            except PermissionError:  # a folder that may not be written to may not be moved either
                with _opened(folder, name):
                    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=self._root)
        except OSError as error:
            return self._failed(error)
        return True

    def _unlink(self, folder: int, name: str) -> bool:
        try:
            os.unlink(name, dir_fd=folder)
        except OSError as error:
            return self._failed(error)
        return True

    def _failed(self, error: OSError) -> bool:
        """Whether it does not matter, since somebody else was quicker."""
        if isinstance(error, FileNotFoundError):
            return True
        self._fault = self._fault or error
        return False


def _entries(folder: int, without: set[str] | frozenset[str] = frozenset()) -> list[tuple[str, bool]]:
    """Some names in a folder, and whether each is a folder itself."""
    with os.scandir(folder) as found:
        named = ((one.name, one.is_dir(follow_symlinks=False)) for one in found if one.name not in without)
        return list(itertools.islice(named, _BATCH))


@contextlib.contextmanager
def _opened(directory: int, name: str) -> Iterator[int]:
    """A folder's descriptor, with this user's rights on the folder restored; never through a link."""
    _allow(directory, name)
    descriptor = os.open(name, _FOLDER, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _allow(directory: int, name: str) -> None:
    mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode) or mode & stat.S_IRWXU == stat.S_IRWXU:
        return
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, stat.S_IRWXU, dir_fd=directory, follow_symlinks=False)
        return
    # Linux knows no change of mode that does not follow links, but a descriptor that needs no rights.
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IRWXU)
    finally:
        os.close(descriptor)
