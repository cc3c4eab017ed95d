"""How LaTeX prints a text, and how wide: nothing is needed beyond the kernel and its Computer Modern fonts."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"$\sim$",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    '"': "''",
    "`": r"{`}",  # with a neighbour it would make another sign
    # At the start of a row they would be read as arguments of the line break before.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}
_SIGNS: Final = {
    "✓": r"$\surd$",
    "✗": r"$\times$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "µ": r"$\mu$",
    "–": "--",
    "—": "---",
    "“": "``",
    "”": "''",
    "‘": "{`}",
    "’": "'",
    "…": r"\ldots{}",
    "ß": r"\ss{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
}
_ACCENTS: Final = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0308": '"',
    "\u030a": "r",
    "\u030c": "v",
    "\u0327": "c",
}


def latex_text(text: str) -> str:
    """A text that LaTeX prints as it stands; what plain LaTeX cannot print becomes its code, such as ``[U+4E2D]``."""
    pieces: list[str] = []
    before = ""
    for character in unicodedata.normalize("NFC", text):
        # Two hyphens in a row would become a dash.
        pieces.append("{}-" if character == before == "-" else _character(character))
        before = character
    return "".join(pieces)


def _character(character: str) -> str:
    known = _SPECIAL.get(character) or _SIGNS.get(character)
    if known is not None:
        return known
    if character.isspace():
        return " "
    if " " <= character <= "~":
        return character
    accented = _accented(character)
    if accented:
        return rf"\{accented[0]}{{{accented[1]}}}"
    return "".join(map(_character, _code(character)))


# Widths in cmr10 at 10 points, in points, as the font's metrics have them; of signs, those of what they are printed as.
_BY_WIDTH: Final = {
    2.8: "!',.:;`[]|ilł’‘",
    3.1: "fj",
    3.4: "- ",
    4.0: "()rst_I",
    4.5: "cezß",
    5.0: '"$*/^\\{}0123456789ago–“”ø',
    5.3: "J?kqvxy",
    5.6: "Sbdhnpu",
    6.3: "LZµŁ",
    6.9: "EFP",
    7.3: "CTwBæ",
    7.8: "&+<=>@~ADHKNOQRUVXYØ×✗±≤≥",
    8.4: "#%Gm✓",
    9.2: "MÆ",
    10.3: "W∞→—",
    14.0: "…",
}
_WIDTHS: Final = {character: width for width, characters in _BY_WIDTH.items() for character in characters}
# Widths at a size of so many points as a share of those at 10: smaller type is drawn wider.
SCALES: Final = {9: 0.926, 8: 0.851, 7: 0.803}
BOLD: Final = 1.16  # numbers
ITALIC: Final = 1.03
MARK: Final = 5.5  # points at 10, of an asterisk above the line


@cache
def text_width(text: str, size: int, shape: float = 1) -> float:
    """Width in points of a text as :func:`latex_text` prints it, rounded up.

    Args:
        size: a key of ``SCALES``.
        shape: ``BOLD``, ``ITALIC``, or 1.
    """
    return sum(map(_width, unicodedata.normalize("NFC", text))) * SCALES[size] * shape


def _width(character: str) -> float:
    if character in _WIDTHS:
        return _WIDTHS[character]
    if character.isspace():
        return _WIDTHS[" "]
    base = _accented(character)
    return _WIDTHS[base[1]] if base else sum(map(_width, _code(character)))


def _accented(character: str) -> tuple[str, str] | None:
    """LaTeX's accent command and the letter below it."""
    parts = unicodedata.normalize("NFD", character)
    base, accent = parts[0], _ACCENTS.get(parts[1:])
    return (accent, base) if accent is not None and base.isascii() and base.isalpha() else None


def _code(character: str) -> str:
    return f"[U+{ord(character):04X}]"
