"""Contexts written out: everything of a slice in full rendering, what bears on the question in focused rendering."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.actions import annotate_actions
from lmev2.index import Hit
from lmev2.memory.base import ContextItem
from lmev2.memory.focus_query import analyse, words
from lmev2.memory.focus_score import focus_bullets, focus_clauses
from lmev2.memory.render import _ELEMENT, render_event, render_notes, render_slice
from lmev2.memory.settings import RenderSettings
from lmev2.pools.raw_state import raw_state_entries
from lmev2.trajectory import NO_ACTION, State, Trajectory

FULL = RenderSettings(mode="full")
FOCUSED = RenderSettings(mode="focused", slice_chars=400, note_chars=100)
QUERY = "Which courier does the order use?"
SEQUENCE_LINE = re.compile(r"^  (\d+) -> (\d+): (.*)$", re.MULTILINE)


def make_state(index: int, **changes: Any) -> State:
    values: dict[str, Any] = {
        "trajectory_id": "run1",
        "state_index": index,
        "step": 10 + 2 * index,
        "url": f"http://shop.test/p{index}",
        "action": f"click('a{index}')" if index else None,
        "action_annotated": f"click('a{index}') -> [a{index}] link 'Go {index}', clickable" if index else None,
        "thought": None,
        "tree": f"RootWebArea 'Page {index}'\n\t[a{index + 1}] link 'Go {index + 1}', clickable\n\tStaticText 'Line {index}'",
        "screenshot": Path(f"/shots/{index}.png"),
    }
    return State(**{**values, **changes})


def make_run(
    states: int = 5, name: str = "run1", goal: str = "Send the parcel", **changes: dict[int, Any]
) -> Trajectory:
    """A run; ``changes`` replace fields of states: ``tree={2: "RootWebArea 'Other'"}``."""
    made = [
        make_state(index, trajectory_id=name, **{field: by[index] for field, by in changes.items() if index in by})
        for index in range(states)
    ]
    return Trajectory(name, "web", "webarena", goal, "success", "http://shop.test", tuple(made))


def make_hit(run: Trajectory, first: int, center: int, last: int, score: float = 0.8765) -> Hit:
    return Hit(f"raw_state/{run.trajectory_id}/{center:04d}", run.trajectory_id, first, last, center, {}, score)


def hits_of(run: Trajectory, radius: int = 1) -> list[Hit]:
    entries = raw_state_entries(run, radius)
    return [make_hit(run, entry["first_state"], entry["center_state"], entry["last_state"]) for entry in entries]


def text_of(run: Trajectory, hit: Hit, settings: RenderSettings, query: str = QUERY, rank: int = 2) -> str:
    return render_slice(rank, hit, query, run, settings, set())[0].value


def test_a_full_slice_word_for_word() -> None:
    run = make_run(4, step={1: None})
    assert text_of(run, make_hit(run, 0, 1, 2), FULL, rank=1) == (
        """## Raw state slices

### Slice 1 (similarity 0.876, trajectory run1, states 0-2)
Query: Which courier does the order use?
Goal: Send the parcel
Action sequence:
  0 -> 1: click('a1') -> [a1] link 'Go 1', clickable
  1 -> 2: click('a2') -> [a2] link 'Go 2', clickable
  2 -> 3: click('a3') -> [a3] link 'Go 3', clickable
Actions in this slice:
  0 -> 1: click('a1') -> [a1] link 'Go 1', clickable
  1 -> 2: click('a2') -> [a2] link 'Go 2', clickable
[State 0 (step 10)]
URL: http://shop.test/p0
Action that led here: none (first state)
Accessibility tree:
RootWebArea 'Page 0'
	[a1] link 'Go 1', clickable
	StaticText 'Line 0'
[State 1]
URL: http://shop.test/p1
Action that led here: click('a1') -> [a1] link 'Go 1', clickable
Accessibility tree:
RootWebArea 'Page 1'
	[a2] link 'Go 2', clickable
	StaticText 'Line 1'
