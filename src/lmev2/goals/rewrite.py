"""The rewriter: removes routes from a goal's text by rules, and touches nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lmev2.goals import routes

_ROUNDS = 8
_WORD = re.compile(r"[^\W_]")
# Modules that stand for a choice of records in the first person: the choice is part of the task, not of the route.
_SCOPES = (
    (re.compile(r"^assigned to me$", re.IGNORECASE), "review only the entries assigned to you"),
    (re.compile(r"^my\b", re.IGNORECASE), "review only your own entries"),
)
_SCOPED_CONDITION = re.compile(
    r"(?P<scope>Review only (?:the entries assigned to you|your own entries))\.\s++Review the entries where\b"
)
_GENERIC = re.compile(r"^(?:all|my|open|closed|create new|new|overview|properties|administration)$", re.IGNORECASE)


@dataclass
class Rewritten:
    """A goal without its routes.

    Attributes:
        text: the rewritten goal; unchanged if it names no route.
        removed: the routes that were removed, as the goal wrote them, in order.
        opened: names of the pages that the routes ended at, in order.
        only_route: nothing but routes stood in the goal, so that the text names what they ended at, or is the goal
            itself where they do not say.
    """

    text: str
    removed: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    only_route: bool = False


@dataclass
class _Line:
    indent: str
    mark: str
    body: str
    was_empty: bool
    noun: str = ""  # what the last page opened so far lists


def rewrite(goal: str, hints: bool = True) -> Rewritten:
    """Remove the routes of a goal.

    Args:
        hints: without it only clauses that go to a module or an application are routes. With it also menu paths,
            phrases that say where something lies (``in Asset > All Assets``), and destinations in plain words where
            the goal spells out its steps.
    """
    result = Rewritten(goal)
    for _ in range(_ROUNDS):  # what one round joins together may be a route again
        before = result.text
        _rewrite_once(result, hints)
        if result.text == before:
            break
        if result.only_route and not result.opened:
            return Rewritten(goal, only_route=True)
    return result


def is_generic(name: str) -> bool:
    """Whether the name of a page says nothing without the application around it."""
    return _GENERIC.match(name) is not None


def _rewrite_once(result: Rewritten, hints: bool) -> None:
    masked, spans = routes.mask(result.text)
    job = _Job(spans, hints, routes.spells_out_steps(masked))
    lines = [_split(line) for line in masked.split("\n")]
    for line in lines:
        job.remove_routes(line)
    if not job.removed:
        return
    result.removed += job.removed
    result.opened += job.opened
    _mend(lines, job)
    kept = [line for line in lines if line.was_empty or _has_words(line.body)]
    text = _join(kept)
    if _has_words(text):
        result.text = routes.unmask(text, spans)
    else:
        result.only_route = True
        result.text = _open_pages(result.opened) if result.opened else ""


def _split(line: str) -> _Line:
    number = routes.NUMBER.match(line)
    mark = number or routes.BULLET.match(line)
    head = mark[0] if mark else ""
    body = line[len(head) :]
    indent = re.match(r"[ \t]*", body)[0] if not head else ""  # type: ignore[index]
    body = body[len(indent) :]
    return _Line(indent, head, body, not body.strip())


def _has_words(masked: str) -> bool:
    return _WORD.search(masked) is not None


class _Job:
    """One pass over a masked goal."""

    def __init__(self, spans: list[str], hints: bool, stepwise: bool):
        self._spans = spans
        self._hints = hints
        self.removed: list[str] = []
        self.opened: list[str] = []
        self._patterns = [routes.NAVIGATION if hints else routes.MODULE_NAVIGATION]
        if hints and stepwise:
            self._patterns.append(routes.PLAIN_NAVIGATION)

    def plain(self, masked: str) -> str:
        """Text without masks and quotation marks around it."""
        return routes.unmask(masked, self._spans).strip().strip("\"'“”‘’").strip()

    def remove_routes(self, line: _Line) -> None:
        if routes.inline_steps(line.mark + line.body):
            line.body = routes.INLINE_LEAD_IN.sub(" ", routes.INLINE_NUMBER.sub(" ", line.body)).lstrip()
        for pattern in self._patterns:
            while (match := pattern.search(line.body)) is not None:
                line.body = self._without(line.body, match)
        if self._hints:
            line.body = routes.LEADING_LOCATION.sub(lambda match: self._take(match) + match["next"].upper(), line.body)
            for pattern in routes.LOCATIONS:
                line.body = pattern.sub(self._take, line.body)
        line.noun = self._noun()

    def _take(self, match: re.Match[str]) -> str:
        end = match.start("next") if "next" in match.re.groupindex else match.end()
        self.removed.append(routes.unmask(match.string[match.start() : end], self._spans).strip(" \t-–—().,"))
        return ""

    def _without(self, body: str, match: re.Match[str]) -> str:
        """The body without a navigation clause; what stood around it is joined again."""
        place = match["strong"] or match["page"]
        self.removed.append(routes.unmask(place, self._spans).strip())
        names = routes.destinations(place) or [place]
        opened = routes.opened_end(self.plain(names[-1]))
        self.opened.append(opened)
        scope = next((clause for pattern, clause in _SCOPES if pattern.match(opened)), "")
        before, after, head, rest = match["before"], match["after"], body[: match.start()], body[match.end() :]
        starts = not before.strip() and "and" not in before
        ends = after.strip() in {"", ".", ";"} and "and" not in after
        if scope:
            return head + before + (_capitalise(scope) if starts else scope) + after + rest
        if not ends:
            rest, searched = routes.SEARCH_CLAUSE.subn("", rest)
            rest = rest if searched else self._pointing_at(match, names[-1], rest)
        if starts:
            return head + rest if ends else head + before + _capitalise(rest)
        if ends:
            return head + after.strip() + rest
        return head + (", then " if "then" in before + after else before) + rest

    def _pointing_at(self, navigation: re.Match[str], name: str, clause: str) -> str:
        """The clause after a navigation with the destination's name in place of what points back at it."""
        points = routes.POINTS_BACK.match(clause)
        if points is None or is_generic(self.opened[-1]):
            return clause
        if navigation.re is routes.PLAIN_NAVIGATION:
            name = navigation["page"]  # "the incident of Ada" is no name
        elif len(routes.SIGN.split(self.plain(name))) > 1:
            name = routes.opened_end(self.plain(name))
        ending = ""
        if points["pronoun"].lower() == "its":
            if not name[-1].isalnum():
                return clause  # an apostrophe after a quotation mark would open another
            ending = "'s"
        return clause[: points.start("pronoun")] + name + ending + clause[points.end() :]

    def _noun(self) -> str:
        """What the page opened last lists, such as ``hardware assets``; empty when its name does not say."""
        if not self.opened or is_generic(self.opened[-1]):
            return ""
        words = re.sub(r"^(?:all|my)\s+", "", self.opened[-1], flags=re.IGNORECASE)
        return words.lower() if words.endswith("s") else ""


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _mend(lines: list[_Line], job: _Job) -> None:
    """What points at a removed route, or numbers steps that are no route, becomes plain sentences."""
    about_filter = routes.FILTER_TITLE.search(_join(lines[:3])) is not None
    leaves = [re.escape(name.lower()) for name in job.opened if len(name) > 3]
    named = re.compile(
        rf"(?<!\s)\s++(?:from|in|via|through|using) the (?:{'|'.join(leaves)})(?=\s++with\b|\s*+[.,;]|\s*+$)",
        re.IGNORECASE,
    )
    for number, line in enumerate(lines):
        if line.was_empty:
            continue
        for pattern in routes.HANDLING:
            line.body = pattern.sub("", line.body).lstrip()
        line.body = routes.THIS_PAGE.sub("", line.body)
        if leaves:
            line.body = named.sub("", line.body)
        if line.noun:
            line.body = routes.THE_LIST.sub(rf"\g<verb> the list of {line.noun}", line.body)
        if routes.NUMBER.match(line.mark):
            line.body = _capitalise(routes.STORE.sub("", line.body))
            line.mark = ""
        line.body = _conditions(line.body, about_filter, _goes_on(lines[number + 1 :]))
        if routes.LEAD_IN.match(line.body):
            line.body = ""


