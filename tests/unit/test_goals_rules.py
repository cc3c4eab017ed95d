"""Goals rewritten by rules."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import ModuleType

import pytest
from dataroot import PIPELINE, SHARED_DATA
from goalworld import REWRITTEN, UNCHANGED
from hypothesis import given, settings
from hypothesis import strategies as st

from lmev2.goals import check as check_module
from lmev2.goals import quotes, rewrite, routes, trees, values
from lmev2.goals.check import check, kept_values, names_route
from lmev2.goals.sanitize import only_check, sanitize

DEV_GOALS = SHARED_DATA / "workarena_goals_dev.jsonl"
SEED = sorted((SHARED_DATA.parent / "seed").glob("*.txt"))
WEB_ROOTS = (SHARED_DATA / "realruns", PIPELINE / "resources" / "minibench")

needs_dev_goals = pytest.mark.skipif(
    not DEV_GOALS.is_file(), reason="the development goals are not beside this checkout"
)


def dev_goals(level: str = "") -> list[str]:
    rows = [json.loads(line) for line in DEV_GOALS.read_text(encoding="utf-8").splitlines()]
    return [row["goal"] for row in rows if row["level"].startswith(level)]


@pytest.mark.parametrize("name", REWRITTEN)
def test_routes_go_and_the_task_stays(name: str) -> None:
    goal, expected, routes = REWRITTEN[name]
    result = sanitize(goal)
    assert result.text == expected
    assert result.removed_routes == routes
    assert result.flags == ()
    assert result.origin == "rules"


@pytest.mark.parametrize("goal", UNCHANGED)
@pytest.mark.parametrize("domain", ["web", "enterprise"])
def test_goals_without_a_route_pass_to_the_character(goal: str, domain: str) -> None:
    result = sanitize(goal, domain)
    assert (result.text, result.removed_routes, result.flags, result.origin) == (goal, (), (), "unchanged")


@pytest.mark.parametrize(
    "goal",
    [
        "Find the most expensive item in Men > Shoes.",
        "Compare Oak > Pine prices",
        "Find orders with Total > USD 100",
        "Go to Yard > Tools and add Clothing > Women > Dresses to my wish list",
        'Rate the "Photo" application 5 stars',
        'Find the "Wi-Fi" module with the best rating',
    ],
)
def test_paths_and_things_of_a_web_goal_are_data(goal: str) -> None:
    result = sanitize(goal, "web")
    assert (result.text, result.flags, result.origin) == (goal, (), "unchanged")
    assert only_check(goal, "web").flags == ()


def test_going_to_a_module_is_a_route_in_web_as_well() -> None:
    module = 'Navigate to the "Orders" module of the "Shop" application and count the orders.'
    assert sanitize(module, "web").text == "Count the orders."
    for goal in (module, 'Now open the "Shop" application and go back to the "Orders" module.'):
        assert {flag.kind for flag in only_check(goal, "web").flags} == {"route_left"}


# The goal, and what stands for the name that it would lose: in the text, or as a flag.
NAMES_IN_ROUTES = {
    "Navigate to Yard > GATE10023 and mend it.": "GATE10023",
    'Go to Reports > View/Run > "Bar chart #CAT55" and report the greatest value.': "Bar chart #CAT55",
    'Navigate to Drivers > "Ada Lund" and set the role to buyer.': "Ada Lund",
    'Navigate to Service Catalog > Hardware > "Trail Cam 3" and order two of them with "Lens" "Wide".': "Trail Cam 3",
    "Delete the driver in Drivers > Ada Lund.": "Ada Lund",
    "Remove the facility in Yards > Facilities > North Gate.": "North Gate",
    "Please complete the following task.\nNavigate to Ada Lund, then delete her.": "Ada Lund",
    "1. Wait.\n2. Navigate to the crate of Ada and close it": "crate of Ada",
    'Report a bug in the "Login" module of "Portal" and assign it to Ada.': "Login",
    "Open Cases > CASE77 and solve it.": "CASE77",
    'Navigate to the "Gate 7" page, and paint its door.': "Gate 7",
    "Open Yards > North Gate, then paint its door.": "North Gate",
    "Go to Drivers > Ada Lund. Then delete her.": "Ada Lund",
    'Navigate to the "North Gate" module of the "Yards" application. Paint it.': "North Gate",
}


@pytest.mark.parametrize("goal", NAMES_IN_ROUTES)
def test_what_the_task_is_about_is_kept_or_flagged(goal: str) -> None:
    name = NAMES_IN_ROUTES[goal]
    result = sanitize(goal)
    assert result.text != goal and not names_route(result.text)
    assert name in kept_values(goal)
    assert (name in result.text) != any((flag.kind, flag.detail) == ("value_lost", name) for flag in result.flags)
    assert ("value_lost", name) in [(flag.kind, flag.detail) for flag in check(goal, "Do it.")]
    assert sanitize(result.text).text == result.text
    assert {flag.kind for flag in result.flags if flag.detail != name} <= {"intent_lost"}


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ("Navigate to Yard > GATE10023 and mend it.", "Mend GATE10023."),
        ("Open Cases > CASE77 and solve it.", "Solve CASE77."),
        ("Please complete the following task.\nNavigate to Ada Lund, then delete her.", None),
        ("1. Wait.\n2. Navigate to the crate of Ada and close it", "Wait.\nClose the crate of Ada"),
        ("Open Yards > North Gate, then paint its door.", "Paint North Gate's door."),
        (
            'Navigate to Service Catalog > Hardware > "Trail Cam 3" and order two of them with "Lens" "Wide".',
            'Order two of "Trail Cam 3" with "Lens" "Wide".',
        ),
        ("Go to Vans > All and sort them.", "Sort them."),  # flagged
    ],
)
def test_a_clause_that_points_back_names_what_it_means(goal: str, expected: str | None) -> None:
    assert sanitize(goal).text == (expected or "Please complete the following task.\nDelete Ada Lund.")


@pytest.mark.parametrize(
    "goal",
    [
        "Go to Vans > All, find the van of Ada and wash it.",
        "Go to Reports > View/Run, search for it and report the greatest value of all.",
        'Navigate to the "Vans" module. Find what it costs.',
    ],
)
def test_what_points_at_something_else_makes_no_value_of_a_page(goal: str) -> None:
    assert sanitize(goal).flags == ()


def test_what_is_searched_for_goes_without_the_task() -> None:
    assert sanitize("Go to Reports > View/Run, search for it and report the greatest value.").text == (
        "Search for it and report the greatest value."
    )
    assert sanitize("Go to Reports > View/Run, search for it, and report the greatest value.").text == (
        "Report the greatest value."
    )
    goal = "Go to Reports > View/Run, search for the report with title #CAT012, and report its maximum."
    assert sanitize(goal).text == "Search for the report with title #CAT012, and report its maximum."
    goal = "Go to Reports > View/Run, search for the report, and report its maximum."
    assert sanitize(goal).text == "Report its maximum."


def test_a_place_that_the_sentence_is_about_stays_and_is_flagged() -> None:
    goal = 'Read the chart. The chart is at Reports > View/Run > "X" and the title is #Y.'
    result = sanitize(goal)
    assert result.text == goal
    assert [flag.kind for flag in result.flags] == ["route_left"]


@pytest.mark.parametrize("goal", ['(located in the "Yard" knowledge base)', "(in Yard > Gates)"])
def test_a_goal_of_nothing_but_places_stays_and_is_flagged(goal: str) -> None:
    result = sanitize(goal)
    assert (result.text, result.removed_routes) == (goal, ())
    assert {flag.kind for flag in result.flags} >= {"destination_unclear"}


def test_the_lead_in_to_steps_in_one_line_goes_with_their_numbers() -> None:
    steps = '1. Navigate to the "Vans" module of "Fleet". 2. Find the van "Ox". 3. Wash it.'
    for lead_in in ("", " Concretely, you need to complete the following steps:"):
        result = sanitize(f"Clean up.{lead_in} {steps}")
        assert (result.text, result.flags) == ('Clean up. Find the van "Ox". Wash it.', ())
    kept = 'Clean up. 1. Find the van "Ox". 2. Wash it.'
    assert [flag.detail for flag in check(f"Clean up. {steps}", kept)] == ["numbered steps"]


def test_numbers_that_count_no_steps_stay() -> None:
    goal = 'Navigate to the "Vans" module. Set the weight to 1. Set the height to 2. Wait.'
    assert sanitize(goal).text == "Set the weight to 1. Set the height to 2. Wait."
    assert sanitize(goal).flags == ()
    assert [flag.detail for flag in check(goal, "Set the weight to 1. Set the height. Wait.")] == ["2"]


def test_quoted_lines_are_no_steps_and_stay_as_they_are() -> None:
    quoted = 'Set "Instructions" to "1. Navigate to Yard > All\n2. Close it".'
    result = sanitize(f'Navigate to the "Articles" module of the "Knowledge" application. {quoted}')
    assert (result.text, result.flags) == (quoted, ())
    assert check(quoted, quoted.replace("Close", "Open"))


def test_a_goal_that_is_all_route_names_its_end_or_says_that_it_is_unclear() -> None:
    assert sanitize('Navigate to the "Gates" module of the "Harbour" application.').flags == ()
    result = sanitize('Navigate to the "All" module of the "Change" application.')
    assert [flag.kind for flag in result.flags] == ["destination_unclear"]


def test_checking_changes_nothing_and_flags_what_names_a_route() -> None:
    goal, expected, _ = REWRITTEN["order"]
    assert only_check(goal).text == goal
    assert {flag.kind for flag in only_check(goal).flags} == {"route_left"}
    assert only_check(expected).flags == ()


@pytest.mark.skipif(not SEED, reason="the paper's tables are not beside this checkout")
@pytest.mark.parametrize(
    ("family", "lost"),
    [
        ("Duplicate problem cleanup", set()),
        ("Dashboard-driven catalog restocking", set()),
        ("Requested-item reorder", set()),
        # The paper drops the field that the look-up filters by; a checker of values must notice.
        ("Hardware asset lookup", {"Assigned to"}),
    ],
)
def test_pairs_of_table_3(family: str, lost: set[str]) -> None:
    rows = [line.split("\t") for path in SEED for line in path.read_text(encoding="utf-8").splitlines()]
    before, paper = next((row[1], row[2]) for row in rows if len(row) == 3 and row[0] == family)
    ours = sanitize(before)
    assert names_route(before)
    assert not names_route(paper) and not names_route(ours.text)
    assert ours.flags == ()
    assert set(kept_values(paper)) <= set(kept_values(ours.text))
    assert {(flag.kind, flag.detail) for flag in check(before, paper)} == {("value_lost", value) for value in lost}
    assert sanitize(ours.text).text == ours.text
    assert sanitize(paper).text == paper


@needs_dev_goals
def test_every_development_goal_loses_its_route_and_no_value() -> None:
    goals = dev_goals()
    assert len(goals) == 120
    changed = 0
    for goal in goals:
        result = sanitize(goal)
        assert result.flags == (), (goal, result)
        assert not names_route(result.text)
        # The rewriter and the checker find routes in their own ways, and in the same goals.
        assert (result.text != goal) == names_route(goal)
        assert check(goal, result.text) == []
        again = sanitize(result.text)
        assert (again.text, again.flags, again.origin) == (result.text, (), "unchanged")
        changed += result.text != goal
    assert changed == 101


@needs_dev_goals
def test_development_goals_of_level_1_pass_unless_they_name_a_route() -> None:
    changed = [goal for goal in dev_goals("L1") if sanitize(goal).text != goal]
    assert len(changed) == 1 and changed[0].startswith('Navigate to the "')
    assert all(sanitize(goal).text != goal for level in ("L2", "L3") for goal in dev_goals(level))


@needs_dev_goals
def test_words_of_the_route_are_gone_from_development_goals() -> None:
    for goal in dev_goals():
        text = sanitize(goal).text.lower()
        for word in ('" module', "' module", '" application', "navigate to the", " > ", "knowledge base)", "steps:"):
            assert word not in text, (word, text)


@pytest.mark.parametrize("root", WEB_ROOTS, ids=["realruns", "minibench"])
def test_goals_of_the_data_roots_pass_unchanged(root: Path) -> None:
    if not root.is_dir():
        pytest.skip("the real runs are not beside this checkout")
    lines = (root / "trajectories.jsonl").read_text(encoding="utf-8").split("\n")
    runs = [json.loads(line) for line in lines if line]
    assert {run["domain"] for run in runs} == {"web", "enterprise"}
    for run in runs:
        result = sanitize(run["goal"], run["domain"])
        assert result.text == run["goal"] and result.flags == ()


NAMES = st.sampled_from(["Assets", "Service Catalog", "View/Run", "Users and Groups", "My Work", "Open Records", "All"])
VALUES = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="\"“”{}'‘’"), min_size=1, max_size=12)


@st.composite
def routed_goals(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A goal of sentences, some of which name a route, and the values in it."""
    path = " > ".join(draw(st.lists(NAMES, min_size=2, max_size=3)))
    module, application = draw(NAMES), draw(NAMES)
    field, value = draw(VALUES), draw(VALUES)
    place = draw(
        st.sampled_from([f'the "{module}" module of the "{application}" application', path, f"the {path} page"])
    )
    verb = draw(st.sampled_from(["Navigate to", "Go to", "Head to"]))
    task = f'set the “{field}” of the record to "{value}"'
    route = draw(
        st.sampled_from(
            [
                f"{verb} {place} and {task}.",
                f"{verb} {place}. Then {task}.",
                f"{verb} {place}, {task}.",
                f"Please {verb.lower()} {place}, then {task}.",
                f"Take care, then {verb.lower()} {place} and {task}.",
                f"1. {verb} {place}.\n2. {task}.",
                f"In {path}, {task}.",
            ]
        )
    )
    return f"Mend the record.{draw(st.sampled_from([' ', chr(10)]))}{route}", [field, value]


