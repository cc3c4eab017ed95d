"""Focused rendering: of large trees, only the lines that bear on a question.

Trees are folded into units (:mod:`lmev2.memory.focus_units`); a unit's score is the overlap of its words with the
question's, weighted by rarity, with bonuses for pairs of neighbouring words and for quoted labels. Rarity (inverse
document frequency) is taken over the distinct units of the trees at hand, so that words that stand on every line of a
page weigh little. Units gain from related neighbours, from the section that they stand in, and from being new
compared with the tree before: what an action changed is what questions about behaviour ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmev2.memory.focus_query import Query, analyse
from lmev2.memory.focus_score import overlap_score, word_rarity
from lmev2.memory.focus_units import Unit, fold
from lmev2.tree import FIELD_ROLES, Tree

GAP = "…"

_NEIGHBOUR_SHARE = (0.4, 0.15)  # of a score, to units one and two away
_SECTION_SHARE = 0.25  # of the score of the heading or named part that a unit stands in
_NEW_BONUS = 1.0
_ROLE_BONUS = 1.2  # per interface word of the question that speaks of lines of this role
_ROLE_WORDS = 3
_NEW_AT_MOST = 0.5  # a tree with a larger share of new units is another page, not a change of the one before
_BASE = {
    "alert": 0.6,
    "RootWebArea": 0.3,
    "heading": 0.3,
    "sectionheader": 0.3,
    "row": 0.2,
    "list": 0.15,
    "tablist": 0.3,
    "notice": 0.3,
}
_FIELD_BASE = 0.25
_TEXT_BASE = 0.1
_LANDMARK_FACTOR = 0.25  # of the base score and the section's share, in navigation, banners and footers


@dataclass
class _Candidate:
    tree: int
    number: int  # of the unit in its tree
    score: float


def focus_lines(query: str, trees: Sequence[str], budget_chars: int, seen: set[str] | None = None) -> list[str | None]:
    """Excerpts of trees: the lines that bear on a question, with the lines needed to understand them.

    Units are taken by falling score over all trees until the budget is spent, so that a tree gets as much of it as its
    lines deserve. Each comes with the named parts around it, its section's heading and, for a table row, the row of
    column headers, unless the excerpt has them already. Lines left out between two shown ones are marked by ``…``.

    Args:
        query: the question's text; instructions on the answer's form are ignored, choices of a multiple-choice
            question count half.
        trees: accessibility trees in order, such as the states of a slice.
        budget_chars: characters that all excerpts together may have.
        seen: lines that the same context shows already, without ids; they are not repeated, and new ones are added.

    Returns:
        One excerpt per tree; None where nothing bears on the query that is not shown already.
    """
    shown = set() if seen is None else seen
    analysed = analyse(query)
    folded = [fold(Tree(text), analysed.option_words) for text in trees]
    own_scores = _own_scores(analysed, folded)
    added = [_added(units, folded[tree - 1] if tree else None) for tree, units in enumerate(folded)]
    bearing = _bearing(folded, own_scores, added, shown)
    candidates = [
        _Candidate(tree, number, score)
        for tree, units in enumerate(folded)
        if bearing[tree]
        for number, score in enumerate(_full_scores(analysed, units, own_scores[tree], added[tree]))
        if score > 0
    ]
    candidates.sort(key=lambda one: (-one.score, one.tree, one.number))
    chosen = _choose(candidates, folded, budget_chars, shown)
    excerpts = [_render(units, numbers) if numbers else None for units, numbers in zip(folded, chosen, strict=True)]
    for units, numbers in zip(folded, chosen, strict=True):
        shown.update(units[number].text for number in numbers)
    return excerpts


def _added(units: Sequence[Unit], before: Sequence[Unit] | None) -> list[bool]:
    """Per unit whether an action added it: the tree before lacks it but is the same page for the most part."""
    known = {unit.text for unit in before or ()}
    new = [unit.text not in known for unit in units]
    same_page = before is not None and sum(new) <= _NEW_AT_MOST * len(units)
    return new if same_page else [False] * len(units)


def _bearing(
    folded: Sequence[Sequence[Unit]], own: Sequence[Sequence[float]], added: Sequence[Sequence[bool]], seen: set[str]
) -> list[bool]:
    """Per tree whether it has something to show: a line with words of the question that neither the context nor an
    earlier tree has, or lines that an action added to a page that bears on the question."""
    known = set(seen)
    found: list[bool] = []
    for tree, units in enumerate(folded):
        matching = any(score > 0 and unit.text not in known for score, unit in zip(own[tree], units, strict=True))
        changed = bool(found) and found[-1] and any(added[tree])
        found.append(matching or changed)
        known.update(unit.text for unit in units)
    return found


def _own_scores(query: Query, folded: Sequence[Sequence[Unit]]) -> list[list[float]]:
    """Score of each unit's own words, per tree."""
    distinct = {unit.text: unit for units in folded for unit in units}
    rarity = word_rarity(query, [unit.tokens for unit in distinct.values()])
    mean_length = sum(unit.length for unit in distinct.values()) / max(1, len(distinct)) or 1.0
    scores = {
        text: overlap_score(query, unit.tokens, rarity, unit.length / mean_length) for text, unit in distinct.items()
    }
    return [[scores[unit.text] for unit in units] for units in folded]