[State 2 (step 14)]
URL: http://shop.test/p2
Action that led here: click('a2') -> [a2] link 'Go 2', clickable
Accessibility tree:
RootWebArea 'Page 2'
	[a3] link 'Go 3', clickable
	StaticText 'Line 2'"""
    )


@pytest.mark.parametrize(("states", "radius"), [(1, 1), (2, 1), (6, 0), (6, 1), (6, 2)])
def test_a_full_slice_shows_all_its_states_and_both_action_sequences(states: int, radius: int) -> None:
    run = make_run(states)
    for hit in hits_of(run, radius):
        item = render_slice(3, hit, QUERY, run, FULL, set())[0]
        covered = list(range(hit.first_state, hit.last_state + 1))
        assert item.states == tuple(covered)
        whole, _, rest = item.value.partition("Actions in this slice:\n")
        local, *blocks = re.split(r"^\[State ", rest, flags=re.MULTILINE)
        assert f"Query: {QUERY}\nGoal: {run.goal}\nAction sequence:\n" in whole
        # The transition from k to k + 1 is made by the action that stands on state k + 1.
        for text, first, last in ((whole, 0, states - 1), (local, hit.first_state, hit.last_state)):
            expected = [(str(k), str(k + 1), run.states[k + 1].action_annotated) for k in range(first, last)]
            assert SEQUENCE_LINE.findall(text) == expected
            assert ("  none" in text) == (not expected)
        assert len(blocks) == len(covered)
        for index, block in zip(covered, blocks, strict=True):
            state = run.states[index]
            assert block.rstrip("\n") == (
                f"{index} (step {state.step})]\nURL: {state.url}\n"
                f"Action that led here: {state.action_annotated or 'none (first state)'}\n"
                f"Accessibility tree:\n{state.tree}"
            )


def test_an_action_that_was_not_recorded_is_not_taken_for_the_first_state() -> None:
    run = make_run(4, action_annotated={2: None})
    text = text_of(run, make_hit(run, 1, 2, 3), FULL)
    assert f"  1 -> 2: {NO_ACTION}\n  2 -> 3: click('a3')" in text
    assert f"[State 2 (step 14)]\nURL: http://shop.test/p2\nAction that led here: {NO_ACTION}\n" in text
    assert "none (first state)" not in text


@pytest.mark.parametrize("settings", [FULL, FOCUSED], ids=lambda one: one.mode)
def test_the_section_heading_stands_on_the_first_slice_only(settings: RenderSettings) -> None:
    run = make_run()
    hits = hits_of(run)
    texts = [text_of(run, hit, settings, rank=rank) for rank, hit in enumerate(hits, start=1)]
    if settings.mode == "full":
        heading, source = "## Raw state slices\n\n", "similarity 0.876, trajectory run1"
    else:  # the heading says once what stands in the brackets
        heading, source = "## Raw state slices (similarity, trajectory)\n\n", "0.88, run1"
    for rank, (hit, text) in enumerate(zip(hits, texts, strict=True), start=1):
        entry = f"### Slice {rank} ({source}, states {hit.first_state}-{hit.last_state})\n"
        assert text.startswith(heading + entry if rank == 1 else entry)
        assert text.count("## Raw state slices") == (rank == 1)


@pytest.mark.parametrize("settings", [FULL, FOCUSED], ids=lambda one: one.mode)
def test_the_centres_screenshot_follows_its_text(settings: RenderSettings) -> None:
    run = make_run(5, screenshot={3: None})
    text, image = render_slice(1, make_hit(run, 1, 2, 3), QUERY, run, settings, set())
    assert (text.type, text.trajectory_id, text.pool, text.score) == ("text", "run1", "raw_state", 0.8765)
    assert image == ContextItem("image", "/shots/2.png", "run1", (2,), "raw_state", 0.8765)
    # Without a screenshot of its own a slice shows none, not a neighbour's.
    assert [item.type for item in render_slice(1, make_hit(run, 2, 3, 4), QUERY, run, settings, set())] == ["text"]


def test_a_focused_slice_shows_the_goal_once_per_trajectory() -> None:
    one, other = make_run(), make_run(name="run2", goal="Count the lamps")
    seen: set[str] = set()
    shown = [
        render_slice(rank, make_hit(run, 0, 1, 2), QUERY, run, FOCUSED, seen)[0].value
        for rank, run in enumerate((one, other, one, other), start=1)
    ]
    assert ["Goal: Send the parcel" in text for text in shown] == [True, False, False, False]
    assert ["Goal: Count the lamps" in text for text in shown] == [False, True, False, False]


TREES = {
    0: "RootWebArea 'Start'\n\tbutton 'Sign in'",
    1: "RootWebArea 'Order 12'\n\tcombobox 'Courier' value='Night boat'\n\tStaticText 'Weight 4 kg'",
    2: "RootWebArea 'Help'\n\tStaticText 'Opening hours'",
}


def test_a_focused_slice_leaves_out_states_without_a_relevant_line() -> None:
    run = make_run(3, tree=TREES)
    item = render_slice(2, make_hit(run, 0, 1, 2), QUERY, run, FOCUSED, set())[0]
    assert item.states == (1,)
    assert "[State 1, after click('a1') -> link 'Go 1']\n" in item.value
    assert "combobox 'Courier' value 'Night boat'" in item.value
    assert "[State 0" not in item.value and "[State 2" not in item.value and "Opening hours" not in item.value


def test_a_focused_slice_with_nothing_relevant_shows_no_state() -> None:
    run = make_run(3, tree=TREES)
    item = render_slice(2, make_hit(run, 0, 1, 2), "Zeppelin?", run, FOCUSED, set())[0]
    assert item.states == ()
    assert item.value == "### Slice 2 (0.88, run1, states 0-2)\nGoal: Send the parcel"


def test_a_line_that_the_context_shows_is_not_shown_by_the_next_slice() -> None:
    run = make_run(3, tree=TREES)
    seen: set[str] = set()
    first, second = (render_slice(rank, make_hit(run, 0, 1, 2), QUERY, run, FOCUSED, seen)[0] for rank in (1, 2))
    assert "Night boat" in first.value and first.states == (1,)
    assert "Night boat" not in second.value and second.states == ()


def test_a_focused_first_state_names_no_action() -> None:
    run = make_run(2, tree={0: TREES[1]})
    assert "[State 0]\n" in text_of(run, make_hit(run, 0, 0, 1), FOCUSED)


def made_by(action: str, tree: str) -> Trajectory:
    """A run of two states whose action, made on a page with this tree, led to the order page."""
    actions = [None, action]
    annotated = annotate_actions(actions, [tree, TREES[1]])
    return make_run(
        2, tree={0: tree, 1: TREES[1]}, action=dict(enumerate(actions)), action_annotated=dict(enumerate(annotated))
    )


@pytest.mark.parametrize(
    ("action", "tree", "shown"),
    [
        ("click('a1')", "[a1] link 'Go'", "click('a1') -> link 'Go'"),
        ("click('a1')", "[a1] link 'Go', visible, focused", "click('a1') -> link 'Go'"),
        # addresses with what ends a property, a line or a literal
        ("click('a1')", "[a1] link 'Go', url='http://shop.test/p?a=1, b=2;c', visible", "click('a1') -> link 'Go'"),
        ("click('a1')", "[a1] link 'Go', url=\"http://shop.test/it's; | [b]\", visible", "click('a1') -> link 'Go'"),
        (
            "click('a1')",
            r"""[a1] link 'Go', url='http://shop.test/it\'s "here" | [x]', visible""",
            "click('a1') -> link 'Go'",
        ),
        # names with quotes, escapes, brackets, separators
        ("click('a1')", '[a1] link "Anna\'s, 15; x", visible', """click('a1') -> link "Anna's, 15; x\""""),
        ("click('a1')", r"""[a1] link 'Anna\'s "box", \\', visible""", r"""click('a1') -> link 'Anna\'s "box", \\'"""),
        ("click('a1')", r"[a1] button '\uf137 A\n -> [b] B', visible", r"click('a1') -> button '\uf137 A\n -> [b] B'"),
        ("click('a1')", "[a1] tab 'A | [b2] B', visible", "click('a1') -> tab 'A | [b2] B'"),
        # values, and elements without a name
        ("fill('a1', 'x')", "[a1] textbox 'To' value='A | [b] c', visible", "fill('a1', 'x') -> textbox 'To'"),
        ("click('a1')", "[a1] LabelText ''", "click('a1') -> LabelText ''"),
        ("click('a1')", "[a1] generic, clickable", "click('a1') -> generic"),
        ("click('a1')", "[a1] generic", "click('a1') -> generic"),
        ("fill('a1', 'x')", "[a1] textbox value='A, b', visible", "fill('a1', 'x') -> textbox"),
        # a line that is not in the trees' format
        ("click('a1')", "[a1] link Go home, visible", "click('a1') -> [a1] link Go home, visible"),
        ("click('a1')", "[a1] link 'Go home", "click('a1') -> [a1] link 'Go home"),
        # two elements
        (
            "drag_and_drop('a1', 'b2')",
            "[a1] row 'A', visible, url='x;y'\n\t[b2] list \"B's\" value='1', visible",
            "drag_and_drop('a1', 'b2') -> row 'A' | list \"B's\"",
        ),
        ("drag_and_drop('a1', 'b2')", "[a1] row\n\t[b2] row", "drag_and_drop('a1', 'b2') -> row | row"),
        (
            "drag_and_drop('a1', 'b2')",
            "[a1] row A, it's\n\t[b2] list 'B', visible",
            "drag_and_drop('a1', 'b2') -> [a1] row A, it's | list 'B'",
        ),
        ("drag_and_drop('a1', 'b2')", "[b2] list 'B', visible", "drag_and_drop('a1', 'b2') -> list 'B'"),
        # no element
        ("scroll(0, 200)", "[a1] link 'Go'", "scroll(0, 200)"),
        ("click('gone')", "[a1] link 'Go'", "click('gone')"),
        # what is typed may look like an element
        (
            "fill('a1', 'x -> [b2] y, z')",
            "[a1] textbox 'To', visible, [c3] d, e",
            "fill('a1', 'x -> [b2] y, z') -> textbox 'To'",
        ),
        ("send_msg_to_user('1 -> [b2] y, z')", "[b2] link 'Go'", "send_msg_to_user('1 -> [b2] y, z')"),
    ],
)
def test_focused_actions_show_role_and_name_of_their_elements(action: str, tree: str, shown: str) -> None:
    run = made_by(action, f"RootWebArea 'Start'\n\t{tree}")
    assert f"[State 1, after {shown}]\n" in text_of(run, make_hit(run, 0, 1, 1), FOCUSED)
    assert f"Action that led here: {run.states[1].action_annotated}\n" in text_of(run, make_hit(run, 0, 1, 1), FULL)


