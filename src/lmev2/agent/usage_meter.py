"""What a model call cost, read from its reply as it passes by.

A stream of the Responses API says it in its last event, one of chat completions in its last chunk, and a reply in one
piece at its top. What passes is only looked at: nothing is held back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lmev2.agent.types import Usage

_MAX_BYTES = 64 << 20  # of one event, or of a reply in one piece
_LARGEST_COUNT = 10**12
_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class UsageMeter:
    """Reads one reply, in pieces that may end anywhere.

    Attributes:
        usage: of this call, ``requests`` being 1; None until the reply said so.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self._stream: bool | None = None  # unknown before the first sign
        self._held: list[bytes] = []  # a line, or a whole reply, that has not ended yet
        self._data: list[bytes] = []  # of an event that has not ended yet
        self._size = 0

    def feed(self, piece: bytes) -> None:
        """The next piece."""
        if self._stream is None and piece.strip():
            self._stream = not piece.lstrip().startswith(b"{")
        self._size += len(piece)
        if self._size > _MAX_BYTES:
            self._held, self._data = [], []  # the rest of this event cannot be read as JSON, and is not
        self._held.append(piece)
        if self._stream and b"\n" in piece:
            *lines, rest = b"".join(self._held).split(b"\n")
            self._held = [rest]
            for line in lines:
                self._read_line(line.rstrip(b"\r"))

    def finish(self) -> None:
        """The reply has ended."""
        rest = b"".join(self._held)
        self._held = []
        if self._stream:
            self._read_line(rest.rstrip(b"\r"))
            self._read_line(b"")
        else:
            self._read(rest)

    def _read_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:])
        elif not line:
            self._read(b"\n".join(self._data))
            self._data, self._size = [], 0

    def _read(self, text: bytes) -> None:
        if b'"usage"' not in text:
            return
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict):
            outer = event.get("response") if event.get("type") in _LAST_EVENTS else event
            usage = outer.get("usage") if isinstance(outer, dict) else None
            if isinstance(usage, dict):
                self.usage = usage_of(usage)


def usage_of(counts: Mapping[str, Any]) -> Usage:
    """One call's usage in the names of the Responses API or of chat completions; what is no count is 0."""

    def count(values: object, *names: str) -> int:
        found = next((values[name] for name in names if name in values), 0) if isinstance(values, dict) else 0
        return found if type(found) is int and 0 <= found <= _LARGEST_COUNT else 0

    read_details = counts.get("input_tokens_details", counts.get("prompt_tokens_details"))
    written_details = counts.get("output_tokens_details", counts.get("completion_tokens_details"))
    return Usage(
        1,
        count(counts, "input_tokens", "prompt_tokens"),
        count(read_details, "cached_tokens"),
        count(counts, "output_tokens", "completion_tokens"),
        count(written_details, "reasoning_tokens"),
    )
