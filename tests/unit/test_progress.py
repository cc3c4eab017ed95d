"""Progress lines tell rate and time left, and are few."""

from __future__ import annotations

import io

from lmev2.progress import Progress, duration, in_megabytes


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


def test_megabytes_are_whole_and_the_last_is_told_once() -> None:
    told: list[tuple[int, int]] = []
    report = in_megabytes(lambda done, total: told.append((done, total)))
    total = 2_300_000
    for done in range(100_000, total + 1, 100_000):
        report(done, total)
    assert told[0] == (0, 2) and told.count((2, 2)) == 1 and told[-1] == (2, 2)
    assert {done for done, _ in told} == {0, 1, 2}


def test_of_few_megabytes_nothing_is_told_where_they_should_be_more() -> None:
    told: list[tuple[int, int]] = []
    in_megabytes(lambda done, total: told.append((done, total)), 3)(2_000_000, 2_000_000)
    assert told == []


def test_durations() -> None:
    assert [duration(x) for x in (0.4, 59.4, 59.6, 3599, 7620)] == [
        "0 s",
        "59 s",
        "1 min 00 s",
        "59 min 59 s",
        "2 h 07 min",
    ]
