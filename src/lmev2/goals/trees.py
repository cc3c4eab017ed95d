"""Copies of a goal inside pages: an accessibility tree quotes them, and a rewritten goal replaces what they show.

A private task shows the goal as the value or name of a field, or as lines of text below it. A copy is found word by
word, so that other white space, line breaks within it and a cut at its end do no harm, and so is a part of the goal,
such as the title in another field. Only words that the goal's rewriting changed are changed, each in its place. A text
may hold several copies. What is written otherwise, in capitals or without quotation marks, is no copy;
:func:`holds_route` tells of it.
"""

from __future__ import annotations

import heapq
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from lmev2.tree import decode_literal

_LITERAL = re.compile(r"(?<=[ =])(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")
_TEXT_LINE = re.compile(r"^(?P<indent>\t*+)(?P<role>StaticText|LineBreak|InlineTextBox) ")
_WORDS = re.compile(r"\S+")
_TAG = re.compile(r"</?(?:br|p|div|span|ol|ul|li|b|i|u|em|strong)\b[^<>]*>", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"[^\W_]+")
_CUT = re.compile(r"(?:\.\.\.|…)$")
_GRAM = 4
# A shorter match is no copy, unless it is all that a text holds.
_MIN_RUN = 6
# So many words of a longer changed passage are known even where the copy begins within it.
_MIN_PART = 5
# Words that both texts share between two changed passages, but too few to stand for themselves.
_MIN_KEPT = 3
_MIN_CHARS = 12
# So many words of a changed passage in a row, apart from marks and capitals, are a part of a route that was left.
_LEFT_GRAM = 5


class _Edit(NamedTuple):
    """Words ``start`` to ``end`` of the goal, and the text in their place, with the white space before it."""

    start: int
    end: int
    text: str


class _Piece(NamedTuple):
    """A literal of a line: where it stands in the line, and its decoded text."""

    line: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class _Change:
    """Characters ``start`` to ``end`` of a piece's text, and the text in their place."""

    start: int
    end: int
    text: str


def rewrite_tree(tree: str, goal: str, sanitized: str) -> tuple[str, int]:
    """A tree in which copies of a goal, or of parts of it, are rewritten as the goal was.

    Handled are copies in any quoted text of a line (name, value or property) and copies spread over adjacent
    ``StaticText`` lines, with line breaks between them. Paraphrases are not copies.

    Args:
        tree: an accessibility tree as text.
        goal: the goal as it was.
        sanitized: the rewritten goal.

    Returns:
        the tree, the same object if it holds no copy, and how many copies were rewritten.
    """
    copies = _copies_of(goal, sanitized)
    if not copies.may_stand_in(tree):
        return tree, 0
    lines = tree.split("\n")
    changes: dict[_Piece, list[_Change]] = {}
    count = 0
    for pieces in _texts(lines):
        found, number = copies.changes([piece.text for piece in pieces])
        if number:
            count += number
            for piece, own in zip(pieces, found, strict=True):
                if own:
                    changes.setdefault(piece, own)
    return (_apply(lines, changes), count) if count else (tree, 0)


def holds_route(tree: str, goal: str, sanitized: str) -> bool:
    """Whether a tree still holds some words in a row of a passage that a goal's rewriting changed.

    It reads more loosely than :func:`rewrite_tree`: capitals, quotation marks, other signs and mark-up make no
    difference, and neither does what a line's words belong to.

    Args:
        tree: an accessibility tree as text, as :func:`rewrite_tree` gave it.
        goal: the goal as it was.
        sanitized: the rewritten goal.
    """
    return _copies_of(goal, sanitized).left_in(tree)


@lru_cache(maxsize=64)
def _copies_of(goal: str, sanitized: str) -> _Copies:
    return _Copies(goal, sanitized)