PROPERTIES = st.lists(
    st.tuples(st.sampled_from(["url", "controls"]), st.text("ab'\"\\|[],;-> \n")).map(
        lambda one: f", {one[0]}={one[1]!r}"
    )
    | st.just(", visible"),
    max_size=3,
).map("".join)
ELEMENTS = st.tuples(
    st.sampled_from(["link", "RootWebArea", "h1"]), st.none() | st.text("ab'\"\\|[],;->=… \n", max_size=12), PROPERTIES
)


@given(ELEMENTS, ELEMENTS)
def test_role_and_name_stay_whatever_the_literals_hold(
    one: tuple[str, str | None, str], other: tuple[str, str | None, str]
) -> None:
    named = [role if name is None else f"{role} {name!r}" for role, name, _ in (one, other)]
    tree = f"[a1] {named[0]}{one[2]}\n[b2] {named[1]}{other[2]}"
    run = made_by("drag_and_drop('a1', 'b2')", tree)
    shown = f"[State 1, after drag_and_drop('a1', 'b2') -> {named[0]} | {named[1]}]\n"
    assert shown in text_of(run, make_hit(run, 0, 1, 1), FOCUSED)


@pytest.mark.parametrize(("length", "kept"), [(119, 119), (120, 120), (121, 120), (500, 120)])
def test_long_actions_are_cut_in_focused_rendering(length: int, kept: int) -> None:
    action = "fill('b1', '" + "x" * (length - 14) + "')"
    assert len(action) == length
    run = make_run(2, tree={1: TREES[1]}, action={1: action}, action_annotated={1: action})
    shown = re.search(r"^\[State 1, after (.*)\]$", text_of(run, make_hit(run, 0, 1, 1), FOCUSED), re.MULTILINE)
    assert shown is not None and len(shown[1]) == kept
    assert shown[1] == action if length <= 120 else shown[1] == action[:119] + "…"