def _goes_on(lines: list[_Line]) -> bool:
    """Whether another numbered step with a task of its own follows."""
    return any(routes.NUMBER.match(line.mark) and _has_words(line.body) for line in lines)


def _conditions(body: str, about_filter: bool, goes_on: bool) -> str:
    """A filter that only serves a later step becomes the condition that it states."""
    sentences = re.split(r"(?<=[.!?])(\s++)(?=[A-Z])", body)
    for place in range(0, len(sentences), 2):
        follows = goes_on or place + 2 < len(sentences) or routes.GOES_ON.search(sentences[place]) is not None
        if not follows or about_filter:
            continue
        sentences[place] = routes.FILTER_WHERE.sub("Review the entries where", sentences[place])
        sentences[place] = routes.FILTER_TO_FIND.sub("Find", sentences[place])
    return "".join(sentences)


def _join(lines: list[_Line]) -> str:
    """The text of the lines; no more than one blank line in a row, none at the ends."""
    texts = [(line.indent + line.mark + line.body).rstrip() for line in lines]
    kept = [text for number, text in enumerate(texts) if text or (number and texts[number - 1])]
    return _SCOPED_CONDITION.sub(r"\g<scope> where", "\n".join(kept).strip())


def _open_pages(names: list[str]) -> str:
    quoted = [f"“{name}”" if '"' in name else f'"{name}"' for name in dict.fromkeys(names)]
    return "Open the page " + ", then the page ".join(quoted) + "."