class _Copies:
    """What the rewriting of a goal changed, and how to find it in other texts."""

    def __init__(self, goal: str, sanitized: str):
        self._words = [match[0] for match in _words(goal)]
        self._edits = _edits(goal, sanitized)
        touched = [
            place
            for place in range(max(len(self._words) - _GRAM + 1, 0))
            if any(edit.start < place + _GRAM and place < edit.end for edit in self._edits)
        ]
        self._grams = {tuple(self._words[place : place + _GRAM]) for place in touched}
        self._places: dict[tuple[str, ...], list[int]] = {}
        for place in range(len(self._words) - _GRAM + 1):
            self._places.setdefault(tuple(self._words[place : place + _GRAM]), []).append(place)
        self._marks = frozenset(mark for edit in self._edits for mark in self._marks_of(edit))
        self._left = self._left_grams(sanitized)
        self._plain_marks = frozenset(mark.casefold() for mark in self._marks)

    def _marks_of(self, edit: _Edit) -> list[str]:
        """The first longer word of a changed passage, which a cut leaves, and the longest. Of letters and digits only:
        quotation marks may be escaped in a tree."""
        words = re.findall(r"\w+", " ".join(self._words[edit.start : edit.end]))
        longer = [word for word in words if len(word) >= _GRAM]
        return [longer[0], max(longer, key=len)] if longer else words[:1]

    def _left_grams(self, sanitized: str) -> dict[int, set[tuple[str, ...]]]:
        """Plain words in a row of changed passages, by their number: the whole of a shorter passage."""
        kept = _plain_words(sanitized)
        grams: dict[int, set[tuple[str, ...]]] = {}
        for edit in self._edits:
            words = _plain_words(" ".join(self._words[edit.start : edit.end]))
            size = min(_LEFT_GRAM, len(words))
            if size >= _MIN_KEPT:
                grams.setdefault(size, set()).update(_grams(words, size))
        return {size: found - set(_grams(kept, size)) for size, found in grams.items()}

    def left_in(self, tree: str) -> bool:
        """Whether a tree holds a part of a changed passage."""
        lowered = tree.casefold()
        if not any(mark in lowered for mark in self._plain_marks):
            return False
        words = _plain_words("\n".join(_shown(line) for line in tree.split("\n")))
        return any(gram in found for size, found in self._left.items() for gram in _grams(words, size))

    def may_stand_in(self, tree: str) -> bool:
        """Whether a tree holds a telling word of a changed passage; cheap, and false for most trees."""
        return any(mark in tree for mark in self._marks)

    def changes(self, texts: list[str]) -> tuple[list[list[_Change]], int]:
        """The changes of each text, which in order hold copies or parts of one, and the number of copies changed."""
        places = [(number, match) for number, text in enumerate(texts) for match in _words(text)]
        words = [match[0] for _, match in places]
        found: list[list[_Change]] = [[] for _ in texts]
        copies, reached = 0, len(self._words)
        if not any(gram in self._grams for gram in _grams(words, _GRAM)):
            return found, copies
        for start, first, size in self._runs(words):
            changed = False
            for edit in self._edits:
                low, high = max(edit.start, first), min(edit.end, first + size)
                ends = low == edit.start and start + size == len(words)  # the text is cut within the passage
                if high <= low or (high - low < min(_MIN_PART, edit.end - edit.start) and not ends):
                    continue
                shift = start - first
                text = edit.text if high == edit.end else ""
                if high + shift == len(words) and (cut := _CUT.search(words[-1])):
                    text += cut[0]
                _spread(found, texts, places[low + shift : high + shift], text)
                changed = True
            if changed:
                copies += first < reached  # the goal begins anew
                reached = first + size
        return found, copies

    def _runs(self, words: list[str]) -> Iterator[tuple[int, int, int]]:
        """Where words of the goal stand in a row: first word in the text, first word in the goal, number of words.

        In the text's order; no word belongs to two. The longest are found first, and each part of the goal may be found
        any number of times.
        """
        taken = bytearray(len(words))
        waiting = [(-size, start, first) for start, first, size in self._rows(words)]
        heapq.heapify(waiting)
        runs = []
        while waiting:
            size, start, first = heapq.heappop(waiting)
            size = -size
            free = list(_free(taken, start, start + size))
            if free == [(start, start + size)]:
                taken[start : start + size] = b"\1" * size
                runs.append((start, first, size))
                continue
            for begin, end in free:
                if end - begin >= _GRAM:
                    heapq.heappush(waiting, (begin - end, begin, first + begin - start))
        for start, first, size in sorted(runs):
            following = self._words[first + size : first + size + 1]
            if following and start + size == len(words) - 1 and _CUT.search(words[-1]):
                size += following[0].startswith(_CUT.sub("", words[-1]))
            if size >= _MIN_RUN or size == len(words) >= _GRAM:
                yield start, first, size

    def _rows(self, words: list[str]) -> Iterator[tuple[int, int, int]]:
        """Every row of words that both have and that cannot be made longer, of at least a gram."""
        for start, gram in enumerate(_grams(words, _GRAM)):
            for first in self._places.get(gram, ()):
                if start and first and words[start - 1] == self._words[first - 1]:
                    continue  # within a row
                size = _GRAM
                while words[start + size : start + size + 1] == self._words[first + size : first + size + 1] != []:
                    size += 1
                yield start, first, size


