"""Characters that would act instead of being shown, wherever text of data, models or a configuration is shown."""

from __future__ import annotations

import re
from typing import Final

# Control characters but tab and line breaks, and what turns or isolates the reading order beyond a text's own letters:
# a name with such a character would show what stands beside it backwards.
_ACTING: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with a replacement character in the place of every such character."""
    return _ACTING.sub("\ufffd", text)