def make_note(number: int, content: str = "- Open the order page.\n- Choose a courier.") -> Hit:
    payload = {"title": f"Note {number}", "description": f"About {number}", "content": content}
    return Hit(f"hint_note/run{number}", f"run{number}", 0, 4, 0, payload, 0.5 + number / 10)


def test_full_notes_show_rank_source_title_description_and_content() -> None:
    items = render_notes("hint_note", [make_note(2), make_note(1)], QUERY, FULL, heading=True)
    assert items == [
        ContextItem(
            "text",
            "## Procedure and hint notes\n\n### Hint note 1 (similarity 0.700, trajectory run2)\n"
            "Title: Note 2\nDescription: About 2\n- Open the order page.\n- Choose a courier.",
            "run2",
            (),
            "hint_note",
            0.7,
        ),
        ContextItem(
            "text",
            "### Hint note 2 (similarity 0.600, trajectory run1)\n"
            "Title: Note 1\nDescription: About 1\n- Open the order page.\n- Choose a courier.",
            "run1",
            (),
            "hint_note",
            0.6,
        ),
    ]


def test_notes_of_a_later_kind_have_no_section_heading() -> None:
    (item,) = render_notes("procedure_note", [make_note(1)], QUERY, FULL, heading=False)
    assert item.value.startswith("### Procedure note 1 (")
    assert render_notes("procedure_note", [], QUERY, FULL, heading=True) == []


