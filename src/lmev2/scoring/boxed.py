"""The prediction inside a reader's reply: the last ``\\boxed{…}``."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "UNKNOWN"
_OPENING: Final = "\\boxed{"


def last_boxed(text: str) -> str | None:
    """Content of the last ``\\boxed{…}``, trimmed; None when there is none.

    Braces inside are balanced. A box that is never closed runs to the end of the text, as when a model forgets the
    closing brace; a box inside a box is the last one.
    """
    start = text.rfind(_OPENING)
    if start < 0:
        return None
    start += len(_OPENING)
    depth = 1
    for position in range(start, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return text[start:position].strip()
    return text[start:].strip()


def parse_prediction(reply: str) -> str:
    """The prediction of a reply: the content of its last box, or the whole reply, trimmed, when it has none or an empty
    one (paper, Table 4 asks for the box)."""
    return last_boxed(reply) or reply.strip()


def is_unknown(prediction: str) -> bool:
    """The prediction is the answer ``UNKNOWN`` and nothing else, in any case."""
    return prediction.strip().upper() == UNKNOWN
