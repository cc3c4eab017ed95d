"""Notes made by rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from dataroot import SHARED_DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from lmev2.actions import annotate_actions, parse_action
from lmev2.pools.note import build_notes
from lmev2.pools.settings import NoteSettings
from lmev2.trajectory import State, Trajectory
from lmev2.tree import Tree, clean

FORM = """\
RootWebArea 'New ticket'
\t[1] link 'Tickets'
\t[2] textbox 'Summary' value='{summary}', required
\t[3] combobox 'Impact' value='{impact}'
\t\t[31] option 'Low'
\t\t[32] option 'High'
\t[4] button 'Submit'
\t[5] button 'Submit and close'"""
ERROR = FORM + "\n\t[9] alert ''\n\t\tStaticText 'Impact must be High'"
DONE = "RootWebArea 'Ticket 7'\n\t[1] link 'Tickets'\n\t[8] status ''\n\t\tStaticText 'Ticket 7 was saved'"


def run(steps: list[tuple[str | None, str]], goal: str = "File a ticket.", outcome: str = "success") -> Trajectory:
    """A trajectory from pairs of an action and the tree that it led to."""
    actions = [action for action, _ in steps]
    annotated = annotate_actions(actions, [tree for _, tree in steps])
    states = tuple(
        State("t1", index, index, "http://h/new", action, note, None, tree, None)
        for index, ((action, tree), note) in enumerate(zip(steps, annotated, strict=True))
    )
    return Trajectory("t1", "enterprise", "desk", goal, outcome, "http://h/", states)


def notes(trajectory: Trajectory, sizes: NoteSettings | None = None) -> tuple[dict[str, str], dict[str, str]]:
    procedure, hint = build_notes(trajectory, sizes or NoteSettings())
    return json.loads(procedure["payload"]), json.loads(hint["payload"])


@pytest.fixture
def ticket_run() -> Trajectory:
    filled = FORM.format(summary="Printer", impact="Low")
    return run(
        [
            (None, FORM.format(summary="", impact="Low")),
            ("fill('2', 'Printer')", filled),
            ("click('5')", filled),
            ("click('5')", filled),
            ("click('4')", ERROR.format(summary="Printer", impact="Low")),
            ("scroll(0, 200)", ERROR.format(summary="Printer", impact="Low")),
            ("select_option('3', 'High')", FORM.format(summary="Printer", impact="High")),
            ("click('4')", DONE),
            ("send_msg_to_user('Ticket 7')", DONE),
        ],
        goal="File a ticket for the printer. Its impact is high.",
    )


def test_the_procedure_tells_the_steps_in_words(ticket_run: Trajectory) -> None:
    note, _ = notes(ticket_run)
    assert note["title"] == "File a ticket for the printer. Its impact is high."
    assert "succeeded" in note["description"] and '"New ticket"' in note["description"]
    assert note["content"].split("\n") == [
        '- On page "New ticket": fill the field "Summary" with "Printer"',
        '- click the button "Submit and close" (2 times) (no visible change)',
        '- click the button "Submit" -> message "Impact must be High"',
        '- choose "High" in the combobox "Impact"',
        '- click the button "Submit" -> page "Ticket 7", message "Ticket 7 was saved"',
        '- On page "Ticket 7": answer "Ticket 7"',
        '- The run succeeded; it ended on page "Ticket 7", which shows the message "Ticket 7 was saved".',
    ]


def test_the_hints_hold_messages_fields_dead_ends_and_confusable_controls(ticket_run: Trajectory) -> None:
    lines = notes(ticket_run)[1]["content"].split("\n")
    assert '- After clicking the button "Submit" on page "New ticket": message "Impact must be High".' in lines
    assert any("Ticket 7 was saved" in line and 'on page "Ticket 7"' in line for line in lines)
    assert (
        '- Trying to click the button "Submit and close" on page "New ticket" changed nothing visible (2 times).'
        in lines
    )
    fields = next(line for line in lines if "has the fields" in line)
    assert '"Summary" (required)' in fields
    assert '"Impact" (combobox, options "Low", "High", value "Low")' in fields
    assert any(line.startswith('- Do not mix up "Submit"') and '"Submit and close"' in line for line in lines)


def test_a_failed_run_is_an_attempt(ticket_run: Trajectory) -> None:
    failed = Trajectory(**{**vars(ticket_run), "outcome": "failure"})
    note, _ = notes(failed)
    assert note["title"].startswith("Attempted: ")
    assert "Attempted workflow" in note["description"] and "The attempt failed" in note["content"]
    assert "succeeded" not in note["content"]


def test_a_message_that_was_there_before_is_not_a_result() -> None:
    tree = "RootWebArea 'x'\n\t[1] button 'Go'\n\talert 'Old news'"
    _, hint = notes(run([(None, tree), ("click('1')", tree + "\n\tStaticText 'more'")]))
    assert "message" not in hint["content"]
    assert 'appeared "more"' in hint["content"]


def test_an_element_is_looked_up_in_the_state_before_then_in_earlier_ones() -> None:
    first = "RootWebArea 'x'\n\t[1] button 'Oldest'\n\t[2] button 'Only here'"
    middle = "RootWebArea 'x'\n\t[1] button 'Before'"
    procedure, _ = notes(run([(None, first), ("noop()", middle), ("click('1')", first), ("click('2')", middle)]))
    assert 'click the button "Before"' in procedure["content"]
    assert 'button "Oldest"' not in procedure["content"]
    procedure, _ = notes(run([(None, first), ("noop()", middle), ("click('2')", middle)]))
    assert 'click the button "Only here"' in procedure["content"]


def test_changes_on_the_same_page_are_told() -> None:
    before = "RootWebArea 'Order'\n\t[1] LabelText 'Windows'\n\tradio 'Ubuntu'"
    after = "RootWebArea 'Order'\n\t[1] LabelText 'Windows'\n\tradio 'Ubuntu [subtract $100]'"
    _, hint = notes(run([(None, before), ("click('1')", after)]))
    bullet = '- After clicking the label "Windows" on page "Order": appeared "Ubuntu [subtract $100]"; gone "Ubuntu".'
    assert bullet in hint["content"].split("\n")
    assert "nothing visible" not in hint["content"]


def test_what_every_page_shows_comes_last() -> None:
    pages = [
        f"RootWebArea 'Page {n}'\n\t[1] link 'Site menu'\n\t[2] link 'Own link {n}'\n\t[3] button 'Button {n}'"
        for n in range(4)
    ]
    steps: list[tuple[str | None, str]] = [(None, pages[0]), *(("click('2')", page) for page in pages[1:])]
    lines = notes(run(steps))[1]["content"].split("\n")
    naming = [number for number, line in enumerate(lines) if "Site menu" in line]
    assert naming == [len(lines) - 1]


def test_thoughts_about_trouble_are_kept_and_others_not() -> None:
    tree = "RootWebArea 'x'\n\t[1] button 'Go'"
    trajectory = run([(None, tree), ("click('1')", tree)])
    thought = "I will click the button called Go now. However, the button is disabled until a lane is chosen."
    states = (trajectory.states[0], State(**{**vars(trajectory.states[1]), "thought": thought}))
    _, hint = notes(Trajectory(**{**vars(trajectory), "states": states}))
    assert '"However, the button is disabled until a lane is chosen."' in hint["content"]
    assert "I will click" not in hint["content"]


def test_entries_have_the_pools_form(ticket_run: Trajectory) -> None:
    for entry, pool in zip(build_notes(ticket_run, NoteSettings()), ("procedure_note", "hint_note"), strict=True):
        note = json.loads(entry["payload"])
        assert (entry["entry_id"], entry["pool"], entry["origin"]) == (f"{pool}/t1", pool, "rules")
        assert (entry["first_state"], entry["last_state"], entry["center_state"]) == (0, 8, 0)
        assert list(note) == ["title", "description", "content"]
        assert entry["text"] == "\n\n".join(note.values())


LABELS = st.sampled_from(
    [
        "Submit",
        "Save",
        "Save all",
        "Impact",
        'A "quoted" name',
        "It's",
        "x" * 300,
        "\ue604 Icon",
        "Total *",
        "Low",
        "5",
        "",
    ]
)
ROLES = """button link textbox combobox option radio alert status heading cell row table columnheader StaticText
navigation tab RootWebArea term definition checkbox"""
LINES = st.builds(
    lambda depth, bid, role, label, rest: f"{chr(9) * depth}{bid}{role} {label!r}{rest}",
    st.integers(0, 3),
    st.sampled_from(["", "[1] ", "[2] ", "[a3] "]),
    st.sampled_from(ROLES.split()),
    LABELS,
    st.sampled_from(["", ", required", " value='v 1'", ", checked='true'", ", expanded=False", ", live='assertive'"]),
)
TREES = st.lists(LINES, max_size=14).map("\n".join)
ACTIONS = st.one_of(
    st.none(),
    st.sampled_from(
        [
            *("click('1')", "click('a3')", "click('missing')", "fill('2', 'some text')", "fill(bid='2', value='kw')"),
            *("select_option('2', ['Low', 'High'])", "press('2', 'Enter')", "drag_and_drop('1', '2')", "scroll(0, 10)"),
            *("goto('http://h/p?q=1')", "go_back()", "noop()", "mouse_click(1.0, 2.0)", "keyboard_type('abc')"),
            *("send_msg_to_user('The answer.')", "not python("),
        ]
    ),
)
RUNS = st.builds(
    lambda steps, goal, outcome: run([(None, "RootWebArea 'Start'"), *steps], goal, outcome),
    st.lists(st.tuples(ACTIONS, TREES), max_size=6),
    st.sampled_from(["Do it.", "", "Find the “price” of it. Then stop!", "word " * 200]),
    st.sampled_from(["success", "failure"]),
)


@settings(max_examples=150, deadline=None)
@given(RUNS)
def test_every_literal_of_a_note_comes_from_the_run(trajectory: Trajectory) -> None:
    assert_grounded(trajectory)


@settings(max_examples=100, deadline=None)
@given(RUNS, st.integers(200, 800), st.integers(200, 800))
def test_notes_stay_within_their_sizes(trajectory: Trajectory, procedure_chars: int, hint_chars: int) -> None:
    sizes = NoteSettings(procedure_chars=procedure_chars, hint_chars=hint_chars, title_chars=60)
    procedure, hint = notes(trajectory, sizes)
    assert len(procedure["content"]) <= procedure_chars and len(hint["content"]) <= hint_chars
    assert len(hint["title"]) <= 60 and len(procedure["title"].removeprefix("Attempted: ")) <= 60
    for note in (procedure, hint):
        assert all(line.startswith("- ") for line in note["content"].split("\n"))
    assert notes(trajectory, sizes) == (procedure, hint)


def real_runs() -> Iterator[Trajectory]:
    with (SHARED_DATA / "realruns" / "trajectories.jsonl").open(encoding="utf-8") as file:
        for line in file:
            yield from_json(json.loads(line))


def from_json(item: dict[str, Any]) -> Trajectory:
    raw = item["states"]
    annotated = annotate_actions([s["action"] for s in raw], [s["accessibility_tree"] for s in raw])
    states = tuple(
        State(item["id"], s["state_index"], s.get("step"), s["url"], s["action"], note, s["thought"], tree, None)
        for s, note in zip(raw, annotated, strict=True)
        for tree in [s["accessibility_tree"]]
    )
    return Trajectory(
        item["id"], item["domain"], item["environment"], item["goal"], item["outcome"], item["start_url"], states
    )


@pytest.mark.skipif(not (SHARED_DATA / "realruns").is_dir(), reason="the real runs are not beside this checkout")
def test_notes_of_real_runs_are_grounded_and_tell_what_was_seen() -> None:
    contents = {}
    for trajectory in real_runs():
        assert_grounded(trajectory)
        contents[trajectory.trajectory_id] = [note["content"] for note in notes(trajectory)]
    assert "Ubuntu [subtract $100.00]" in contents["dfbd6e0e"][1]
    assert '"New Customers", "Customers"' in contents["25a52fd9"][1]
    assert "(no visible change)" in contents["86cc5b7b"][0]


def assert_grounded(trajectory: Trajectory) -> None:
    """Every word inside double quotes stands in the run: its goal, addresses, actions, thoughts or trees."""
    pieces = [trajectory.goal]
    for state in trajectory.states:
        pieces += [state.url, unquote(state.url), state.action or "", state.thought or ""]
        pieces += [str(value) for call in parse_action(state.action) for value in (*call.args, *call.keywords.values())]
        for node in Tree(state.tree).nodes:
            pieces += [node.name, node.value or ""]
    source = clean(" ".join(pieces)).replace('"', "'")
    for note in notes(trajectory):
        text = "\n".join(note.values()).replace(clean(trajectory.goal), "")
        for line in text.split("\n"):
            if line.startswith("- Goal:") or line == note["title"]:
                continue
            for literal in re.findall(r'"([^"]*)"', line.replace(note["title"], "")):
                for word in literal.removesuffix("…").split():
                    assert word in source, (word, literal)
