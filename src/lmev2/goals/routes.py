"""The rewriter's patterns: what counts as a route in a goal, on text whose quoted spans are masked.

A mask keeps quoted values out of reach: ``"Go to Settings > Accounts"`` as the value of a field is data. Only a quoted
name in the place of a destination (``the "Incidents" module``) belongs to a route.
"""

from __future__ import annotations

import re

from lmev2.goals.quotes import quoted_spans

_OPEN, _CLOSE = "\ue000", "\ue001"
_MASK = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_OWN_MARKS = re.compile(f"[{_OPEN}{_CLOSE}]")

# Every run of white space is taken whole (``++``) and from its start (``(?<!\s)``): a pattern that tries each part of
# a run takes quadratic time or worse.
QUOTED = f"{_OPEN}\\d+{_CLOSE}"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w&/'’-]*+"
_NAME = rf"{_CAPITAL}(?:[ \t]++(?:(?:of|for|and|&|/)[ \t]++)?{_CAPITAL}){{0,20}}"
_PLACE = rf"(?:{QUOTED}|{_NAME})"
# The first name must not stand in angle brackets (``<Agent Name>``), and a sign of comparison needs no space.
PATH = rf"(?<![<\w]){_PLACE}(?:\s++[>›»→]\s*+{_PLACE})+"
SIGN = re.compile(r"(?<!\s)\s*+[>›»→]\s*+")
_THE = r"(?:(?:the|your)\s++)?"
_KIND = r"(?:\s++(?:page|list|module|menu|view|section)s?\b)?"
_MODULE = rf"{_THE}{_PLACE}\s++module\b(?:\s++(?:of|in|under|from)\s++{_THE}{_PLACE}(?:\s++application\b)?)?"
_APPLICATION = rf"{_THE}{_PLACE}\s++application\b"
_STRONG = rf"(?:{_MODULE}|{_THE}{PATH}{_KIND}|{_APPLICATION})"
# A quoted name alone, or plain words, are a destination only after this verb.
_QUOTED_PAGE = rf"{_THE}{QUOTED}(?:\s++(?:page|list|menu|view|section|form|tab|dashboard)\b)?"
_WORDS = (
    r"(?!a\b|an\b)[A-Za-z]++(?:[ \t]++(?!and\b|then\b|by\b)[A-Za-z]++){0,5}"
    r"(?=[.,;]|\s++(?:and|then)\b|\s*+$)"
)
_GO = r"(?:navigate|go|head|proceed|browse)\s++(?:back\s++)?to"
_THEN = r"(?:\s*+,\s++|\s++)(?:and\s++)?then,?\s++"
_BEFORE = (
    rf"(?P<before>^|(?<=[.!?:;])\s++|(?<!\s)(?:{_THEN}|\s*+,\s++(?:and\s++)?|\s++and\s++))"
    r"(?P<lead>(?:(?:concretely|first|firstly|next|then|finally|please|afterwards)\b,?\s++){0,6}"
    r"(?:you\s++(?:need|have)\s++to\s++|to\s++begin,?\s++)?)"
)
_AFTER = rf"(?P<after>\s*+[.;](?=\s|$)|{_THEN}|\s*+,\s++(?:and\s++)?|\s++and\s++|\s*+$)"


def _navigation(destination: str) -> re.Pattern[str]:
    return re.compile(rf"{_BEFORE}{destination}{_AFTER}", re.IGNORECASE)


def _case(pattern: str) -> str:
    """Capital letters tell names from words, even in a pattern that ignores case."""
    return f"(?-i:{pattern})"


