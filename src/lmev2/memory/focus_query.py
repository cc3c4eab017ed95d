"""What a question is about: its words, word pairs and quoted labels, without instructions on the form of the answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

_STOP_TEXT = """
a about after again all also am an and any are as at be because been before being between both but by can could
did do does doing each either else few for from get given go had has have having he her here him his how i if in
into is it its itself just know let like me more most my name names no nor not now of on once only or other our
out over please same several she should shown so some specific such tell than that the their them then there these
they this those through to too under until up us use used using very want was we were what when where which while
who why will with would you your appear appears called currently working following exact exactly
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())
# Words that questions use of any page and of amounts: alone they say little about which line is meant.
_FAINT_TEXT = """
button change choice choose click column display dropdown field form header item label link list menu message number
open option order page placeholder section see select show site tab table text title value view first second third last
zero one two three four five six seven eight nine ten
"""
_FAINT_WEIGHT = 0.5
_CHOOSERS = ("combobox", "listbox", "radiogroup", "menu")
_FIELDS = ("textbox", "searchbox", "combobox", "listbox", "checkbox", "radiogroup", "spinbutton", "switch")
_MESSAGES = ("alert", "notice")
# Words by which a question asks for the entries of a field, all of which may then matter.
_OPTION_WORDS = ("dropdown", "entry", "list", "menu", "option", "choice")
# Interface words of a question, and the roles of the lines that they speak of.
_ROLES: dict[str, tuple[str, ...]] = {
    "dropdown": _CHOOSERS,
    "option": _CHOOSERS,
    "choice": _CHOOSERS,
    "field": _FIELDS,
    "form": _FIELDS,
    "mandatory": _FIELDS,
    "required": _FIELDS,
    "default": _FIELDS,
    "tab": ("tablist", "tab"),
    "column": ("header row", "columnheader"),
    "header": ("header row", "columnheader", "heading"),
    "banner": _MESSAGES,
    "message": _MESSAGES,
    "notification": _MESSAGES,
    "warning": _MESSAGES,
    "error": _MESSAGES,
    "section": ("heading", "region"),
    "title": ("heading",),
}
_SYNONYMS = {"mandatory": "required", "default": "selected", "preselected": "selected"}
_INSTRUCTION = re.compile(
    r"\\boxed|\bmark your final answer\b|"
    r"\b(?:put|give|wrap|write) (?:me )?(?:only )?(?:your|the) (?:final )?answers?\b|"
    r"\byour (?:final )?answers? should be\b|^\(?(?:please )?(?:answer|respond|reply) (?:with|in|as|using)\b|"
    r"^\(?(?:please )?separate\b|^say the number\b|^select (?:one|all)\b|^do not list alternatives\b|"
    r"^please (?:give|provide) (?:me )?(?:only|your)\b|^be concise\b",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"^i(?:'m| am) (?:currently )?(?:using|working (?:with|in|on|at)) (?:our|the|a|an|my) (?:[\w/-]+ ){0,6}?"
    r"(?:app|application|board|dashboard|desk|environment|forum|instance|platform|portal|shop|site|store|system|website)"
    r"\.?$",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"^\s*\(?([A-Z])[.):]\s+(\S(?:.*\S)?)")
_ACTION_SPACE = re.compile(r"action space:.*?(?=\n\s*\n|\Z)", re.IGNORECASE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.?!])\s+|\n+")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^“”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)")
_TOKEN = re.compile(r"[^\W_]+(?:[.,]\d+)*", re.UNICODE)
_CHOICE_WEIGHT = 0.5


@dataclass(frozen=True)
class Query:
    """A question taken apart; words are stemmed.

    Attributes:
        weights: words with their weight: 1 in the question itself, less in the choices of a multiple-choice question
            and for words that questions use of any page.
        pairs: pairs of words that follow each other in the question or in a choice.
        phrases: labels that the question quotes, as word sequences.
        roles: roles of lines that the question's interface words speak of, such as fields for "which fields", with the
            number of words that speak of them.
    """

    weights: dict[str, float]
    pairs: frozenset[tuple[str, str]]
    phrases: tuple[tuple[str, ...], ...]
    roles: Mapping[str, int]

    @property
    def option_words(self) -> frozenset[str] | None:
        """Words that pick options out of a long list; None when the question asks for the options themselves."""
        if not _OPTION_STEMS.isdisjoint(self.weights):
            return None
        return frozenset(word for word in self.weights if word not in _FAINT_STEMS)


@dataclass(frozen=True)
class Statement:
    """A sentence of a question, or a choice that it offers, without the choice's letter."""

    text: str
    is_choice: bool = False


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A light stem: plural, ``-ing`` and ``-ed`` endings and a final ``e`` go, short words and numbers stay."""
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and re.search("[aeiouy]", base):
            word = base[:-1] if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz" else base
            break
    return word.removesuffix("e") if len(word) > 4 else word


def words(text: str) -> list[str]:
    """Stemmed words of a text in order, stop words included."""
    return [stem(token) for token in _TOKEN.findall(text.lower())]


def analyse(question: str) -> Query:
    """Take a question apart."""
    weights: dict[str, float] = {}
    pairs: set[tuple[str, str]] = set()
    phrases: list[tuple[str, ...]] = []
    for statement in statements(question):
        text, weight = statement.text, _CHOICE_WEIGHT if statement.is_choice else 1.0
        quoted = [tuple(words(next(filter(None, groups)))) for groups in _QUOTED.findall(text)]
        phrases += quoted
        labels = {word for phrase in quoted for word in phrase}
        sequence = words(text)
        content = [word for word in sequence if word in labels or word not in _STOP_STEMS]
        for word in content:
            faint = word in _FAINT_STEMS or word in _STOP_STEMS
            own = weight * (_FAINT_WEIGHT if faint else 1.0)
            weights[word] = max(weights.get(word, 0.0), own)
            synonym = _SYNONYM_STEMS.get(word)
            if synonym:
                weights[synonym] = max(weights.get(synonym, 0.0), own)
        pairs.update((one, two) for one, two in pairwise(sequence) if not (one in _STOP_STEMS and two in _STOP_STEMS))
    roles = Counter(role for word in weights for role in _ROLE_STEMS.get(word, ()))
    return Query(weights, frozenset(pairs), tuple(phrase for phrase in dict.fromkeys(phrases) if phrase), roles)


def statements(question: str) -> list[Statement]:
    """The question's sentences and choices in order, without instructions, lead-in and list of actions; the whole
    question where nothing else is left."""
    found = []
    for line in _ACTION_SPACE.sub("", question).split("\n"):
        choice = _CHOICE.match(line)
        if choice:
            found.append(Statement(choice[2], is_choice=True))
            continue
        for sentence in _SENTENCE.split(line):
            bare = sentence.strip()
            if bare and not _INSTRUCTION.search(bare) and not _LEAD_IN.match(bare):
                found.append(Statement(bare))
    return found or [Statement(question)]


_STOP_STEMS = frozenset(stem(word) for word in _STOP_WORDS) | _STOP_WORDS
_FAINT_STEMS = frozenset(stem(word) for word in _FAINT_TEXT.split())
_OPTION_STEMS = frozenset(stem(word) for word in _OPTION_WORDS)
_ROLE_STEMS = {stem(word): roles for word, roles in _ROLES.items()}
_SYNONYM_STEMS = {stem(word): stem(other) for word, other in _SYNONYMS.items()}
