"""Texts that are made in one order and needed in another, kept in a file."""

from __future__ import annotations

import os
from typing import IO

Key = tuple[str, ...]


class Spool:
    """Texts by key in one temporary file.

    Args:
        file: open for reading and writing without a buffer, empty, and used by nobody else.
    """

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._places: dict[Key, tuple[int, int]] = {}
        self._end = 0

    def put(self, key: Key, text: str) -> None:
        """Keep a text."""
        content = text.encode("utf-8", "replace")
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) :]
        self._places[key] = (self._end, len(content))
        self._end += len(content)

    def get(self, key: Key) -> str:
        """The text; empty where there is none."""
        if key not in self._places:
            return ""
        start, size = self._places[key]
        pieces = []
        while size:
            pieces.append(os.pread(self._file.fileno(), size, start))
            start, size = start + len(pieces[-1]), size - len(pieces[-1])
        return b"".join(pieces).decode("utf-8")
