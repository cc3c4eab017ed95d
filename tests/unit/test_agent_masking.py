"""Keys in what is written down: hidden as words of their own, and only where they are no words of any text."""

from __future__ import annotations

import pytest

from lmev2.agent.masking import SHORTEST_KEY, Mask

KEY = "sk-a.key+of/this=test"


@pytest.mark.parametrize("text", ["{}", "Bearer {}", '{{"key": "{}"}}', "({}), {}.", "{}\n", "=?key={}&x", "/{}/"])
def test_a_key_is_hidden(text: str) -> None:
    assert Mask([KEY])(text.format(KEY, KEY)) == text.format("[hidden]", "[hidden]")


@pytest.mark.parametrize("text", ["x{}", "{}x", "{}-x", "_{}", "9{}"])
def test_a_part_of_a_word_is_not(text: str) -> None:
    assert Mask([KEY])(text.format(KEY)) == text.format(KEY)


def test_short_keys_are_no_secrets() -> None:
    for key in ("", "x", "none", "EMPTY", "token", "a" * (SHORTEST_KEY - 1)):
        assert Mask([key])(f"a {key} b") == f"a {key} b"
    assert Mask(["a" * SHORTEST_KEY])("b " + "a" * SHORTEST_KEY) == "b [hidden]"


def test_addresses_are_hidden_whatever_their_length() -> None:
    mask = Mask([KEY], ["http://a/v1", ""])
    assert mask(f"http://a/v1/responses with {KEY}, http://a/v12") == "[hidden]/responses with [hidden], http://a/v12"


def test_the_longest_first() -> None:
    assert Mask([KEY, KEY + ".more"])(f"{KEY}.more {KEY}") == "[hidden] [hidden]"
