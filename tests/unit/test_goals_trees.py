"""Copies of a goal in accessibility trees."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from dataroot import PIPELINE, SHARED_DATA
from goalworld import CLEAN_UP, ORDER, REWRITTEN, SORT
from hypothesis import given, settings
from hypothesis import strategies as st

from lmev2.goals.check import check, route_ranges
from lmev2.goals.trees import _Copies, holds_route, rewrite_tree
from lmev2.tree import Tree

PAGE = """\
RootWebArea 'Private Task'
\t[a1] link 'Service Catalog', clickable
\t[a2] link 'Assigned to me', clickable
{}
\t[a9] button 'Update'"""


def in_value(text: str) -> str:
    return f"\t[a3] textbox 'Description' value={text!r}, visible"


def in_name(text: str) -> str:
    return f"\t[a3] paragraph ''\n\t\tStaticText {text!r}"


def in_lines(text: str) -> str:
    lines = [f"\t\tStaticText {line.strip()!r}" for line in text.split("\n") if line.strip()]
    return "\t[a3] textbox 'Description'\n" + "\n\t\tLineBreak '\\n'\n".join(lines)


def in_wrapped_lines(text: str) -> str:
    words = text.split()
    lines = [" ".join(words[start : start + 5]) for start in range(0, len(words), 5)]
    return "\t[a3] textbox 'Description'\n" + "\n".join(f"\t\tStaticText {line!r}" for line in lines)


def in_one_line(text: str) -> str:
    return f"\t[a3] gridcell {' '.join(text.split())!r}, visible"


SHAPES = [in_value, in_name, in_lines, in_wrapped_lines, in_one_line]


def shown(tree: str) -> str:
    """All words of the task that a page shows, between the links and the button."""
    nodes = [node for node in Tree(tree).nodes if node.bid not in {"a1", "a2", "a9"}][1:]
    texts = [text for node in nodes for text in (node.name, node.value) if text and text != "Description"]
    return " ".join(" ".join(texts).split())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REWRITTEN)
def test_a_copy_becomes_the_sanitised_goal(name: str, shape: Callable[[str], str]) -> None:
    goal, sanitized, _ = REWRITTEN[name]
    tree = PAGE.format(shape(goal))
    changed, count = rewrite_tree(tree, goal, sanitized)
    assert count == 1
    assert shown(changed) == " ".join(sanitized.split())
    assert "link 'Service Catalog'" in changed and "link 'Assigned to me'" in changed
    assert all(node.role for node in Tree(changed).nodes)
    assert rewrite_tree(changed, goal, sanitized) == (changed, 0)


def test_title_and_description_in_fields_of_their_own() -> None:
    goal, sanitized, _ = REWRITTEN["order"]
    title, _, rest = goal.partition("\n")
    tree = PAGE.format(f"\t[a4] textbox 'Short description' value={title!r}\n{in_value(rest)}")
    changed, count = rewrite_tree(tree, goal, sanitized)
    assert count == 2
    assert shown(changed) == "Short description " + " ".join(sanitized.split())


def test_line_breaks_stay_line_breaks() -> None:
    sanitized = REWRITTEN["sort"][1]
    changed, _ = rewrite_tree(PAGE.format(in_value(SORT)), SORT, sanitized)
    value = next(node.value for node in Tree(changed).nodes if node.bid == "a3")
    assert value is not None
    assert [line.strip() for line in value.split("\n") if line.strip()] == [
        line.strip() for line in sanitized.split("\n") if line.strip()
    ]


@pytest.mark.parametrize("length", range(81, 200, 7))
@pytest.mark.parametrize("dots", ["...", "…", ""])
def test_a_copy_that_is_cut_keeps_no_route(length: int, dots: str) -> None:
    goal, sanitized, _ = REWRITTEN["sort"]
    body = " ".join(goal.split())[36:]
    cut = body[:length].strip() if dots else body[:length].rpartition(" ")[0]
    changed, _ = rewrite_tree(PAGE.format(in_one_line(cut + dots)), goal, sanitized)
    left = shown(changed)
    assert "Portfolios" not in left and "All Assets" not in left and 'Asset"' not in left
    assert " ".join(sanitized.split())[36:].startswith(left.removesuffix(dots).strip())


def test_escaped_quotes_are_written_back_escaped() -> None:
    goal = "Ask \"Bo\" about Ann's van. Navigate to the 'Vans' module of the 'Fleet' application. Then tell \"Ann\"."
    sanitized = 'Ask "Bo" about Ann\'s van. Then tell "Ann".'
    tree = PAGE.format(in_value(goal))
    assert "\\'" in tree
    changed, count = rewrite_tree(tree, goal, sanitized)
    assert count == 1 and f"value={sanitized!r}, visible" in changed


@pytest.mark.parametrize(
    "other",
    [
        "Service Catalog",
        "Order a trail camera",
        'the "Service Catalog" module',
        "Search for anything from the service catalog of this company",
        'How to navigate: read "Service Catalog" and "Self-Service" first',
    ],
)
def test_pages_that_share_some_words_stay(other: str) -> None:
    goal, sanitized, _ = REWRITTEN["order"]
    for shape in SHAPES:
        tree = PAGE.format(shape(other))
        assert rewrite_tree(tree, goal, sanitized) == (tree, 0)


def repeated(goal: str, times: int) -> list[str]:
    """Trees that hold a goal several times in one text or one run of lines."""
    log = " ".join(["Was: " + goal] + [f"Now: {goal}"] * (times - 1))
    lines = [f"\tStaticText 'Activity'\n\tStaticText {goal!r}"] * times
    return [
        "\n".join(f"\tStaticText {goal!r}" for _ in range(times)),
        "\n".join(lines),
        "\n".join([in_lines(goal)] + [in_lines(goal).partition("\n")[2]] * (times - 1)),
        f"\t[a3] textbox 'Log' value={log!r}",
    ]


@pytest.mark.parametrize("times", [2, 3, 50])
@pytest.mark.parametrize("name", ["order", "clean_up", "chart", "sort", "look_up", "points_back"])
def test_every_copy_of_several_is_rewritten(name: str, times: int) -> None:
    goal, sanitized, _ = REWRITTEN[name]
    for shown_as, wanted in zip(repeated(goal, times), repeated(sanitized, times), strict=True):
        tree = PAGE.format(shown_as)
        changed, count = rewrite_tree(tree, goal, sanitized)
        assert count == times
        assert shown(changed).split() == shown(PAGE.format(wanted)).split()
        assert holds_route(tree, goal, sanitized) and not holds_route(changed, goal, sanitized)
        assert rewrite_tree(changed, goal, sanitized) == (changed, 0)


def test_tags_of_markup_are_white_space() -> None:
    goal, sanitized, _ = REWRITTEN["order"]
    page = PAGE.format(in_one_line("<p>{}</p>"))
    changed, count = rewrite_tree(page.format(goal.replace("\n", "<br/>").replace("'", "\\'")), goal, sanitized)
    assert count == 1 and "Service Catalog" not in shown(changed)
    assert "<p>Order a trail camera" in changed and "'Strap\\': True}</p>" in changed
    assert not holds_route(changed, goal, sanitized)


@pytest.mark.parametrize(
    "written",
    [
        str.upper,
        lambda goal: goal.replace('"', "“"),
        lambda goal: goal.replace(" ", "_"),
        lambda goal: goal.replace(" ", "&nbsp;").replace("the", "<b>the</b>"),
    ],
)
def test_a_copy_that_is_written_otherwise_is_told_of(written: Callable[[str], str]) -> None:
    goal, sanitized, _ = REWRITTEN["clean_up"]
    for shape in (in_value, in_wrapped_lines):
        tree = PAGE.format(shape(written(goal)))
        assert holds_route(rewrite_tree(tree, goal, sanitized)[0], goal, sanitized)
        assert not holds_route(PAGE.format(shape(written(sanitized))), goal, sanitized)
    assert holds_route(f"[a1] textbox Description, value: {goal!r}", goal, sanitized)


@pytest.mark.parametrize("name", REWRITTEN)
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_told_of_a_rewritten_copy(name: str, shape: Callable[[str], str]) -> None:
    goal, sanitized, _ = REWRITTEN[name]
    changed, _ = rewrite_tree(PAGE.format(shape(goal)), goal, sanitized)
    assert not holds_route(changed, goal, sanitized)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from("abcde"), min_size=4, max_size=30), st.lists(st.sampled_from("abcde"), max_size=60))
def test_rows_of_words_are_those_of_both_texts_and_leave_no_long_one(goal: list[str], text: list[str]) -> None:
    copies = _Copies(" ".join(goal), "")
    runs = list(copies._runs(text))
    taken = [place for start, _, size in runs for place in range(start, start + size)]
    assert len(taken) == len(set(taken)) and taken == sorted(taken)
    for start, first, size in runs:
        assert text[start : start + size] == goal[first : first + size]
    left = "".join("." if place in taken else word for place, word in enumerate(text))
    rows = {"".join(goal[first : first + 6]) for first in range(len(goal) - 5)}
    assert not any(row in left for row in rows)


def test_an_unchanged_goal_changes_no_tree() -> None:
    tree = PAGE.format(in_value(CLEAN_UP))
    assert rewrite_tree(tree, CLEAN_UP, CLEAN_UP)[0] is tree


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300), st.sampled_from([ORDER, CLEAN_UP, SORT]))
def test_any_text_is_taken_and_unrelated_pages_stay(tree: str, goal: str) -> None:
    sanitized = next(after for before, after, _ in REWRITTEN.values() if before == goal)
    assert rewrite_tree(tree, goal, sanitized) == (tree, 0)


@pytest.mark.parametrize(
    "root", [SHARED_DATA / "realruns", PIPELINE / "resources" / "minibench"], ids=["realruns", "minibench"]
)
def test_pages_of_other_tasks_stay(root: object) -> None:
    path = SHARED_DATA / "realruns" if root == SHARED_DATA / "realruns" else PIPELINE / "resources" / "minibench"
    if not path.is_dir():
        pytest.skip("the real runs are not beside this checkout")
    with (path / "trajectories.jsonl").open(encoding="utf-8") as file:
        for run in map(json.loads, file):
            for state in run["states"][:3]:
                tree = state["accessibility_tree"]
                for goal, sanitized, _ in (REWRITTEN["order"], REWRITTEN["clean_up"], REWRITTEN["chart"]):
                    assert rewrite_tree(tree, goal, sanitized)[1] == 0


def test_results_of_all_shapes_pass_the_checker() -> None:
    for name in ("order", "clean_up", "chart", "sort"):
        goal, sanitized, _ = REWRITTEN[name]
        changed, _ = rewrite_tree(PAGE.format(in_one_line(goal)), goal, sanitized)
        assert check(goal, shown(changed)) == []
        assert route_ranges(shown(changed), stepwise=True) == []
