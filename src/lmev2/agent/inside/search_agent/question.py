"""What a question asks, by rules: its words with their weight, quoted labels, compared sides, and its kind."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

_STOP_TEXT = """
a about after again all also am an and any are as at be because been before being between both but by can could did
do does doing each either else ever few for from get give given go had has have having he her here him his how i if
in into is it its itself just know let like me more most my name names no nor not now of on once only or other our
out over please right same several she should shown shows so some still such tell than that the their them then
there these they this those through to too under until up us use used using very want wants was we were what when
where which while who whom whose why will with would you your exact exactly called currently appear appears
"""
# Words that questions use of any page: alone they say little about which state is meant.
_FAINT_TEXT = """
button change choice choose click column display dropdown drop down field form header item label link list menu
message number open option order page placeholder press section see select set site tab table text title top value
view website first second third last one two three four five six seven eight nine ten new
"""
_FAINT_WEIGHT = 0.4
_CHOICE_WEIGHT = 0.35
_LABEL_WEIGHT = 1.4
_MOST_WORDS = 100
# How pages say what questions ask for in other words.
_OTHER_WORDS = {"mandatory": ("required",), "default": ("selected",), "preselected": ("selected",)}
_ANSWER_FORM = re.compile(
    r"\\boxed|\b(?:mark|put|give|wrap|write) (?:me )?(?:only )?(?:your|the) (?:final )?answers?\b|"
    r"\byour (?:final )?answers? (?:should|must)\b|^\(?(?:please )?(?:answer|respond|reply) (?:with|in|as|using)\b|"
    r"^\(?(?:please )?separate\b|^select (?:one|all)\b|^do not list\b|^(?:please )?be concise\b|"
    r"^(?:please )?(?:give|provide) (?:me )?(?:only|your)\b|^keep this order\b|^there are exactly\b",
    re.IGNORECASE,
)
_PLACE = (
    r"(?:app|application|board|dashboard|desk|environment|forum|instance|platform|portal|shop|site|store|system|"
    r"website)"
)
_LEAD_IN = re.compile(
    rf"^i(?:'m| am) (?:currently )?(?:using|working (?:with|in|on|at)) (?:our|the|a|an|my) (?:[\w/-]+ ){{0,6}}?"
    rf"{_PLACE}\b[,.]?\s*(?:and\s+)?",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"^\s*\(?[A-Z][.):]\s+(\S(?:.*\S)?)")
_SENTENCE = re.compile(r"(?<=[.?!])\s+|\n+")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^“”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)")
_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_CHANGE = re.compile(
    r"\b(?:after|once|upon|before|right after|afterwards|as soon as) (?:i|we|you|one|a|an|the|\w+ing)\b|\bafterwards\b|"
    r"\bwhen (?:i|we|you|one|the user|a user) (?:\w+ )?(?:add|apply|change|click|close|create|delete|enter|hand|move|"
    r"press|record|remove|reply|save|search|send|sort|submit|switch|tick|try|type|update)\w*\b|"
    r"\b(?:happens|appears?|disappears?|pops? up|becomes?|redirect\w*|refus\w+|confirm\w*|banner|popup|dialog|toast|"
    r"alert|warning|error)\b|\bstages? remain|\bI (?:have (?:just )?\w+ed|move|press|click)\b",
    re.IGNORECASE,
)
_PROCEDURE = re.compile(
    r"\b(?:how (?:do|can|should|would) (?:i|we|you)|what should (?:i|we) do|(?:do|must|should) (?:i|we) (?:click|do|"
    r"set|move)|have to|need to|in (?:what|which) order|steps?|sequence|workflow|procedure|according to our|i (?:want|"
    r"would like|am about) to|do i do (?:next|first))\b",
    re.IGNORECASE,
)
_SIDES = (
    re.compile(r"\bboth\s+(?P<one>[^,.?:]{3,90}?)\s+and\s+(?P<two>[^,.?:]{3,90}?)(?=[,.?:]|$)", re.IGNORECASE),
    re.compile(
        r"\bcompar(?:e|ed|ing)\s+(?P<one>[^,.?:]{3,90}?)\s+(?:with|and|to|against)\s+(?P<two>[^,.?:]{3,90}?)(?=[,.?:]|$)",
        re.IGNORECASE,
    ),
    re.compile(r"\bbetween\s+(?P<one>[^,.?:`\"]{3,90}?)\s+and\s+(?P<two>[^,.?:`\"]{3,90}?)(?=[,.?:]|$)", re.IGNORECASE),
    re.compile(r"(?P<one>[^,.?:]{3,60}?)\s+(?:vs\.?|versus)\s+(?P<two>[^,.?:]{3,60}?)(?=[,.?:]|$)", re.IGNORECASE),
    re.compile(
        r"\b(?:which|what|how)\b(?P<one>[^.?:]{12,140}?),?\s+and\s+(?P<two>(?:which|what|how)\b[^.?:]{12,140}?)(?=[.?:]|$)",
        re.IGNORECASE,
    ),
    re.compile(
        r"\babout\s+(?P<one>the\b[^.?:]{6,90}?)\s+and\s+about\s+(?P<two>the\b[^.?:]{6,90}?)(?=[.?:]|$)", re.IGNORECASE
    ),
)


@dataclass(frozen=True)
class Question:
    """A question taken apart; words are stemmed.

    Attributes:
        text: what it asks, on one line, without instructions on the answer's form, lead-in and choices.
        kind: ``image``, ``comparison``, ``procedure``, ``change`` or ``lookup``.
        weights: words with their weight.
        pairs: pairs of words that follow each other.
        labels: quoted labels, as they are written.
        sides: for a comparison, the words of each side.
    """

    text: str
    kind: str
    weights: dict[str, float]
    pairs: frozenset[tuple[str, str]]
    labels: tuple[str, ...]
    sides: tuple[dict[str, float], ...] = field(default=())

    @property
    def strong(self) -> list[str]:
        """The words that say which state is meant, as many as a command can take; all where there are no such words."""
        strong = [word for word, weight in self.weights.items() if weight > _FAINT_WEIGHT] or list(self.weights)
        return sorted(strong, key=lambda word: -self.weights[word])[:_MOST_WORDS]


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """A word without plural, ``-ing``, ``-ed`` and a final ``e``; short words and numbers stay."""
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) >= 3 and re.search("[aeiouy]", base):
            word = base[:-1] if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz" else base
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


@lru_cache(maxsize=100_000)
def words(text: str) -> tuple[str, ...]:
    """Stemmed words of a text in order, stop words included."""
    return tuple(stem(word) for word in _WORD.findall(text.lower()))


_STOP_STEMS = frozenset(map(stem, _STOP_TEXT.split())) | frozenset(_STOP_TEXT.split())
_FAINT_STEMS = frozenset(map(stem, _FAINT_TEXT.split()))
_OTHER_STEMS = {stem(word): tuple(map(stem, others)) for word, others in _OTHER_WORDS.items()}


def analyse(text: str, has_image: bool) -> Question:
    """Take a question apart."""
    statements, choices = _statements(text)
    asked = " ".join(statements)
    weights = _weights([*((statement, 1.0) for statement in statements), *((each, _CHOICE_WEIGHT) for each in choices)])
    pairs = {
        pair
        for part in (*statements, *choices)
        for sequence in (words(part),)
        for pair in pairwise(sequence)
        if not (pair[0] in _STOP_STEMS and pair[1] in _STOP_STEMS)
    }
    labels = tuple(dict.fromkeys(label for part in (*statements, *choices) for label in _labels(part)))
    sides = _sides(asked)
    kind = _kind(asked, has_image, bool(sides))
    return Question(
        text=asked,
        kind=kind,
        weights=weights,
        pairs=frozenset(pairs),
        labels=labels,
        sides=sides if kind == "comparison" else (),
    )


def _statements(text: str) -> tuple[list[str], list[str]]:
    """The question's sentences and its choices; the whole text where no sentence is left."""
    statements: list[str] = []
    choices: list[str] = []
    for line in text.split("\n"):
        choice = _CHOICE.match(line)
        if choice:
            choices.append(choice[1])
            continue
        for sentence in _SENTENCE.split(line):
            bare = _LEAD_IN.sub("", " ".join(sentence.split()), count=1)
            if bare and not _ANSWER_FORM.search(bare):
                statements.append(bare)
    return statements or [" ".join(text.split())], choices


