"""The four deterministic scorers, and gold support. Pure functions of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from lmev2.scoring.boxed import is_unknown, last_boxed
from lmev2.scoring.spec import ScorerName, ScorerSpec, parse_eval_function

_ASCII_MARKS: Final = "".join(chr(code) for code in range(128) if re.match(r"[^\w\s]", chr(code)))
_OTHER_MARKS: Final = re.compile(r"[^\w\s\x00-\x7f]")
_WORD_CHARACTER: Final = re.compile(r"\w")
_LETTER_RUN: Final = re.compile(r"[A-Z]+")
_CHOICE_WORDS: Final = re.compile(r"\b(?:choice|option)\b", re.IGNORECASE)
_FILLER_WORDS: Final = frozenset(
    {"AND", "FINAL", "ANSWER", "ANSWERS", "CHOICE", "CHOICES", "OPTION", "OPTIONS", "LETTER", "LETTERS"}
)


def normalize_phrase(text: str, spec: ScorerSpec) -> str:
    """Normalise a phrase by the options of its scorer; white space always collapses to single spaces."""
    if spec.lower:
        text = text.lower()
    return " ".join(replace_marks(text, spec).split())


def replace_marks(text: str, spec: ScorerSpec) -> str:
    """Hyphens, list marks and punctuation of a text spaced or dropped by the options of a scorer; white space stays.

    Contexts are long, and tables for bytes are many times as fast as those for characters. In UTF-8, no byte of another
    character is that of an ASCII one.
    """
    spaced = ("-_" if spec.normalize_hyphen else "") + (",;" if spec.strip_punct else "")
    dropped = _ASCII_MARKS if spec.strip_punct else ""
    table = bytes.maketrans(spaced.encode(), b" " * len(spaced))
    unspaced = bytes(code for code in dropped.encode() if chr(code) not in spaced)
    text = text.encode("utf-8", "surrogatepass").translate(table, unspaced).decode("utf-8", "surrogatepass")
    return _OTHER_MARKS.sub("", text) if spec.strip_punct and not text.isascii() else text


def gold_phrases(gold: str, spec: ScorerSpec) -> list[str]:
    """The normalised phrases of a gold answer, in order, without empty ones."""
    parts = re.split(f"[{re.escape(spec.separators)}]", gold)
    return [phrase for part in parts if (phrase := normalize_phrase(part, spec))]


def norm_phrase_set_match(prediction: str, gold: str, spec: ScorerSpec) -> bool:
    """Every distinct phrase of the gold occurs in the prediction, between word boundaries; further items do no harm."""
    return _match_phrases(prediction, gold, spec, _all_occur)


def norm_phrase_set_match_ordered(prediction: str, gold: str, spec: ScorerSpec) -> bool:
    """As :func:`norm_phrase_set_match`, but each phrase is searched behind the match of the one before."""
    return _match_phrases(prediction, gold, spec, _all_occur_in_order)


def mc_choice_match(prediction: str, gold: str, spec: ScorerSpec) -> bool:
    """The prediction, without a box, the words *choice* and *option* and full stops, equals the gold in any case."""
    boxed = last_boxed(prediction)
    found = _CHOICE_WORDS.sub("", prediction if boxed is None else boxed).replace(".", "").strip().lower()
    wanted = gold.strip().lower()
    if spec.require_non_empty and not (found and wanted):
        return False
    return found == wanted


def mc_choice_set_match(prediction: str, gold: str, spec: ScorerSpec) -> bool:
    """Prediction and gold name the same set of letters, filler words such as *and* or *options* aside."""
    found, wanted = _choice_letters(prediction), _choice_letters(gold)
    if spec.require_non_empty and not (found and wanted):
        return False
    return found == wanted


Scorer = Callable[[str, str, ScorerSpec], bool]

DETERMINISTIC_SCORERS: Final[Mapping[ScorerName, Scorer]] = {
    "norm_phrase_set_match": norm_phrase_set_match,
    "norm_phrase_set_match_ordered": norm_phrase_set_match_ordered,
    "mc_choice_match": mc_choice_match,
    "mc_choice_set_match": mc_choice_set_match,
}


def score_prediction(prediction: str, gold: str, spec: ScorerSpec) -> bool:
    """Grade a prediction with a deterministic scorer; ``UNKNOWN`` is always wrong.

    Raises:
        ValueError: the scorer needs a judge.
    """
    scorer = DETERMINISTIC_SCORERS.get(spec.name)
    if scorer is None:
        raise ValueError(f"{spec.name} is not deterministic; deterministic scorers: {sorted(DETERMINISTIC_SCORERS)}")
    return not is_unknown(prediction) and scorer(prediction, gold, spec)


def gold_supported(gold: str, eval_function: str, question: str, context_text: str) -> bool | None:
    """Whether all phrases of the gold occur in the context's text, by the scorer's own normalisation.

    None where that says nothing: the question is not scored by phrase match, its gold has no phrase, or all phrases
    already stand in the question. The order of the phrases does not matter, also for the ordered scorer.

    Raises:
        ScorerSpecError: ``eval_function`` is not a scorer spec.
    """
    spec = parse_eval_function(eval_function)
    if not spec.is_phrase:
        return None
    phrases = gold_phrases(gold, spec)
    if not phrases or _all_occur(phrases, normalize_phrase(question, spec)):
        return None
    return _all_occur(phrases, normalize_phrase(context_text, spec))


def _match_phrases(prediction: str, gold: str, spec: ScorerSpec, match: Callable[[list[str], str], bool]) -> bool:
    text = normalize_phrase(prediction, spec)
    phrases = gold_phrases(gold, spec)
    if spec.require_non_empty and not (text and phrases):
        return False
    return match(phrases, text)


def _all_occur(phrases: list[str], text: str) -> bool:
    return all(_end_of_phrase(phrase, text, 0) is not None for phrase in set(phrases))


def _all_occur_in_order(phrases: list[str], text: str) -> bool:
    position = 0
    for phrase in phrases:
        end = _end_of_phrase(phrase, text, position)
        if end is None:
            return False
        position = end
    return True


def _end_of_phrase(phrase: str, text: str, position: int) -> int | None:
    """The position behind the first occurrence of a phrase from ``position`` on, with no word character beside it.

    Not ``\b``: with punctuation kept, a phrase may begin or end with a character that is no word character.
    """
    while (start := text.find(phrase, position)) >= 0:
        end = start + len(phrase)
        if not _WORD_CHARACTER.match(text[start - 1 : start]) and not _WORD_CHARACTER.match(text[end : end + 1]):
            return end
        position = start + 1
    return None


def _choice_letters(text: str) -> set[str]:
    runs = _LETTER_RUN.findall(text.upper())
    return {letter for run in runs if run not in _FILLER_WORDS for letter in run}
