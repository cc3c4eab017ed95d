"""Which states make the evidence package: the best states, no near-identical ones, and what belongs to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .rank import Scored, likeness


@dataclass(frozen=True)
class Span:
    """States ``first`` to ``last`` of a trajectory, zero-based, both included."""

    trajectory_id: str
    first: int
    last: int


# By kind of question: states in all, and those that come along before and after a state that fits.
_PLANS = {
    "lookup": (8, 0, 0),
    "comparison": (8, 0, 0),
    "change": (10, 1, 1),
    "procedure": (12, 1, 1),
    "image": (12, 1, 1),
    "naive": (10, 0, 0),
}
_SPAN_STATES = 3
_LIKENESS_COST = 0.5
_OTHER_FAMILY = {"procedure": 0.7, "image": 0.7, "change": 0.7}
_OTHER_FAMILY_ELSE = 0.85


def choose(
    kind: str | None, rankings: list[list[Scored]], counts: Mapping[str, int], families: Mapping[str, str], most: int
) -> list[Span]:
    """The spans, most important first; disjoint.

    Args:
        kind: of the question; None works without a workflow: the best states, one by one.
        rankings: states, best first; for a comparison one ranking per side, then one of the whole question.
        counts: number of states of each trajectory.
        families: where each trajectory's workflow belongs.
        most: states in all.
    """
    wanted, before, after = _PLANS[kind or "naive"]
    wanted = min(wanted, most)
    package = _Package(counts, wanted)
    queues = [list(ranking) for ranking in rankings]
    picked: list[Scored] = []
    turn = 0
    while not package.full and queues:
        queue = queues[turn % len(queues)]
        best = queue[0] if kind is None and queue else _best(queue, picked, package, kind, families)
        if best is None:
            queues.remove(queue)
            continue
        turn += 1
        picked.append(best)
        package.add(best.state.trajectory_id, best.state.index, before, after)
        if kind is None:
            queue.pop(0)
    return package.spans


def _best(
    queue: list[Scored], picked: list[Scored], package: _Package, kind: str | None, families: Mapping[str, str]
) -> Scored | None:
    """The state of a ranking that adds most to those picked already."""
    best: Scored | None = None
    best_value = 0.0
    for each in queue:
        if each.score <= best_value:
            break
        trajectory_id = each.state.trajectory_id
        if (trajectory_id, each.state.index) in package.taken:
            continue
        value = each.score * (1 - _LIKENESS_COST * max((likeness(each, other) for other in picked), default=0.0))
        if picked and families[trajectory_id] != families[picked[0].state.trajectory_id]:
            value *= _OTHER_FAMILY.get(kind or "", _OTHER_FAMILY_ELSE)
        if value > best_value:
            best, best_value = each, value
    return best


class _Package:
    """Disjoint spans, up to a number of states."""

    def __init__(self, counts: Mapping[str, int], most: int):
        self.spans: list[Span] = []
        self.taken: set[tuple[str, int]] = set()
        self._counts = counts
        self._most = most

    @property
    def full(self) -> bool:
        return len(self.taken) >= self._most

    def add(self, trajectory_id: str, index: int, before: int, after: int) -> None:
        """Add a state and those around it that are not there yet."""
        first = last = index
        while first > max(0, index - before) and (trajectory_id, first - 1) not in self.taken:
            first -= 1
        while (
            last < min(self._counts[trajectory_id] - 1, index + after) and (trajectory_id, last + 1) not in self.taken
        ):
            last += 1
        while last - first + 1 > min(self._most - len(self.taken), _SPAN_STATES):
            last, first = (last - 1, first) if last > index else (last, first + 1)
        self.taken |= {(trajectory_id, number) for number in range(first, last + 1)}
        self.spans.append(Span(trajectory_id, first, last))
