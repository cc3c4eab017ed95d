"""Progress lines tell rate and time left, and are few."""

from __future__ import annotations

import io

from lmev2.progress import Progress, duration


def test_lines_are_few_and_tell_the_rest() -> None:
    now = [0.0]
    stream = io.StringIO()
    progress = Progress("read", "rows", stream, interval_s=5, clock=lambda: now[0])
    for done in range(1, 13):
        now[0] += 2
        progress(done, 12)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "read: 3/12 rows (0.5 rows/s, 18 s left)"
    assert lines[-1] == "read: 12/12 rows (in 24 s)"
    assert len(lines) == 4


def test_durations() -> None:
    assert [duration(x) for x in (0.4, 59.4, 59.6, 3599, 7620)] == [
        "0 s",
        "59 s",
        "1 min 00 s",
        "59 min 59 s",
        "2 h 07 min",
    ]
