"""What keeps a memory of the user's own from taking the job down: whatever it raises, shows or changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# What a run is stopped with; everything else that the user's code raises is a failure of it.
STOPS = (KeyboardInterrupt, GeneratorExit)

_SHOWN_CHARS = 120


def readable(text: str) -> str:
    """A text that can be written as UTF-8: lone surrogates stand as escapes such as ``\\ud800``."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def described(error: BaseException) -> str:
    """Type and text of an exception, also if the exception cannot say its text."""
    name = type(error).__name__
    try:
        return readable(f"{name}: {error}")
    except STOPS:
        raise
    except BaseException as second:
        return f"{name}, whose text cannot be made ({type(second).__name__})"


def shown(value: Any) -> str:
    """The beginning of a value's ``repr``, also if it has none."""
    try:
        return readable(f"{value!r:.{_SHOWN_CHARS}}")
    except STOPS:
        raise
    except BaseException as error:
        return f"an object of {type(value).__name__} whose repr raises {type(error).__name__}"


@contextmanager
def kept_folder() -> Iterator[None]:
    """Return to the working directory afterwards: the job's outputs are relative to it."""
    folder = os.getcwd()
    try:
        yield
    finally:
        os.chdir(folder)
