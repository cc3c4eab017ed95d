"""Trajectories: an action belongs to the transition that ends in its state."""

from pathlib import Path

import pytest

from lmev2.trajectory import NO_ACTION, State, Trajectory


def state(index: int, action: str | None, tree: str = "") -> State:
    annotated = None if action is None else f"{action} -> [x]"
    return State("t1", index, index, f"http://x/{index}", action, annotated, None, tree, Path(f"{index}.png"))


def trajectory(*actions: str | None) -> Trajectory:
    states = tuple(state(index, action) for index, action in enumerate(actions))
    return Trajectory("t1", "web", "webarena", "goal", "success", "http://x", states)


def test_the_action_of_a_transition_stands_on_its_second_state() -> None:
    run = trajectory(None, "first()", "second()", "third()")
    assert run.transition_action(0) == "first() -> [x]"
    assert run.transition_action(2) == "third() -> [x]"
    assert run.action_sequence() == ("first() -> [x]", "second() -> [x]", "third() -> [x]")
    assert [run.next_action(index) for index in range(4)] == [*run.action_sequence(), None]


def test_local_actions_are_those_between_the_states_of_a_slice() -> None:
    run = trajectory(None, "first()", "second()", "third()")
    assert run.local_actions(1, 3) == ("second() -> [x]", "third() -> [x]")
    assert run.local_actions(2, 2) == ()


def test_a_null_action_keeps_its_place() -> None:
    run = trajectory(None, "first()", None, "third()")
    assert run.action_sequence() == ("first() -> [x]", NO_ACTION, "third() -> [x]")


def test_a_single_state_has_no_transition() -> None:
    run = trajectory(None)
    assert run.action_sequence() == ()
    assert run.next_action(0) is None
    with pytest.raises(IndexError, match="t1 has 1 states and no transition 0 -> 1"):
        run.transition_action(0)


@pytest.mark.parametrize("pre", [-1, 3, 10])
def test_transitions_outside_the_run_are_refused(pre: int) -> None:
    run = trajectory(None, "first()", "second()", "third()")
    with pytest.raises(IndexError, match="no transition"):
        run.transition_action(pre)
    with pytest.raises(IndexError, match="not 2 to 4"):
        run.local_actions(2, 4)
    with pytest.raises(IndexError, match="not 2 to 1"):
        run.local_actions(2, 1)


@pytest.mark.parametrize(
    ("tree", "title"),
    [
        ("RootWebArea 'Catalog | ServiceNow', url='x'", "Catalog | ServiceNow"),
        ('RootWebArea "Bob\'s page", focused', "Bob's page"),
        (r"RootWebArea 'It\'s \"here\"'", 'It\'s "here"'),
        ("[12] RootWebArea 'With id'", "With id"),
        ("RootWebArea '', focused\n\tIframe\n\t\tRootWebArea 'Inner'", "Inner"),
        ("dialog 'RootWebArea'\nRootWebArea 'Second line'", "Second line"),
        ("StaticText 'RootWebArea \\'quoted\\''", None),
        ("", None),
    ],
)
def test_title_of_the_page(tree: str, title: str | None) -> None:
    assert state(0, None, tree).title == title
