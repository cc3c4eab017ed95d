"""State chunks: every line of a tree stands in a chunk, no chunk is too long, neighbours overlap."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.pools.settings import ChunkSettings
from lmev2.pools.state_chunk import state_chunk_entries, state_chunks
from lmev2.trajectory import State, Trajectory

TREE = """RootWebArea 'New ticket', focused
\t[a50] LabelText '', clickable
\t\tStaticText 'Impact'
\t[a51] combobox 'Impact' value='Low', clickable, visible, required, hasPopup='menu', expanded=False
\t\t[a52] option 'Low', selected=True
\t[a60] link 'Logs', url='https://h/it\\'s', describedby='x1'"""


def state(tree: str, index: int = 0) -> State:
    return State("t1", index, index, f"http://h/{index}", None, None, None, tree, None)


def test_ids_and_mechanics_go_and_what_a_page_says_stays() -> None:
    assert state_chunks(state(TREE), ChunkSettings(chars=600)) == [
        "RootWebArea 'New ticket'\nLabelText ''\nStaticText 'Impact'\n"
        "combobox 'Impact' value='Low', required\noption 'Low', selected=True\nlink 'Logs'"
    ]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Zl", "Zp", "Cc"]), max_size=260), max_size=12),
    st.integers(min_value=0, max_value=50),
)
def test_every_line_stands_in_a_chunk(lines: list[str], overlap: int) -> None:
    settings = ChunkSettings(chars=100, overlap_chars=overlap)
    chunks = state_chunks(state("\n".join(f"\t{line}" for line in lines)), settings)
    assert chunks and all(len(chunk) <= 100 for chunk in chunks)
    for line in (line.strip() for line in lines):
        if line and not line.startswith("[") and ", " not in line and len(line) <= 100:
            assert any(line in chunk.split("\n") for chunk in chunks)


def test_neighbours_share_whole_lines() -> None:
    lines = [f"StaticText 'line {number:02d}'" for number in range(60)]
    chunks = [chunk.split("\n") for chunk in state_chunks(state("\n".join(lines)), ChunkSettings())]
    assert len(chunks) > 1
    for before, after in pairwise(chunks):
        shared = [line for line in after if line in before]
        assert shared == before[-len(shared) :] == after[: len(shared)]
        assert 0 < sum(len(line) + 1 for line in shared) <= 150


def test_an_entry_stands_for_the_slice_around_its_state() -> None:
    states = (state(TREE), state("", 1), state("x", 2))
    entries = state_chunk_entries(
        Trajectory("t1", "web", "shop", "goal", "success", "http://h/", states), 1, ChunkSettings()
    )
    spans = [(entry["first_state"], entry["center_state"], entry["last_state"]) for entry in entries]
    assert spans == [(0, 0, 1), (0, 1, 2), (1, 2, 2)]
    assert entries[0]["text"].startswith("New ticket\nRootWebArea 'New ticket'\n")
    assert json.loads(entries[0]["payload"]) == {"title": "New ticket", "url": "http://h/0", "chunk": 0}
    assert entries[1]["text"] == ""
    assert len({entry["entry_id"] for entry in entries}) == 3


def test_an_overlap_of_more_than_half_is_refused() -> None:
    with pytest.raises(ValueError, match="more than half"):
        ChunkSettings(chars=100, overlap_chars=51)