# A clause whose only content is to go somewhere.
NAVIGATION = _navigation(
    rf"(?:(?:{_GO}|open)\s++(?P<strong>{_case(_STRONG)})|navigate\s++to\s++(?P<page>{_QUOTED_PAGE}))"
)
# The same where a menu path may be data, such as a shop's categories.
MODULE_NAVIGATION = _navigation(rf"(?:{_GO}|open)\s++(?P<strong>(?P<page>{_case(rf'(?:{_MODULE}|{_APPLICATION})')}))")
# The same with a destination in plain words; trusted only in goals that spell out their steps.
PLAIN_NAVIGATION = _navigation(rf"navigate\s++to\s++(?P<strong>(?P<page>{_WORDS}))")

_BE = r"(?:is|are|can\s++be)"
_LYING = r"(?:present|located|found|available|listed)"
# A place that the sentence is about must not go alone: "The chart is at A > B and …".
_NO_PREDICATE = "".join(
    rf"(?<!\b{word})"
    for word in ("is", "are", "was", "be", "lies", "present", "located", "found", "available", "listed", "stored")
)
_SPACE = rf"(?<!\s){_NO_PREDICATE}\s++"
# Where something lies.
LOCATIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<!\s)\s*+\((?:which is )?(?:located|found|stored|available) (?:in|at|under|on) [^()\n]*\)",
        rf"(?<!\s)\s*+\((?:in|at|under|from|via|see)?\s*+{PATH}{_KIND}\)",
        rf"(?<!\s)\s++[-–—]\s++(?:in|at|under|from|via)\s++{_THE}{PATH}{_KIND}(?:\s++[-–—](?=\s))?",
        rf"(?<!\s)(?:\s*+,\s++which|\s++and)\s++{_BE}\s++(?:{_LYING}\s++)?(?:at|in|under)\s++{_THE}{PATH}{_KIND}"
        r"(?=\s*+[.;]|\s*+$)",
        rf"(?:^|(?<=[.!?])\s++)[^.!?\n]*\b(?:is|are|can be) {_LYING} (?:at|in|under)\s++{_THE}{PATH}{_KIND}"
        r"\s*+(?:\.|$)",
        rf"{_SPACE}(?:in|at|under|from|via|through|using|of|on)\s++{_MODULE}",
        rf"{_SPACE}(?:in|at|under|from|via|through|using)\s++{_THE}{PATH}{_KIND}",
        rf"(?<!\s)\s++from\s++the\s++{QUOTED}\s++list\b",
    )
)
# The same at the head of a sentence, which goes on behind it.
LEADING_LOCATION = re.compile(
    rf"(?:^|(?<=[.!?:]\s))(?:In|At|Under|From|Via|Through|Using|On)\s++(?:{_MODULE}|{_THE}{PATH}{_KIND})\s*+,\s*+"
    r"(?P<next>\w?)"
)
# Sentences that handle the page and say nothing about the task.
HANDLING = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:^|(?<=[.!?])\s++)(?:given the title of the report,\s++)?search for (?:it|the report) on (?:this|that|the) "
        r"page\s*+(?:\.|$)",
        r"(?:^|(?<=[.!?])\s++)clear (?:the|any) existing filters?(?: on (?:this|that|the) page)?\s*+(?:\.|$)",
    )
)
# After a destination that is gone, these clauses and words have lost what they point at. A clause with a value stays.
SEARCH_CLAUSE = re.compile(
    rf"^search for (?:it|the report)\b(?:[^,.;\s\d#{_OPEN}]++|\s++(?!and\b))*+"
    r"(?:,\s*+(?:and\s++)?(?:then\s++)?|\.?\s*+$)",
    re.IGNORECASE,
)
# What points back at a destination, in the clause that follows it, where nothing else stands before it.
POINTS_BACK = re.compile(
    r"^(?:(?!(?:search|look|the|an?|any|and|then|if|whether|what|when|where|which|who|why|how)\b)[a-z]+\s++){1,4}?"
    r"(?P<pronoun>it|him|her|them|its)\b(?!\s++is\b)",
    re.IGNORECASE,
)
THIS_PAGE = re.compile(r"(?<!\s)\s++(?:from|on) (?:this|that) page\b")
THE_LIST = re.compile(r"\b(?P<verb>filter|sort) the list\b(?! of\b)", re.IGNORECASE)
STORE = re.compile(r"^go to the (?:[a-z]+ ){0,3}store(?:,?\s++and\s++|,\s++)(?:then\s++)?(?=\w)", re.IGNORECASE)
LEAD_IN = re.compile(
    r"^[ \t]*+concretely, you need to complete the following steps:[ \t]*+\n?", re.IGNORECASE | re.MULTILINE
)
INLINE_LEAD_IN = re.compile(
    r"(?:^|(?<=[.!?])\s++)concretely, you need to complete the following steps:\s++(?=\S)", re.IGNORECASE
)
NUMBER = re.compile(r"^[ \t]*+\d{1,2}[.)][ \t]++(?:-[ \t]++)?")
BULLET = re.compile(r"^[ \t]*+[-*•][ \t]++")
# Steps in one line: their numbers at the line's head or after a sentence.
INLINE_NUMBER = re.compile(rf"(?:^|(?<=[.!?:;…])[ \t]++)(?P<number>\d{{1,2}})[.)][ \t]++(?=[^\W\da-z]|{_OPEN})")
FILTER_WHERE = re.compile(
    r"^(?:create a )?filter (?:for the list )?(?:to extract (?:all )?(?:the )?entries )?where\b", re.IGNORECASE
)
# After the condition, the same sentence asks for something else.
GOES_ON = re.compile(r",\s++(?:and|then)\s++(?:then\s++)?[a-z]+\s")
FILTER_TO_FIND = re.compile(r"^create a filter to find\b", re.IGNORECASE)
FILTER_TITLE = re.compile(r"^[ \t]*+(?:please\s++)?filter\b", re.IGNORECASE | re.MULTILINE)


