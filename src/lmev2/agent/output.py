"""What an agent hands in: read from a folder that it could write to, checked, and every refusal named.

The agent is not trusted: its output may be a link, a pipe, gigabytes of zeros or a bomb of brackets. A file is opened
without following links and without waiting, read up to a limit, and decoded strictly (paper, Tables 8 and 11).
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmev2.agent.removal import remove_at
from lmev2.agent.types import ANSWER_FILE, MEMORY_FILE
from lmev2.models.text import well_formed

OutputReason = Literal[
    "missing",  # the agent wrote no such file
    "not_a_file",  # a link, a folder, a pipe, or one of several names of a file
    "unreadable",  # no permission, or the disk failed
    "too_large",
    "not_utf8",
    "not_json",
    "wrong_shape",  # JSON, but not the object that was asked for
    "empty",  # neither text nor a usable span
    "too_many_states",
    "no_answer",  # an answer that is still empty
]
DropReason = Literal[
    "wrong_type", "unknown_trajectory", "out_of_range", "reversed", "repeated", "not_listed", "not_read"
]

_log = logging.getLogger(__name__)

MAX_MARKDOWN_CHARS = 100_000  # it is the context's first item: one that is larger than the budget leaves nothing
MAX_BYTES = 1_000_000  # the whole output is prose and indices; screenshots and trees do not belong into it
_SHOWN_CHARS = 200
_MAX_SPANS = 1_000  # that are read, besides as many as there may be states
_MAX_DROPPED = 100  # that are listed one by one
_EMPTY_ANSWER = {"answer": ""}


class OutputError(Exception):
    """An output that cannot be used.

    Attributes:
        reason: one of :data:`OutputReason`.
        detail: what was found, and what was expected.
    """

    def __init__(self, reason: OutputReason, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason: OutputReason = reason
        self.detail = detail


@dataclass(frozen=True)
class Span:
    """States ``first`` to ``last`` of a trajectory, zero-based, both included."""

    trajectory_id: str
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class DroppedSpan:
    """A span, or the part of one, that is not used.

    Attributes:
        reason: ``wrong_type``: not an object of an id and two whole numbers; ``unknown_trajectory``: not in this
            haystack; ``out_of_range``: no such state; ``reversed``: ends before it starts; ``repeated``: some or all of
            its states stand in earlier spans, and only the others are kept. ``not_listed``: all further ones that were
            dropped, for whatever reason; ``not_read``: all beyond the first thousand or so.
        written: the span as the agent wrote it, cut; of the last two reasons, how many there were.
        count: spans that this stands for.
    """

    reason: DropReason
    written: str
    count: int = 1


@dataclass(frozen=True)
class MemoryOutput:
    """A usable output: text or at least one span.

    Attributes:
        markdown: what the agent writes about the evidence; may be empty.
        spans: by importance; no state stands in two of them.
        dropped: what of the agent's spans is not used, in the agent's order; the first hundred one by one.
    """

    markdown: str
    spans: tuple[Span, ...]
    dropped: tuple[DroppedSpan, ...]

    @property
    def states(self) -> int:
        """States in all spans together."""
        return sum(map(len, self.spans))


def read_memory(folder: Path, states: Mapping[str, int], max_states: int) -> MemoryOutput:
    """The memory output in a sandbox's folder (paper, Table 11).

    Spans that name an unknown trajectory or state are dropped and recorded. A state counts once, where it first stands:
    a span that repeats states keeps the others, in two pieces if need be; spans beyond the first thousand or so are not
    read. More than ``max_states`` states in what is then left make the whole output invalid, since nothing says which
    of them the agent would give up; so does a text of more than 100,000 characters.

    Args:
        states: number of states of each trajectory in the haystack.

    Raises:
        OutputError: there is no usable output; says why.
    """
    value = _read_object(folder, MEMORY_FILE)
    markdown, written = value.get("memory_markdown"), value.get("trajectory_spans")
    if not isinstance(markdown, str):
        raise OutputError(
            "wrong_shape", f"`memory_markdown` is {_kind(markdown, value, 'memory_markdown')}, not a string"
        )
    if not isinstance(written, list):
        raise OutputError(
            "wrong_shape", f"`trajectory_spans` is {_kind(written, value, 'trajectory_spans')}, not a list"
        )
    if len(markdown) > MAX_MARKDOWN_CHARS:
        raise OutputError(
            "too_large",
            f"`memory_markdown` has {len(markdown):,} characters, at most {MAX_MARKDOWN_CHARS:,} are allowed; name "
            "states, do not copy them",
        )
    most = _MAX_SPANS + max_states
    spans, dropped = _usable_spans(written[:most], states)
    if len(written) > most:
        dropped = (*dropped, _counted("not_read", len(written) - most))
    output = MemoryOutput(well_formed(markdown), spans, dropped)
    if output.states > max_states:
        raise OutputError(
            "too_many_states", f"the spans hold {output.states} states together, at most {max_states} are allowed"
        )
    if not markdown.strip() and not spans:
        reasons = ", ".join(sorted({span.reason for span in dropped}))
        why = f"every span was dropped ({reasons})" if dropped else "`trajectory_spans` is empty"
        raise OutputError("empty", f"`memory_markdown` has no text, and {why}")
    return output


def read_answer(folder: Path) -> str:
    """The answer in a sandbox's folder, trimmed (paper, Table 8).

    Raises:
        OutputError: there is no answer; says why.
    """
    value = _read_object(folder, ANSWER_FILE)
    answer = value.get("answer")
    if not isinstance(answer, str):
        raise OutputError("wrong_shape", f"`answer` is {_kind(answer, value, 'answer')}, not a string")
    if not answer.strip():
        raise OutputError("no_answer", "`answer` is empty")
    return well_formed(answer).strip()


def write_output(folder: Path, name: str, value: Mapping[str, Any]) -> None:
    """Write an output file for an agent that works on this side; whatever stood under the name is removed.

    Raises:
        OSError: the folder is gone or full.
    """
    content = json.dumps(value, ensure_ascii=False, indent=1)
    with _opened(folder) as directory:
        _remove(directory, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o644, dir_fd=directory)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(well_formed(content))


def remove_outputs(folder: Path) -> None:
    """Remove the outputs of an earlier attempt, so that no attempt is credited with what another one wrote.

    An answer file that was there is put back in its first form, without an answer.

    Raises:
        OSError: the folder is gone, or does not belong to this user.
    """
    with _opened(folder) as directory:
        _remove(directory, MEMORY_FILE)
        answered = _remove(directory, ANSWER_FILE)
    if answered:
        write_output(folder, ANSWER_FILE, _EMPTY_ANSWER)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A descriptor of the folder that an agent worked in, with this user's rights on it restored."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        directory = os.open(folder, flags)
    except PermissionError:
        os.chmod(folder, 0o700)
        directory = os.open(folder, flags)
    try:
        mode = os.fstat(directory).st_mode
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(directory, stat.S_IMODE(mode) | stat.S_IRWXU)
        yield directory
    finally:
        os.close(directory)


def _remove(directory: int, name: str) -> bool:
    """Remove what stands under a name, without following it; whether there was something."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    except (IsADirectoryError, PermissionError):  # what unlink says about a folder differs by system
        # Renamed first: that needs no rights inside, which the agent may have taken away.
        aside = f".removed-{uuid.uuid4().hex}"
        os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
        try:
            remove_at(directory, aside)
        except OSError as error:
            _log.warning("a folder in place of %s could not be removed: %s", name, error)
    return True


