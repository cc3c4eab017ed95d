"""Reading JSON lines: one line in memory at a time, hashed on the way; a bad line is a problem with number and id."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmev2.data.errors import Problems, shown
from lmev2.data.layout import IDENTIFIER

# Half of a surrogate pair: legal in JSON text, no character, and not storable as UTF-8.
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_IDENTIFIER = re.compile(IDENTIFIER)


@dataclass(frozen=True)
class JsonLine:
    """A line that holds a JSON object.

    Attributes:
        file: path below the data root.
        number: line number, from 1.
        label: what the line is about, such as ``question '01307e07'``, for messages.
        id: the object's id where it has a text one, else None.
        value: the object.
    """

    file: str
    number: int
    label: str
    id: str | None
    value: dict[str, Any]


class JsonLinesFile:
    """A JSON-lines file, read once.

    Lines end at ``\\n`` only: U+2028, U+2029 and U+0085 are legal inside JSON strings. Blank lines are passed over.

    Args:
        root: the data root.
        file: path below the root.
        kind: what a line describes (``question``), for messages.
        id_key: the field that holds its id.
        problems: takes the lines that are no JSON object.
        on_bytes: called with the length of each line read.

    Attributes:
        size: bytes read so far.
        replaced: texts in which a lone surrogate was replaced by U+FFFD.
        broken_ids: ids of lines that could not be read, as far as they can be made out.
        nameless: the id of some such line cannot be made out, so that an id that is not found may be its.
    """

    def __init__(
        self, root: Path, file: str, kind: str, id_key: str, problems: Problems, on_bytes: Callable[[int], None]
    ):
        self._path = root / file
        self._file = file
        self._kind = kind
        self._id_key = id_key
        self._id_pattern = re.compile(rb'"%s"\s*:\s*"([^"\\]*)"' % re.escape(id_key).encode())
        self._problems = problems
        self._on_bytes = on_bytes
        self._digest = hashlib.sha256()
        self.size = 0
        self.replaced = 0
        self.broken_ids: set[str] = set()
        self.nameless = False

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes read so far: of the file, once it is read to its end."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[JsonLine]:
        with self._path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                self._digest.update(raw)
                self.size += len(raw)
                self._on_bytes(len(raw))
                line = self.parse(number, raw) if raw.strip() else None
                if line is not None:
                    yield line

    def decode(self, text: str) -> Any:
        """The JSON value of a text.

        Raises:
            ValueError: it is none; says why.
        """
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=_refuse_constant)

    def parse(self, number: int, raw: bytes) -> JsonLine | None:
        """The object of one line; None, and a problem collected, when it holds none."""
        try:
            value = self.decode(raw.decode("utf-8"))
            if _SURROGATE_ESCAPE.search(raw):
                value = self._without_surrogates(value)
        except (ValueError, RecursionError) as error:
            torn = "" if raw.endswith(b"\n") else "; the file ends inside this line, so it was cut: fetch it again"
            self._refuse(number, raw, f"found malformed JSON ({error}), expected one JSON object{torn}")
            return None
        if not isinstance(value, dict):
            self._refuse(number, raw, f"found {type(value).__name__} {shown(value, 60)}, expected a JSON object")
            return None
        identifier = value.get(self._id_key)
        label = f"{self._kind} {shown(identifier, 80)}" if identifier is not None else f"{self._kind} without id"
        return JsonLine(self._file, number, label, identifier if isinstance(identifier, str) else None, value)

    def add_broken(self, identifier: str | None) -> None:
        """Keep that the line of an id is a problem already; None, or no id by the format, where it was not made out."""
        if identifier is not None:
            self.broken_ids.add(identifier)
        if identifier is None or _IDENTIFIER.fullmatch(identifier) is None:
            self.nameless = True

    def _refuse(self, number: int, raw: bytes, text: str) -> None:
        match = self._id_pattern.search(raw)
        identifier = None if match is None else match[1].decode("utf-8", "replace")
        self.add_broken(identifier)
        label = None if identifier is None else f"{self._kind} {identifier!r:.80}"
        self._problems.add(text, file=self._file, line=number, id=label)

    def _without_surrogates(self, value: Any) -> Any:
        if isinstance(value, dict):
            # Two keys may become one.
            return unique_keys(
                [(self._without_surrogates(key), self._without_surrogates(one)) for key, one in value.items()]
            )
        if isinstance(value, list):
            return [self._without_surrogates(item) for item in value]
        if not isinstance(value, str):
            return value
        clean = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        self.replaced += clean != value
        return clean


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; for ``object_pairs_hook``, since Python's reader keeps the last of equal keys.

    Raises:
        ValueError: a key stands twice.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {repeated!r:.60} stands twice in one object")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
