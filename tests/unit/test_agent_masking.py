"""Keys in what is written down: hidden as words of their own, and only where they are no words of any text."""

from __future__ import annotations

import base64
import json

import pytest

from lmev2.agent.masking import SHORTEST_KEY, Mask, endpoint_mask

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


def test_all_that_lets_one_into_an_endpoint_is_hidden() -> None:
    mask = endpoint_mask("https://user-name:p%40ss%2Fword@Models.test/base/v1?token=query%2Ftoken", KEY)
    pair = base64.b64encode(b"user-name:p@ss/word").decode()
    secrets = [KEY, "sk-a.key%2Bof%2Fthis%3Dtest", json.dumps(KEY)[1:-1].replace("/", r"\/")]
    secrets += ["user-name", "p@ss/word", "p%40ss%2Fword", pair, "query/token", "query%2Ftoken"]
    for secret in secrets:
        assert mask(f"Basic {secret}, {secret}") == "Basic [hidden], [hidden]", secret
    for address in ("https://Models.test/base/v1", "https://models.test/base/v1"):
        assert mask(f"POST {address}/responses") == "POST [hidden]/responses"


def test_short_names_of_an_address_are_words_of_any_text() -> None:
    mask = endpoint_mask("http://me:none@127.0.0.1:1/v1?a=b", "token")
    assert mask("none of me, b, token") == "none of me, b, token"
    assert mask(base64.b64encode(b"me:none").decode()) == "[hidden]"
