"""JSON of others, read so that nothing of it is lost or changed on the way to ours.

Python's reader takes more than JSON is: it keeps the last of equal keys, makes infinities of large numbers, and accepts
``NaN``. Such text is refused here, since a file that two readers take differently proves nothing.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Final

from lmev2.data.errors import Problems
from lmev2.data.jsonl import JsonLinesFile, unique_keys

_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DEEPEST: Final = 64  # of lists and objects in each other; readers of our files end at 200


def load_json(text: str) -> Any:
    """The value of a JSON text that ends up in our files.

    Raises:
        ValueError: not JSON, equal keys in one object, a number that is none or too large, half of a surrogate pair, or
            nested too deeply; RecursionError where it is nested beyond all measure.
    """
    value = _parse(text)
    _check(value, 1)
    return value


def read_json(folder: Path, name: str, problems: Problems) -> Any:
    """The value of a JSON file of ``folder``; None, and a problem, when it cannot be read."""
    try:
        return load_json((folder / name).read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        problems.add(f"not readable as JSON ({error})", file=name)
        return None


class RecordLines(JsonLinesFile):
    """Lines of a run's records, by the same rules; but half surrogate pairs, which models write, become U+FFFD."""

    def decode(self, text: str) -> Any:
        """The JSON value of a text, with finite numbers only."""
        return _parse(text)


def _parse(text: str) -> Any:
    return json.loads(text, object_pairs_hook=unique_keys, parse_float=_finite, parse_constant=_refuse_constant)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text:.40} is too large")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _check(value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"more than {_DEEPEST} lists and objects stand in each other")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            _check(item, depth + 1)


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"half of a surrogate pair in {text!r:.60}, which is no character") from error
