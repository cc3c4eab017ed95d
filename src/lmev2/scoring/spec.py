"""The scorer spec of a question: ``name|key=value|…`` (the ``eval_function`` of ``questions.jsonl``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

ScorerName = Literal[
    "norm_phrase_set_match",
    "norm_phrase_set_match_ordered",
    "mc_choice_match",
    "mc_choice_set_match",
    "llm_abstention_checker",
    "llm_gotchas_checker",
]

SCORER_NAMES: Final[tuple[ScorerName, ...]] = get_args(ScorerName)
PHRASE_SCORERS: Final[frozenset[ScorerName]] = frozenset({"norm_phrase_set_match", "norm_phrase_set_match_ordered"})
JUDGE_SCORERS: Final[frozenset[ScorerName]] = frozenset({"llm_abstention_checker", "llm_gotchas_checker"})
DEFAULT_SEPARATORS: Final = ",;"

_COMMON_OPTIONS: Final = ("require_non_empty",)
_PHRASE_OPTIONS: Final = ("lower", "normalize_hyphen", "strip_punct", "require_non_empty", "separators")
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


class ScorerSpecError(ValueError):
    """A scorer spec that names an unknown scorer, an unknown option or a value the option cannot take."""


@dataclass(frozen=True)
class ScorerSpec:
    """A parsed scorer spec.

    Attributes:
        name: which scorer grades the question.
        lower: lower-case phrases before they are compared.
        normalize_hyphen: turn ``-`` and ``_`` into spaces.
        strip_punct: turn ``,`` and ``;`` into spaces and drop whatever is neither a word character nor white space.
        require_non_empty: an empty prediction or gold is wrong.
        separators: the characters that separate the phrases of a gold answer.

    All but ``name`` and ``require_non_empty`` concern the two phrase scorers only.
    """

    name: ScorerName
    lower: bool = True
    normalize_hyphen: bool = True
    strip_punct: bool = True
    require_non_empty: bool = True
    separators: str = DEFAULT_SEPARATORS

    @property
    def is_judge(self) -> bool:
        """The scorer asks an LLM judge."""
        return self.name in JUDGE_SCORERS

    @property
    def is_phrase(self) -> bool:
        """The scorer looks for the gold's phrases in the prediction."""
        return self.name in PHRASE_SCORERS


def parse_eval_function(spec: str) -> ScorerSpec:
    """Parse a scorer spec such as ``norm_phrase_set_match|lower=true|separators=,;``.

    Options are separated by ``|``, so that a separator value may hold ``,``, ``;`` and ``=`` but never ``|``. Booleans
    are ``true`` or ``false`` in any case. Options that a scorer would ignore are refused like unknown ones.

    Raises:
        ScorerSpecError: unknown scorer or option, repeated option, or malformed value; names the spec and what is
            allowed there.
    """
    head, *options = spec.split("|")
    name = head.strip()
    if name not in SCORER_NAMES:
        raise ScorerSpecError(
            f"scorer spec {spec!r}: unknown scorer {name!r}; known scorers: {', '.join(SCORER_NAMES)}"
        )
    scorer: ScorerName = name
    allowed = _PHRASE_OPTIONS if scorer in PHRASE_SCORERS else _COMMON_OPTIONS
    flags: dict[str, bool] = {}
    separators: str | None = None
    for option in options:
        key, value = _split_option(spec, scorer, option, allowed)
        if key in flags or (key == "separators" and separators is not None):
            raise ScorerSpecError(f"scorer spec {spec!r}: option {key!r} is given twice; give it once")
        if key == "separators":
            separators = _parse_separators(spec, value)
        else:
            flags[key] = _parse_boolean(spec, key, value)
    return ScorerSpec(scorer, separators=DEFAULT_SEPARATORS if separators is None else separators, **flags)


def _split_option(spec: str, scorer: str, option: str, allowed: tuple[str, ...]) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    key = key.strip()
    if not equals:
        raise ScorerSpecError(
            f"scorer spec {spec!r}: {option!r} is not key=value; options of {scorer}: {', '.join(allowed)}"
        )
    if key not in allowed:
        raise ScorerSpecError(
            f"scorer spec {spec!r}: unknown option {key!r}; options of {scorer}: {', '.join(allowed)}"
        )
    return key, value


def _parse_boolean(spec: str, key: str, value: str) -> bool:
    parsed = _BOOLEANS.get(value.strip().lower())
    if parsed is None:
        raise ScorerSpecError(f"scorer spec {spec!r}: {key}={value!r} is not a boolean; write true or false")
    return parsed


def _parse_separators(spec: str, value: str) -> str:
    """Each character is a separator; white space around the value is layout, letters and digits would cut words."""
    separators = value.strip()
    if not separators:
        raise ScorerSpecError(f"scorer spec {spec!r}: separators is empty; give one or more characters such as ,;")
    wrong = sorted({character for character in separators if character.isalnum() or character.isspace()})
    if wrong:
        raise ScorerSpecError(
            f"scorer spec {spec!r}: separators holds {wrong}; letters, digits and white space cannot separate phrases"
        )
    return separators