def test_focused_notes_show_title_and_bullets_that_bear_on_the_question() -> None:
    note = make_note(1, "- Sign in first.\n- The courier is chosen on the order page.\n- Lamps are in the cellar.")
    (item,) = render_notes("hint_note", [note], QUERY, FOCUSED, heading=False)
    assert item.value == "### Hint note 1 (0.60, run1)\nNote 1\n- The courier is chosen on the order page."


def test_the_heading_of_focused_notes_says_what_stands_in_the_brackets() -> None:
    notes = [make_note(2, "- An order.\n- Lamps.\n- A courier."), make_note(1, "- A courier.")]
    assert [item.value for item in render_notes("procedure_note", notes, QUERY, FOCUSED, heading=True)] == [
        "## Procedure and hint notes (similarity, trajectory)\n\n"
        "### Procedure note 1 (0.70, run2)\nNote 2\n- An order.\n- …\n- A courier.",
        "### Procedure note 2 (0.60, run1)\nNote 1\n- A courier.",
    ]


BULLETS = st.lists(
    st.lists(
        st.sampled_from(["courier", "order", "lamp", "cellar", "boat", "use", "12", "opens"]), min_size=0, max_size=9
    )
    .map(" ".join)
    .map("- {}".format),
    min_size=1,
    max_size=10,
)


@given(BULLETS, st.integers(0, 200), st.sampled_from([QUERY, "Zeppelin?", "Is the `lamp cellar` open?"]))
def test_kept_bullets_are_a_subsequence_within_the_budget_with_every_gap_between_them_marked_once(
    bullets: list[str], budget: int, query: str
) -> None:
    bullets = [f"{bullet} #{number}" for number, bullet in enumerate(bullets)]  # distinct
    lines = focus_bullets(query, "\n".join(bullets), budget).split("\n")
    kept = [number for number, bullet in enumerate(bullets) if bullet in lines]
    assert kept
    rebuilt = [bullets[kept[0]]]  # no mark for what is left out before the first and behind the last
    for one, following in pairwise(kept):
        rebuilt += ["- …"] * (following > one + 1) + [bullets[following]]
    assert lines == rebuilt

    sizes = [len(bullet) + 1 for bullet in bullets]
    spent = sum(sizes[number] for number in kept)
    assert len(kept) == 1 or spent <= budget
    asked = analyse(query).weights
    bearing = {number for number, bullet in enumerate(bullets) if set(words(bullet)) & asked.keys()}
    if bearing:
        assert set(kept) <= bearing
    # Nothing that bears on the question and fits into what is left was left out.
    assert all(sizes[number] > budget - spent for number in (bearing or set(range(len(bullets)))) - set(kept))
    if not bearing:
        assert 0 in kept


