"""The events that ``codex exec --json`` prints, one JSON object a line.

Known kinds: ``thread.started``, ``turn.started``, ``item.started`` and ``item.completed`` (commands, messages, changed
files), ``turn.completed`` with its usage, ``turn.failed``, and ``error``, which may be passing. The CLI sometimes
leaves out that a command completed, so commands are counted where they start. Its usage is kept as it stands and not
read: it says nothing of turns that did not complete, nor of thinking. Lines that are no such objects are skipped and
counted: what is read here was written beside an agent that is not trusted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lmev2.agent.masking import Mask
from lmev2.models.text import cut_middle, well_formed

_LINE_BYTES = 4_000_000
_TEXT_CHARS = 4000
_EVENTS = 4000
_DEPTH = 12


@dataclass(frozen=True)
class CodexTrace:
    """What a run printed.

    Attributes:
        commands: shell commands that it started.
        completed: the last turn ended well.
        failure: what the last failed turn, or else the last error, says; None without.
        skipped: lines that are no events.
        events: in order, long texts cut; at most a few thousand.
    """

    commands: int
    completed: bool
    failure: str | None
    skipped: int
    events: tuple[Mapping[str, Any], ...]


def read_events(path: Path, mask: Mask | None = None) -> CodexTrace:
    """Read a file of events, which may end in the middle of one.

    Args:
        mask: hides what must not be kept, such as a key.
    """
    with open(path, "rb") as file:
        return parse_events(_lines(file), mask)


def parse_events(lines: Iterable[bytes], mask: Mask | None = None) -> CodexTrace:
    """The same for lines; an empty one, without its line end, stands for one that was too long to read."""
    mask = mask or Mask()
    commands, skipped = 0, 0
    completed, failure, error = False, None, None
    events: list[Mapping[str, Any]] = []
    for line in lines:
        event = _event(line)
        if event is None:
            skipped += bool(line.strip()) or line == b""
            continue
        kept = _cleaned(event, mask, 0)
        if len(events) < _EVENTS:
            events.append(kept)
        kind = event["type"]
        if kind == "item.started" and _inner(event, "item").get("type") == "command_execution":
            commands += 1
        elif kind == "turn.started":
            completed = False
        elif kind == "turn.completed":
            completed, failure = True, None
        elif kind == "turn.failed":
            completed, failure = False, _message(_inner(kept, "error").get("message"))
        elif kind == "error":
            error = _message(kept.get("message"))
    return CodexTrace(commands, completed, None if completed else failure or error, skipped, tuple(events))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; the rest of one that is too long is read past, and it counts as empty."""
    while line := file.readline(_LINE_BYTES):
        whole = line.endswith(b"\n") or len(line) < _LINE_BYTES
        while not line.endswith(b"\n") and len(line) == _LINE_BYTES:
            line = file.readline(_LINE_BYTES)
        yield line if whole else b""


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


def _inner(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def _message(value: object) -> str | None:
    """The words of an error; an endpoint's error object, which stands there as JSON text, by its own message."""
    if not isinstance(value, str):
        return None
    try:
        body = json.loads(value)
        inner = body["error"]["message"]
    except (ValueError, RecursionError, TypeError, KeyError, IndexError):
        return value
    return inner if isinstance(inner, str) else value


def _cleaned(value: Any, mask: Mask, depth: int) -> Any:
    """The value with secrets hidden, long texts cut, lone surrogates replaced, and nothing nested too deeply."""
    if isinstance(value, str):
        return cut_middle(well_formed(mask(value)), _TEXT_CHARS)
    if isinstance(value, dict | list) and depth >= _DEPTH:
        return "…"
    if isinstance(value, dict):
        return {_cleaned(name, mask, depth): _cleaned(item, mask, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, mask, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # no number of JSON
    return value
