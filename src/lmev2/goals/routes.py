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

QUOTED = f"{_OPEN}\\d+{_CLOSE}"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w&/'’-]*"
_NAME = rf"{_CAPITAL}(?:[ \t]+(?:(?:of|for|and|&|/)[ \t]+)?{_CAPITAL})*"
_PLACE = rf"(?:{QUOTED}|{_NAME})"
# The first name must not stand in angle brackets (``<Agent Name>``), and a sign of comparison needs no space.
PATH = rf"(?<![<\w]){_PLACE}(?:\s+[>›»→]\s*{_PLACE})+"
_THE = r"(?:(?:the|your)\s+)?"
_KIND = r"(?:\s+(?:page|list|module|menu|view|section)s?\b)?"
_MODULE = rf"{_THE}{_PLACE}\s+module\b(?:\s+(?:of|in|under|from)\s+{_THE}{_PLACE}(?:\s+application\b)?)?"
_APPLICATION = rf"{_THE}{_PLACE}\s+application\b"
_STRONG = rf"(?:{_MODULE}|{_THE}{PATH}{_KIND}|{_APPLICATION})"
# A quoted name alone, or plain words, are a destination only after this verb.
_QUOTED_PAGE = rf"{_THE}{QUOTED}(?:\s+(?:page|list|menu|view|section|form|tab|dashboard)\b)?"
_WORDS = r"(?!a\b|an\b)[A-Za-z]+(?:[ \t]+(?!and\b|then\b|by\b)[A-Za-z]+){0,5}(?=[.,;]|\s+(?:and|then)\b|\s*$)"
_GO = r"(?:navigate|go|head|proceed|browse)\s+(?:back\s+)?to"
_BEFORE = (
    r"(?P<before>^|(?<=[.!?:;])\s+|\s*,?\s+(?:and\s+)?then,?\s+|\s*,\s+(?:and\s+)?|\s+and\s+)"
    r"(?P<lead>(?:(?:concretely|first|firstly|next|then|finally|please|afterwards)\b,?\s+)*"
    r"(?:you\s+(?:need|have)\s+to\s+|to\s+begin,?\s+)?)"
)
_AFTER = r"(?P<after>\s*[.;](?=\s|$)|\s*,?\s+(?:and\s+)?then,?\s+|\s*,\s+(?:and\s+)?|\s+and\s+|\s*$)"


def _navigation(destination: str) -> re.Pattern[str]:
    return re.compile(rf"{_BEFORE}{destination}{_AFTER}", re.IGNORECASE)


def _case(pattern: str) -> str:
    """Capital letters tell names from words, even in a pattern that ignores case."""
    return f"(?-i:{pattern})"


# A clause whose only content is to go somewhere.
NAVIGATION = _navigation(rf"(?:(?:{_GO}|open)\s+(?P<strong>{_case(_STRONG)})|navigate\s+to\s+(?P<page>{_QUOTED_PAGE}))")
# The same where a menu path may be data, such as a shop's categories.
MODULE_NAVIGATION = _navigation(rf"(?:{_GO}|open)\s+(?P<strong>(?P<page>{_case(rf'(?:{_MODULE}|{_APPLICATION})')}))")
# The same with a destination in plain words; trusted only in goals that spell out their steps.
PLAIN_NAVIGATION = _navigation(rf"navigate\s+to\s+(?P<strong>(?P<page>{_WORDS}))")

# Where something lies.
LOCATIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\s*\((?:which is )?(?:located|found|stored|available) (?:in|at|under|on) [^()\n]*\)",
        rf"\s*\((?:in|at|under|from|via|see)?\s*{PATH}{_KIND}\)",
        rf"\s+[-–—]\s+(?:in|at|under|from|via)\s+{_THE}{PATH}{_KIND}(?:\s+[-–—](?=\s))?",
        rf"(?:^|(?<=[.!?])\s+)[^.!?\n]*\b(?:is|are|can be) (?:present|located|found|available|listed) "
        rf"(?:at|in|under)\s+{_THE}{PATH}{_KIND}\s*\.?",
        rf"\s+(?:in|at|under|from|via|through|using|of|on)\s+{_MODULE}",
        rf"\s+(?:in|at|under|from|via|through|using)\s+{_THE}{PATH}{_KIND}",
        rf"\s+from\s+the\s+{QUOTED}\s+list\b",
    )
)
# The same at the head of a sentence, which goes on behind it.
LEADING_LOCATION = re.compile(
    rf"(?:^|(?<=[.!?:]\s))(?:In|At|Under|From|Via|Through|Using|On)\s+(?:{_MODULE}|{_THE}{PATH}{_KIND})\s*,\s*"
    r"(?P<next>\w?)"
)
# Sentences that handle the page and say nothing about the task.
HANDLING = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:^|(?<=[.!?])\s+)(?:given the title of the report,\s+)?search for (?:it|the report) on (?:this|that|the) "
        r"page\s*(?:\.|$)",
        r"(?:^|(?<=[.!?])\s+)clear (?:the|any) existing filters?(?: on (?:this|that|the) page)?\s*(?:\.|$)",
    )
)
# After a destination that is gone, these clauses and words have lost what they point at.
SEARCH_CLAUSE = re.compile(
    r"^search for (?:it|the report)\b[^,.;]*(?:,\s*(?:and\s+)?(?:then\s+)?|\.?\s*$)", re.IGNORECASE
)
THIS_PAGE = re.compile(r"\s+(?:from|on) (?:this|that) page\b")
THE_LIST = re.compile(r"\b(?P<verb>filter|sort) the list\b(?! of\b)", re.IGNORECASE)
STORE = re.compile(r"^go to the (?:[a-z]+ ){0,3}store(?:,?\s+and\s+|,\s+)(?:then\s+)?(?=\w)", re.IGNORECASE)
LEAD_IN = re.compile(
    r"^[ \t]*concretely, you need to complete the following steps:[ \t]*\n?", re.IGNORECASE | re.MULTILINE
)
NUMBER = re.compile(r"^[ \t]*\d{1,2}[.)][ \t]+(?:-[ \t]+)?")
BULLET = re.compile(r"^[ \t]*[-*•][ \t]+")
FILTER_WHERE = re.compile(
    r"^(?:create a )?filter (?:for the list )?(?:to extract (?:all )?(?:the )?entries )?where\b", re.IGNORECASE
)
# After the condition, the same sentence asks for something else.
GOES_ON = re.compile(r",\s+(?:and|then)\s+(?:then\s+)?[a-z]+\s")
FILTER_TO_FIND = re.compile(r"^create a filter to find\b", re.IGNORECASE)
FILTER_TITLE = re.compile(r"^[ \t]*(?:please\s+)?filter\b", re.IGNORECASE | re.MULTILINE)


def spells_out_steps(text: str) -> bool:
    """Whether a goal is written as instructions: a lead-in, two numbered lines, or the text of a private task."""
    numbered = sum(NUMBER.match(line) is not None for line in text.split("\n"))
    return numbered > 1 or "please complete the following task" in text.lower() or LEAD_IN.search(text) is not None


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
