"""Settings of memory pools."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lmev2.settings import Settings


class NoteSettings(Settings):
    """Procedure and hint notes by the rule-based controller; notes by a model follow its prompt.

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


class EventSettings(Settings):
    """State-transition events.

    Attributes:
        retry_tree_chars: when a model call fails for length, it is repeated once with each of the two trees cut in the
            middle to so many characters (paper's protocol: 12,000).
        change_chars: for the rule-based controller, the description of what changed has at most so many characters.
        literal_chars: for the rule-based controller, a label, message or value is shortened to so many.
    """

    retry_tree_chars: Annotated[int, Field(ge=200)] = 12_000
    change_chars: Annotated[int, Field(ge=200)] = 2000
    literal_chars: Annotated[int, Field(ge=10)] = 160
