"""The checker: whether a rewritten goal still names a route, and whether it lost or invented a value.

It does not use the rewriter's patterns. It reads a goal word by word and looks for what marks a route: signs between
the names of a menu path, the words ``module`` and ``application`` beside a name, verbs of navigation before one, and
places where something is said to lie.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from lmev2.goals.quotes import quoted_spans
from lmev2.goals.values import Range, normal, pairs, places_of, stands_in, steps, values

FlagKind = Literal[
    "route_left", "value_lost", "value_invented", "value_moved", "intent_lost", "destination_unclear", "copy_left"
]

_WORD = re.compile(r"[^\W_][\w&/'’-]*|[>›»→]|[^\s\w]")
_SIGNS = frozenset(">›»→")
_GOING = frozenset({"navigate", "go", "head", "proceed", "browse"})
_NAMING = frozenset({"module", "application"})
_ARTICLES = frozenset({"the", "your"})
_JOINING = frozenset({"of", "for", "and", "&", "/"})
# Words before an application or a menu through which something is done; one that is only spoken of is no route.
_ENTERING = frozenset(
    {"in", "under", "within", "inside", "via", "through", "using", "from", "access", "visit", "enter"}
)
# What may stand between a destination and the clause that follows it.
_BETWEEN = frozenset({",", ".", ";", "and", "then", "page", "list", "view", "section", "menu", *_NAMING})
_BACK = frozenset({"it", "him", "her", "them", "its"})
# Before a word that points back, these bring in what it points at.
_OTHERS = frozenset(
    {"search", "look", "the", "a", "an", "any", "this", "that", "each", "all"}
    | {"if", "whether", "what", "when", "where", "which", "who", "why", "how"}
)
_MAX_CLAUSE = 6
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


class _Route(NamedTuple):
    """A route, and the names in it that the task is about."""

    start: int
    end: int
    values: tuple[str, ...] = ()


def check(before: str, after: str, domain: str = "enterprise") -> list[Flag]:
    """What is wrong with a rewritten goal; empty for a sound one.

    Args:
        before: the goal as it was.
        after: the goal to judge; the same text to check a goal that should need no rewriting.
        domain: in ``web`` only going to a module or an application is a route.
    """
    stepwise = _spelled_out(before)
    flags = [Flag("route_left", after[start:end]) for start, end in route_ranges(after, stepwise, domain)]
    routes = route_ranges(before, stepwise, domain)
    if routes and len(steps(after)) > 1:
        flags.append(Flag("route_left", "numbered steps"))
    old, new = normal(before), normal(after)
    flags += [Flag("value_lost", value) for value in kept_values(before, domain) if not stands_in(value, new)]
    flags += [Flag("value_invented", value) for value in values(after) if not stands_in(value, old)]
    flags += [
        Flag("value_moved", f"{first} / {second}")
        for first, second in pairs(before, routes)
        if _apart(first, second, new)
    ]
    if before != after and _kept_words(before, routes, new) < _MIN_KEPT:
        flags.append(Flag("intent_lost", "most words of the goal are gone"))
    return flags


def kept_values(goal: str, domain: str = "enterprise") -> list[str]:
    """The values that a rewritten goal must keep.

    They are all that stand outside of its routes, and names within routes that the task is about: with a digit or a
    hashtag, quoted at the end of a path of plain names, or pointed back at (``Go to Users > Ada and delete her``).
    """
    routes = _routes(goal, _spelled_out(goal), domain)
    outside = values(goal, _joined([(route.start, route.end) for route in routes]))
    return list(dict.fromkeys([*outside, *(value for route in routes for value in route.values)]))


def names_route(goal: str, domain: str = "enterprise") -> bool:
    """Whether a goal names a route."""
    return bool(route_ranges(goal, _spelled_out(goal), domain))


def route_ranges(text: str, stepwise: bool = False, domain: str = "enterprise") -> list[Range]:
    """Where routes stand in a goal, in order, overlapping ones joined.

    Args:
        stepwise: the goal spells out its steps, so that going to a place in plain words is a route as well.
        domain: in ``web`` only going to a module or an application is a route.
    """
    return _joined([(route.start, route.end) for route in _routes(text, stepwise, domain)])


def _routes(text: str, stepwise: bool, domain: str) -> list[_Route]:
    tokens = _tokens(text)
    found: list[_Route] = []
    for place, token in enumerate(tokens):
        if token.quoted:
            continue
        word = token.text.lower()
        if word in _NAMING:
            found += _named(text, tokens, place, domain == "web")
        elif domain == "web":
            continue
        elif token.text in _SIGNS:
            found += _path(text, tokens, place)
        elif word == "to" and place and tokens[place - 1].text.lower() in {*_GOING, "back"}:
            found += _went(text, tokens, place, stepwise)
        elif word in {"located", "found", "stored"}:
            found += _lies(tokens, place)
        elif word == "menu":
            found += _menu(tokens, place)
        elif word == "from" and _texts(tokens, place + 1, 1) == ["the"] and _texts(tokens, place + 3, 1) == ["list"]:
            found += [_Route(*_span(tokens, place, place + 3))] if tokens[place + 2].quoted else []
    return found


def _spelled_out(goal: str) -> bool:
    lowered = goal.lower()
    return len(steps(goal)) > 1 or "following steps" in lowered or "following task" in lowered


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


def _path(text: str, tokens: list[_Token], place: int) -> list[_Route]:
    """A menu path around a sign: names on both sides, and none of them in angle brackets."""
    left, right = _name_left(tokens, place - 1), _name_right(tokens, place + 1)
    if left == place or right == place:
        return []
    in_brackets = left > 0 and tokens[left - 1].text == "<" and tokens[left - 1].end == tokens[left].start
    if in_brackets or tokens[place - 1].end == tokens[place].start:
        return []
    found = _telling(text, tokens, [(left, place - 1), (place + 1, right)])
    ends = right + 1 == len(tokens) or tokens[right + 1].text not in _SIGNS
    quoted = tokens[place + 1].quoted and not tokens[left].quoted
    if ends and (quoted or _one_of(tokens, left, place - 1) or _pointed_at(tokens, right)):
        found.append(_name(text, tokens, place + 1, right))
    return [_Route(*_span(tokens, left, right), tuple(found))]


def _named(text: str, tokens: list[_Token], place: int, web: bool) -> list[_Route]:
    """A module or application with its name before it, or after ``of``."""
    left, right = _name_left(tokens, place - 1), place
    names = [(left, place - 1)] if left < place else []
    following = place + 1
    if _texts(tokens, following, 1) in (["of"], ["in"], ["under"]):
        following += 2 if set(_texts(tokens, following + 1, 1)) & _ARTICLES else 1
        right = max(_name_right(tokens, following), place)
    if right > place:
        names.append((following, right))
    before = left - 2 if set(_texts(tokens, left - 1, 1)) & _ARTICLES and left else left - 1
    if not names or (web and not _goes(tokens, before)):
        return []
    if tokens[place].text.lower() == "application" and not _entered(tokens, before, tokens[left : right + 1]):
        return []
    found = _telling(text, tokens, names)
    of_module = _texts(tokens, before - 1, 2) in (["module", "of"], ["module", "in"], ["module", "under"])
    if left < place and not of_module and _pointed_at(tokens, right):
        found.append(_name(text, tokens, left, place - 1))
    return [_Route(*_span(tokens, left, right), tuple(found))]


def _goes(tokens: list[_Token], place: int) -> bool:
    """Whether a verb of going ends at a token: ``open``, ``go to``, ``navigate back to``."""
    words = [token.text.lower() for token in tokens[max(place - 2, 0) : place + 1] if not token.quoted]
    if words[-1:] == ["to"]:
        return bool({*_GOING} & set(words[-2:-1])) or (words[1:2] == ["back"] and words[0] in _GOING)
    return words[-1:] == ["open"]


def _entered(tokens: list[_Token], place: int, name: list[_Token]) -> bool:
    """Whether an application, told of after a token, is where something is done."""
    if place < 0:
        return False
    word = tokens[place].text.lower()
    if not any(token.quoted for token in name):
        # "the Server Applications of the application" would be data; at the head of a sentence a name is a place.
        return len(name) > 1 and word in _ENTERING and (tokens[place].text[0].isupper() or word in {"under", "within"})
    of_module = word == "of" and _texts(tokens, place - 1, 1) == ["module"]
    return word in _ENTERING or of_module or _goes(tokens, place)


def _menu(tokens: list[_Token], place: int) -> list[_Route]:
    """``from the Self-Service menu``; a quoted menu may be a field's."""
    left = _name_left(tokens, place - 1)
    if left == place or tokens[left].quoted or left < 2 or not set(_texts(tokens, left - 1, 1)) & _ARTICLES:
        return []
    return [_Route(*_span(tokens, left - 2, place))] if set(_texts(tokens, left - 2, 1)) & _ENTERING else []


