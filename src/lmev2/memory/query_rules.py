"""Queries by rules, without a model.

What a question asks is left when instructions on the answer's form, lead-ins and choices are taken away; labels and
names stay as they are written. Raw slices are searched with the choices as well: they name what stands on the page that
is looked for, wrong ones included (docs/retrieval.md).

Which pools are searched:

- raw slices: once for the whole question, or, where it compares things that can be told apart safely, once per side;
- events: for dynamic questions where the type is known, and whenever the question speaks of what happens after an
  action, of messages, or of a workflow's stage;
- notes: always. Hint notes hold option sets, messages and what does not exist, which questions of every type ask for,
  and notes take no room from slices, since each pool has its own number of results.
"""

from __future__ import annotations

import re

from lmev2.memory.base import MemoryQuery
from lmev2.memory.focus_query import statements
from lmev2.memory.queries import MAX_RAW_QUERIES, QueryBundle, make_bundle, squeeze

_PLACE = (
    "(?:app|application|board|dashboard|desk|environment|forum|instance|platform|portal|shop|site|store|system|website)"
)
# The first part of "I am using our custom forum website and I am on my profile page."
_LEAD_IN = re.compile(
    r"^i(?:'m| am) (?:currently )?(?:using|working (?:with|in|on|at)) (?:(?:a )?few forms (?:in|of) )?"
    rf"(?:our|the|a|an|my) (?:[\w/-]+ ){{0,6}}?{_PLACE}(?: {_PLACE})*\b(?:\s*,)?\s*(?:(?:and|where)\s+|to\s+(?=\w))?",
    re.IGNORECASE,
)
_EVENT = re.compile(
    r"\b(?:after|once|upon|before|right after) (?:i|we|you|one|the user|the agent|a user|\w+ing)\b|"
    r"\bwhen (?:i|we|you|one|the user|a user) (?:\w+ )?(?:add|apply|change|choose|click|close|create|delete|enter|fill|"
    r"hover|log|move|open|order|pick|place|press|record|remove|reply|save|search|select|send|sort|submit|switch|tick|"
    r"try|type|update)\w*\b|"
    r"\b(?:appear|disappear|pop|show)(?:s|ed|ing)? (?:up|next|afterwards|right after)\b|"
    r"\b(?:appears|disappears|revealed|redirect\w*|refus\w+|confirm\w*|notif\w+|banner|popup|pop-up|dialog|modal|toast|"
    r"alert|warning|error|message|afterwards)\b|"
    r"\b(?:brought|taken|sent|redirected|land|lands|leads?) (?:back )?(?:to|on)\b|"
    r"\bnavigat\w+|\bstages?\b|\bprogress bar\b|\bstate of the workflow\b|\bchanges? (?:to|from|into)\b|\bbecomes?\b",
    re.IGNORECASE,
)
_VERSUS = re.compile(r"(?<!\s)\s+(?:vs|versus)\s+", re.IGNORECASE)
# "these five forms (change request/problem/incident)"
_SLASHES = re.compile(r"\b(form|page|list|table|module|record)s\s*\(([^()/]+(?:/[^()/]+){1,4})\)", re.IGNORECASE)
_SURFACE = r"(?:page|form|list|table|view|record|grid|module|screen|tab)s?"
_OPENING = r"(?:\b(?:when|if) (?:i|we|you) |\bi (?:want|would like|need) to |\band )?"
# Bounded, since a search that may run to the question's end from each word takes quadratic time or worse.
_ONE, _TWO = r"(?P<one>[^,.?:]{1,200}?)", r"(?P<two>[^,.?:]{1,200}?)"
# The group `keep` is a part of the match that stays in the question.
_PAIRS = (
    # "compare two workflows: doing this, and doing that."
    re.compile(
        rf"{_OPENING}\bcompar(?:e|ing) (?:the )?(?P<keep>(?:two|these|both)\b[^:.?]{{0,200}}):\s*"
        rf"(?P<one>[^.?:]{{1,200}}?),?\s+and\s+{_TWO}\s*(?=[,.?]|$)",
        re.IGNORECASE,
    ),
    # "When I compare this page with that page, …"
    re.compile(
        rf"{_OPENING}\bcompar(?:e|ing)\s+{_ONE}\s+(?P<keep>)(?:with|and|to|against)\s+{_TWO}\s*(?=[,.?:]|$)",
        re.IGNORECASE,
    ),
    # "Between this form and that form, …", "the difference between this and that"
    re.compile(
        rf"(?:^|(?P<keep>\bdiff(?:er|ers|erence|erences)\s+))between\s+{_ONE}\s+and\s+{_TWO}"
        r"(?=\s*(?:[,.?:]|$|\b(?:what|which|how|who|where)\b))",
        re.IGNORECASE,
    ),
    # "on both this page and that page"
    re.compile(
        rf"\b(?P<keep>)both\s+(?P<one>[^,.?:]{{0,200}}?\b{_SURFACE}\b[^,.?:]{{0,200}}?)\s+and\s+"
        rf"(?P<two>[^,.?:]{{0,200}}?\b{_SURFACE}\b)",
        re.IGNORECASE,
    ),
)
_FILLER = re.compile(rf"\b(?:the|a|an|my|our|this|that|these|those|{_SURFACE})\b|[^\w]", re.IGNORECASE)
_LOOSE_MARK = re.compile(r"(?<!\s)\s+([.,:;?])")
_QUOTE = re.compile(r"[`\"“”]")
_MAX_SIDE_WORDS = 14
_MAX_NAME_WORDS = 6


