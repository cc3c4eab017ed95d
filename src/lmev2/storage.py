"""What can be wrong with a run's folders before any job: no permission, no room, files of the future."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

_LEAST_FREE: Final = 50_000_000  # bytes
_TOLERANCE_S: Final = 120.0  # clocks of the machines that share a folder may differ a little
_LOOKED_AT: Final = 10_000  # files


def storage_problems(folders: Mapping[str, Path]) -> list[str]:
    """What keeps a run from writing to its folders, which are made if need be; empty if nothing does.

    Args:
        folders: by the key of the configuration that names them.
    """
    problems = []
    for key, folder in folders.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            writable, usage = os.access(folder, os.W_OK | os.X_OK), shutil.disk_usage(folder)
        except OSError as error:
            problems.append(f"{key}: cannot use the folder {folder} ({error}); set `{key}` to a folder of yours")
            continue
        if not writable:
            problems.append(
                f"{key}: the folder {folder} cannot be written to; change its permissions or mount, or set `{key}` to "
                "another folder"
            )
        elif usage.total > 0 and usage.free < _LEAST_FREE:  # some file systems tell no sizes: all are 0
            problems.append(
                f"{key}: the disk of {folder} has {usage.free // 1_000_000} MB left, a run needs at least "
                f"{_LEAST_FREE // 1_000_000}; make room, or set `{key}` to a folder on another disk"
            )
    return problems


def read_only_cache(cache: Path) -> str | None:
    """A warning where a call cache can be read but not written to, as one that several people share; None otherwise.

    A run whose calls it holds all needs no more.
    """
    # Asked of the mount and the permissions, so that nothing is made.
    if not cache.is_dir() or not os.access(cache, os.R_OK | os.X_OK) or os.access(cache, os.W_OK):
        return None
    return (
        f"cache: the folder {cache} cannot be written to. Calls that it holds are replayed; the first new one ends its "
        "job. To make new calls, change its permissions or mount, or set `cache` to another folder"
    )


def from_the_future(results: Path, now: float | None = None) -> str | None:
    """A warning where files of a run were written later than it is now; None if there are none.

    Snakemake compares times. After a clock was set back, a changed input looks older than what was made from it, and
    nothing would be made anew. Files are looked at three folders deep.

    Args:
        now: seconds since the epoch; the machine's clock by default.
    """
    limit = (time.time() if now is None else now) + _TOLERANCE_S
    ahead = [(path, changed) for path, changed in islice(_files(results, 3), _LOOKED_AT) if changed > limit]
    if not ahead:
        return None
    path, latest = max(ahead, key=lambda found: found[1])
    hours = (latest - limit + _TOLERANCE_S) / 3600
    return (
        f"{len(ahead)} files in {results} are from the future ({path} by {hours:.1f} hours): a clock was set back. "
        "Until then, changed inputs are not noticed. If any changed since, delete the results that it matters for, or "
        "run once with --forceall: finished calls are replayed from the call cache"
    )


def _files(folder: Path, depth: int) -> Iterator[tuple[Path, float]]:
    for entry in _entries(folder):
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth > 1:
                    yield from _files(Path(entry.path), depth - 1)
            else:
                yield Path(entry.path), entry.stat(follow_symlinks=False).st_mtime
        except OSError:  # a job that runs has replaced it, or it cannot be looked at
            continue


def _entries(folder: Path) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []
