"""Settings of memory pools."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lmev2.settings import Settings


class NoteSettings(Settings):
    """Procedure and hint notes.

    Attributes:
        title_chars: a title is shortened to so many characters.
        procedure_chars: the content of a procedure note has at most so many.
        hint_chars: the content of a hint note has at most so many.
        literal_chars: a label, message or value quoted in a note is shortened to so many.
    """

    title_chars: Annotated[int, Field(ge=20)] = 110
    procedure_chars: Annotated[int, Field(ge=200)] = 2400
    hint_chars: Annotated[int, Field(ge=200)] = 3600
    literal_chars: Annotated[int, Field(ge=10)] = 160