def _went(text: str, tokens: list[_Token], place: int, stepwise: bool) -> list[_Route]:
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
        goes_on = last + 1 < len(tokens) and tokens[last + 1].text.lower() in _SIGNS | _NAMING
        found = [] if goes_on else _telling(text, tokens, [(target, last)])
        if not goes_on and _pointed_at(tokens, last):
            found.append(_name(text, tokens, target, last))
        return [_Route(*_span(tokens, first, last), tuple(found))]
    if not stepwise or target >= len(tokens):
        return []
    words = _texts(tokens, target, 4)
    if navigates and words[:1] not in (["a"], ["an"]):
        last = _words_right(tokens, target)
        kept = (_name(text, tokens, target, last),) if _pointed_at(tokens, last) else ()
        return [_Route(*_span(tokens, first, target), kept)]
    return [_Route(*_span(tokens, first, target + words.index("store")))] if "store" in words else []


def _words_right(tokens: list[_Token], place: int) -> int:
    """Where a destination in plain words ends that begins at a token."""
    last = place
    while last + 1 < len(tokens) and tokens[last + 1].text.lower() not in _BETWEEN and tokens[last + 1].text.isalpha():
        last += 1
    return last


def _name(text: str, tokens: list[_Token], first: int, last: int) -> str:
    return tokens[first].text if first == last else text[tokens[first].start : tokens[last].end]