class RuleQueries:
    """Queries by rules; needs no model and no summary of the memory."""

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Nothing to do."""

    def write(self, query: MemoryQuery) -> QueryBundle:
        """The queries for one question."""
        cleaned = clean_question(query.text)
        wants_event = speaks_of_change(cleaned)
        if query.question_type is not None and query.question_type.startswith("dynamic"):
            wants_event = True
        return make_bundle(_raw_queries(query.text, cleaned), cleaned if wants_event else "", cleaned, "rules")


def clean_question(text: str) -> str:
    """What a question asks, on one line: without instructions on the form of the answer, lead-in, list of actions and
    the choices of a multiple-choice question. Labels and names stay as written; a blank text stays blank."""
    found = [statement.text for statement in statements(text) if not statement.is_choice]
    asked = [rest for sentence in found if (rest := _LEAD_IN.sub("", squeeze(sentence), count=1).strip(" ,"))]
    return squeeze(" ".join(asked)) or squeeze(text)


def speaks_of_change(question: str) -> bool:
    """Whether a question is about what an action changes: navigation, before and after, messages, stages."""
    return _EVENT.search(question) is not None


def _raw_queries(text: str, cleaned: str) -> list[str]:
    """One query per compared side, with the rest of the question; where there are no sides, the question with its
    choices."""
    sides, rest = compared_sides(cleaned)
    choices = [statement.text for statement in statements(text) if statement.is_choice]
    return [f"{side}: {rest}" if rest else side for side in sides] or [" ".join([cleaned, *choices])]


def compared_sides(question: str) -> tuple[list[str], str]:
    """The things that a question compares, two to five, and the question without them; no sides where it compares
    nothing, or where they cannot be told apart safely.

    Args:
        question: a cleaned question.
    """
    for find in (_slash_sides, _versus_sides, _paired_sides):
        sides, rest = find(question)
        distinct = list(dict.fromkeys(map(squeeze, sides)))
        if 2 <= len(distinct) <= MAX_RAW_QUERIES and len(distinct) == len(sides) and all(map(_names, distinct)):
            return distinct, _LOOSE_MARK.sub(r"\1", squeeze(rest)).lstrip(" .,:;")
    return [], question


def _names(side: str) -> bool:
    """Whether a side says more than "the form"."""
    return bool(_FILLER.sub("", side))


def _slash_sides(question: str) -> tuple[list[str], str]:
    match = _SLASHES.search(question)
    if match is None:
        return [], question
    kind, names = match[1].lower(), [side.strip() for side in match[2].split("/")]
    if any(not name or len(name.split()) > _MAX_NAME_WORDS for name in names):
        return [], question
    return [f"{name} {kind}" for name in names], f"{question[: match.end(1) + 1]}{question[match.end() :]}"


def _versus_sides(question: str) -> tuple[list[str], str]:
    """ "Create Change Request vs Problem vs Incident. Among the three, …"."""
    plain = re.sub(r"\bvs\.", "vs", question)
    for clause in re.finditer(r"[^.?:,]+", plain):
        sides = [side.strip() for side in _VERSUS.split(clause[0])]
        if len(sides) > 1:
            if any(not side or len(side.split()) > _MAX_NAME_WORDS for side in sides):
                return [], question
            return sides, f"{plain[: clause.start()]} {plain[clause.end() :]}"
    return [], question


def _paired_sides(question: str) -> tuple[list[str], str]:
    for pattern in _PAIRS:
        match = pattern.search(question)
        if match is None:
            continue
        sides = [match["one"].strip(), match["two"].strip()]
        # Two quoted labels are things on one page: "between `Back` and `Delete`, which button …".
        quoted = all(_QUOTE.match(side) for side in sides)
        if not quoted and all(len(side.split()) <= _MAX_SIDE_WORDS for side in sides):
            return sides, f"{question[: match.start()]} {match['keep'] or ''} {question[match.end() :]}"
    return [], question