@settings(max_examples=300, deadline=None)
@given(routed_goals())
def test_generated_routes_go_and_their_values_stay(case: tuple[str, list[str]]) -> None:
    goal, values = case
    result = sanitize(goal)
    assert result.text != goal
    assert not names_route(result.text), result
    assert not [flag for flag in result.flags if flag.kind != "intent_lost"], result
    assert all(value in result.text for value in values)
    assert "et the “" in result.text
    assert sanitize(result.text).text == result.text


PIECES = st.sampled_from(
    [
        "Navigate to", "navigate to the", "go to", "open", " > ", "A", "Big List", '"', "“", "”", "'", "module", "application",
        "of the", ". ", ", ", " and ", "then", "\n", "1. ", "- ", "{'a': 1}", "\ue000", "\ue001", "0", " (located in the ",
        "knowledge base)", " ", "from the", "list", "x", "#A-1", "Create a filter where", "on this page",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES | st.text(max_size=4), max_size=25).map("".join))
def test_any_text_is_taken_and_a_second_run_changes_nothing(goal: str) -> None:
    for domain in ("web", "enterprise"):
        result = sanitize(goal, domain)
        assert sanitize(result.text, domain).text == result.text
        assert result.removed_routes or result.text == goal
        only_check(goal)


def test_long_goals_take_no_long() -> None:
    goal = "Aa Bb " * 2000 + "> " + "Cc, " * 2000 + "navigate to " * 500
    sanitize(goal)  # a pattern that tries every split would not come back


