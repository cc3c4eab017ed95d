"""Actions: parsing never raises, and annotations equal a line-by-line lookup."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.actions import ActionCall, annotate_actions, element_ids, element_line, parse_action

BUTTON = "[a51] button 'Submit', clickable, visible"


@pytest.mark.parametrize(
    ("action", "name", "args", "elements"),
    [
        ("click('a51')", "click", ("a51",), ("a51",)),
        ('click("a51", button="right")', "click", ("a51",), ("a51",)),
        ("click(bid='a51')", "click", (), ("a51",)),
        ("fill('126', 'it is, (so)')", "fill", ("126", "it is, (so)"), ("126",)),
        ("select_option('a1', ['x', 'y'])", "select_option", ("a1", ["x", "y"]), ("a1",)),
        ("drag_and_drop('a', 'b')", "drag_and_drop", ("a", "b"), ("a", "b")),
        ("drag_and_drop(from_bid='a', to_bid='b')", "drag_and_drop", (), ("a", "b")),
        ("scroll(0, -300)", "scroll", (0, -300), ()),
        ("noop()", "noop", (), ()),
        ("goto('http://a51')", "goto", ("http://a51",), ()),
        ("send_msg_to_user('65')", "send_msg_to_user", ("65",), ()),
        ("click(126, 'left')", "click", (126, "left"), ()),
        ("click(name)", "click", ("name",), ()),
        # Not valid Python: read loosely.
        ("fill('126', 'it's')", "fill", ("126",), ("126",)),
        ("click('a51'", "click", ("a51",), ("a51",)),
        ('fill("126", "two\nlines")', "fill", ("126",), ("126",)),
        ("  click('a51')", "click", ("a51",), ("a51",)),
    ],
)
def test_reads_calls(action: str, name: str, args: tuple[object, ...], elements: tuple[str, ...]) -> None:
    (call,) = parse_action(action)
    assert (call.name, call.args, call.elements) == (name, args, elements)


def test_reads_several_calls_in_order() -> None:
    calls = parse_action("fill('a1', 'x')\nclick('a2')")
    assert [call.name for call in calls] == ["fill", "click"]
    assert element_ids("fill('a1', 'x')\nclick('a2')\nclick('a1')") == ("a1", "a2")


@pytest.mark.parametrize("action", [None, "", "   ", "just words", "'text'", "x = 1", "\0", "(", "[1, 2]"])
def test_text_without_a_call_has_none(action: str | None) -> None:
    assert parse_action(action) == ()


@given(st.one_of(st.text(), st.text(alphabet="click('a1\")\\,\n fill", max_size=40)))
def test_never_raises(action: str) -> None:
    assert all(isinstance(call, ActionCall) for call in parse_action(action))
    assert annotate_actions([None, action], ["[a1] button 'x'", ""])[1] is not None


@pytest.mark.parametrize("action", ["-" * 200_000, "(" * 5000, "a." * 100_000 + "b()", "f(" * 90 + ")" * 90])
def test_extreme_text_does_not_raise(action: str) -> None:
    parse_action(action)


def test_invalid_escapes_are_read_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    assert parse_action(r"fill('a1', '\d+')")[0].args == ("a1", r"\d+")
    assert not recwarn.list


def test_appends_the_line_of_the_state_before() -> None:
    trees = [f"RootWebArea 'x'\n\t{BUTTON}\n\t[a52] link 'y'", "RootWebArea 'after'\n\t[a51] button 'Other'"]
    assert annotate_actions([None, "click('a51')"], trees) == [None, f"click('a51') -> {BUTTON}"]


def test_falls_back_to_the_latest_earlier_state_that_had_it() -> None:
    trees = ["[a51] first", "\t[a51] second", "nothing", "[a51] its own state"]
    assert annotate_actions([None, None, None, "click('a51')"], trees)[3] == "click('a51') -> [a51] second"


def test_leaves_an_action_alone_when_no_earlier_state_had_the_element() -> None:
    trees = ["text about [a51] here", "[a51] only afterwards"]
    assert annotate_actions([None, "click('a51')"], trees)[1] == "click('a51')"


def test_annotates_both_ends_of_a_drag() -> None:
    trees = ["[a] item 'A'\n[b] item 'B'", ""]
    assert annotate_actions([None, "drag_and_drop('a', 'b')"], trees)[1] == (
        "drag_and_drop('a', 'b') -> [a] item 'A' | [b] item 'B'"
    )
    assert annotate_actions([None, "drag_and_drop('a', 'c')"], trees)[1] == "drag_and_drop('a', 'c') -> [a] item 'A'"


def test_a_message_is_not_taken_for_an_element() -> None:
    assert annotate_actions([None, "send_msg_to_user('65')"], ["[65] link 'x'", ""])[1] == "send_msg_to_user('65')"


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="1 actions do not fit 2 trees"):
        annotate_actions([None], ["", ""])


@given(
    st.lists(st.text(alphabet="[]a1\t \u2028\rx", max_size=12), max_size=12),
    st.sampled_from(["a", "1", "a1", "11", "a]", "x"]),
)
def test_lookup_equals_a_search_line_by_line(lines: list[str], element: str) -> None:
    expected = next((line.strip() for line in lines if re.match(rf"\s*\[{re.escape(element)}\]", line)), None)
    assert element_line("\n".join(lines), element) == expected


def test_lookup_in_large_trees_is_quick() -> None:
    text = "\tStaticText 'see [a9] and [a9] again'\n"
    trees = [text * 6000 for _ in range(30)]
    started = time.perf_counter()
    annotate_actions([None, *["click('a9')"] * 29], trees)
    assert element_line("[x" + "[a9]" * 100_000, "a9") is None
    assert time.perf_counter() - started < 5