def _free(taken: bytearray, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a range that are not taken."""
    while (start := taken.find(0, start, end)) >= 0:
        stop = taken.find(1, start, end)
        yield start, end if stop < 0 else stop
        if stop < 0:
            return
        start = stop


def _words(text: str) -> Iterator[re.Match[str]]:
    """The words of a text; tags of mark-up are white space, as long as they are."""
    return _WORDS.finditer(_TAG.sub(lambda match: " " * len(match[0]), text))


def _plain_words(text: str) -> list[str]:
    return _PLAIN_WORD.findall(_TAG.sub(" ", text).casefold())


def _grams(words: list[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[place : place + size]) for place in range(len(words) - size + 1))


def _shown(line: str) -> str:
    """What a line shows; of lines of text, only that, so that words run on from one to the next."""
    texts = _LITERAL.sub(lambda match: f" {html.unescape(decode_literal(match[0]))} ", line)
    match = _TEXT_LINE.match(texts)
    return texts[match.end() :] if match else texts


def _edits(goal: str, sanitized: str) -> list[_Edit]:
    """The passages of a goal that its rewriting changed, in words, in order."""
    old, new = [match[0] for match in _words(goal)], list(_words(sanitized))
    codes = SequenceMatcher(None, old, [match[0] for match in new], autojunk=False).get_opcodes()
    joined: list[tuple[int, int, int, int]] = []
    last_kept = _MIN_KEPT
    for kind, start, end, first, last in codes:
        if kind == "equal":
            last_kept = end - start
            continue
        if joined and last_kept < _MIN_KEPT:
            joined[-1] = (joined[-1][0], end, joined[-1][2], last)
        else:
            joined.append((start, end, first, last))
    return [
        _Edit(start, end, sanitized[new[first - 1].end() if first else 0 : new[last - 1].end()] if last > first else "")
        for start, end, first, last in joined
        if end > start
    ]


def _spread(found: list[list[_Change]], texts: list[str], places: list[tuple[int, re.Match[str]]], text: str) -> None:
    """Remove words, which may lie in several texts, and put the new text where the last of them stood."""
    for number in sorted({number for number, _ in places}):
        own = [match for place, match in places if place == number]
        start, end, inserted = own[0].start(), own[-1].end(), ""
        if number == places[-1][0]:
            start, inserted = _fitted(texts[number], start, text)
        if not inserted:
            end = len(texts[number]) - len(texts[number][end:].lstrip())
        found[number].append(_Change(start, end, inserted))


def _fitted(around: str, start: int, text: str) -> tuple[int, str]:
    """Where a new text begins, and how it reads in the text around it: in one line where that has no others."""
    if "\n" not in around:
        return start, " ".join(text.split())
    words = text.lstrip()
    if "\n" in text[: len(text) - len(words)]:
        return len(around[:start].rstrip()), text
    return start, words


def _texts(lines: list[str]) -> Iterator[list[_Piece]]:
    """Texts that may hold a copy: adjacent text lines together, and every other literal alone."""
    run: list[_Piece] = []
    indent = ""
    for number, line in enumerate(lines):
        pieces = [
            _Piece(number, match.start(), match.end(), decode_literal(match[0])) for match in _LITERAL.finditer(line)
        ]
        match = _TEXT_LINE.match(line)
        if run and (match is None or match["indent"] != indent):
            yield run
            run = []
        if match is None:
            yield from ([piece] for piece in pieces if len(piece.text) >= _MIN_CHARS)
        elif match["role"] == "StaticText":
            indent = match["indent"]
            run += pieces[:1]
    if run:
        yield run


def _apply(lines: list[str], changes: dict[_Piece, list[_Change]]) -> str:
    """The lines with the pieces changed; a text line that is left without a word goes, with a line break after it."""
    dropped: set[int] = set()
    for piece in sorted(changes, key=lambda piece: (piece.line, -piece.start)):
        text = piece.text
        for change in sorted(changes[piece], key=lambda change: -change.start):
            text = text[: change.start] + change.text + text[change.end :]
        text = text.strip()
        line = lines[piece.line]
        lines[piece.line] = line[: piece.start] + repr(text) + line[piece.end :]
        match = _TEXT_LINE.match(line)
        if match is not None and not text:
            dropped.add(piece.line)
            following = _TEXT_LINE.match(lines[piece.line + 1]) if piece.line + 1 < len(lines) else None
            if following is not None and following["role"] == "LineBreak":
                dropped.add(piece.line + 1)
    return "\n".join(line for number, line in enumerate(lines) if number not in dropped)
