"""Selection of questions: proportional, deterministic, independent of order."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.data.selection import allocate, select_questions


@dataclass(frozen=True)
class Item:
    question_id: str
    domain: str
    question_type: str


sizes = st.dictionaries(
    st.tuples(st.sampled_from(["web", "enterprise"]), st.sampled_from(["a", "b", "c", "d", "e", "f", "g"])),
    st.integers(1, 40),
    min_size=1,
)
seeds = st.integers(0, 5)


def make(by_stratum: dict[tuple[str, str], int]) -> list[Item]:
    return [Item(f"{d}{k}{n}", d, k) for (d, k), size in by_stratum.items() for n in range(size)]


def stratum(item: Item) -> tuple[str, str]:
    return item.domain, item.question_type


@given(sizes, st.integers(0, 300), seeds, st.randoms(use_true_random=False))
def test_size_order_and_repeatability(
    by_stratum: dict[tuple[str, str], int], count: int, seed: int, shuffle: random.Random
) -> None:
    items = make(by_stratum)
    chosen = select_questions(items, count, seed)
    assert len(chosen) == min(count, len(items))
    assert len({item.question_id for item in chosen}) == len(chosen)
    assert chosen == sorted(chosen, key=lambda item: item.question_id)
    shuffle.shuffle(items)
    assert select_questions(items, count, seed) == chosen


@given(sizes, st.data(), seeds)
def test_every_stratum_has_one_when_the_count_allows(
    by_stratum: dict[tuple[str, str], int], data: st.DataObject, seed: int
) -> None:
    total = sum(by_stratum.values())
    count = data.draw(st.integers(len(by_stratum), total))
    found = Counter(map(stratum, select_questions(make(by_stratum), count, seed)))
    assert found.keys() == by_stratum.keys()


@given(sizes, st.data(), seeds)
def test_sizes_are_proportional(by_stratum: dict[tuple[str, str], int], data: st.DataObject, seed: int) -> None:
    """Off by less than one from the exact share, but for seats given to strata that would have none."""
    total = sum(by_stratum.values())
    count = data.draw(st.integers(0, total - 1))
    seats = allocate(by_stratum, count, seed)
    assert sum(seats.values()) == count
    shares = {key: count * size / total for key, size in by_stratum.items()}
    given_away = sum(share < 1 for share in shares.values()) if count >= len(by_stratum) else 0
    for key, share in shares.items():
        assert 0 <= seats[key] <= by_stratum[key]
        assert seats[key] < share + 1
        assert seats[key] > share - 1 - given_away


@given(sizes, st.data(), seeds)
def test_allocation_equals_largest_remainder_where_no_stratum_is_left_out(
    by_stratum: dict[tuple[str, str], int], data: st.DataObject, seed: int
) -> None:
    total = sum(by_stratum.values())
    count = data.draw(st.integers(0, total - 1))
    seats = allocate(by_stratum, count, seed)
    if any(count * size < total for size in by_stratum.values()):
        return
    remainders = {key: count * size % total for key, size in by_stratum.items()}
    extra = {key for key, size in by_stratum.items() if seats[key] > count * size // total}
    assert all(remainders[one] >= remainders[other] for one in extra for other in by_stratum.keys() - extra)


def test_proportional_to_the_released_questions() -> None:
    by_stratum = {("web", "static-environment"): 60, ("web", "procedure"): 42, ("enterprise", "procedure-abs"): 12}
    assert allocate(by_stratum, 19, 0) == {
        ("web", "static-environment"): 10,
        ("web", "procedure"): 7,
        ("enterprise", "procedure-abs"): 2,
    }


def test_seeds_differ_and_all_are_taken_without_a_count() -> None:
    items = make({("web", "a"): 40, ("enterprise", "b"): 40})
    assert len({tuple(select_questions(items, 10, seed)) for seed in range(5)}) == 5
    assert select_questions(items, None, 1) == select_questions(items, 80, 2) == select_questions(items, 999, 3)
    assert len(select_questions(items, None, 0)) == 80
    assert select_questions([], 5, 0) == []


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        select_questions([], -1, 0)