def test_the_best_bullet_stays_even_when_the_budget_is_too_small_for_it() -> None:
    best = "- " + "The courier of the order. " * 8
    assert focus_bullets("Which courier of the order?", f"- Lamps\n{best}\n- Order", 10) == best


def test_a_bullet_that_just_fits_is_kept() -> None:
    bullets = ["- The courier of the order.", "- Order 1", "- Order 2"]
    size = sum(len(bullet) + 1 for bullet in bullets)
    assert focus_bullets(QUERY, "\n".join(bullets), size) == "\n".join(bullets)
    assert focus_bullets(QUERY, "\n".join(bullets), size - 1) == "\n".join(bullets[:2])


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ([2], ["- order 2"]),
        ([0, 1], ["- order 0", "- order 1"]),
        ([3, 4], ["- order 3", "- order 4"]),
        ([1, 3], ["- order 1", "- …", "- order 3"]),
        ([0, 4], ["- order 0", "- …", "- order 4"]),
        ([0, 2, 3], ["- order 0", "- …", "- order 2", "- order 3"]),
        ([0, 2, 4], ["- order 0", "- …", "- order 2", "- …", "- order 4"]),
    ],
)
def test_gaps_are_marked_between_two_kept_bullets_only(kept: list[int], shown: list[str]) -> None:
    content = "\n".join(f"- {'order' if number in kept else 'lamps'} {number}" for number in range(5))
    assert focus_bullets(QUERY, content, 200).split("\n") == shown


def test_bullets_stand_in_the_notes_order_not_by_score() -> None:
    content = "- An order exists.\n- Lamps.\n- The courier of the order is used."
    assert focus_bullets(QUERY, content, 200) == "- An order exists.\n- …\n- The courier of the order is used."


def test_a_note_without_content_stays_empty() -> None:
    assert focus_bullets(QUERY, "", 100) == ""


# Events


def make_event(pre: int, change: str = "The courier changed to Night boat.", score: float = 0.8765) -> Hit:
    payload = {"overview": "A parcel is being sent.", "state_transition": change, "action": "click"}
    return Hit(f"event/run1/event_{pre:04d}_{pre + 1:04d}", "run1", pre, pre + 1, pre + 1, payload, score)


def test_a_full_event_word_for_word() -> None:
    items = render_event(1, make_event(1), QUERY, make_run(4), FULL, set())
    assert items == [
        ContextItem(
            "text",
            "## State-transition events\n\n### Event 1 (similarity 0.876, trajectory run1, states 1 -> 2)\n"
            "Transition: state 1 -> state 2\n"
            "Action: click('a2') -> [a2] link 'Go 2', clickable\n"
            "Overview: A parcel is being sent.\n"
            "Description: The courier changed to Night boat.",
            "run1",
            (),
            "event",
            0.8765,
        ),
        ContextItem("image", "/shots/1.png", "run1", (1,), "event", 0.8765),
        ContextItem("image", "/shots/2.png", "run1", (2,), "event", 0.8765),
    ]


def test_a_focused_event_has_the_change_but_no_action_overview_or_goal() -> None:
    entry = "(0.88, run1, states 1 -> 2)\nThe courier changed to Night boat."
    shown = [render_event(rank, make_event(1), QUERY, make_run(4), FOCUSED, set())[0].value for rank in (1, 3)]
    assert shown == [
        f"## State-transition events (similarity, trajectory)\n\n### Event 1 {entry}",
        f"### Event 3 {entry}",
    ]


def test_a_focused_event_keeps_what_bears_on_the_question_within_its_budget() -> None:
    change = (
        "Action on page Orders: press Save. " + "Lamps were lit, " * 10 + "the courier changed to Night boat. Done."
    )
    settings = RenderSettings(mode="focused", event_chars=60)
    text = render_event(2, make_event(1, change), QUERY, make_run(4), settings, set())[0].value
    head, body = text.split("\n")
    assert head == "### Event 2 (0.88, run1, states 1 -> 2)"
    assert body == focus_clauses(QUERY, change, 60) and "the courier changed to Night boat." in body and len(body) <= 60


