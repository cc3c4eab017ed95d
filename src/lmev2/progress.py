"""Progress of long jobs: one plain line now and then, readable in a terminal, a log file and a cluster's output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

Report = Callable[[int, int], None]

_MB = 1_000_000


class Progress:
    """Prints ``title: done/total (rate, time left)`` at most every ``interval_s`` seconds and at the end.

    Args:
        title: what is being done.
        unit: name of the things counted.
        stream: where to print; stderr by default.
        interval_s: seconds between lines.
        clock: source of time, for tests.
    """

    def __init__(
        self,
        title: str,
        unit: str = "rows",
        stream: TextIO | None = None,
        interval_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._title, self._unit, self._stream, self._interval_s = title, unit, stream or sys.stderr, interval_s
        self._clock = clock
        self._start = self._last = clock()

    def __call__(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` are finished."""
        now = self._clock()
        if done < total and now - self._last < self._interval_s:
            return
        self._last = now
        elapsed = now - self._start
        rate = done / elapsed if elapsed > 0 else 0.0
        if done >= total:
            tail = f"in {duration(elapsed)}"
        elif rate > 0:
            tail = f"{rate:.2g} {self._unit}/s, {duration((total - done) / rate)} left"
        else:
            tail = "starting"
        print(f"{self._title}: {done}/{total} {self._unit} ({tail})", file=self._stream, flush=True)


def in_megabytes(report: Report, at_least: int = 0) -> Report:
    """A callback that takes bytes and reports whole megabytes; the last of them once, when all bytes are done.

    Args:
        report: the callback that is given megabytes.
        at_least: of fewer megabytes in all, nothing is reported.
    """

    def in_bytes(done: int, total: int) -> None:
        if total >= at_least * _MB and (done >= total or done // _MB < total // _MB):
            report(done // _MB, total // _MB)

    return in_bytes


def duration(seconds: float) -> str:
    """Seconds as ``7 s``, ``3 min 05 s`` or ``2 h 07 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
