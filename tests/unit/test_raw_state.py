"""Raw state slices."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.pools.raw_state import CENTER_STATE_POOL, embedded_text, embedding_order, raw_state_entries
from lmev2.trajectory import State, Trajectory


def run(trees: list[str]) -> Trajectory:
    states = tuple(
        State("t1", index, index, f"http://h/{index}", "click('1')" if index else None, None, None, tree, None)
        for index, tree in enumerate(trees)
    )
    return Trajectory("t1", "web", "shop", "goal", "success", "http://h/", states)


@pytest.mark.parametrize("radius", [0, 1, 3])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_one_clipped_slice_per_state(radius: int, count: int) -> None:
    entries = raw_state_entries(run(["RootWebArea 'p'"] * count), radius)
    assert [entry["center_state"] for entry in entries] == list(range(count))
    for entry in entries:
        within = [state for state in range(count) if abs(state - entry["center_state"]) <= radius]
        assert list(range(entry["first_state"], entry["last_state"] + 1)) == within
        assert entry["entry_id"] == f"raw_state/t1/{entry['center_state']:04d}"
        assert (entry["text"], entry["origin"], entry["images_left_out"]) == (None, "rules", 0)
        assert json.loads(entry["payload"]) == {"title": "p", "url": f"http://h/{entry['center_state']}"}


def test_a_negative_radius_is_an_error() -> None:
    with pytest.raises(ValueError, match="not -1"):
        raw_state_entries(run(["tree"]), -1)


def test_the_embedded_text_is_each_states_index_and_tree() -> None:
    states = run(["RootWebArea 'a'", "RootWebArea 'b'", "RootWebArea 'c'"]).states
    assert embedded_text(states[1:]) == "State 1\nRootWebArea 'b'\n\nState 2\nRootWebArea 'c'"


def test_the_centre_may_stand_first() -> None:
    trajectory = run(["a", "b", "c"])
    assert raw_state_entries(trajectory, 1, CENTER_STATE_POOL)[1]["entry_id"] == "center_state/t1/0001"
    for pool, order in ((CENTER_STATE_POOL, [1, 0, 2]), ("raw_state", [0, 1, 2])):
        assert [state.state_index for state in embedding_order(pool, trajectory.states, 1)] == order


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.integers(min_value=0, max_value=150))
def test_a_prefix_equals_the_whole_text_cut(trees: list[str], limit: int) -> None:
    states = run(trees).states
    assert embedded_text(states, limit) == embedded_text(states)[:limit]


def test_a_prefix_does_not_touch_later_trees() -> None:
    class Untouchable(State):
        @property
        def tree(self) -> str:
            raise AssertionError("this tree is not needed")

    first = run(["x" * 50]).states[0]
    later = Untouchable.__new__(Untouchable)
    object.__setattr__(later, "state_index", 1)
    assert embedded_text([first, later], 20) == "State 0\n" + "x" * 12
