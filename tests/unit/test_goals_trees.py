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
from lmev2.goals.trees import rewrite_tree
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
