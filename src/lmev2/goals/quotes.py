"""Quoted spans of a goal: what stands in quotation marks or in a configuration's braces is data, never prose."""

from __future__ import annotations

import re
from typing import NamedTuple

# A straight mark opens only where no word or mark touches it from the left, so that apostrophes and inches (15") open
# nothing; it closes where no word follows, and takes doubled marks along ("Apple MacBook Pro 15""). A text over several
# lines has no mark within.
_SPAN = re.compile(
    r"(?P<braces>\{[^{}]*\})"
    r"|“(?P<curly>[^“”]*)”"
    r"|‘(?P<single_curly>(?:[^‘’\n]++|’(?=\w))*+)’(?!\w)"
    r"|(?<![\w\"])\"(?P<double>(?:[^\"\n]++|\"(?=[^\W_]))*+)(?P<doubled>\"*)\"(?![\w\"])"
    r"|(?<![\w\"])\"(?P<lines>(?=\S)[^\"]*(?<=\S))\"(?![\w\"])"
    r"|(?<![\w'])'(?P<single>(?!\s)(?:[^'\n]++|'(?=\w))*+)'(?![\w'])"
)


class Span(NamedTuple):
    """A quoted span.

    Attributes:
        start, end: of the whole span in the text, marks included.
        content: what stands between the marks; of braces, the braces too.
        braces: it is a configuration, such as ``{'Colour': 'Grey'}``.
    """

    start: int
    end: int
    content: str
    braces: bool


def quoted_spans(text: str) -> list[Span]:
    """The quoted spans of a text, in order; spans inside others are not listed."""
    found = []
    for match in _SPAN.finditer(text):
        if match["braces"] is not None:
            found.append(Span(match.start(), match.end(), match["braces"], True))
            continue
        parts = (match["curly"], match["single_curly"], match["double"], match["lines"], match["single"])
        content = next(part for part in parts if part is not None) + (match["doubled"] or "")
        found.append(Span(match.start(), match.end(), content, False))
    return found
