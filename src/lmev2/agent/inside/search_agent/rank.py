"""How well trajectories and states fit a question: words weighted by how rare they are in the haystack."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .files import Candidate, Found
from .question import Question, words

_LINE_SHARES = (1.0, 0.5, 0.3, 0.2)  # of the best lines of a state
_LINES_WEIGHT = 0.6
_TITLE_WEIGHT = 1.0
_ACTION_WEIGHT = 0.7
_URL_WEIGHT = 0.4
_NEW_WEIGHT = 0.6
_TRIAGE_WEIGHT = 0.15
_PAIR_BONUS = 0.4
_COMMON_COST = 0.8
_LABEL_BONUS = 1.5
_BID = re.compile(r"^\[[^\]\s]+\] ")


@dataclass
class Scored:
    """A state with its score.

    Attributes:
        state: the state.
        score: how well it fits.
        best: its lines that fit best, best first.
        keys: its lines without element ids, to tell near-identical states.
    """

    state: Found
    score: float
    best: list[str] = field(default_factory=list)
    keys: frozenset[str] = frozenset()


def rank_candidates(question: Question, candidates: list[Candidate]) -> list[tuple[Candidate, float]]:
    """Trajectories by their goal, start url and what else is known of them, best first."""
    texts = [[*words(each.goal), *words(each.start_url)] for each in candidates]
    traces = [[word for line in each.text for word in words(line)] for each in candidates]
    weights = question.weights
    held = [{*text, *trace} for text, trace in zip(texts, traces, strict=True)]
    rarity = _rarity(held, weights, len(candidates))
    ranked = []
    for each, text, trace in zip(candidates, texts, traces, strict=True):
        score = 0.0
        for word, weight in weights.items():
            often = trace.count(word)
            score += weight * rarity.get(word, 0.0) * ((word in text) + often / (often + 2.0))
        pairs = sorted(question.pairs & {*pairwise(text), *pairwise(trace)})
        score += _PAIR_BONUS * sum(_pair_value(pair, weights, rarity) for pair in pairs)
        ranked.append((each, score))
    return sorted(ranked, key=lambda item: (-item[1], not item[0].succeeded, item[0].trajectory_id))


def score_states(
    weights: Mapping[str, float], question: Question, states: list[Found], total: int, triage: Mapping[str, float]
) -> list[Scored]:
    """States, best first.

    Args:
        weights: the words that count: the question's, or those of one side of a comparison.
        question: the question.
        states: those with words of the question, of each trajectory in order.
        total: number of all states that were looked at.
        triage: the trajectories' own scores.
    """
    bodies = [[words(line) for line in state.lines] for state in states]
    heads = [(words(state.title), words(state.url), words(state.action)) for state in states]
    held = [{word for part in (*body, *head) for word in part} for body, head in zip(bodies, heads, strict=True)]
    rarity = _rarity(held, weights, max(total, len(states)))
    best_triage = max(triage.values(), default=0.0) or 1.0
    common = Counter(key for state in states for key in _keys(state))
    scored = []
    old: frozenset[str] = frozenset()
    last: Found | None = None
    for state, body, head in zip(states, bodies, heads, strict=True):
        by_word = _by_word(weights, rarity, body, *head)
        fits = []
        for number, (line, tokens) in enumerate(zip(state.lines, body, strict=True)):
            # A line that stands on most pages, such as a search box in the head, says little.
            share = common[_BID.sub("", line)] / max(total, len(states))
            fit = _line_score(line, tokens, weights, question, rarity) * (1 - _COMMON_COST * share)
            fits.append((fit, -number, line))
        fits.sort(reverse=True)
        score = sum(by_word.values())
        score += _LINES_WEIGHT * sum(share * fit for share, (fit, _, _) in zip(_LINE_SHARES, fits, strict=False))
        if last is not None and (last.trajectory_id, last.index) == (state.trajectory_id, state.index - 1):
            lines = zip(state.lines, body, strict=True)
            new = {word for line, tokens in lines if _BID.sub("", line) not in old for word in tokens}
            score += _NEW_WEIGHT * sum(value for word, value in by_word.items() if word in new)
        score *= 1 + _TRIAGE_WEIGHT * triage.get(state.trajectory_id, 0.0) / best_triage
        last, old = state, _keys(state)
        scored.append(Scored(state, score, [line for fit, _, line in fits if fit > 0], old))
    return sorted(scored, key=lambda item: (-item.score, item.state.trajectory_id, item.state.index))


def _by_word(
    weights: Mapping[str, float],
    rarity: Mapping[str, float],
    body: Sequence[tuple[str, ...]],
    title: tuple[str, ...],
    url: tuple[str, ...],
    action: tuple[str, ...],
) -> dict[str, float]:
    """What each word adds to a state's score, by the lines that have it, and by standing in title, url or action."""
    found = {}
    for word, weight in weights.items():
        often = sum(word in line for line in body)
        value = often / (often + 0.5) + _TITLE_WEIGHT * (word in title) + _URL_WEIGHT * (word in url)
        value += _ACTION_WEIGHT * (word in action)
        if value:
            found[word] = weight * rarity[word] * value
    return found


def _keys(state: Found) -> frozenset[str]:
    """A state's lines without the elements' ids, which differ from visit to visit."""
    return frozenset(_BID.sub("", line) for line in state.lines)


def likeness(one: Scored, other: Scored) -> float:
    """How alike two states are, from 0 to 1: the share of lines that both have."""
    both = len(one.keys | other.keys)
    return len(one.keys & other.keys) / both if both else 1.0


def _rarity(held: Iterable[set[str]], weights: Mapping[str, float], total: int) -> dict[str, float]:
    """Inverse document frequency of the question's words that occur."""
    counts: dict[str, int] = {}
    for each in held:
        for word in each & weights.keys():
            counts[word] = counts.get(word, 0) + 1
    return {word: math.log(1 + (total - count + 0.5) / (count + 0.5)) for word, count in sorted(counts.items())}


def _pair_value(pair: tuple[str, str], weights: Mapping[str, float], rarity: Mapping[str, float]) -> float:
    return sum(weights.get(word, 0.0) * rarity.get(word, 0.0) for word in pair)


def _line_score(
    line: str, tokens: tuple[str, ...], weights: Mapping[str, float], question: Question, rarity: Mapping[str, float]
) -> float:
    score = sum(weights[word] * rarity[word] for word in dict.fromkeys(tokens) if word in rarity)
    if not score:
        return 0.0
    for pair in sorted(question.pairs & set(pairwise(tokens))):
        score += _PAIR_BONUS * _pair_value(pair, weights, rarity)
    lower = line.lower()
    score += _LABEL_BONUS * sum(label.lower() in lower for label in question.labels)
    return score / (0.7 + 0.3 * max(1.0, len(tokens) / 12))
