"""Settings of memory pools."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from lmev2.settings import Settings


class ChunkSettings(Settings):
    """State chunks, for search beyond the paper's.

    Attributes:
        chars: a chunk has at most so many characters.
        overlap_chars: a chunk repeats so many characters of the one before, in whole lines.
    """

    chars: Annotated[int, Field(ge=100)] = 600
    overlap_chars: Annotated[int, Field(ge=0)] = 150

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> Self:
        if self.overlap_chars * 2 > self.chars:
            raise ValueError(f"overlap_chars {self.overlap_chars} is more than half of chars {self.chars}")
        return self


class NoteSettings(Settings):
    """Procedure and hint notes.

    The sizes are those of the rule-based controller; notes by a model follow its prompt.

    Attributes:
        title_chars: a title is shortened to so many characters.
        procedure_chars: the content of a procedure note has at most so many.
        hint_chars: the content of a hint note has at most so many.
        literal_chars: a label, message or value quoted in a note is shortened to so many.
        reply_chars: for local models too small to end by themselves: each text of a model's reply is one line of at
            most so many characters, by the schema that constrains it. None: as the model likes (paper's protocol).
    """

    title_chars: Annotated[int, Field(ge=20)] = 110
    procedure_chars: Annotated[int, Field(ge=200)] = 2400
    hint_chars: Annotated[int, Field(ge=200)] = 3600
    literal_chars: Annotated[int, Field(ge=10)] = 160
    reply_chars: Annotated[int, Field(ge=20, le=500)] | None = None


class EventSettings(Settings):
    """State-transition events.

    Attributes:
        retry_tree_chars: when a model call fails for length, it is repeated once with each of the two trees cut in the
            middle to so many characters (paper's protocol: 12,000).
        change_chars: for the rule-based controller, the description of what changed has at most so many characters.
        literal_chars: for the rule-based controller, a label, message or value is shortened to so many.
        reply_chars: as for notes.
    """

    retry_tree_chars: Annotated[int, Field(ge=200)] = 12_000
    change_chars: Annotated[int, Field(ge=200)] = 2000
    literal_chars: Annotated[int, Field(ge=10)] = 160
    reply_chars: Annotated[int, Field(ge=20, le=500)] | None = None
