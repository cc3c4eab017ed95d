"""The checker of rewritten goals."""

from __future__ import annotations

import re

import pytest
from goalworld import CHART, CLEAN_UP, LOOK_UP, ORDER, PROTOCOL, REWRITTEN

from lmev2.goals.check import Flag, check, kept_values, route_ranges
from lmev2.goals.quotes import quoted_spans
from lmev2.goals.values import pairs, stands_in, values


def kinds(before: str, after: str) -> set[str]:
    return {flag.kind for flag in check(before, after)}


@pytest.mark.parametrize(
    "route",
    [
        "in Reports > View/Run",
        'via the "Incidents" module',
        "with the Incidents module of “Service Desk”",
        'in the "Fleet" application',
        '(located in the "Yard Protocols" knowledge base)',
        "(located in the yard protocols knowledge base)",
        "from the “Requested Items” list",
        "“Self-Service” › “Service Catalog”",
        "within the Fleet application",
        "from the Self-Service menu",
        "in the Yard > Gates",
    ],
)
def test_a_route_in_the_result_is_flagged(route: str) -> None:
    assert kinds("Order a van.", f"Order a van {route}.") >= {"route_left"}
    assert kinds(f"Order a van {route}.", "Order a van.") == set()


def test_navigation_in_plain_words_is_a_route_only_among_steps() -> None:
    plain = "Navigate to the stock reports and count them."
    assert route_ranges(plain) == []
    assert kinds(f"1. {plain}\n2. Order one.", f"{plain} Order one.") == {"route_left"}
    assert kinds("1. Go to the van store and order 2.\n2. Wait.", "Go to the van store and order 2. Wait.") == {
        "route_left"
    }


def test_steps_that_keep_their_numbers_are_flagged() -> None:
    after = "Order a trail camera\n1. Look for it.\n2. Order 3 \"Trail Cam 9\"\" with configuration {'Choose the lens': 'Wide', 'Strap': True}"
    assert check(ORDER, after) == [Flag("route_left", "numbered steps")]


@pytest.mark.parametrize(
    "goal",
    [
        "Under the Change application, set the priority.",
        "Take care. In the Change application, set the priority.",
        "From the Self-Service menu, choose Knowledge and read.",
        'Access the "Problem" application and read.',
        "1. Navigate to the van. 2. Wash it.",
    ],
)
def test_names_that_a_sentence_begins_with_are_routes(goal: str) -> None:
    assert "route_left" in kinds(goal, goal)


@pytest.mark.parametrize(
    "goal",
    [
        'Install the "Camera" application on "VAN-1".',
        'Remove the licence of the "Camera" application.',
        "Fill in the application of Ada.",
        'Choose "Blue" from the "Colour" menu.',
        "Order from the Menu.",
    ],
)
def test_things_are_no_routes(goal: str) -> None:
    assert kinds(goal, goal) == set()


@pytest.mark.parametrize(
    "text",
    ["a > b", "Price >5 and Size> 3", "<Agent Name> All", "the application form", "Go to the sale page.", "a -> b"],
)
def test_what_is_no_route(text: str) -> None:
    assert route_ranges(text, stepwise=True) == []


@pytest.mark.parametrize("name", [name for name in REWRITTEN if name != "only_route"])
def test_losing_any_value_is_flagged(name: str) -> None:
    before, after, _ = REWRITTEN[name]
    found = kept_values(before)
    assert found or name in {"list", "which_list"}
    for value in found:
        without = re.sub(re.escape(value), "¤", after, flags=re.IGNORECASE)
        assert "value_lost" in kinds(before, without), value


@pytest.mark.parametrize("more", ['"Blue"', "42", "#SERIES-1", "INC0012345", "Bo-Ivar Moe-Dahl", "a@b.example"])
def test_an_invented_value_is_flagged(more: str) -> None:
    before, after, _ = REWRITTEN["clean_up"]
    assert kinds(before, f"{after} Also use {more}.") == {"value_invented"}


def test_a_value_that_changed_its_field_is_flagged() -> None:
    before = 'Set "Yard" is "North" and "Gate" is "Seven".'
    assert kinds(before, 'Set "Gate" is "Seven" and "Yard" is "North".') == set()
    assert kinds(before, 'Set "Gate" is "North" and "Yard" is "Seven".') == {"value_moved"}
    far = " and so on" * 10
    assert kinds(before, f'Set "Yard" {far} is "North" and "Gate" is "Seven".') == {"value_moved"}


def test_a_result_that_lost_the_task_is_flagged() -> None:
    before = "Count the crates that nobody has claimed since spring and report which yard holds them."
    assert kinds(before, "Do it.") == {"intent_lost"}


def test_names_of_the_route_are_no_values() -> None:
    assert kept_values(CLEAN_UP) == ["Short description", "#SERIES-77aa01bc-4"]
    assert set(kept_values(ORDER)) == {'Trail Cam 9"', "Choose the lens", "Wide", "Strap", "True", "3"}
    assert "Yard Protocols" not in kept_values(PROTOCOL)
    assert {"Scheduling Lifts", "#SERIES-0f0f0f0f-1", "2031-02-03", "04:05:06", "2031-02-09"} <= set(
        kept_values(PROTOCOL)
    )
    assert {"#CAT400500600", "crates", "yard", "crate requests", "Oak Crate", "2"} <= set(kept_values(CHART))
    assert {"Driver", "Lease end", "Runa-Lill Berg-Holm"} == set(kept_values(LOOK_UP))


def test_values_of_every_kind() -> None:
    text = (
        "Pay 1,200.50$ to Bo-Ivar Moe-Dahl <bo@yard.example>, see INC0012.\n- Lens: wide, long\n"
        "set \"A b\" is '' and 'C' is “D”, like {'k': [1], 'm': 'n'}"
    )
    expected = {
        "1,200.50",
        "Bo-Ivar Moe-Dahl",
        "bo@yard.example",
        "INC0012",
        "Lens",
        "wide, long",
        "wide",
        "A b",
        "C",
        "D",
    }
    assert {value.strip("<>,") for value in values(text)} == expected | {"k", "[1]", "m", "n"}
    assert pairs(text) == [("C", "D"), ("k", "[1]"), ("m", "n")]


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ('a "b" c', ["b"]),
        ('the 15" of "Pro 15"" for "x"', ['Pro 15"', "x"]),
        ("Ann's 'own' dogs' bone", ["own"]),
        ('value of "" for "Field"', ["", "Field"]),
        ("“a ’b” ‘Bo’s’", ["a ’b", "Bo’s"]),
        ("{'a': \"b\"} 'c'", ["{'a': \"b\"}", "c"]),
        ('order 4 "Pro 15"', ["Pro 15"]),
        ('an open " mark', []),
        ('"a" is "b\nc\nd" and "e"', ["a", "b\nc\nd", "e"]),
        ("“a\nb” {'c':\n 1}", ["a\nb", "{'c':\n 1}"]),
        ('"a\nand "b"', ["b"]),
        ('15" and\n 17" and "c"', ["c"]),
    ],
)
def test_quoted_spans(text: str, contents: list[str]) -> None:
    spans = quoted_spans(text)
    assert [span.content for span in spans] == contents
    assert all(span.content in text[span.start : span.end] for span in spans)


def test_a_value_stands_alone() -> None:
    assert stands_in("12", "order 12, now")
    assert not stands_in("12", "order 123 now") and not stands_in("it", "with")
    assert not stands_in("", "anything")
