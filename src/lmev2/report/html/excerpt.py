"""What a page shows of a context item's text: the lines that bear on the reference answer or the question, marked, with
what stands around them, up to a budget of characters."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Final, Literal

from lmev2.memory.focus_query import analyse
from lmev2.scoring.scorers import gold_phrases, norm_phrase_set_match, replace_marks
from lmev2.scoring.spec import ScorerSpec, parse_eval_function

Mark = Literal["", "gold", "near", "gap"]

_LINE_CHARS: Final = 300  # a longer line is cut
_BEFORE_MATCH: Final = 80  # characters that a cut line keeps before its match
_HEAD_LINES: Final = 4
_MOST_GOLD: Final = 12  # marked lines of an excerpt that was cut
_MOST_NEAR: Final = 8
_COMMON: Final = 40  # a word on more lines than this says little about any of them
_NEAR_SHARE: Final = 0.5  # of the best line's score, that a line needs to be marked
_CHOICE: Final = re.compile(r"^[^\S\n]*\(?([A-Z])[.):]\s+(\S(?:.*\S)?)", re.MULTILINE)
_QUERY: Final = "Query: "


@dataclass(frozen=True)
class Line:
    """A line to show; ``gap`` says in words what is left out. Of marked lines, the one of more ``weight`` says more."""

    text: str
    mark: Mark = ""
    weight: float = 0.0


@dataclass(frozen=True)
class Excerpt:
    """What is shown of a text.

    Attributes:
        lines: in the text's order.
        left_out: characters that are not shown.
        phrases: phrases of the reference answer that stand on some line of the whole text, shown or not.
    """

    lines: tuple[Line, ...]
    left_out: int
    phrases: frozenset[str]


class Marker:
    """Finds the lines of texts that bear on one question.

    A line bears on the reference answer when it holds one of its phrases by the scorer's own normalisation; that says
    something for phrase scorers only. It bears on the question when it holds several of the question's rarer words, or
    of the right choice, or of the reference answer of a judged question.

    Args:
        question, gold, eval_function: fields of the question.
        max_chars: of the text shown of one item; marked lines come first.
    """

    def __init__(self, question: str, gold: str, eval_function: str, max_chars: int):
        self._spec = parse_eval_function(eval_function)
        self._max_chars = max_chars
        found = gold_phrases(gold, self._spec) if self._spec.is_phrase else []
        self.phrases = tuple(dict.fromkeys(found))
        self._words = _weights(question, gold, self._spec)

    def excerpt(self, text: str) -> Excerpt:
        """What to show of ``text``."""
        lines = text.split("\n")
        gold = self._gold_lines(text, lines)
        near = self._near_lines(text, lines)
        found = frozenset(phrase for phrases in gold.values() for phrase in phrases)
        return _select(text, lines, gold, near, found, self._max_chars)

    def _gold_lines(self, text: str, lines: Sequence[str]) -> dict[int, list[str]]:
        """Phrases by line number. The longest word of a phrase is looked up first, so that few lines are normalised."""
        found: dict[int, list[str]] = {}
        if not self.phrases:
            return found
        squashed = _squash(text, self._spec)
        starts = _line_starts(squashed)
        for phrase in self.phrases:
            word = max(phrase.split(), key=len)
            for line in _lines_with(squashed, starts, word, whole=False):
                if norm_phrase_set_match(lines[line], phrase, self._spec):
                    found.setdefault(line, []).append(phrase)
        return found

    def _near_lines(self, text: str, shown: Sequence[str]) -> list[int]:
        """Numbers of the lines that fit the question best, but for the query that an item names, which always does."""
        lowered = text.lower()
        starts = _line_starts(lowered)
        scores: dict[int, float] = {}
        hits: dict[int, int] = {}
        for word, weight in self._words:
            lines = []
            for line in _lines_with(lowered, starts, word, whole=True):
                lines.append(line)
                if len(lines) > _COMMON:
                    break
            if len(lines) > _COMMON:
                continue
            for line in lines:
                scores[line] = scores.get(line, 0.0) + weight * math.log(1 + (len(starts) - 1) / len(lines))
                hits[line] = hits.get(line, 0) + 1
        several = {
            line: score for line, score in scores.items() if hits[line] > 1 and not shown[line].startswith(_QUERY)
        }
        best = max(several.values(), default=0.0)
        ranked = sorted(several, key=lambda line: (-several[line], line))
        return [line for line in ranked[:_MOST_NEAR] if several[line] >= _NEAR_SHARE * best]


def _weights(question: str, gold: str, spec: ScorerSpec) -> list[tuple[str, float]]:
    """Stemmed words to look for, with weights."""
    weights = dict(analyse(question).weights)
    extra = gold if spec.is_judge else ""
    if spec.name == "mc_choice_match":
        extra = " ".join(text for letter, text in _CHOICE.findall(question) if letter == gold.strip().upper())
    if extra:
        weights |= {word: max(weight, weights.get(word, 0.0)) for word, weight in analyse(extra).weights.items()}
    return sorted((word, weight) for word, weight in weights.items() if len(word) > 2 or word.isdigit())


def _squash(text: str, spec: ScorerSpec) -> str:
    """The text normalised as the scorer does, but for white space, so that its lines stay."""
    return replace_marks(text.lower() if spec.lower else text, spec)


def _line_starts(text: str) -> list[int]:
    """Where each line begins, and where one behind the last would."""
    return list(accumulate(map((1).__add__, map(len, text.split("\n"))), initial=0))


def _lines_with(text: str, starts: Sequence[int], word: str, whole: bool) -> Iterator[int]:
    """Numbers of the lines that hold the word, in order; with ``whole`` only at the start of a word."""
    position = text.find(word)
    while position >= 0:
        if whole and position and text[position - 1].isalnum():
            position = text.find(word, position + 1)
            continue
        line = bisect_right(starts, position) - 1
        yield line
        position = text.find(word, starts[line + 1])


def _select(
    text: str,
    lines: Sequence[str],
    phrases: Mapping[int, Sequence[str]],
    near: Sequence[int],
    found: frozenset[str],
    budget: int,
) -> Excerpt:
    """Lines to show, marked: all where they fit; else the first lines, then of the marked ones those that hold several
    phrases or a rare one before others, then what stands around them, then from the beginning on."""
    counts = Counter(phrase for own in phrases.values() for phrase in own)
    gold = {number: sum(1 / counts[phrase] for phrase in own) for number, own in phrases.items()}

    def clip(number: int) -> str:
        return _clip(lines[number], phrases[number][0] if number in phrases else None)

    shown = {number: clip(number) for number in range(len(lines))} if len(text) <= budget else {}
    if not shown:
        best = sorted(gold, key=lambda number: (-gold[number], number))[:_MOST_GOLD]
        around = [number + step for number in (*best, *near) for step in (-1, 1)]
        left = budget
        for number in chain(range(_HEAD_LINES), best, near, around, range(len(lines))):
            if number in shown or not 0 <= number < len(lines):
                continue
            piece = clip(number)
            if len(piece) + 1 > left:
                if number not in (*best, *near):
                    break
                continue
            shown[number] = piece
            left -= len(piece) + 1
    marks: dict[int, Mark] = {}
    for number in (*near, *gold):
        marks[number] = "gold" if number in gold else "near"
    result: list[Line] = []
    last = -1
    for number in sorted(shown):
        _add_gap(result, number - last - 1)
        result.append(Line(shown[number], marks.get(number, ""), gold.get(number, 0.0)))
        last = number
    _add_gap(result, len(lines) - last - 1)
    kept = sum(min(len(lines[number]), len(shown[number])) + 1 for number in shown)
    return Excerpt(tuple(result), max(0, len(text) + 1 - kept), found)


def _add_gap(result: list[Line], count: int) -> None:
    if count:
        result.append(Line(f"… {count:,} line{'s' if count > 1 else ''} left out", "gap"))


def _clip(line: str, phrase: str | None) -> str:
    """A line of at most ``_LINE_CHARS`` characters and marks for what was cut; keeps what it is marked for."""
    if len(line) <= _LINE_CHARS:
        return line
    at = 0 if phrase is None else max(0, line.lower().find(max(phrase.split(), key=len).lower()) - _BEFORE_MATCH)
    piece = line[at : at + _LINE_CHARS]
    rest = len(line) - at - len(piece)
    return f"{'… ' if at else ''}{piece}{f' … ({rest:,} more characters)' if rest else ''}"
