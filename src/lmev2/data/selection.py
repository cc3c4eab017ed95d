"""Choosing a smaller set of questions that keeps the proportions of domains and question types."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Protocol, TypeVar


class Selectable(Protocol):
    """What a selection looks at."""

    @property
    def question_id(self) -> str:
        """The question's id."""
        ...

    @property
    def domain(self) -> str:
        """The question's domain."""
        ...

    @property
    def question_type(self) -> str:
        """The question's type."""
        ...


AnyQuestion = TypeVar("AnyQuestion", bound=Selectable)
Stratum = tuple[str, str]


def select_questions(questions: Iterable[AnyQuestion], count: int | None, seed: int) -> list[AnyQuestion]:
    """Choose questions, stratified by domain and question type.

    The strata get their numbers in proportion to their sizes, rounded by largest remainder, and at least one each where
    ``count`` allows. Within a stratum, and between equal remainders, a hash of seed and id decides, so the choice
    depends on seed and ids alone, never on the order of the questions.

    Args:
        count: how many; None, or more than there are, takes all.

    Returns:
        The chosen questions, sorted by id.

    Raises:
        ValueError: ``count`` is negative.
    """
    if count is not None and count < 0:
        raise ValueError(f"the number of questions must not be negative, found {count}")
    strata: dict[Stratum, list[AnyQuestion]] = {}
    for question in sorted(questions, key=lambda question: question.question_id):
        strata.setdefault((question.domain, question.question_type), []).append(question)
    sizes = {stratum: len(members) for stratum, members in strata.items()}
    total = sum(sizes.values())
    seats = sizes if count is None or count >= total else allocate(sizes, count, seed)
    chosen = [
        question
        for stratum, members in strata.items()
        for question in sorted(members, key=lambda question: _rank(seed, question.question_id))[: seats[stratum]]
    ]
    return sorted(chosen, key=lambda question: question.question_id)


def allocate(sizes: dict[Stratum, int], count: int, seed: int) -> dict[Stratum, int]:
    """Spread ``count`` seats, fewer than there are members, over strata in proportion to their sizes (largest
    remainder), then give an empty stratum one seat of the stratum furthest above its share while there are enough seats
    for all."""
    total = sum(sizes.values())
    shares = {stratum: Fraction(count * size, total) for stratum, size in sizes.items()}
    seats = {stratum: int(share) for stratum, share in shares.items()}
    order = sorted(sizes, key=lambda stratum: (seats[stratum] - shares[stratum], _rank(seed, *stratum)))
    for stratum in order[: count - sum(seats.values())]:
        seats[stratum] += 1
    if count >= len(sizes):
        for stratum in [stratum for stratum in order if not seats[stratum]]:
            donors = [other for other in order if seats[other] > 1]
            donor = max(donors, key=lambda other: (seats[other] - shares[other], _rank(seed, *other)))
            seats[donor] -= 1
            seats[stratum] = 1
    return seats


def _rank(seed: int, *parts: str) -> str:
    return hashlib.sha256("\n".join([str(seed), *parts]).encode()).hexdigest()
