"""Which retrieved evidence becomes an example."""

from __future__ import annotations

import random
from typing import Any

from lmev2.report.html.evidence import Evidence, Item, Shown
from lmev2.report.html.examples import Examples
from lmev2.report.html.excerpt import Excerpt, Line
from lmev2.report.html.run import Cell, Method

RAG = Method(0, "rag", "RAG", "rag", {"queries": "question"})
BOOK = Method(1, "book", "Book", "rag", {"queries": "generated"})
CELLS = [Cell(RAG, "small"), Cell(BOOK, "small")]
QUESTIONS = {f"q{number}": {"question_type": "procedure-abs" if number == 9 else "procedure"} for number in range(10)}
HOPS = {name: [{("t1", 3)}] for name in QUESTIONS}
PHRASES = dict.fromkeys(QUESTIONS, 2)


def item(pool: str, rank: int = 1, hops: tuple[int, ...] = (), phrases: int = 0, **values: Any) -> Item:
    found = Excerpt((Line("a line", "gold" if phrases else ""),), 0, frozenset("ab"[:phrases]))
    own: dict[str, Any] = {"trajectory": "t1", "dropped": False, "pictures": ()} | values
    return Item(0, pool, pool, rank, 0.5, own["trajectory"], (), found, None, hops, own["dropped"], own["pictures"])


def offer(examples: Examples, question: str, items: list[Item], correct: bool, method: str = "rag") -> None:
    outcome = {"outcome": "correct" if correct else "wrong", "evidence_covered": bool(items[0].hops)}
    evidence = Evidence(items, [("raw_state", ["first", "second"])], "", 0)
    examples.offer(question, method, "small", evidence, outcome)


def fresh() -> Examples:
    return Examples(CELLS, QUESTIONS, HOPS, PHRASES)


def test_a_correct_answer_comes_before_a_better_rank_and_says_so() -> None:
    examples = fresh()
    offer(examples, "q1", [item("raw_state", 1, hops=(1,), phrases=2)], correct=False)
    offer(examples, "q2", [item("raw_state", 4, hops=(1,))], correct=True)
    offer(examples, "q3", [item("raw_state", 1)], correct=True)  # from the labelled trajectory only
    (chosen,) = examples.chosen()[RAG.kind]
    assert chosen.question_id == "q2" and chosen.queries == ["first", "second"]
    assert chosen.reasons == [
        "the item shows a labelled state",
        "the question was answered correctly",
        "its evidence is covered by the whole context",
    ]


def test_without_a_correct_answer_the_whole_evidence_comes_first() -> None:
    examples = fresh()
    offer(examples, "q1", [item("raw_state", 1, hops=(1,))], correct=False)
    offer(examples, "q2", [item("raw_state", 5, hops=(1,), phrases=2)], correct=False)
    offer(examples, "q9", [item("raw_state", 1, hops=(1,), phrases=2)], correct=False)
    (chosen,) = examples.chosen()[RAG.kind]
    assert chosen.question_id == "q2" and "the answer was: wrong" in chosen.reasons


def test_what_bears_nothing_out_was_cut_or_was_not_seen_is_no_example() -> None:
    examples = fresh()
    unseen = Shown(None, "t1", (3,), "", (1,), seen=False)
    offer(examples, "q1", [item("raw_state", trajectory="t2")], correct=True)
    offer(examples, "q2", [item("raw_state", hops=(1,), dropped=True)], correct=True)
    offer(examples, "q3", [item("event", trajectory="t2", pictures=(unseen,))], correct=True)
    offer(examples, "q4", [item("raw_state", trajectory="t2", phrases=1)], correct=True)
    assert examples.chosen() == {}


def test_kinds_and_pools_have_their_own_and_different_questions_where_possible() -> None:
    examples = fresh()
    for method in ("rag", "book"):
        for question in ("q1", "q2"):
            items = [item(pool, phrases=2) for pool in ("hint_note", "event", "raw_state")]
            offer(examples, question, items, correct=True, method=method)
    chosen = examples.chosen()
    assert list(chosen) == [RAG.kind, BOOK.kind]
    for own in chosen.values():
        assert [one.group for one in own] == ["Procedure and hint notes", "State-transition events", "Raw state slices"]
        assert [one.question_id for one in own] == ["q1", "q2", "q1"]


def test_the_order_of_contexts_does_not_matter() -> None:
    offers = [
        (f"q{number}", [item(pool, rank, hops=hops, phrases=2)], correct, method)
        for number in range(10)
        for pool in ("event", "raw_state")
        for rank, hops in ((1, ()), (2, (1,)))
        for correct in (False,)
        for method in ("rag", "book")
    ]
    results = []
    for seed in range(5):
        random.Random(seed).shuffle(offers)
        examples = fresh()
        for one in offers:
            offer(examples, *one)
        results.append({kind: [one.order for one in own] for kind, own in examples.chosen().items()})
    assert all(result == results[0] for result in results)
