"""The checker: whether a rewritten goal still names a route, and whether it lost or invented a value.

It does not use the rewriter's patterns. It reads a goal word by word and looks for what marks a route: signs between
the names of a menu path, the words ``module`` and ``application`` beside a name, verbs of navigation before one, and
places where something is said to lie.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from lmev2.goals.quotes import quoted_spans
from lmev2.goals.values import Range, normal, pairs, places_of, stands_in, values

FlagKind = Literal["route_left", "value_lost", "value_invented", "value_moved", "intent_lost", "destination_unclear"]

_WORD = re.compile(r"[^\W_][\w&/'’-]*|[>›»→]|[^\s\w]")
_SIGNS = frozenset(">›»→")
_GOING = frozenset({"navigate", "go", "head", "proceed", "browse"})
_NAMING = frozenset({"module", "application"})
_ARTICLES = frozenset({"the", "your"})
_JOINING = frozenset({"of", "for", "and", "&", "/"})
_NUMBERED = re.compile(r"^[ \t]*\d{1,2}[.)][ \t]", re.MULTILINE)
# Words of the lead-in to numbered steps, which says nothing about the task.
_LEAD_IN = frozenset({"concretely", "need", "complete", "following", "steps"})
_MIN_LETTERS = 4
_MIN_KEPT = 0.4
_PAIR_SLACK = 60


class Flag(NamedTuple):
    """Something that a rewritten goal fails for.

    Attributes:
        kind: what is wrong.
        detail: the words in question.
    """

    kind: FlagKind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


class _Token(NamedTuple):
    start: int
    end: int
    text: str  # of a quoted span, its content
    quoted: bool

    @property
    def name(self) -> bool:
        """A quoted text, or a word with a capital."""
        return self.quoted or self.text[:1].isupper()


def check(before: str, after: str) -> list[Flag]:
    """What is wrong with a rewritten goal; empty for a sound one.

    Args:
        before: the goal as it was.
        after: the goal to judge; the same text to check a goal that should need no rewriting.
    """
    stepwise = _spelled_out(before)
    flags = [Flag("route_left", after[start:end]) for start, end in route_ranges(after, stepwise)]
    routes = route_ranges(before, stepwise)
    if routes and len(_NUMBERED.findall(after)) > 1:
        flags.append(Flag("route_left", "numbered steps"))
    old, new = normal(before), normal(after)
    wanted = values(before, routes)
    flags += [Flag("value_lost", value) for value in wanted if not stands_in(value, new)]
    flags += [Flag("value_invented", value) for value in values(after) if not stands_in(value, old)]
    flags += [
        Flag("value_moved", f"{first} / {second}")
        for first, second in pairs(before, routes)
        if _apart(first, second, new)
    ]
    if before != after and _kept_words(before, routes, new) < _MIN_KEPT:
        flags.append(Flag("intent_lost", "most words of the goal are gone"))
    return flags


def kept_values(goal: str) -> list[str]:
    """The values that a rewritten goal must keep: all that stand outside of its routes."""
    return values(goal, route_ranges(goal, _spelled_out(goal)))


def names_route(goal: str) -> bool:
    """Whether a goal names a route."""
    return bool(route_ranges(goal, _spelled_out(goal)))


def route_ranges(text: str, stepwise: bool = False) -> list[Range]:
    """Where routes stand in a goal, in order, overlapping ones joined.

    Args:
        stepwise: the goal spells out its steps, so that going to a place in plain words is a route as well.
    """
    tokens = _tokens(text)
    found: list[Range] = []
    for place, token in enumerate(tokens):
        if token.quoted:
            continue
        word = token.text.lower()
        if token.text in _SIGNS:
            found += _path(tokens, place)
        elif word in _NAMING:
            found += _named(tokens, place)
        elif word == "to" and place and tokens[place - 1].text.lower() in {*_GOING, "back"}:
            found += _went(tokens, place, stepwise)
        elif word in {"located", "found", "stored"}:
            found += _lies(tokens, place)
        elif word == "from" and _texts(tokens, place + 1, 1) == ["the"] and _texts(tokens, place + 3, 1) == ["list"]:
            found += [_span(tokens, place, place + 3)] if tokens[place + 2].quoted else []
    return _joined(found)


def _spelled_out(goal: str) -> bool:
    lowered = goal.lower()
    return len(_NUMBERED.findall(goal)) > 1 or "following steps" in lowered or "following task" in lowered


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    end = 0
    for span in [*quoted_spans(text), None]:
        stop = len(text) if span is None else span.start
        tokens += [_Token(match.start(), match.end(), match[0], False) for match in _WORD.finditer(text, end, stop)]
        if span is not None:
            tokens.append(_Token(span.start, span.end, span.content, True))
            end = span.end
    return tokens


def _texts(tokens: list[_Token], start: int, count: int) -> list[str]:
    return [token.text.lower() for token in tokens[max(start, 0) : max(start, 0) + count] if not token.quoted]


def _span(tokens: list[_Token], first: int, last: int) -> Range:
    return tokens[first].start, tokens[last].end


def _name_left(tokens: list[_Token], place: int) -> int:
    """Where the name begins that ends at a token; one past the token if there is none."""
    if place < 0 or not tokens[place].name:
        return place + 1
    while not tokens[place].quoted and place and tokens[place - 1].name and not tokens[place - 1].quoted:
        place -= 1
    return place


def _name_right(tokens: list[_Token], place: int) -> int:
    """Where the name ends that begins at a token; one before the token if there is none."""
    if place >= len(tokens) or not tokens[place].name:
        return place - 1
    while not tokens[place].quoted and place + 1 < len(tokens):
        following = place + 2 if tokens[place + 1].text in _JOINING else place + 1
        if following >= len(tokens) or not tokens[following].name or tokens[following].quoted:
            break
        place = following
    return place


def _path(tokens: list[_Token], place: int) -> list[Range]:
    """A menu path around a sign: names on both sides, and none of them in angle brackets."""
    left, right = _name_left(tokens, place - 1), _name_right(tokens, place + 1)
    if left == place or right == place:
        return []
    in_brackets = left > 0 and tokens[left - 1].text == "<" and tokens[left - 1].end == tokens[left].start
    touches = tokens[place - 1].end == tokens[place].start
    return [] if in_brackets or touches else [_span(tokens, left, right)]


def _named(tokens: list[_Token], place: int) -> list[Range]:
    """A module or application with its name before it, or after ``of``."""
    left, right = _name_left(tokens, place - 1), place
    following = place + 1
    if _texts(tokens, following, 1) in (["of"], ["in"], ["under"]):
        following += 2 if set(_texts(tokens, following + 1, 1)) & _ARTICLES else 1
        right = max(_name_right(tokens, following), place)
    if left == place and right == place:
        return []
    # "the Server Applications of the application" would be data; a bare "application" needs a quoted name beside it.
    if tokens[place].text.lower() == "application" and not any(token.quoted for token in tokens[left : right + 1]):
        return []
    return [_span(tokens, left, right)]


def _went(tokens: list[_Token], place: int, stepwise: bool) -> list[Range]:
    """A verb of navigation with its destination: a name, or in a stepwise goal any place or store."""
    first = place - 2 if tokens[place - 1].text.lower() == "back" else place - 1
    if first < 0 or tokens[first].text.lower() not in _GOING:
        return []
    target = place + 1
    if set(_texts(tokens, target, 1)) & _ARTICLES:
        target += 1
    last = _name_right(tokens, target)
    navigates = tokens[first].text.lower() == "navigate"
    if last >= target and navigates:
        return [_span(tokens, first, last)]
    if not stepwise or target >= len(tokens):
        return []
    words = _texts(tokens, target, 4)
    if navigates and words[:1] not in (["a"], ["an"]):
        return [_span(tokens, first, target)]
    return [_span(tokens, first, target + words.index("store"))] if "store" in words else []


def _lies(tokens: list[_Token], place: int) -> list[Range]:
    """``located in the … knowledge base``."""
    words = [token.text.lower() for token in tokens[place : place + 9]]
    for offset, word in enumerate(words[:-1]):
        if (word, words[offset + 1]) == ("knowledge", "base") and set(words[1:3]) & {"in", "at", "under"}:
            return [_span(tokens, place, place + offset + 1)]
    return []


def _joined(ranges: list[Range]) -> list[Range]:
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _apart(first: str, second: str, after: str) -> bool:
    """Whether the two are both there but nowhere close together in their order."""
    places = [place + len(normal(first)) for place in places_of(first, after)]
    seconds = list(places_of(second, after))
    if not places or not seconds:
        return False  # that one is lost says another flag
    return not any(0 <= later - place <= _PAIR_SLACK for place in places for later in seconds)


def _kept_words(before: str, routes: list[Range], after: str) -> float:
    """Share of the longer words outside of routes that are still there."""
    words = {
        token.text.lower()
        for token in _tokens(before)
        if len(token.text) >= _MIN_LETTERS
        and not token.quoted
        and token.text.lower() not in _LEAD_IN
        and not any(start < token.end and token.start < end for start, end in routes)
    }
    return sum(word in after for word in words) / len(words) if words else 1.0