BLANKS = {"blanks": " ", "tabs": "\t", "newlines": "\n", "hard blanks": "\xa0"}
AROUND_BLANKS = (
    "Close it.{}Then go.", "a{}>", "Go to{}A", "go to A{}x", "In A{}> B, x", "x in A{}> B{}C", "- a{}b: c", "- a: b{}c",
    "-{}b", "- {}b: c", "Aa: b{}c", "Aa{}b: c", "search for it{}x. y", "1. navigate to{}a", "navigate to a{}b", "1.{}A",
    'the "A"{}module', 'navigate to "A"{}x', 'in the "A" module{}x', "x{},y", ", and{}then{}go", "x{}(in A > B", "x{}- in A",
    "x{}from{}this page", "x is located in{}A", "Ab-Cd{}Ab-Cd{}x", "open A > B{}and x", "please{}filter", "A{}> B{}and",
    "store{}and x", '"a"{}is "b"', "{}", "{}x", "x{}", "x.{}clear the filters", "Aa Bb{}Cc", '"x{}y', "StaticText{}'x",
)  # fmt: skip


def patterns(module: ModuleType) -> list[re.Pattern[str]]:
    values_of = [value for part in vars(module).values() for value in (part if isinstance(part, tuple) else [part])]
    return [value for value in values_of if isinstance(value, re.Pattern)]