def _telling(text: str, tokens: list[_Token], names: list[Range]) -> list[str]:
    """Names, by their first and last tokens, that no menu has: with a digit or a hashtag."""
    found = [_name(text, tokens, first, last) for first, last in names]
    return [name for name in found if any(character.isdigit() or character == "#" for character in name)]


def _one_of(tokens: list[_Token], left: int, right: int) -> bool:
    """Whether a path is said to lead to one of what its last but one name lists: ``the user in Users > Ada``."""
    listed = tokens[right].text.lower().split()[-1:]
    while left > 1 and tokens[left - 1].text in _SIGNS:
        left = _name_left(tokens, left - 2)
    words = _texts(tokens, left - 2, 2) if left > 1 else []
    if len(words) < 2 or words[1] not in {"in", "from", "under", "at", "of"}:
        return False
    return listed in ([words[0] + "s"], [words[0] + "es"], [words[0][:-1] + "ies"])


def _pointed_at(tokens: list[_Token], last: int) -> bool:
    """Whether the clause after a destination, which ends at a token, points back at it."""
    place = last + 1
    while place < len(tokens) and tokens[place].text.lower() in _BETWEEN and not tokens[place].quoted:
        place += 1
    if place == last + 1:
        return False
    for number, token in enumerate(tokens[place : place + _MAX_CLAUSE]):
        word = token.text.lower()
        if number and not token.quoted and word in _BACK:
            return _texts(tokens, place + number + 1, 1) != ["is"]
        if token.quoted or word in _OTHERS or word in _BETWEEN or not word.isalpha():
            return False
    return False


def _lies(tokens: list[_Token], place: int) -> list[_Route]:
    """``located in the … knowledge base``."""
    words = [token.text.lower() for token in tokens[place : place + 9]]
    for offset, word in enumerate(words[:-1]):
        if (word, words[offset + 1]) == ("knowledge", "base") and set(words[1:3]) & {"in", "at", "under"}:
            return [_Route(*_span(tokens, place, place + offset + 1))]
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