def _weights(parts: list[tuple[str, float]]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part, weight in parts:
        labelled = {word for label in _labels(part) for word in words(label)}
        for word in words(part):
            if word in _STOP_STEMS and word not in labelled:
                continue
            faint = word in _FAINT_STEMS or word in _STOP_STEMS
            own = weight * (_FAINT_WEIGHT if faint else _LABEL_WEIGHT if word in labelled else 1.0)
            for each in (word, *_OTHER_STEMS.get(word, ())):
                weights[each] = max(weights.get(each, 0.0), own)
    return weights


def _labels(text: str) -> list[str]:
    return [" ".join(next(filter(None, groups)).split()) for groups in _QUOTED.findall(text)]


def _kind(asked: str, has_image: bool, has_sides: bool) -> str:
    if has_image:
        return "image"
    if has_sides:
        return "comparison"
    if _PROCEDURE.search(asked):
        return "procedure"
    return "change" if _CHANGE.search(asked) else "lookup"


def _sides(asked: str) -> tuple[dict[str, float], ...]:
    """Words of the two things that a question compares, with the words of neither."""
    for pattern in _SIDES:
        match = pattern.search(asked)
        if match is None:
            continue
        sides = [_weights([(match[name], 1.0)]) for name in ("one", "two")]
        rest = _weights([(f"{asked[: match.start()]} {asked[match.end() :]}", 0.5)])
        if all(set(side) - set(other) - _FAINT_STEMS for side, other in (sides, sides[::-1])):
            return tuple({**rest, **side} for side in sides)
    return ()
