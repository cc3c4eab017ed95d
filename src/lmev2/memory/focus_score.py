"""How well a line of text fits a question: overlap of words, weighted by rarity, with bonuses for pairs and labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lmev2.memory.focus_query import Query, analyse, words

_LENGTH_WEIGHT = 0.4  # how much a long line's score is reduced; 0 not at all, 1 in proportion to its length
_PAIR_BONUS = 0.5
_PHRASE_BONUS = 1.5
_LEAD_SHARE = 0.25  # of the score of what stands before a sentence's colon, to the clauses behind it
_GAP = "- …"
_MARK = "… "
_QUOTES = {'"': '"', "“": "”", "`": "`"}


def word_rarity(query: Query, lines: Sequence[Sequence[str]]) -> dict[str, float]:
    """Inverse document frequency, over the lines (stemmed words each), of the question's words that occur in them."""
    frequency = Counter(token for tokens in lines for token in set(tokens) if token in query.weights)
    total = len(lines)
    return {word: math.log(1 + (total - count + 0.5) / (count + 0.5)) for word, count in frequency.items()}


def overlap_score(query: Query, tokens: Sequence[str], rarity: Mapping[str, float], relative_length: float) -> float:
    """Score of a line; 0 when it has none of the question's words.

    Args:
        query: the question, taken apart.
        tokens: the line's stemmed words in order.
        rarity: of the question's words, from :func:`word_rarity`.
        relative_length: the line's length over the mean length of the lines that it competes with.
    """
    found = {token for token in tokens if token in query.weights}
    if not found:
        return 0.0
    score = sum(query.weights[word] * rarity[word] for word in found)
    for pair in set(pairwise(tokens)) & query.pairs:
        score += _PAIR_BONUS * sum(query.weights.get(word, 0.0) * rarity.get(word, 0.0) for word in pair)
    for phrase in query.phrases:
        if _contains(tokens, phrase):
            score += _PHRASE_BONUS + 0.5 * sum(rarity.get(word, 0.0) for word in phrase)
    return score / (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * max(1.0, relative_length))


def focus_bullets(query: str, content: str, budget_chars: int) -> str:
    """The bullets of a note that bear on a question, best first until the budget is spent, in the note's order.

    Bullets left out between two kept ones are marked by ``- …``. The best bullet is always kept; where none has a word
    of the question, the note's first bullets are.

    Args:
        query: the question's text.
        content: lines of a note, one bullet each.
        budget_chars: characters of the bullets kept, marks aside.
    """
    analysed = analyse(query)
    bullets = content.split("\n")
    tokens = [words(bullet) for bullet in bullets]
    rarity = word_rarity(analysed, tokens)
    mean_length = sum(map(len, bullets)) / len(bullets) or 1.0
    scores = [
        overlap_score(analysed, own, rarity, len(bullet) / mean_length)
        for own, bullet in zip(tokens, bullets, strict=True)
    ]
    kept: set[int] = set()
    left = budget_chars
    for number in sorted(range(len(bullets)), key=lambda number: (-scores[number], number)):
        size = len(bullets[number]) + 1
        if not kept or (size <= left and (scores[number] > 0 or not any(scores))):
            kept.add(number)
            left -= size
    return "\n".join(_with_gaps(bullets, kept))


def _with_gaps(bullets: Sequence[str], kept: set[int]) -> list[str]:
    """The kept bullets in order, with a mark where some are left out between two of them."""
    lines: list[str] = []
    for number in range(min(kept), max(kept) + 1):
        if number in kept:
            lines.append(bullets[number])
        elif number - 1 in kept:
            lines.append(_GAP)
    return lines


def _contains(tokens: Sequence[str], phrase: tuple[str, ...]) -> bool:
    size = len(phrase)
    return any(
        tokens[start] == phrase[0] and tuple(tokens[start : start + size]) == phrase
        for start in range(len(tokens) - size + 1)
    )


def focus_clauses(query: str, text: str, budget_chars: int) -> str:
    """A description within a budget: the clauses that bear on a question, best first, then the others from the first
    on, in the text's order.

    Unlike a note, a description of a change is short and all of one matter, so that what the budget leaves is filled. A
    clause ends with its sentence, or at a comma or semicolon outside quotes. What stands before the colon of a
    sentence, such as "Appeared:", comes with the clauses behind it. What is left out is marked by ``…``; a text within
    the budget stays whole.
    """
    if len(text) <= budget_chars:
        return text
    clauses = _clauses(text)
    analysed = analyse(query)
    tokens = [words(clause.text) for clause in clauses]
    rarity = word_rarity(analysed, tokens)
    mean_length = sum(len(clause.text) for clause in clauses) / len(clauses) or 1.0
    scores = [
        overlap_score(analysed, own, rarity, len(clause.text) / mean_length)
        for own, clause in zip(tokens, clauses, strict=True)
    ]
    leads = {lead for clause in clauses for lead in clause.leads}
    scores = [
        score + _LEAD_SHARE * max((scores[lead] for lead in clause.leads), default=0.0)
        for score, clause in zip(scores, clauses, strict=True)
    ]
    kept: set[int] = set()
    left = budget_chars - len(_MARK)
    for number in sorted(set(range(len(clauses))) - leads, key=lambda number: (-scores[number], number)):
        new = {number, *clauses[number].leads} - kept
        # Each may stand behind a gap of its own.
        cost = sum(len(clauses[one].text) + len(_MARK) for one in new)
        if cost <= left:
            kept |= new
            left -= cost
        elif not kept:
            return clauses[number].text[: budget_chars - 1] + "…"
    return _with_marks(clauses, kept)


@dataclass(frozen=True)
class _Clause:
    text: str  # with the blank behind it
    leads: tuple[int, ...]  # clauses that it makes no sense without


def _clauses(text: str) -> list[_Clause]:
    """A text's clauses; joined they are the text."""
    found: list[_Clause] = []
    lead: tuple[int, ...] = ()
    start = 0
    for end, mark in _ends(text):
        found.append(_Clause(text[start:end], lead))
        if mark == ":":
            lead = (*lead, len(found) - 1)
        elif mark in ".!?\n":
            lead = ()
        start = end
    if start < len(text):
        found.append(_Clause(text[start:], lead))
    return found


def _ends(text: str) -> Iterator[tuple[int, str]]:
    """Positions behind a mark and its blank, outside quotes, with the mark."""
    closing = ""
    for position, character in enumerate(text[:-1]):
        if closing:
            closing = "" if character == closing else closing
        elif character in _QUOTES:
            closing = _QUOTES[character]
        elif character in ".!?:;," and text[position + 1].isspace():
            yield position + 2, character
        elif character == "\n":
            yield position + 1, character


def _with_marks(clauses: Sequence[_Clause], kept: set[int]) -> str:
    parts: list[str] = []
    for number, clause in enumerate(clauses):
        if number in kept:
            parts.append(clause.text)
        elif not parts or parts[-1] != _MARK:
            parts.append(_MARK)
    return "".join(parts).strip()