def test_an_event_without_recorded_action_or_screenshots() -> None:
    run = make_run(3, action_annotated={1: None}, screenshot={0: None, 1: None})
    (text,) = render_event(2, make_event(0), QUERY, run, FULL, set())
    assert text.value == (
        "### Event 2 (similarity 0.876, trajectory run1, states 0 -> 1)\n"
        f"Transition: state 0 -> state 1\nAction: {NO_ACTION}\n"
        "Overview: A parcel is being sent.\nDescription: The courier changed to Night boat."
    )
    (text,) = render_event(2, make_event(0), QUERY, run, FOCUSED, set())
    assert text.value == "### Event 2 (0.88, run1, states 0 -> 1)\nThe courier changed to Night boat."


def test_focused_screenshots_are_shown_once_over_events_and_slices() -> None:
    run, seen = make_run(5), set[str]()
    items = [item for pre in (1, 2) for item in render_event(2, make_event(pre), QUERY, run, FOCUSED, seen)]
    items += render_slice(2, make_hit(run, 1, 2, 3), QUERY, run, FOCUSED, seen)
    items += render_slice(2, make_hit(run, 3, 4, 4), QUERY, run, FOCUSED, seen)
    assert [item.states for item in items if item.type == "image"] == [(1,), (2,), (3,), (4,)]
    full = [item for pre in (1, 2) for item in render_event(2, make_event(pre), QUERY, run, FULL, set())]
    assert [item.states for item in full if item.type == "image"] == [(1,), (2,), (2,), (3,)]


CHANGE = (
    'Action on page "Orders": press "Void, now". Message: "Order 12 was voided; it stays". The page changed to "Order 12". '
    'Page "Order 12" newly shows: heading "Order 12", button "Print", link "Back", field "Courier", text. '
    'Disappeared: "Filter", "Search".'
)


@pytest.mark.parametrize(
    ("query", "budget", "kept"),
    [
        ("Which courier field?", 60, '… Page "Order 12" newly shows: … field "Courier", text. …'),
        ("Which message is shown?", 60, '… Message: "Order 12 was voided; it stays". …'),
        ("Zeppelin?", 60, 'Action on page "Orders": press "Void, now". …'),
        (
            "Which courier field?",
            100,
            'Action on page "Orders": press "Void, now". … Page "Order 12" newly shows: … field "Courier", …',
        ),
        ("Zeppelin?", len(CHANGE), CHANGE),
        ("Is it pressed on the page of orders?", 15, "…"),
    ],
)
def test_a_change_keeps_what_bears_on_the_question_and_fills_the_budget_in_order(
    query: str, budget: int, kept: str
) -> None:
    found = focus_clauses(query, CHANGE, budget)
    assert len(found) <= budget
    if kept != "…":
        assert found == kept
    else:
        assert found.endswith("…") and len(found) == budget


CLAUSES = st.lists(
    st.tuples(
        st.sampled_from(["courier", "order lamp", 'the "Night, boat. now" boat', "cellar use", "Shown: a", "12"]),
        st.sampled_from([". ", ", ", "; ", ": ", "! ", "\n"]),
    ),
    min_size=1,
    max_size=12,
)


@given(CLAUSES, st.integers(10, 200), st.sampled_from([QUERY, "Zeppelin?", "Is the `lamp cellar` open?"]))
def test_a_cut_change_is_pieces_of_the_text_in_order_within_the_budget(
    clauses: list[tuple[str, str]], budget: int, query: str
) -> None:
    text = "".join(f"{clause} #{number}{end}" for number, (clause, end) in enumerate(clauses))
    found = focus_clauses(query, text, budget)
    assert len(found) <= budget or found == text
    position = 0
    for piece in found.split("…"):
        position = text.index(piece.strip(), position) + len(piece.strip())
    if found != text:
        assert "…" in found
    assert len(text) > budget or found == text


def test_brackets_in_an_action_that_never_close_take_no_long() -> None:
    start = time.process_time()
    assert _ELEMENT.sub("", "[a" * 40_000) == "[a" * 40_000
    assert time.process_time() - start < 1
