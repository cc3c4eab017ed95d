"""A model's thinking, told from its answer."""

from __future__ import annotations

import re

_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"


def split_thinking(content: str, opened: bool) -> tuple[str, str]:
    """Split a reply's content into a leading thinking block, verbatim with its tags, and the answer behind it.

    Args:
        opened: the chat template opened the block in the prompt, so that the content may start inside it.

    An unclosed block is all thinking: the answer is empty.
    """
    leading = re.match(r"\s*<think>", content)
    if leading is None and not (opened and _THINK_CLOSE in content and _THINK_OPEN not in content):
        return "", content
    head, mark, tail = content.partition(_THINK_CLOSE)
    return head + mark, tail.lstrip("\n")


def opens_thinking(prompt: str) -> bool:
    """Whether a prompt ends inside a thinking block, so that the reply begins with thinking."""
    return prompt.rstrip().endswith(_THINK_OPEN)


def split_opened_thinking(content: str) -> tuple[str, str]:
    """:func:`split_thinking` for a reply that surely begins inside the block."""
    head, mark, tail = content.partition(_THINK_CLOSE)
    return head + mark, tail.lstrip("\n")
