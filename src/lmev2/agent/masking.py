"""Keys and addresses kept out of what is written down: traces, details and logs.

What streams between an endpoint and an agent is never changed. A key is hidden where it stands as a word of its own,
and only from 16 characters on: shorter ones, such as ``EMPTY`` or ``token``, are what servers without keys are given,
and words of any text. User and password of an address are hidden from 8 characters on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lmev2.models.openai_endpoint import address_forms, secret_forms

SHORTEST_KEY = 16
SHORTEST_PASSWORD = 8
HIDDEN = "[hidden]"


class Mask:
    """Hides keys and addresses in texts.

    Args:
        keys: hidden from :data:`SHORTEST_KEY` characters on.
        addresses: hidden whatever their length.
    """

    def __init__(self, keys: Iterable[str] = (), addresses: Iterable[str] = ()):
        hidden = {key for key in keys if len(key) >= SHORTEST_KEY} | {one for one in addresses if one}
        longest_first = sorted(hidden, key=lambda one: (-len(one), one))
        words = "|".join(re.escape(one) for one in longest_first)
        self._pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])") if hidden else None

    def __call__(self, text: str) -> str:
        """The text with ``[hidden]`` in their place."""
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)


def endpoint_mask(base_url: str, api_key: str) -> Mask:
    """What lets one into an endpoint, in all forms that it may echo, and its address."""
    forms = secret_forms(base_url, api_key)
    keys = [form for form, name in forms.items() if name == "[key]" and len(api_key) >= SHORTEST_KEY]
    others = [form for form, name in forms.items() if name != "[key]" and len(form) >= SHORTEST_PASSWORD]
    return Mask(keys, [*address_forms(base_url), *others])
