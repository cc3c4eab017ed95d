"""Cutting texts: in the middle at a number of characters, at the end at a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

OMISSION = "\n…\n"
_MARGIN_TOKENS = 64  # a longer text may change the last tokens of its prefix, by merges across the cut, but not these
_FIRST_CHARS_PER_TOKEN = 6

Encoding = TypeVar("Encoding", bound=Sequence[object])


def well_formed(text: str) -> str:
    """The text with U+FFFD for every lone surrogate, which pages contain but UTF-8, and so a tokenizer, refuses."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def cut_middle(text: str, max_chars: int, omission: str = OMISSION) -> str:
    """The text, or its beginning and end around an omission mark, of exactly ``max_chars`` characters.

    The longer half, if any, is the beginning. Where the mark itself does not fit, the beginning alone is kept.
    """
    if max_chars < 0:
        raise ValueError(f"max_chars is {max_chars}, expected 0 or more")
    if len(text) <= max_chars:
        return text
    kept = max_chars - len(omission)
    if kept < 2:
        return text[:max_chars]
    tail = kept // 2
    return text[: kept - tail] + omission + text[len(text) - tail :]


def encode_prefix(text: str, max_tokens: int, encode: Callable[[str], Encoding]) -> Encoding:
    """Encode a prefix of the text that is long enough for the first ``max_tokens`` tokens of the whole text.

    The prefix ends at a line end where there is one, and grows until it has a margin of tokens beyond the limit, so
    that the first ``max_tokens`` tokens are those of the whole text at a fraction of the work.

    Returns:
        the encoding of the prefix, which may be longer than ``max_tokens``; of the whole text if that is short.
    """
    chars = max_tokens * _FIRST_CHARS_PER_TOKEN // 2 + 256
    while chars < len(text):
        line_end = text.rfind("\n", chars // 2, chars)
        prefix = text[: line_end if line_end > 0 else chars]
        encoding = encode(prefix)
        if len(encoding) >= max_tokens + _MARGIN_TOKENS:
            return encoding
        chars *= 2
    return encode(text)
