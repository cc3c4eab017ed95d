"""Query bundles and the rules that write them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.memory.base import MemoryQuery
from lmev2.memory.focus_query import statements
from lmev2.memory.queries import (
    MAX_RAW_QUERIES,
    QueryBundle,
    QuestionQueries,
    fallback_bundle,
    make_bundle,
    question_bundle,
)
from lmev2.memory.query_rules import RuleQueries, clean_question, compared_sides, speaks_of_change

TYPES = (
    "static-environment", "static-environment-abs", "dynamic-environment", "dynamic-environment-abs", "procedure",
    "procedure-abs", "errors-gotchas",
)  # fmt: skip
TEXT = st.text(st.sampled_from(list("ab B\n\t\u00a0ß")), max_size=6)


def ask(text: str, kind: str | None = None) -> MemoryQuery:
    return MemoryQuery(text, None, ("t1",), kind)


def written(text: str, kind: str | None = None) -> QueryBundle:
    return RuleQueries().write(ask(text, kind))


# Bundles


@given(st.lists(TEXT, max_size=9), TEXT, TEXT)
def test_bundles_are_normalised(raw: list[str], event: str, note: str) -> None:
    bundle = make_bundle(raw, event, note, "model")
    expected: list[str] = []
    for text in raw:
        flat = " ".join(text.split())
        if flat and flat.casefold() not in [one.casefold() for one in expected]:
            expected.append(flat)
    assert bundle.raw_state == tuple(expected[:MAX_RAW_QUERIES])
    assert (bundle.event, bundle.note) == (" ".join(event.split()), " ".join(note.split()))
    assert make_bundle(bundle.raw_state, bundle.event, bundle.note, "model") == bundle


def test_more_than_five_raw_queries_are_cut_after_repeats_are_dropped() -> None:
    raw = ["one", " One ", "two", "", "three", "four", "two", "five", "six"]
    assert make_bundle(raw, "", "", "model").raw_state == ("one", "two", "three", "four", "five")


def test_a_lone_surrogate_is_replaced_in_every_query() -> None:
    bundle = make_bundle(["a\ud83d b"], "c \udc00", "\U0001f600", "model")
    assert bundle == QueryBundle(("a\ufffd b",), "c \ufffd", "\U0001f600", "model")


def test_queries_by_pool_leave_empty_ones_out() -> None:
    bundle = QueryBundle(("a", "b"), "", "n", "model")
    assert [bundle.of_pool(pool) for pool in ("raw_state", "event", "note")] == [("a", "b"), (), ("n",)]  # type: ignore[arg-type]


def test_the_question_itself_is_left_as_it_stands() -> None:
    text = "  Which `Save`\nbutton? "
    assert question_bundle(text) == QueryBundle((text,), text, text, "question")
    assert QuestionQueries().write(ask(text, "procedure")) == question_bundle(text)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_blank_question_gives_no_queries(text: str) -> None:
    assert question_bundle(text) == QueryBundle((), "", "", "question")
    assert fallback_bundle(ask(text, "procedure")) == QueryBundle((), "", "", "fallback")
    assert RuleQueries().write(ask(text, "dynamic-environment")) == QueryBundle((), "", "", "rules")


@pytest.mark.parametrize("kind", [*TYPES, None])
def test_the_fallback_follows_the_type(kind: str | None) -> None:
    bundle = fallback_bundle(ask("Which\n one?", kind))
    text = "Which one?"
    assert bundle.raw_state == (text,)
    assert bundle.event == (text if kind in ("dynamic-environment", "dynamic-environment-abs") else "")
    assert bundle.note == (text if kind in ("procedure", "procedure-abs") else "")
    assert bundle.origin == "fallback"


# Rules: what a question asks


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "I am working with our Halden Desk portal. Which lane comes first?\n\n"
            "Mark your final answer (should be a short phrase) in \\boxed{}.",
            "Which lane comes first?",
        ),
        (
            "I am using our custom shopping website and I am on the page of `Oak Tin Mug`. Which tab is open? "
            "Your final answer should be wrapped in \\boxed{}.",
            "I am on the page of `Oak Tin Mug`. Which tab is open?",
        ),
        (
            "I am working in our Halden Desk portal to seal a case. Which state is next?",
            "seal a case. Which state is next?",
        ),
        (
            "Which of these can I choose?\nA. Dearest first\nB. Best fared first\nPut your final answer into \\boxed{}.",
            "Which of these can I choose?",
        ),
        (
            "How many actions do I need?\n\nAction Space:\nclick(bid: str), fill(bid: str, value: str)\n\n"
            "Your final answer should be an English number in \\boxed{}.",
            "How many actions do I need?",
        ),
        ('Where is "Next\u00a0station" of #SERIES-1a?', 'Where is "Next station" of #SERIES-1a?'),
        ("Your final answer should be wrapped in \\boxed{}.", "Your final answer should be wrapped in \\boxed{}."),
        ("A. Yes\nB. No", "A. Yes B. No"),
        ("", ""),
    ],
)
def test_a_question_is_cleaned(question: str, asked: str) -> None:
    assert clean_question(question) == asked


@given(st.text(max_size=80))
def test_cleaning_keeps_something_on_one_line_and_adds_nothing(text: str) -> None:
    cleaned = clean_question(text)
    assert bool(cleaned) == bool(text.strip()) and cleaned == " ".join(cleaned.split())
    assert set(cleaned) <= set(text) | {" "}


def test_choices_are_marked_and_lose_their_letter() -> None:
    found = statements("Which one?\n(A) The first. It is red.\nB. The second")
    assert [(one.text, one.is_choice) for one in found] == [
        ("Which one?", False),
        ("The first. It is red.", True),
        ("The second", True),
    ]


# Rules: pools


@pytest.mark.parametrize(
    ("question", "change"),
    [
        ("After I press `Send`, which station does the order show?", True),
        ("When you click `Save`, what happens?", True),
        ("In the red banner, what is the label of the link?", True),
        ("Which page am I redirected to?", True),
        ("At which workflow stage is the order?", True),
        ("Which column stands right of `Berth`?", False),
        ("What are the four entries of the menu?", False),
    ],
)
def test_events_are_searched_where_the_question_speaks_of_change(question: str, change: bool) -> None:
    assert speaks_of_change(question) is change
    bundle = written(question)
    assert bundle.event == (question if change else "")
    assert written(question, "static-environment").event == bundle.event
    assert written(question, "dynamic-environment-abs").event == question


@pytest.mark.parametrize("kind", [*TYPES, None])
def test_notes_are_searched_for_every_type(kind: str | None) -> None:
    bundle = written("Which column stands right of `Berth`? Please answer with the name.", kind)
    assert bundle.note == "Which column stands right of `Berth`?"
    assert (bundle.raw_state, bundle.origin) == ((bundle.note,), "rules")


# Rules: comparisons


@pytest.mark.parametrize(
    ("question", "sides", "rest"),
    [
        (
            "Log Case vs. Loan Slip vs Order Form. Among the three, which has most fields?",
            ["Log Case", "Loan Slip", "Order Form"],
            "Among the three, which has most fields?",
        ),
        (
            "Among these three forms (case/loan slip/order), which has a date?",
            ["case form", "loan slip form", "order form"],
            "Among these three forms, which has a date?",
        ),
        (
            "When I compare the thread page with the room page, which button is on one only?",
            ["the thread page", "the room page"],
            "which button is on one only?",
        ),
        (
            "Between the Backroom and the shop, which one shows fares?",
            ["the Backroom", "the shop"],
            "which one shows fares?",
        ),
        (
            "On an order, what is the difference between picking `Voided` and picking `On hold`?",
            ["picking `Voided`", "picking `On hold`"],
            "On an order, what is the difference?",
        ),
        (
            "I want to compare two workflows: scrapping a laptop, and lending one. What do they share?",
            ["scrapping a laptop", "lending one"],
            "two workflows. What do they share?",
        ),
        (
            "Which field is on both the order form and the loan slip form?",
            ["the order form", "the loan slip form"],
            "Which field is on?",
        ),
    ],
)
def test_compared_things_get_a_query_each(question: str, sides: list[str], rest: str) -> None:
    assert compared_sides(question) == (sides, rest)
    assert written(question).raw_state == tuple(f"{side}: {rest}" for side in sides)
    assert written(question).note == question


@pytest.mark.parametrize(
    "question",
    [
        'Which action stands between "Previous" and "Delete Review" in the toolbar?',
        "Between `Back` and `Delete`, which button is there?",
        "Which column between Answers and Reads shows riders?",
        "What changes the granularity (for example Day/Month/Year)?",
        "Which statement about both the form and the page is true?",
        "Which of the pages (one/two/three/four/five/six) is blue?",
        "Compare it.",
        "Save vs",
    ],
)
def test_other_questions_get_one_query(question: str) -> None:
    assert compared_sides(question) == ([], question)
    assert written(question).raw_state == (question,)


@pytest.mark.parametrize(
    "piece", ["compare ", "between ", "comparing two ", "both page ", "and ", "vs ", "compare a and "]
)
def test_long_questions_are_taken_apart_at_once(piece: str) -> None:
    start = time.process_time()
    compared_sides(clean_question(piece * (8_000 // len(piece))))
    assert time.process_time() - start < 3