def _full_scores(query: Query, units: Sequence[Unit], own: Sequence[float], added: Sequence[bool]) -> list[float]:
    """Own score, plus what neighbours, section, novelty and kind add."""
    section = _section_scores(units, own)
    title = {token for unit in units if unit.role == "RootWebArea" for token in unit.tokens}
    scores = []
    for number, unit in enumerate(units):
        if unit.landmark and title.issuperset(unit.tokens):
            scores.append(0.0)  # a page header repeats the title
            continue
        around = 0.0
        for distance, share in enumerate(_NEIGHBOUR_SHARE, start=1):
            near = [other for other in (number - distance, number + distance) if 0 <= other < len(units)]
            around += share * max((own[other] for other in near if units[other].role != "RootWebArea"), default=0.0)
        extra = _SECTION_SHARE * section[number] + around + _base(unit)
        if added[number]:
            extra += _NEW_BONUS
        extra += _ROLE_BONUS * min(query.roles.get(unit.role, 0), _ROLE_WORDS)
        scores.append(own[number] + (extra * _LANDMARK_FACTOR if unit.landmark else extra))
    return scores


def _section_scores(units: Sequence[Unit], own: Sequence[float]) -> list[float]:
    """For each unit, the best own score among its heading and the named parts around it, page titles aside."""
    scores: list[float] = []
    inherited: list[float] = []  # per unit, what its parts pass on
    for unit in units:
        outer = inherited[unit.parent] if unit.parent >= 0 else 0.0
        if unit.parent >= 0 and units[unit.parent].role != "RootWebArea":
            outer = max(outer, own[unit.parent])
        inherited.append(outer)
        scores.append(max(outer, own[unit.heading] if unit.heading >= 0 else 0.0))
    return scores


def _base(unit: Unit) -> float:
    return _BASE.get(unit.role, _FIELD_BASE if unit.role in FIELD_ROLES else _TEXT_BASE)


def _choose(
    candidates: Sequence[_Candidate], folded: Sequence[Sequence[Unit]], budget: int, seen: set[str]
) -> list[set[int]]:
    """Numbers of the units to show, per tree. A line is shown once: in the first tree that it is chosen for."""
    chosen: list[set[int]] = [set() for _ in folded]
    taken = set(seen)
    left = budget
    for candidate in candidates:
        units = folded[candidate.tree]
        unit = units[candidate.number]
        if unit.text in taken:
            continue
        wanted = [candidate.number, *_context(units, candidate.number)]
        new = {units[n].text: n for n in reversed(wanted) if units[n].text not in taken}  # of equal lines the first
        added = [n for n in new.values() if n not in chosen[candidate.tree]]
        cost = sum(_cost(units[number]) for number in added) + (0 if chosen[candidate.tree] else len(GAP) + 1)
        if cost > left:
            continue
        left -= cost
        chosen[candidate.tree].update(added)
        taken.update(units[number].text for number in added)
    return chosen


def _context(units: Sequence[Unit], number: int) -> list[int]:
    """Numbers of the units that explain a unit: the parts around it, its heading, its column headers."""
    unit = units[number]
    found = []
    parent = unit.parent
    while parent >= 0:
        found.append(parent)
        parent = units[parent].parent
    if unit.header >= 0:
        found.append(unit.header)
    if unit.heading >= 0 and not unit.landmark:
        found.append(unit.heading)
    return found


def _cost(unit: Unit) -> int:
    """Characters of a line with its indent, its line end and a gap before it."""
    return len(unit.text) + min(unit.level, 4) + len(GAP) + 2


def _render(units: Sequence[Unit], numbers: set[int]) -> str:
    lines = []
    last = -1
    for number in sorted(numbers):
        if number > last + 1:
            lines.append(GAP)
        lines.append(" " * _depth(units, number, numbers) + units[number].text)
        last = number
    if last < len(units) - 1:
        lines.append(GAP)
    return "\n".join(lines)


def _depth(units: Sequence[Unit], number: int, numbers: set[int]) -> int:
    """How many of the parts around a unit are shown; deeper than four looks like four."""
    depth, parent = 0, units[number].parent
    while parent >= 0 and depth < 4:
        depth += parent in numbers
        parent = units[parent].parent
    return depth