def spells_out_steps(masked: str) -> bool:
    """Whether a goal is written as instructions: a lead-in, two numbered steps, or the text of a private task."""
    lines = masked.split("\n")
    numbered = sum(NUMBER.match(line) is not None for line in lines) > 1 or any(map(inline_steps, lines))
    return numbered or "please complete the following task" in masked.lower() or LEAD_IN.search(masked) is not None


def inline_steps(line: str) -> int:
    """The number of numbered steps in one line; 0 unless there are two at least, counted from 1."""
    numbers = [int(match["number"]) for match in INLINE_NUMBER.finditer(line.lstrip())]
    return len(numbers) if len(numbers) > 1 and numbers == list(range(1, len(numbers) + 1)) else 0


def opened_end(name: str) -> str:
    """The last name of a path."""
    return SIGN.split(name)[-1].strip()


def mask(text: str) -> tuple[str, list[str]]:
    """The text with a mask in place of every quoted span, and the spans by the masks' numbers."""
    spans: list[str] = []
    parts: list[str] = []

    def hide(span: str) -> str:
        spans.append(span)
        return f"{_OPEN}{len(spans) - 1}{_CLOSE}"

    def plain(part: str) -> str:
        return _OWN_MARKS.sub(lambda match: hide(match[0]), part)

    end = 0
    for span in quoted_spans(text):
        parts += [plain(text[end : span.start]), hide(text[span.start : span.end])]
        end = span.end
    return "".join([*parts, plain(text[end:])]), spans


def unmask(text: str, spans: list[str]) -> str:
    """The inverse of :func:`mask`, on any piece of its text."""
    return _MASK.sub(lambda match: spans[int(match[1])], text)


def destinations(place: str) -> list[str]:
    """The names in a masked destination, from the outermost to the one that is opened, quotation marks removed.

    In ``"A > B" module of "C"`` the module's own path ends with what is opened, and the application stands around it.
    """
    module, _, application = place.partition(" module")
    names = re.findall(_PLACE, re.sub(r"^(?:the|your)\s+", "", module))
    return [*re.findall(_PLACE, application), *names]