def seconds(start: float) -> float:
    return time.process_time() - start


@pytest.mark.parametrize("blank", BLANKS)
def test_runs_of_white_space_take_no_long(blank: str) -> None:
    texts = [text.replace("{}", BLANKS[blank] * 5000) for text in AROUND_BLANKS]
    found = [
        pattern for module in (check_module, quotes, rewrite, routes, trees, values) for pattern in patterns(module)
    ]
    assert len(found) > 30
    for text in texts:
        for pattern in found:
            start = time.process_time()
            for _ in pattern.finditer(text):
                pass
            assert seconds(start) < 0.5, (pattern.pattern, text[:20])
        for domain in ("web", "enterprise"):
            start = time.process_time()
            sanitize(text, domain)
            assert seconds(start) < 0.5, text[:20]


@pytest.mark.parametrize("piece", ["then, ", " then ", " in A of\tA", "first "])
def test_runs_of_words_that_lead_up_to_a_route_take_no_long(piece: str) -> None:
    text = piece * (20_000 // len(piece))
    start = time.process_time()
    for pattern in (routes.NAVIGATION, routes.MODULE_NAVIGATION, routes.PLAIN_NAVIGATION, *routes.LOCATIONS):
        assert pattern.search(text) is None
    assert time.process_time() - start < 5
