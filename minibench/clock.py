"""A frozen clock for the applications, so that two recordings show the same dates and times."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

TODAY = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
"""What the applications take for the present: Monday, 2 March 2026, 09:30 UTC."""


def freeze_clock(start: datetime = TODAY) -> None:
    """Replace ``django.utils.timezone.now`` by a clock that stands at `start`.

    Call it at the top of an application's settings, before any model is imported: field defaults keep a
    reference to the function that they found. Every reading is one millisecond later than the one before,
    which keeps "newest first" orderings well defined while the minute shown on a page never changes.
    """
    from django.utils import timezone

    ticks = itertools.count()

    def now() -> datetime:
        return start + timedelta(milliseconds=next(ticks))

    timezone.now = now
