"""State-transition events by rules, and events as pool entries."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from dataroot import PIPELINE, SHARED_DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from lmev2.actions import annotate_actions, parse_action
from lmev2.pools.entry import Origin
from lmev2.pools.event import build_events, event_entry
from lmev2.pools.event_changes import flag_changes, value_changes
from lmev2.pools.event_rules import rule_event
from lmev2.pools.note_changes import _found_by_beginnings, _telling
from lmev2.pools.note_view import RunView, SeenLine
from lmev2.pools.settings import EventSettings
from lmev2.rows import POOL_ENTRY, read_rows, write_rows
from lmev2.trajectory import NO_ACTION, State, Trajectory
from lmev2.tree import Tree, clean

FORM = """\
RootWebArea 'New ticket'
\t[1] link 'Tickets'
\t[2] textbox 'Summary' value='Printer'
\t[3] combobox 'Impact' value='Low', expanded=False
\t[4] button 'Submit'
\t[5] checkbox 'Urgent', checked='false'"""
URL = "http://desk/new"


def run(
    steps: list[tuple[str | None, str]],
    urls: list[str] | None = None,
    goal: str = "File a ticket.",
    outcome: str = "success",
) -> Trajectory:
    """A trajectory from pairs of an action and the tree that it led to."""
    actions = [action for action, _ in steps]
    annotated = annotate_actions(actions, [tree for _, tree in steps])
    states = tuple(
        State("t1", index, index, urls[index] if urls else URL, action, note, f"thought {index}", tree, None)
        for index, ((action, tree), note) in enumerate(zip(steps, annotated, strict=True))
    )
    return Trajectory("t1", "enterprise", "desk", goal, outcome, "http://desk/", states)


def transition(action: str | None, before: str, after: str, urls: list[str] | None = None, **sizes: int) -> str:
    trajectory = run([(None, before), (action, after)], urls)
    return rule_event(RunView(trajectory, 160), 0, EventSettings(**sizes))["state_transition"]


# Each kind of change


def test_another_page_is_named_with_what_it_shows() -> None:
    done = "RootWebArea 'Ticket 7'\n\t[1] link 'Tickets'\n\t[9] button 'Reopen'\n\theading 'Printer'\n\tStaticText 'Saved by Ann'"
    assert transition("click('4')", FORM, done) == (
        'Action on page "New ticket": click the button "Submit". The page changed to "Ticket 7". '
        'Page "Ticket 7" newly shows: heading "Printer", button "Reopen", "Saved by Ann".'
    )


def test_an_address_that_changes_under_the_same_title() -> None:
    text = transition("click('1')", FORM, FORM, [URL, "http://desk/new?draft=1"])
    assert text == (
        'Action on page "New ticket": click the link "Tickets". The page stayed "New ticket", its address changed to '
        '"http://desk/new?draft=1".'
    )


def test_a_message_is_quoted_once() -> None:
    after = FORM + "\n\t[9] alert ''\n\t\tStaticText 'Impact must be High'"
    assert transition("click('4')", FORM, after).endswith('click the button "Submit". Message: "Impact must be High".')


@pytest.mark.parametrize(
    ("action", "change", "said"),
    [
        ("fill('2', 'Scanner')", ("value='Printer'", "value='Scanner'"), 'Changed values: field "Summary" from "Printer" to "Scanner".'),
        ("clear('2')", (" value='Printer'", ""), 'Changed values: field "Summary" was cleared of "Printer".'),
        ("select_option('3', 'High')", ("value='Low'", "value='High'"), 'Changed values: combobox "Impact" from "Low" to "High".'),
        ("click('5')", ("checked='false'", "checked='true'"), 'Changed controls: checkbox "Urgent" is now checked.'),
        ("click('3')", ("expanded=False", "expanded=True"), 'Changed controls: combobox "Impact" is now expanded.'),
        ("hover('4')", ("'Submit'", "'Submit', disabled=True"), 'Changed controls: button "Submit" is now disabled.'),
    ],
)  # fmt: skip
def test_changes_of_a_control_both_ways(action: str, change: tuple[str, str], said: str) -> None:
    after = FORM.replace(*change)
    assert after != FORM
    assert transition(action, FORM, after).endswith(said)
    assert transition(action, after, FORM) != transition(action, FORM, after)
    if "is now" in said:
        assert transition(action, after, FORM).endswith(said.replace("is now", "is no longer"))


def test_what_appears_and_disappears_is_named_with_its_role_the_most_telling_first() -> None:
    menu = "\n\t[8] link 'Help pages'\n\t[7] textbox 'Cost centre'\n\t[6] dialog 'Costs'"
    shown = 'dialog "Costs", field "Cost centre", link "Help pages"'
    assert transition("click('4')", FORM, FORM + menu).endswith(f'"Submit". Appeared: {shown}.')
    assert transition("click('4')", FORM + menu, FORM).endswith(f'"Submit". Disappeared: {shown}.')


def test_focus_ids_and_order_are_no_visible_change() -> None:
    after = FORM.replace("[4] button 'Submit'", "[44] button 'Submit', focused, visible")
    assert transition("click('4')", FORM, after).endswith('click the button "Submit". No visible change.')


def test_short_labels_are_better_than_nothing() -> None:
    counted = FORM + "\n\tStaticText '3'"
    assert transition("click('4')", FORM, counted).endswith('Appeared: "3".')


def test_typed_text_is_not_listed_again_as_something_new() -> None:
    after = FORM.replace("value='Printer'", "value='Scanner'") + "\n\tStaticText 'Scanner'"
    assert "Appeared" not in transition("fill('2', 'Scanner')", FORM, after)


def test_a_transition_without_an_action_says_so() -> None:
    text = transition(None, FORM, FORM + "\n\t[6] dialog 'Session ends'")
    assert text == 'On page "New ticket", no action is recorded. Appeared: dialog "Session ends".'


def test_all_calls_of_an_action_are_named_and_a_button_without_a_name() -> None:
    text = transition("fill('2', 'x')\nclick('4')", FORM, FORM)
    assert 'fill the field "Summary" with "x", then click the button "Submit"' in text
    assert "click a button without a name" in transition("click('9')", FORM + "\n\t[9] button ''", FORM)


def test_overview_recaps_goal_and_stage() -> None:
    trajectory = run(
        [(None, FORM), ("click('4')", FORM), ("click('1')", FORM)], goal="File a  ticket", outcome="failure"
    )
    view = RunView(trajectory, 160)
    first, second = (rule_event(view, pre, EventSettings())["overview"] for pre in (0, 1))
    assert first == "Goal: File a ticket. Action 1 of 2 of a run in desk. The run failed."
    assert second == (
        'Goal: File a ticket. Action 2 of 2 of a run in desk, after the action: click the button "Submit". The run failed.'
    )


@pytest.mark.parametrize("limit", [200, 500, 2000])
def test_the_transition_keeps_its_limit_and_says_that_more_changed(limit: int) -> None:
    many = "".join(f"\n\t[x{n}] button 'Button number {n}'" for n in range(200))
    text = transition("click('4')", FORM, FORM + many, change_chars=limit)
    assert len(text) <= limit
    assert 'click the button "Submit"' in text and '"Button number 0"' in text and text.endswith("….")


def test_disappeared_things_have_their_share() -> None:
    here, there = ("".join(f"\n\t[x{n}] button '{word} number {n}'" for n in range(50)) for word in ("Old", "New"))
    text = transition("click('4')", FORM + here, FORM + there, change_chars=500)
    assert 'Appeared: button "New number 0"' in text and 'Disappeared: button "Old number 0"' in text
    assert len(text) <= 500


def test_several_fields_of_one_label_tell_only_new_values() -> None:
    one, two, three = (SeenLine("textbox", "Qty", value, ()) for value in ("1", "2", "3"))
    assert [tuple(change) for change in value_changes([one, two], [one, three])] == [("textbox", "Qty", "2", "3")]
    assert [tuple(change) for change in value_changes([one], [one, three])] == [("textbox", "Qty", None, "3")]
    assert value_changes([one, two], [two, one]) == []
    checked = SeenLine("radio", "Yes", "", ("checked",))
    bare = SeenLine("radio", "Yes", "", ())
    assert [tuple(change) for change in flag_changes([bare], [checked])] == [("radio", "Yes", "checked", True)]
    assert flag_changes([bare, checked], [checked]) == []


# Entries


def test_one_event_per_transition_as_a_row(tmp_path: Path) -> None:
    trajectory = run([(None, FORM), ("click('4')", FORM), (None, FORM), ("noop()", FORM)])
    rows = build_events(trajectory, EventSettings())
    assert write_rows(tmp_path / "events.parquet", POOL_ENTRY, rows) == 3
    assert list(read_rows(tmp_path / "events.parquet", POOL_ENTRY)) == rows
    for pre, row in enumerate(rows):
        name = f"event_{pre:04d}_{pre + 1:04d}"
        assert (row["entry_id"], row["pool"], row["trajectory_id"]) == (f"event/t1/{name}", "event", "t1")
        assert (row["first_state"], row["last_state"], row["center_state"]) == (pre, pre + 1, pre + 1)
        assert (row["origin"], row["origin_detail"], row["images_left_out"]) == ("rules", None, 0)
        payload = json.loads(row["payload"])
        assert list(payload) == ["event_id", "overview", "state_transition", "action"]
        assert payload["event_id"] == name
        assert payload["action"] == trajectory.transition_action(pre)
        assert row["text"] == f"{payload['overview']}\n\n{payload['state_transition']}"
    actions = [json.loads(row["payload"])["action"] for row in rows]
    assert actions == ["click('4') -> [4] button 'Submit'", NO_ACTION, "noop()"]


def test_a_trajectory_of_one_state_has_no_events(tmp_path: Path) -> None:
    rows = build_events(run([(None, FORM)]), EventSettings())
    assert rows == []
    assert write_rows(tmp_path / "events.parquet", POOL_ENTRY, rows) == 0
    assert list(read_rows(tmp_path / "events.parquet", POOL_ENTRY)) == []


def test_there_is_no_event_beyond_the_last_state() -> None:
    trajectory = run([(None, FORM), ("noop()", FORM)])
    with pytest.raises(IndexError):
        rule_event(RunView(trajectory, 160), 1, EventSettings())
    with pytest.raises(IndexError):
        event_entry(trajectory, 1, {"overview": "a", "state_transition": "b"}, Origin("model"))


def test_half_a_surrogate_pair_can_be_stored(tmp_path: Path) -> None:
    after = FORM + "\n\t[9] dialog 'Half \\ud83d'"
    rows = build_events(run([(None, FORM), ("click('4')", after)]), EventSettings())
    write_rows(tmp_path / "events.parquet", POOL_ENTRY, rows)
    assert 'dialog "Half \ufffd"' in rows[0]["text"]


LINES = st.lists(
    st.builds(
        "{}{}{} '{}'{}".format,
        st.sampled_from(["", "\t", "\t\t"]),
        st.sampled_from(["", "[1] ", "[2] "]),
        st.sampled_from(["button", "textbox", "StaticText", "alert", "option", "RootWebArea", "row", "?"]),
        st.sampled_from(["", "a", "Save", "Save all", 'say "x"', "\ue60b", "x" * 300]),
        st.sampled_from(["", " value='v'", " value='w'", ", checked='true'", ", disabled=True", ", live='assertive'"]),
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(LINES, LINES, st.sampled_from([None, "", "click('1')", "fill('2', 'v')", "broken(", "drag_and_drop('1', '2')"]))
def test_any_two_trees_have_an_event(before: list[str], after: list[str], action: str | None) -> None:
    texts = "\n".join(before), "\n".join(after)
    text = transition(action, *texts, change_chars=300)
    assert 0 < len(text) <= 300
    assert transition(action, texts[0], texts[0]).count("No visible change.") == 1


# Real runs


def trajectories(root: Path) -> Iterator[Trajectory]:
    if not root.is_dir():
        pytest.skip(f"no data root at {root}")
    for line in (root / "trajectories.jsonl").read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        record: dict[str, Any] = json.loads(line)
        actions = [state["action"] for state in record["states"]]
        trees = [state["accessibility_tree"] for state in record["states"]]
        annotated = annotate_actions(actions, trees)
        states = tuple(
            State(record["id"], index, None, state["url"], state["action"], note, state["thought"], tree, None)
            for index, (state, note, tree) in enumerate(zip(record["states"], annotated, trees, strict=True))
        )
        names = ("domain", "environment", "goal", "outcome", "start_url")
        yield Trajectory(record["id"], *(record[name] for name in names), states)


def plain(text: str) -> str:
    return clean(text).replace('"', "'")


def shown_by(state: State) -> str:
    """All that a state shows, in order; button texts also left out, as messages do with the button that closes them."""
    nodes = Tree(state.tree).nodes
    texts = [" ".join(filter(None, (node.label, node.value or ""))) for node in nodes if node.role != "ListMarker"]
    without_buttons = [node.label for node in nodes if node.role not in {"ListMarker", "button"}]
    return plain(" ".join([*texts, "|", *without_buttons, "|", state.url, unquote(state.url)]))


@pytest.mark.parametrize(
    "root", [SHARED_DATA / "realruns", PIPELINE / "resources" / "minibench"], ids=["realruns", "minibench"]
)
def test_events_of_real_runs_name_the_action_and_invent_nothing(root: Path) -> None:
    count = 0
    for trajectory in trajectories(root):
        view = RunView(trajectory, EventSettings().literal_chars)
        for pre, row in enumerate(build_events(trajectory, EventSettings())):
            count += 1
            text = json.loads(row["payload"])["state_transition"]
            steps = view.steps_to(pre + 1)
            assert all(step.words in text for step in steps)
            assert len(steps) == len(parse_action(trajectory.states[pre + 1].action))
            said = plain(trajectory.transition_action(pre).replace("\\'", "'").replace("\\n", " "))
            known = shown_by(trajectory.states[pre]) + said + shown_by(trajectory.states[pre + 1])
            for label in re.findall(r'"([^"]*)"', text):
                assert label.removesuffix("…") in known, (row["entry_id"], label)
    assert count == sum(len(trajectory.states) - 1 for trajectory in trajectories(root))


@given(
    st.lists(st.text("ab", max_size=12) | st.text("abc ", max_size=200), max_size=30),
    st.lists(st.text("ab", max_size=20), max_size=3),
)
def test_labels_that_tell_something_equal_a_comparison_of_all_with_all(labels: list[str], said: list[str]) -> None:
    labels += [label[len(label) // 3 :] for label in labels] + [label[: len(label) // 2] for label in labels]
    unique = list(dict.fromkeys(label for label in labels if len(label) > 2))
    expected = [
        label
        for label in unique
        if not any(label in text for text in said) and not any(label != other and label in other for other in unique)
    ]
    assert _telling(labels, said) == expected
    assert _found_by_beginnings(unique, said) == set(unique) - set(expected)  # the way of pages with many labels


def test_a_page_of_thousands_of_changed_labels_is_described_in_time() -> None:
    def page(first: int) -> str:
        links = (f"\t[{n}] link 'Item number {n} of {n * 7919 % 100003}'" for n in range(first, first + 20_000))
        return "\n".join(["RootWebArea 'Items'", *links])

    view = RunView(run([(None, page(0)), ("click('3')", page(50_000))]), 80)
    started = time.process_time()
    rule_event(view, 0, EventSettings())
    assert time.process_time() - started < 12  # all with all takes minutes
