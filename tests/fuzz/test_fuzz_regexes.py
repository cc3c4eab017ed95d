"""No regular expression of the library takes a time that grows with the square of a text's length."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fuzz.fuzz_profile import LONG
from fuzz.regex_attacks import Found, attacks, library_patterns, slowest

# Texts of the user's own configuration, or names of files: short, and nobody else's.
SHORT = {
    "lmev2.browsergym.neutral._STEP": "names of files",
    "lmev2.tables.layout._END": "titles and labels",
    "lmev2.tables.layout._START": "titles and labels",
}
# Applied to text whose white space was squeezed.
SQUEEZED = {"lmev2.memory.query_rules._PAIRS", "lmev2.agent.inside.search_agent.question._SIDES"}
PATTERNS = [replace(found, squeezed=found.where in SQUEEZED) for found in library_patterns()]


def test_patterns_are_found() -> None:
    assert len(PATTERNS) > 120
    assert {"lmev2.tree._LINE", "lmev2.goals.routes.LOCATIONS"} <= {found.where for found in PATTERNS}


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"\s+$", r"(?:a|a)*b", r"\[[^\]]*\]", r"x.*y.*z", r"(?s)<.*?>"])
def test_slow_patterns_are_found_out(pattern: str) -> None:
    found = Found("here", re.compile(pattern), frozenset({"search"}))
    assert slowest(found, (20, 24, 28, 2_000, 20_000), 0.05) is not None


@pytest.mark.parametrize("pattern", [r"(?<!\s)\s++$", r"\[[^\[\]]*\]", r"a+b?", r"(?P<x>[A-Z])\w*"])
def test_quick_patterns_are_not(pattern: str) -> None:
    assert slowest(Found("here", re.compile(pattern), frozenset({"match"})), (2_000, 20_000), 0.2) is None


def test_attacks_lead_up_to_what_is_repeated() -> None:
    assert ("both", " ") in attacks(re.compile(r"both\s+x"))
    assert ("", "then ") in attacks(re.compile(r"(?:(?:then|first)\s)*go"))


@pytest.mark.parametrize("found", PATTERNS, ids=[found.where for found in PATTERNS])
def test_time_grows_with_length(found: Found) -> None:
    if found.where in SHORT:
        pytest.skip(f"reads {SHORT[found.where]} only")
    slow = (
        slowest(found, (300, 2_000, 8_000, 50_000), 0.15, 120)
        if LONG
        # In the suite only what is slow beyond doubt, from a sample: the machine is busy, and there are many patterns.
        else slowest(found, (300, 3_000), 0.1, 0.3, 80)
    )
    assert slow is None, f"{slow[0]:.2f} s for {slow[1]} characters of {slow[2]}: {found.pattern.pattern!r:.300}"
