"""Cutting texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.models.text import OMISSION, cut_middle, encode_prefix, well_formed


@given(st.text(max_size=60), st.integers(0, 70))
def test_cut_middle_keeps_both_ends_within_the_limit(text: str, limit: int) -> None:
    cut = cut_middle(text, limit)
    assert len(cut) == min(len(text), limit)
    if len(text) <= limit:
        assert cut == text
    elif limit >= len(OMISSION) + 2:
        head, mark, tail = (
            cut[: (limit - len(OMISSION) + 1) // 2],
            OMISSION,
            cut[len(cut) - (limit - len(OMISSION)) // 2 :],
        )
        assert cut == head + mark + tail
        assert text.startswith(head)
        assert text.endswith(tail)
    else:
        assert text.startswith(cut)


@given(st.text(st.characters(codec="utf-8")))
def test_well_formed_leaves_good_texts_alone(text: str) -> None:
    assert well_formed(text) == text


def test_well_formed_replaces_lone_surrogates() -> None:
    assert well_formed("a\ud83d\ude00 \udc00b\ud800") == "a\U0001f600 \ufffdb\ufffd"


def test_cut_middle_refuses_a_negative_limit() -> None:
    with pytest.raises(ValueError, match="-1"):
        cut_middle("abc", -1)


@given(st.lists(st.integers(1, 40), max_size=400), st.integers(1, 50))
def test_a_prefix_gives_the_first_tokens_of_the_whole(lengths: list[int], limit: int) -> None:
    text = "\n".join("x" * length for length in lengths)

    def encode(part: str) -> list[str]:
        return part.split("\n") if part else []

    assert encode_prefix(text, limit, encode)[:limit] == encode(text)[:limit]


def test_a_long_text_is_not_encoded_whole() -> None:
    seen: list[int] = []

    def encode(part: str) -> list[str]:
        seen.append(len(part))
        return part.split()

    text = "word\n" * 100_000
    assert encode_prefix(text, 100, encode)[:100] == ["word"] * 100
    assert max(seen) < 3_000


def test_tokens_of_many_characters_make_the_prefix_grow() -> None:
    text = ("long" * 50 + " ") * 500
    assert encode_prefix(text, 100, str.split)[:100] == text.split()[:100]
