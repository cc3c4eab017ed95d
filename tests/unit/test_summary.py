"""The summary of a haystack's memory for the query prompt."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from lmev2.index import Hit
from lmev2.memory.summary import HaystackSummaries


class Entries:
    """A pool's entries by trajectory."""

    def __init__(self, payloads: Mapping[str, Sequence[Mapping[str, Any]]]):
        self.payloads = payloads
        self.read = 0

    def entries(self, haystack: Sequence[str]) -> list[Hit]:
        self.read += 1
        return [
            Hit(f"{name}/{number}", name, number, number, number, dict(payload), 0.0)
            for name in haystack
            for number, payload in enumerate(self.payloads.get(name, []))
        ]


class Facts:
    """Goals and outcomes of runs."""

    def __init__(self, goals: Mapping[str, str], failed: Sequence[str] = ()):
        self._goals, self._failed = goals, failed

    def facts(self, name: str) -> Mapping[str, str]:
        return {"goal": self._goals[name], "outcome": "failure" if name in self._failed else "success"}


def summaries(goals: Mapping[str, str], tables: Mapping[str, Entries], failed: Sequence[str] = ()) -> HaystackSummaries:
    return HaystackSummaries(tables, Facts(goals, failed), keep=2)  # type: ignore[arg-type]


def pages(*titles: str | None) -> list[dict[str, Any]]:
    return [{"title": title, "url": "http://desk.test"} for title in titles]


SMALL = {
    "hint_note": Entries({"t1": [{"title": "Facts of the desk"}], "t2": [{"title": "Facts of the  counter"}]}),
    "raw_state": Entries({"t1": pages("Desk", "Counter", None), "t2": pages("Counter"), "t3": pages("Elsewhere")}),
}


def test_a_small_memory_word_for_word() -> None:
    made = summaries({"t1": "Log a case", "t2": "Lend\na device", "t3": "Hide"}, SMALL, failed=["t2"])
    assert made.of(("t1", "t2")) == (
        "\n2 trajectories (1 failure, 1 success); entries: 4 raw state slices, 2 hint notes\n"
        "Goals:\n- Lend a device\n- Log a case\n"
        "Common page titles:\n- Counter (2 states)\n- Desk (1 state)\n"
        "Titles of hint notes:\n- Facts of the counter\n- Facts of the desk"
    )


def test_nothing_of_another_haystack_is_told() -> None:
    made = summaries({"t1": "Log a case", "t2": "Lend a device", "t3": "Hide"}, SMALL)
    assert "Elsewhere" not in made.of(("t1", "t2")) and "Hide" not in made.of(("t1", "t2"))
    assert "Elsewhere" in made.of(("t3",)) and "Log a case" not in made.of(("t3",))


@pytest.fixture
def large() -> tuple[dict[str, str], dict[str, Entries]]:
    names = [f"t{number:03d}" for number in range(500)]
    goals = {name: f"Goal {number // 2:03d} " + "very long " * 50 for number, name in enumerate(names)}
    notes = {name: [{"title": f"Note {number:03d}"}] for number, name in enumerate(names)}
    tables = {
        "raw_state": Entries({name: pages(*(f"Page {n % (number + 1)}" for n in range(28))) for number, name in enumerate(names)}),
        "event": Entries({name: [{}] * 27 for name in names}),
        "procedure_note": Entries(notes),
        "hint_note": Entries(notes),
    }  # fmt: skip
    return goals, tables


def test_a_large_memory_is_told_in_bounded_space(large: tuple[dict[str, str], dict[str, Entries]]) -> None:
    goals, tables = large
    text = summaries(goals, tables).of(tuple(goals))
    assert "14000 raw state slices, 13500 state-transition events, 500 procedure notes, 500 hint notes" in text
    assert "Goals (12 of 250 different goals):\n- Goal 000 " in text and "\n- Goal 249 " in text
    assert "Common page titles (20 of 28 different titles):\n- Page 0 (" in text
    assert text.count("\n- Note 000") == 2 and text.count("\n- Note 499") == 2
    lines = text.split("\n")
    assert len(lines) <= 64 and max(map(len, lines)) <= 170


def test_a_spread_is_even_and_does_not_depend_on_the_order(large: tuple[dict[str, str], dict[str, Entries]]) -> None:
    goals, tables = large
    made = summaries(goals, tables)
    text = made.of(tuple(goals))
    shown = [int(line[7:10]) for line in text.split("\n") if line.startswith("- Goal ")]
    assert max(b - a for a, b in pairwise(shown)) <= 250 // 11 + 1
    mixed = list(goals)
    random.Random(1).shuffle(mixed)
    assert made.of(tuple(mixed)) == text


def test_raw_states_count_once_whatever_their_vectors_are_made_of() -> None:
    class Chunks(Entries):
        def entries(self, haystack: Sequence[str]) -> list[Hit]:
            return [replace(hit, entry_id=f"{hit.entry_id}/{n}") for hit in super().entries(haystack) for n in range(3)]

    goals, payloads = {"t1": "a"}, {"t1": pages("Desk", "Desk", "Counter")}
    texts = [
        summaries(goals, {table: kind(payloads)}).of(("t1",))
        for table, kind in (("raw_state", Entries), ("center_state", Entries), ("state_chunk", Chunks))
    ]
    assert texts[0] == texts[1] == texts[2]
    assert "3 raw state slices" in texts[0] and "- Desk (2 states)" in texts[0]


def test_the_last_summaries_are_kept() -> None:
    entries = Entries({"t1": pages("Desk")})
    made = summaries({"t1": "a", "t2": "b", "t3": "c"}, {"raw_state": entries})
    for haystack, reads in ((("t1",), 1), (("t2",), 2), (("t1",), 2), (("t3",), 3), (("t1",), 3), (("t2",), 4)):
        made.of(haystack)
        assert entries.read == reads


def test_a_memory_without_anything() -> None:
    assert summaries({}, {}).of(()) == "\n0 trajectories; entries: none"
    assert summaries({"t1": " "}, {}).of(("t1",)) == "\n1 trajectories (1 success); entries: none"
