"""How many faults of model calls a job met, by what became of them and by name, for one line of its log."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Literal

# ``retried``: an attempt failed and another followed; ``failed``: a call failed for good; ``asked again``: a reply came
# that its reader cannot use, and the model was asked once more.
Outcome = Literal["retried", "failed", "asked again"]
_OUTCOMES: tuple[Outcome, ...] = ("retried", "failed", "asked again")


class FaultCounts:
    """Counts of all threads of one process, which runs one job."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._counts: dict[Outcome, Counter[str]] = {outcome: Counter() for outcome in _OUTCOMES}

    def add(self, outcome: Outcome, name: str) -> None:
        """Count a fault."""
        with self._guard:
            self._counts[outcome][name] += 1

    def clear(self) -> None:
        """Begin anew."""
        with self._guard:
            for counts in self._counts.values():
                counts.clear()

    def line(self) -> str:
        """Such as ``3 retried: 429 x2, time-out x1; 1 failed: 302 x1``; ``none`` without faults."""
        with self._guard:
            parts = [_part(outcome, self._counts[outcome]) for outcome in _OUTCOMES if self._counts[outcome]]
        return "; ".join(parts) or "none"


def _part(outcome: Outcome, counts: Counter[str]) -> str:
    by_name = ", ".join(f"{name} x{count}" for name, count in sorted(counts.items()))
    return f"{counts.total()} {outcome}: {by_name}"


FAULTS = FaultCounts()
