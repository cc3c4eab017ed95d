"""Prompt files: ``workflow/prompts/*.md``, one prompt a file.

A file has a section ``## User`` and, before or after it, at most one section ``## System``; whatever stands before the
first of them is a remark for people. A placeholder is a lower-case name in braces, such as ``{question}``; all other
braces (``{"label": 0 or 1}``, ``\\boxed{UNKNOWN}``, ``\\boxed{answer}``) are plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from lmev2.models.types import ImagePart, Message, TextPart

Part = TextPart | ImagePart
Value = str | Sequence[Part]

_SECTION: Final = re.compile(r"^##[ \t]+(System|User)[ \t]*$", re.MULTILINE)
_PLACEHOLDER: Final = re.compile(r"(?<!\\boxed)\{([a-z][a-z0-9_]*)\}")


class PromptError(ValueError):
    """A prompt file that cannot be used, or values that do not fit its placeholders."""


class Rendered(NamedTuple):
    """A prompt with its placeholders filled in."""

    system: str
    user: str

    def messages(self) -> tuple[Message, ...]:
        """The system message, unless it is empty, and the user message."""
        user = Message.text("user", self.user)
        return (Message.text("system", self.system), user) if self.system else (user,)


@dataclass(frozen=True)
class Prompt:
    """A prompt template.

    Attributes:
        system, user: the texts of the sections; ``system`` is empty when the file has none.
        name: the file's path, for error messages.
    """

    system: str
    user: str
    name: str = "prompt"

    @cached_property
    def placeholders(self) -> frozenset[str]:
        """The names that must be filled in."""
        return frozenset(_PLACEHOLDER.findall(self.system)) | frozenset(_PLACEHOLDER.findall(self.user))

    def render(self, **values: str) -> Rendered:
        """Fill in all placeholders in one pass: what stands in a value is never expanded.

        Raises:
            PromptError: a placeholder has no value, or a value no placeholder.
        """
        self._check(values)
        return Rendered(_fill(self.system, values), _fill(self.user, values))

    def render_messages(self, **values: Value) -> tuple[Message, ...]:
        """As :meth:`render`, but a value may also be a sequence of text and image parts, which keeps its place in the
        user message. Adjacent pieces of text become one part.

        Raises:
            PromptError: as for :meth:`render`, or the system prompt, which is text only, has a placeholder for parts.
        """
        self._check(values)
        texts = {name: value for name, value in values.items() if isinstance(value, str)}
        in_system = set(_PLACEHOLDER.findall(self.system)) - texts.keys()
        if in_system:
            raise PromptError(f"{self.name}: the system prompt takes text only, but {sorted(in_system)} has parts")
        user = Message("user", _join_text(_pieces(self.user, values)))
        return (Message.text("system", _fill(self.system, texts)), user) if self.system else (user,)

    def _check(self, values: Mapping[str, object]) -> None:
        missing, unknown = self.placeholders - values.keys(), values.keys() - self.placeholders
        if missing or unknown:
            problems = [f"no value for {sorted(missing)}"] if missing else []
            problems += [f"no placeholder for {sorted(unknown)}"] if unknown else []
            raise PromptError(
                f"{self.name}: {' and '.join(problems)}; its placeholders are {sorted(self.placeholders)}"
            )


def load_prompt(path: str | Path) -> Prompt:
    """Read a prompt file.

    Raises:
        PromptError: the file is missing or not UTF-8, or its sections are missing, repeated or empty; names the file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"{path}: cannot be read as a prompt file ({error})") from error
    _, *rest = _SECTION.split(text)
    names, bodies = rest[::2], [body.strip() for body in rest[1::2]]
    if "User" not in names or len(set(names)) != len(names):
        found = ", ".join(f"## {name}" for name in names) or "none"
        raise PromptError(f"{path}: expected one '## User' and at most one '## System' section, found {found}")
    empty = [name for name, body in zip(names, bodies, strict=True) if not body]
    if empty:
        raise PromptError(f"{path}: section '## {empty[0]}' is empty; write its text or leave it out")
    sections = dict(zip(names, bodies, strict=True))
    return Prompt(sections.get("System", ""), sections["User"], str(path))


def _fill(template: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], template)


def _pieces(template: str, values: Mapping[str, Value]) -> Iterator[Part]:
    for number, piece in enumerate(_PLACEHOLDER.split(template)):
        if number % 2 == 0:
            yield TextPart(piece)
            continue
        value = values[piece]
        if isinstance(value, str):
            yield TextPart(value)
        else:
            yield from value


def _join_text(parts: Iterator[Part]) -> tuple[Part, ...]:
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(last.text + part.text)
        elif not isinstance(part, TextPart) or part.text:
            joined.append(part)
    return tuple(joined)
