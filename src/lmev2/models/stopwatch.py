"""Honest times of work that contains model calls.

A call may be replayed from the cache in no time, or succeed only after waits and failed attempts. Neither belongs in a
measured time: what counts is how long the one attempt that succeeded took when it first ran. Whoever times a piece of
work collects a ledger around it; whoever makes a call accounts in it what the call really took and what it counts for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Ledger:
    """Seconds that calls took here (``spent_s``), seconds that they count for (``counted_s``), and seconds of failed
    attempts and of waits around them (``waited_s``), which a replayed call has none of."""

    spent_s: float = 0.0
    counted_s: float = 0.0
    waited_s: float = 0.0
    elapsed_s: float = 0.0  # of the whole piece of work; set at its end

    @property
    def honest_s(self) -> float:
        """Seconds of the work, each call counting for the attempt that first answered it."""
        return max(0.0, self.elapsed_s - self.spent_s + self.counted_s)


_current: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def collect() -> Iterator[Ledger]:
    """Time a piece of work; read :attr:`Ledger.honest_s` afterwards.

    An outer ledger, if there is one, gets the same account: what was spent, what it counts for, and what was waited.
    """
    outer = _current.get()
    ledger = Ledger()
    token = _current.set(ledger)
    started = time.perf_counter()
    try:
        yield ledger
    finally:
        ledger.elapsed_s = time.perf_counter() - started
        _current.reset(token)
        if outer is not None:
            outer.spent_s += ledger.elapsed_s
            outer.counted_s += ledger.honest_s
            outer.waited_s += ledger.waited_s


def account(spent_s: float, counted_s: float, waited_s: float = 0.0) -> None:
    """Tell the current ledger, if there is one, that a call took ``spent_s`` here and counts for ``counted_s``, and how
    much of the time went into failed attempts and waits."""
    ledger = _current.get()
    if ledger is not None:
        ledger.spent_s += spent_s
        ledger.counted_s += counted_s
        ledger.waited_s += waited_s