def _read_object(folder: Path, name: str) -> dict[str, Any]:
    try:
        text = _read_bytes(folder, name).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OutputError("not_utf8", f"{name} is no UTF-8 text: {error.reason} at byte {error.start}") from None
    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError:
        raise OutputError("not_json", f"{name} is nested too deeply") from None
    except ValueError as error:
        raise OutputError("not_json", f"{name} is no JSON: {_cut(str(error))}") from None
    if not isinstance(value, dict):
        raise OutputError("wrong_shape", f"{name} holds {_name(value)}, not an object")
    return value


def _read_bytes(folder: Path, name: str) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        with _opened(folder) as directory:
            descriptor = os.open(name, flags, dir_fd=directory)
        try:
            return _content(descriptor, name)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise OutputError("missing", f"there is no {name}") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR):
            raise OutputError("not_a_file", f"{name} is no regular file ({error.strerror})") from None
        raise OutputError("unreadable", f"{name} cannot be read: {error.strerror}") from None


def _content(descriptor: int, name: str) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OutputError("not_a_file", f"{name} is no regular file")
    if status.st_nlink != 1:
        raise OutputError("not_a_file", f"{name} is one of {status.st_nlink} names of a file; write a file of its own")
    # Read in place of trusting the size, which may grow: a limit that holds whatever the file is.
    with open(descriptor, "rb", closefd=False) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OutputError("too_large", f"{name} has more than {MAX_BYTES:,} bytes; name states, do not copy them")
    return content


def _usable_spans(written: list[Any], states: Mapping[str, int]) -> tuple[tuple[Span, ...], tuple[DroppedSpan, ...]]:
    spans: list[Span] = []
    dropped: list[DroppedSpan] = []
    unlisted = 0
    taken: dict[str, set[int]] = {}

    def drop(reason: DropReason, item: object) -> None:
        nonlocal unlisted
        if len(dropped) < _MAX_DROPPED:
            dropped.append(DroppedSpan(reason, _shown(item)))
        else:
            unlisted += 1

    for item in written:
        span = _parse_span(item, states)
        if not isinstance(span, Span):
            drop(span, item)
            continue
        seen = taken.setdefault(span.trajectory_id, set())
        new = [state for state in range(span.first, span.last + 1) if state not in seen]
        if len(new) < len(span):
            drop("repeated", item)
        spans += [Span(span.trajectory_id, first, last) for first, last in _runs(new)]
        seen.update(new)
    if unlisted:
        dropped.append(_counted("not_listed", unlisted))
    return tuple(spans), tuple(dropped)


def _counted(reason: DropReason, count: int) -> DroppedSpan:
    return DroppedSpan(reason, f"{count:,} more", count)


def _parse_span(item: object, states: Mapping[str, int]) -> Span | DropReason:
    """The span that an item names, or why it names none."""
    if not isinstance(item, dict):
        return "wrong_type"
    trajectory_id = item.get("trajectory_id")
    first, last = item.get("start_state_index"), item.get("end_state_index")
    # A bool is an int to Python, and no index to anybody else.
    if not isinstance(trajectory_id, str) or type(first) is not int or type(last) is not int:
        return "wrong_type"
    if trajectory_id not in states:
        return "unknown_trajectory"
    if first > last:
        return "reversed"
    if first < 0 or last >= states[trajectory_id]:
        return "out_of_range"
    return Span(trajectory_id, first, last)


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of every run of successive numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise OutputError("wrong_shape", f"the key {_shown(repeated)} stands twice in one object")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _kind(value: object, parent: Mapping[str, object], key: str) -> str:
    return _name(value) if key in parent else "missing"


def _name(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: object) -> str:
    try:
        return _cut(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return "(nested too deeply to show)"


def _cut(text: str) -> str:
    text = well_formed(text)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
