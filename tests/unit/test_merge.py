"""Merged results of several raw queries, against the rule written out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmev2.index import Hit
from lmev2.memory.merge import merge_hits, share_per_query

RANKED = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=6), max_size=5)


def hit(number: int) -> Hit:
    return Hit(f"raw_state/t/{number:04d}", "t", number, number, number, {}, 0.5)


def test_shares_are_the_papers() -> None:
    assert [share_per_query(number, 6) for number in (1, 2, 3, 4, 5)] == [6, 3, 2, 2, 2]
    assert [share_per_query(number, 2) for number in (1, 2, 3, 4, 5)] == [2, 1, 1, 2, 2]


@given(RANKED, st.integers(1, 8))
def test_each_query_adds_its_best_new_entries_in_query_order(ranked: list[list[int]], top_k: int) -> None:
    merged = merge_hits([[hit(number) for number in numbers] for numbers in ranked], top_k)
    expected: list[tuple[int, int]] = []
    for query, numbers in enumerate(ranked):
        wanted = max(1, top_k // len(ranked)) if len(ranked) <= 3 else 2
        for number in numbers:
            if wanted and number not in [known for _, known in expected]:
                expected.append((query, number))
                wanted -= 1
    assert [(query, found.center_state) for query, found in merged] == expected


def test_an_entry_that_two_queries_find_does_not_use_up_the_second_ones_share() -> None:
    first, second = [hit(n) for n in (1, 2, 3, 4)], [hit(n) for n in (1, 2, 3, 5, 6, 7)]
    assert [found.center_state for _, found in merge_hits([first, second], 6)] == [1, 2, 3, 5, 6, 7]


def test_what_may_not_stand_beside_the_others_is_passed_over_like_a_repeat() -> None:
    told: list[int] = []

    def take(found: Hit) -> bool:
        told.append(found.center_state)
        return found.center_state % 2 == 0

    ranked = [[hit(n) for n in (1, 2, 3, 4)], [hit(n) for n in (4, 5, 6, 8, 10)]]
    merged = merge_hits(ranked, 4, take)
    assert [found.center_state for _, found in merged] == [2, 4, 6, 8]
    assert told == [1, 2, 3, 4, 5, 6, 8]  # neither repeats nor what is behind a full share


def test_no_queries_no_results() -> None:
    assert merge_hits([], 6) == []
    assert merge_hits([[], []], 6) == []
