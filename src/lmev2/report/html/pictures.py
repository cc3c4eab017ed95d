"""Small copies of screenshots, one per distinct picture."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import stat
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import BoundedSemaphore
from types import TracebackType
from typing import Final, NamedTuple, Self

from PIL import Image, ImageDraw

_log = logging.getLogger("lmev2")
_QUALITY: Final = 50
_MOST_BYTES: Final = 64 * 2**20
_WAITING: Final = 16  # pictures in memory that wait to be written
_FAULTS: Final = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)


class Picture(NamedTuple):
    """A picture of the report: file name in the folder, and its size in pixels."""

    name: str
    width: int
    height: int


class Pictures:
    """Writes small copies into a folder, in threads; use it with ``with``.

    A file is named by the content of its original, so that equal screenshots are stored once and equal runs give equal
    reports.

    Args:
        folder: of the copies; made with the first of them.
        threads: that decode and write.
    """

    def __init__(self, folder: Path, threads: int):
        self._folder = folder
        self._seen: dict[tuple[str, int], Picture | None] = {}
        self._jobs: dict[str, Future[None]] = {}
        self._room = BoundedSemaphore(_WAITING)
        self._pool = ThreadPoolExecutor(max_workers=max(1, threads), thread_name_prefix="pictures")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=error is not None)
        if error is None:
            for job in self._jobs.values():
                job.result()

    def add(self, path: str, width: int) -> Picture | None:
        """A copy at most ``width`` pixels wide; None, and a warning, where there is no readable picture.

        The path must be absolute and name a regular file of at most 64 MiB.
        """
        key = (path, width)
        if key not in self._seen:
            self._seen[key] = self._queue(Path(path), width)
        return self._seen[key]

    def _queue(self, path: Path, width: int) -> Picture | None:
        try:
            content = _read(path)
            with Image.open(io.BytesIO(content)) as image:
                size = image.size
        except _FAULTS as error:
            _log.warning("no picture of %.200r: %.300s", str(path), error)
            return None
        shown = min(width, size[0])
        picture = Picture(
            f"{hashlib.sha256(content).hexdigest()[:20]}-{width}.webp", shown, max(1, round(size[1] * shown / size[0]))
        )
        if picture.name not in self._jobs:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._room.acquire()
            self._jobs[picture.name] = self._pool.submit(self._write, content, picture, path)
        return picture

    def _write(self, content: bytes, picture: Picture, path: Path) -> None:
        try:
            size = (picture.width, picture.height)
            try:
                with Image.open(io.BytesIO(content)) as image:
                    small = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
            except _FAULTS as error:  # begins like a picture, but is damaged further on
                _log.warning("unreadable picture %.200r: %.300s", str(path), error)
                small = Image.new("RGB", size, "#dddddd")
                ImageDraw.Draw(small).text((8, 8), "unreadable picture", fill="#000000")
            small.save(self._folder / picture.name, "WEBP", quality=_QUALITY, method=0)
        finally:
            self._room.release()


def _read(path: Path) -> bytes:
    """The content of a file that can be a picture.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none: a relative path, which would be looked up wherever the report is made, something that is
            no regular file and may never end, or a file that is empty or too large.
    """
    if not path.is_absolute():
        raise ValueError("not an absolute path")
    if not path.is_file():
        raise ValueError("no regular file")
    # What was opened is asked again. Opening must not wait for the other end of a pipe that took the file's place.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("no regular file")
        if not 0 < found.st_size <= _MOST_BYTES:
            raise ValueError(f"{found.st_size} bytes, expected 1 to {_MOST_BYTES}")
        return file.read(_MOST_BYTES)
