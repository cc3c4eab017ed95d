"""Retrieved evidence worth looking at, in the form of the paper's Table 12: one example per kind of method and pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lmev2.report.html.evidence import Evidence, Hops, Item, best_lines
from lmev2.report.html.excerpt import Line
from lmev2.report.html.run import Cell

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Procedure and hint notes": ("procedure_note", "hint_note"),
    "State-transition events": ("event",),
    "Raw state slices": ("raw_state",),
}
_OTHER: Final = "Other evidence"
_LINES: Final = 24
_KEPT: Final = 4  # candidates per kind and pool, so that pools may show different questions

Order = tuple[Any, ...]


@dataclass(frozen=True)
class Example:
    """One example.

    Attributes:
        order: the smaller, the better the example.
        reasons: why it was chosen, in words.
        queries: what was searched in the pool, where the item's own query is not known.
    """

    order: Order
    kind: str
    group: str
    cell: Cell
    question_id: str
    item: Item
    lines: Sequence[Line]
    queries: Sequence[str]
    reasons: Sequence[str]


class Examples:
    """Collects candidates while contexts pass by, and chooses among them.

    An item can be an example when it shows a labelled state, holds all phrases of the reference answer, or comes from a
    labelled trajectory. Before all others come those of questions that were answered correctly from such evidence; the
    rest is the item's rank and the order of methods, tiers and questions, so that equal runs give equal examples.

    Args:
        cells: methods and tiers in table order.
        questions: question rows by id.
        hops: evidence hops by question id.
        phrases: number of phrases that the reference answer of each question has for its scorer; 0 for none.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        questions: Mapping[str, Mapping[str, Any]],
        hops: Mapping[str, Hops],
        phrases: Mapping[str, int],
    ):
        self._cells = {(cell.method.name, cell.tier): (number, cell) for number, cell in enumerate(cells)}
        self._questions, self._hops, self._phrases = questions, hops, phrases
        self._found: dict[tuple[str, str], list[Example]] = {}

    def offer(self, question_id: str, method: str, tier: str, evidence: Evidence, outcome: Mapping[str, Any]) -> None:
        """Look for examples in one context."""
        number, cell = self._cells[method, tier]
        for item in evidence.items:
            if item.excerpt is None or item.dropped:
                continue
            level, why = self._level(question_id, item)
            if why is None:
                continue
            correct = outcome["outcome"] == "correct"
            group = next((name for name, pools in GROUPS.items() if item.pool_key in pools), _OTHER)
            abstention = self._questions[question_id]["question_type"].endswith("-abs")
            order = (level > 1, not correct, level, abstention, item.rank, number, question_id, item.number)
            kept = self._found.setdefault((cell.method.kind, group), [])
            if len(kept) == _KEPT and order >= kept[-1].order:
                continue
            rivals = [one for one in kept if one.question_id == question_id]
            if rivals and rivals[0].order <= order:
                continue
            answered = "the question was answered correctly" if correct else f"the answer was: {outcome['outcome']}"
            covered = "its evidence is covered by the whole context" if outcome["evidence_covered"] else None
            reasons = [why, answered, *filter(None, [covered])]
            lines = best_lines(item.excerpt, _LINES)
            queries = next((own for pool, own in evidence.queries if pool == _query_pool(item.pool_key)), ())
            made = Example(order, cell.method.kind, group, cell, question_id, item, lines, queries, reasons)
            kept[:] = sorted([*(one for one in kept if one not in rivals), made], key=lambda one: one.order)[:_KEPT]

    def _level(self, question_id: str, item: Item) -> tuple[int, str | None]:
        """How well an item bears its question out: 0 is best; and why, None where it does not."""
        assert item.excerpt is not None
        wanted = self._phrases[question_id]
        whole = wanted > 0 and len(item.excerpt.phrases) == wanted
        hops = item.hops or tuple(hop for shown in item.pictures if shown.seen for hop in shown.hops)
        if hops and whole:
            return 0, "the item shows a labelled state and holds the reference answer"
        if hops:
            return 1, "the item shows a labelled state"
        if whole:
            return 1, "the item holds the reference answer"
        trajectories = {trajectory for hop in self._hops.get(question_id, ()) for trajectory, _ in hop}
        if item.trajectory in trajectories:
            return 2, "the item comes from a trajectory of the labelled evidence"
        return 3, None

    def chosen(self) -> dict[str, list[Example]]:
        """The examples by kind of method, each of another question where there is a choice."""
        kinds = list(dict.fromkeys(cell.method.kind for _, cell in self._cells.values()))
        result: dict[str, list[Example]] = {}
        for kind in kinds:
            used: set[str] = set()
            for group in (*GROUPS, _OTHER):
                candidates = self._found.get((kind, group), [])
                if not candidates:
                    continue
                best = next((one for one in candidates if one.question_id not in used), candidates[0])
                used.add(best.question_id)
                result.setdefault(kind, []).append(best)
        return result


def _query_pool(pool: str | None) -> str:
    return "note" if pool in ("procedure_note", "hint_note") else pool or ""
