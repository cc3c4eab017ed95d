"""Excerpts: which lines are marked, and what is left when a text is longer than the budget."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmev2.report.html.excerpt import _CHOICE, Marker
from lmev2.scoring.scorers import gold_phrases, gold_supported, norm_phrase_set_match
from lmev2.scoring.spec import parse_eval_function

QUESTION = "Which berth is shown for the crane in the harbour register? Mark your final answer in \\boxed{}."
PHRASES = "norm_phrase_set_match|lower=true|normalize_hyphen=true|strip_punct=true|separators=,;|require_non_empty=true"
BUDGET = 3000
# Pieces that normalisation joins, splits or drops.
PIECES = ("a", "B", "ab", "a-b", "a_b", "'", "’", ".", ",", ";", " ", "\t", "\n", "7", "é", "İ", "ß", "\u2028", "–")
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def test_lines_are_marked_as_the_scorer_sees_them() -> None:
    text = "heading\n  listitem: Pier-12 (NORTH),\nlistitem 'pier 120'\nPIER 12\nnothing here"
    found = Marker(QUESTION, "pier 12; Dock", PHRASES, BUDGET).excerpt(text)
    assert [(line.text, line.mark) for line in found.lines if line.mark == "gold"] == [
        ("  listitem: Pier-12 (NORTH),", "gold"),
        ("PIER 12", "gold"),
    ]
    assert found.phrases == {"pier 12"} and found.left_out == 0
    assert "\n".join(line.text for line in found.lines) == text


@settings(max_examples=300, deadline=None)
@given(texts, texts, st.booleans(), st.booleans(), st.booleans())
def test_gold_lines_equal_a_search_of_every_line(
    text: str, gold: str, lower: bool, hyphens: bool, punctuation: bool
) -> None:
    options = f"lower={lower}|normalize_hyphen={hyphens}|strip_punct={punctuation}"
    spec = parse_eval_function(f"norm_phrase_set_match|{options}")
    found = Marker(QUESTION, gold, f"norm_phrase_set_match|{options}", BUDGET).excerpt(text)
    phrases = gold_phrases(gold, spec)
    expected = [any(norm_phrase_set_match(line, phrase, spec) for phrase in phrases) for line in text.split("\n")]
    assert [line.mark == "gold" for line in found.lines] == expected
    assert found.phrases == {
        phrase for phrase in phrases if any(norm_phrase_set_match(line, phrase, spec) for line in text.split("\n"))
    }


def test_what_holds_the_whole_answer_supports_it() -> None:
    text = "Dock: pier 12\nand Dock 9"
    found = Marker(QUESTION, "pier 12, dock 9", PHRASES, BUDGET).excerpt(text)
    assert len(found.phrases) == 2 and gold_supported("pier 12, dock 9", PHRASES, QUESTION, text)


def test_lines_that_fit_the_question_are_marked() -> None:
    text = "\n".join([f"row {number}" for number in range(30)] + ["The crane lies in the harbour.", "a crane", "berth"])
    marked = [line.text for line in Marker(QUESTION, "x", PHRASES, BUDGET).excerpt(text).lines if line.mark == "near"]
    assert marked == ["The crane lies in the harbour."]  # others hold one word of the question only


@pytest.mark.parametrize(
    ("scorer", "gold"),
    [
        ("mc_choice_match", "B"),
        ("llm_abstention_checker", "A tugboat pilot is waiting."),
        ("llm_gotchas_checker", "tugboat pilot"),
    ],
)
def test_the_right_choice_and_a_judged_answer_count_as_the_question(scorer: str, gold: str) -> None:
    question = "Who is there?\n\nA. A stoker boy\nB. A tugboat pilot\n"
    text = "first\nthe stoker sleeps\na pilot on the tugboat\nlast"
    marks = {line.text: line.mark for line in Marker(question, gold, scorer, BUDGET).excerpt(text).lines}
    assert marks["a pilot on the tugboat"] == "near" and marks["last"] == ""
    assert not Marker(question, gold, scorer, BUDGET).phrases


@pytest.mark.parametrize("seed", range(8))
def test_a_long_text_keeps_its_head_and_the_marked_lines_within_the_budget(seed: int) -> None:
    rng = random.Random(seed)
    lines = [f"[{number}] link 'entry {rng.randint(0, 999)}'" for number in range(2000)]
    places = sorted(rng.sample(range(10, 1990), 3))
    for place in places:
        lines[place] = "\t[77] cell 'Pier 12'"
    long_one = rng.choice([place for place in range(10, 1990) if place not in places])
    lines[long_one] = "x" * 5000 + " pier 12 " + "y" * 5000
    text = "\n".join(lines)
    found = Marker(QUESTION, "pier 12", PHRASES, BUDGET).excerpt(text)
    shown = [line for line in found.lines if line.mark != "gap"]
    assert [line.text for line in shown[:4]] == lines[:4]
    gold = [line.text for line in shown if line.mark == "gold"]
    assert len(gold) == 4 and gold.count("\t[77] cell 'Pier 12'") == 3
    assert any(" pier 12 " in line and "more characters" in line and len(line) < 400 for line in gold)
    total = sum(len(line.text) + 1 for line in shown)
    assert 0.8 * BUDGET < total <= BUDGET
    assert len(text) - BUDGET <= found.left_out <= len(text)
    # What is shown and the gaps together are all lines, in order.
    gaps = [int(line.text.split()[1].replace(",", "")) for line in found.lines if line.mark == "gap"]
    assert sum(gaps) + len(shown) == len(lines)
    numbers = [int(line.text[1 : line.text.index("]")]) for line in shown if line.text.startswith("[")]
    assert numbers == sorted(numbers)


def test_a_rare_phrase_and_several_on_a_line_come_before_what_stands_everywhere() -> None:
    lines = ["option 'red' and more of it " + "z" * 200] * 100
    lines[90], lines[95] = "list: red | green | blue", "option 'blue'"
    found = Marker(QUESTION, "red, green, blue", PHRASES, BUDGET).excerpt("\n".join(lines))
    shown = {line.text: line.weight for line in found.lines if line.mark == "gold"}
    assert shown["list: red | green | blue"] > shown["option 'blue'"] > shown[lines[0]]
    assert found.phrases == {"red", "green", "blue"}


def test_the_query_that_an_item_names_is_not_marked() -> None:
    text = f"### Slice 1\nQuery: {QUESTION}\nthe crane's berth in the harbour"
    assert [line.mark for line in Marker(QUESTION, "x", PHRASES, BUDGET).excerpt(text).lines] == ["", "", "near"]


def test_many_marked_lines_do_not_push_out_the_budget() -> None:
    text = "\n".join("a pier 12 " + "z" * 280 for _ in range(500))
    found = Marker(QUESTION, "pier 12", PHRASES, BUDGET).excerpt(text)
    assert sum(len(line.text) + 1 for line in found.lines if line.mark != "gap") <= BUDGET
    assert found.left_out > 100_000


@pytest.mark.parametrize("question", ["\n" * 40_000, "A." + " " * 40_000])
def test_choices_in_much_white_space_take_no_long(question: str) -> None:
    start = time.process_time()
    assert _CHOICE.findall(question) == []
    assert time.process_time() - start < 1
    assert _CHOICE.findall("\n\nA. one \n\n (B) two") == [("A", "one"), ("B", "two")]
