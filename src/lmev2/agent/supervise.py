"""One process with its time limit: feeds it, keeps the beginning and the end of what it prints, and has it ended."""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

_CHUNK = 1 << 16
_POLL_S = 0.05  # until the end of a process is seen whose output something else still holds open


class Sink(Protocol):
    """Where output goes."""

    def take(self, data: bytes) -> None:
        """The next piece."""
        ...


class KeptText:
    """The beginning and the end of an output, in bounded memory; bytes that are no UTF-8 become U+FFFD.

    Args:
        limit: characters that are kept, besides the line that says how many are missing.
    """

    def __init__(self, limit: int):
        self._limit, self._tail_chars = limit, limit // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head, self._tail, self._total = "", "", 0

    def take(self, data: bytes, final: bool = False) -> None:
        """The next piece."""
        text = self._decoder.decode(data, final)
        self._total += len(text)
        room = self._limit - len(self._head)
        self._head += text[:room]
        if self._tail_chars and len(text) > room:
            self._tail = (self._tail + text[room:])[-self._tail_chars :]

    def text(self) -> str:
        """What is kept, once everything has been taken."""
        self.take(b"", final=True)
        if self._total <= self._limit:
            return self._head
        tail = (self._head + self._tail)[-self._tail_chars :] if self._tail_chars else ""
        head = self._head[: self._limit - self._tail_chars]
        return f"{head}\n[… {self._total - self._limit:,} characters cut …]\n{tail}"


class KeptFile:
    """An output as a file, written as it comes; what is beyond ``most`` bytes is dropped."""

    def __init__(self, stream: IO[bytes], most: int):
        self._stream, self._room = stream, most

    def take(self, data: bytes) -> None:
        """The next piece."""
        self._stream.write(data[: self._room])
        self._stream.flush()
        self._room -= min(self._room, len(data))


def supervise(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    descriptors: Sequence[int],
    stdin: bytes,
    stdout: Sink,
    stderr: Sink,
    deadline: float,
    end: Callable[[subprocess.Popen[bytes]], None],
    stop: threading.Event | None = None,
) -> int | None:
    """Run a process in a session of its own until it ends, the time runs out, or it is told to stop.

    Whatever happens here, an interrupt by the keyboard included, ``end`` is called before this returns or raises.

    Args:
        command, environment, folder: of the process.
        descriptors: that it inherits, besides three pipes.
        stdin: what it reads.
        stdout, stderr: take what it prints.
        deadline: as by ``time.monotonic()``.
        end: ends the process with everything that it started, and waits for that; also called after it ended by itself.
        stop: looked at all the time; only the main thread is told of signals, so another one that runs a process needs
            to be told.

    Returns:
        its exit code; None when the time ran out or it was told to stop.
    """
    process = subprocess.Popen(
        list(command),
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=tuple(descriptors),
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    streams = (process.stdin, process.stdout, process.stderr)
    try:
        for stream in streams:
            os.set_blocking(stream.fileno(), False)
        in_time = _exchange(process, stdin, stdout, stderr, _Limit(deadline, stop))
        end(process)
        for stream, sink in ((process.stdout, stdout), (process.stderr, stderr)):
            _drain(stream, sink)
        return process.returncode if in_time else None
    except BaseException:
        end(process)
        raise
    finally:
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.close()


@dataclass(frozen=True)
class _Limit:
    """When to end a process that has not ended."""

    deadline: float
    stop: threading.Event | None

    def wait_s(self) -> float:
        """Seconds until the next look; 0 when it is time."""
        if self.stop is not None and self.stop.is_set():
            return 0
        return max(min(self.deadline - time.monotonic(), _POLL_S), 0)


def _exchange(process: subprocess.Popen[bytes], stdin: bytes, stdout: Sink, stderr: Sink, limit: _Limit) -> bool:
    """Feed and read the process until it has ended; whether it did so in time."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    left = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, stdout)
        selector.register(process.stderr, selectors.EVENT_READ, stderr)
        if left:
            selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while any(key.data is not None for key in selector.get_map().values()):
            wait = limit.wait_s()
            if not wait:
                return False
            for key, _ in selector.select(wait):
                if key.data is None:
                    left = left[_write(key.fd, left) :]
                    if not left:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                elif not _read(key.fd, key.data):
                    selector.unregister(key.fileobj)
            if process.poll() is not None:
                return True
    while process.poll() is None:
        wait = limit.wait_s()
        if not wait:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait)
    return True


def _write(descriptor: int, data: memoryview) -> int:
    """How much of the data is done with: all of it, if nobody reads it any more."""
    try:
        return os.write(descriptor, data[:_CHUNK])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


def _read(descriptor: int, sink: Sink) -> bool:
    """Whether there may be more."""
    try:
        data = os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return True
    sink.take(data)
    return bool(data)


def _drain(stream: IO[bytes], sink: Sink) -> None:
    """What is still in the pipe. Not until its end: something that escaped may hold it open, or write for ever."""
    most = time.monotonic() + 1
    while time.monotonic() < most:
        try:
            data = os.read(stream.fileno(), _CHUNK)
        except (BlockingIOError, ValueError):
            return
        if not data:
            return
        sink.take(data)
