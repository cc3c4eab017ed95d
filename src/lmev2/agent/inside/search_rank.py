"""How well trajectories and states fit a question: words weighted by how rare they are in the haystack."""

# Part of the rule-based agent: runs inside a sandbox, standard library only.

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from search_files import Candidate, Found
from search_question import Question, words

_LINE_SHARES = (1.0, 0.5, 0.3, 0.2)  # of the best lines of a state
_LINES_WEIGHT = 0.6
_TITLE_WEIGHT = 0.8
_ACTION_WEIGHT = 0.4
_CHANGE_ACTION_WEIGHT = 0.8
_URL_WEIGHT = 0.4
_NEW_WEIGHT = 0.3
_TRIAGE_WEIGHT = 0.15
_PAIR_BONUS = 0.4
_LABEL_BONUS = 1.0
_BID = re.compile(r"^\[[^\]\s]+\] ")


@dataclass
class Scored:
    """A state with its score.

    Attributes:
        state: the state.
        score: how well it fits.
        by_word: what each word of the question adds.
        best: its lines that fit best, best first.
        keys: its lines without element ids, to tell near-identical states.
    """

    state: Found
    score: float
    by_word: dict[str, float] = field(default_factory=dict)
    best: list[str] = field(default_factory=list)
    keys: frozenset[str] = frozenset()


def rank_candidates(question: Question, candidates: list[Candidate]) -> list[tuple[Candidate, float]]:
    """Trajectories by their goal, start url and what else is known of them, best first."""
    texts = [[*words(each.goal), *words(each.start_url)] for each in candidates]
    traces = [[word for line in each.text for word in words(line)] for each in candidates]
    rarity = _rarity([{*text, *trace} for text, trace in zip(texts, traces)], question.weights, len(candidates))
    ranked = []
    for each, text, trace in zip(candidates, texts, traces):
        score = 0.0
        for word, weight in question.weights.items():
            often = trace.count(word)
            score += weight * rarity.get(word, 0.0) * ((word in text) + often / (often + 2.0))
        pairs = question.pairs & {*zip(text, text[1:]), *zip(trace, trace[1:])}
        score += _PAIR_BONUS * sum(_pair_value(pair, question.weights, rarity) for pair in pairs)
        ranked.append((each, score))
    return sorted(ranked, key=lambda item: (-item[1], not item[0].succeeded, item[0].trajectory_id))


def rank_states(question: Question, states: list[Found], total: int, triage: Mapping[str, float]) -> list[Scored]:
    """States, best first.

    Args:
        question: the question.
        states: those with words of the question, of each trajectory in order.
        total: number of all states that were looked at.
        triage: the trajectories' own scores.
    """
    return score_states(question.weights, question, states, total, triage)


def score_states(
    weights: Mapping[str, float], question: Question, states: list[Found], total: int, triage: Mapping[str, float]
) -> list[Scored]:
    """States by some of a question's words, best first."""
    bodies = [[words(line) for line in state.lines] for state in states]
    heads = [(words(state.title), words(state.url), words(state.action)) for state in states]
    held = [{word for part in (*body, *head) for word in part} for body, head in zip(bodies, heads)]
    rarity = _rarity(held, weights, max(total, len(states)))
    action_weight = _CHANGE_ACTION_WEIGHT if question.kind == "change" else _ACTION_WEIGHT
    best_triage = max(triage.values(), default=0.0) or 1.0
    scored = []
    before: Found | None = None
    for state, body, (title, url, action) in zip(states, bodies, heads):
        by_word: dict[str, float] = {}
        for word, weight in weights.items():
            if word not in rarity:
                continue
            often = sum(word in line for line in body)
            value = often / (often + 0.5) + _TITLE_WEIGHT * (word in title) + _URL_WEIGHT * (word in url)
            value += action_weight * (word in action)
            if value:
                by_word[word] = weight * rarity[word] * value
        keys = frozenset(_BID.sub("", line) for line in state.lines)
        same = before is not None and before.trajectory_id == state.trajectory_id and before.index == state.index - 1
        old = {_BID.sub("", line) for line in before.lines} if same and before is not None else set()
        fits = sorted(
            (
                (_line_score(line, tokens, weights, question, rarity), -number, line)
                for number, (line, tokens) in enumerate(zip(state.lines, body))
            ),
            reverse=True,
        )
        score = sum(by_word.values())
        score += _LINES_WEIGHT * sum(share * fit for share, (fit, _, _) in zip(_LINE_SHARES, fits))
        new = {word for line, tokens in zip(state.lines, body) if _BID.sub("", line) not in old for word in tokens}
        score += _NEW_WEIGHT * sum(value for word, value in by_word.items() if word in new and same)
        score *= 1 + _TRIAGE_WEIGHT * triage.get(state.trajectory_id, 0.0) / best_triage
        scored.append(Scored(state, score, by_word, [line for fit, _, line in fits if fit > 0], keys))
        before = state
    return sorted(scored, key=lambda item: (-item.score, item.state.trajectory_id, item.state.index))


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
    line: str, tokens: list[str], weights: Mapping[str, float], question: Question, rarity: Mapping[str, float]
) -> float:
    score = sum(weights[word] * rarity[word] for word in set(tokens) if word in rarity)
    if not score:
        return 0.0
    for pair in question.pairs & set(zip(tokens, tokens[1:])):
        score += _PAIR_BONUS * _pair_value(pair, weights, rarity)
    lower = line.lower()
    score += _LABEL_BONUS * sum(label.lower() in lower for label in question.labels)
    return score / (0.7 + 0.3 * max(1.0, len(tokens) / 12))
