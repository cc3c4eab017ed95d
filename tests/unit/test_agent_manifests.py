"""The manifests of a haystack: order, columns, and that nothing in a goal can break them."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from itertools import pairwise

from agentworld import RUNS
from hypothesis import example, given
from hypothesis import strategies as st

from lmev2.agent.inside.search_agent.files import parse_manifest
from lmev2.agent.manifests import concise_manifest, full_manifest
from lmev2.agent.pool import TrajectoryEntry, trajectory_entry

ENTRIES = [trajectory_entry(run) for run in RUNS]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("|\\\n#- "), max_size=30)
ENTRY = st.builds(
    TrajectoryEntry,
    trajectory_id=st.text("abc-1", min_size=1, max_size=6),
    goal=TEXTS,
    reward=st.sampled_from([0.0, 1.0]),
    states=st.integers(1, 40),
    start_url=TEXTS,
    actions=st.just(()),
    thoughts=st.just(()),
) | st.builds(
    TrajectoryEntry,
    trajectory_id=st.text("abc-1", min_size=1, max_size=6),
    goal=TEXTS,
    reward=st.just(0.0),
    states=st.just(3),
    start_url=st.just("http://shop"),
    actions=st.tuples(TEXTS, TEXTS),
    thoughts=st.tuples(st.none() | TEXTS, TEXTS),
)
HAYSTACK = st.lists(ENTRY, max_size=5, unique_by=lambda entry: entry.trajectory_id)


def squeeze(text: str) -> str:
    return " ".join(text.split())


def in_order(entries: list[TrajectoryEntry]) -> list[TrajectoryEntry]:
    return sorted(entries, key=lambda entry: (entry.start_url, entry.trajectory_id))


def table(text: str) -> list[list[str]]:
    """Cells of a table that holds no bars."""
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.split("\n") if line.startswith("|")]


def test_concise_is_a_table_in_order_of_start_urls() -> None:
    header, rule, *rows = table(concise_manifest(reversed(ENTRIES)))
    assert header == ["id", "goal", "final reward", "states", "start url"]
    assert rule == ["---"] * 5
    assert rows == [
        ["lamp-01", "Order a harbour lamp with a narrow wick", "1.0", "4", "http://shop/lamp-01"],
        ["rope-01", "Find the price of ten fathoms of hemp rope", "0.0", "2", "http://shop/rope-01"],
        ["staff-01", "Void order 12", "1.0", "3", "http://staff/ledger"],
    ]


def test_ids_break_ties() -> None:
    same = [replace(entry, start_url="http://one") for entry in ENTRIES]
    assert [row[0] for row in table(concise_manifest(reversed(same)))[2:]] == ["lamp-01", "rope-01", "staff-01"]


@given(HAYSTACK)
@example([replace(ENTRIES[0], goal="a\\|b \\\\| c\\", start_url="|\n|")])
def test_every_trajectory_has_one_row_of_five_cells(entries: list[TrajectoryEntry]) -> None:
    rows = [line for line in concise_manifest(entries).split("\n") if line.startswith("|")][2:]
    for row, entry in zip(rows, in_order(entries), strict=True):
        # A bar splits cells unless an odd number of backslashes stands before it.
        bars = [match for match in re.finditer(r"(\\*)\|", row) if len(match[1]) % 2 == 0]
        assert len(bars) == 6
        cells = [row[one.end() : two.end() - 1] for one, two in pairwise(bars)]
        plain = [re.sub(r"\\([\\|])", r"\1", cell[1:-1]) for cell in cells]
        assert plain == [
            entry.trajectory_id,
            squeeze(entry.goal),
            f"{entry.reward:.1f}",
            str(entry.states),
            squeeze(entry.start_url),
        ]


@given(HAYSTACK)
def test_the_full_manifest_reads_back(entries: list[TrajectoryEntry]) -> None:
    found = parse_manifest(full_manifest(entries))
    assert [each.trajectory_id for each in found] == [entry.trajectory_id for entry in in_order(entries)]
    for each, entry in zip(found, in_order(entries), strict=True):
        assert (each.goal, each.start_url) == (squeeze(entry.goal), squeeze(entry.start_url))
        assert each.succeeded == (entry.reward == 1.0)
        actions = [line.split(" ", 1)[1:] for line in each.text if re.match(r"\d+\.", line)]
        assert len(actions) == len(entry.actions)


def test_full_has_actions_and_thoughts_on_a_line_each() -> None:
    entry = replace(ENTRIES[2], actions=("fill('1', 'a\n## b')", "click('2')"), thoughts=("Why\nnot? " * 100, None))
    section = full_manifest([entry]).split("## staff-01\n", 1)[1]
    lines = section.split("\n")
    assert lines[1:6] == [
        "- Start url: http://staff/ledger",
        "- Goal: Void order 12",
        "- Final reward: 1.0",
        "- States: 3",
        "- Actions:",
    ]
    assert lines[6] == "  1. fill('1', 'a ## b')"
    assert lines[7].startswith("     - Why not? Why not?")
    assert lines[7].endswith("…")
    assert len(lines[7]) < 320
    assert lines[8] == "  2. click('2')"


def test_both_are_made_quickly_for_a_large_haystack() -> None:
    actions = tuple(f"click('{number}') -> [{number}] button '{'x' * 80}'" for number in range(29))
    haystack = [
        replace(ENTRIES[0], trajectory_id=f"t{number}", actions=actions, thoughts=tuple(["because " * 40] * 29))
        for number in range(500)
    ]
    began = time.monotonic()
    assert full_manifest(haystack).count("\n## ") == 500
    assert concise_manifest(haystack).count("\n| t") == 500
    assert time.monotonic() - began < 2
