"""Taking the prediction out of a reply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.scoring.boxed import is_unknown, last_boxed, parse_prediction

PLAIN = st.text(st.characters(blacklist_characters="{}\\", blacklist_categories=["Cs"]))


@pytest.mark.parametrize(
    ("reply", "prediction"),
    [
        ("A", "A"),
        ("  A \n", "A"),
        (r"\boxed{A}", "A"),
        (r"first \boxed{A}, rather \boxed{B}.", "B"),
        (r"\boxed{a {nested {deep}} b} tail }", "a {nested {deep}} b"),
        (r"\boxed{\text{A}}", r"\text{A}"),
        (r"\boxed{outer \boxed{inner} rest}", "inner"),
        (r"\boxed{never closed", "never closed"),
        (r"\boxed{never {closed}", "never {closed}"),
        (r"\boxed{A} then \boxed{}", r"\boxed{A} then \boxed{}"),
        (r"\boxed{  } ", r"\boxed{  }"),
        ("boxed{A}", "boxed{A}"),
        (r"\boxed A", r"\boxed A"),
        ("", ""),
        ("\\boxed{line\none}", "line\none"),
    ],
)
def test_prediction_is_the_last_box_or_the_whole_reply(reply: str, prediction: str) -> None:
    assert parse_prediction(reply) == prediction


def test_no_box_is_not_an_empty_box() -> None:
    assert last_boxed("A") is None
    assert last_boxed(r"\boxed{}") == ""


@st.composite
def balanced(draw: st.DrawFn, depth: int = 3) -> str:
    pieces = draw(st.lists(PLAIN, max_size=3))
    if depth:
        pieces += [f"{{{draw(balanced(depth - 1))}}}" for _ in range(draw(st.integers(0, 2)))]
    return "".join(draw(st.permutations(pieces)))


@given(before=PLAIN, content=balanced(), after=PLAIN)
def test_any_balanced_content_comes_back(before: str, content: str, after: str) -> None:
    reply = f"{before}\\boxed{{old}} \\boxed{{{content}}}{after}"
    assert last_boxed(reply) == content.strip()
    assert parse_prediction(reply) == (content.strip() or reply.strip())


@pytest.mark.parametrize("text", ["UNKNOWN", "unknown", " Unknown\n"])
def test_unknown_in_any_case(text: str) -> None:
    assert is_unknown(text)


@pytest.mark.parametrize("text", ["", "UNKNOWN.", "the state is unknown", "UNKNOWN UNKNOWN", r"\boxed{UNKNOWN}"])
def test_unknown_stands_alone(text: str) -> None:
    assert not is_unknown(text)
