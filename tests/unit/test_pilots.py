"""Oracle contexts: which states they show, what gives way to a budget, and how they are laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.test_memory_render import make_run, make_state

from lmev2.data.errors import DataError
from lmev2.memory.settings import RenderSettings
from lmev2.pilots.contexts import Budget, context_rows
from lmev2.pilots.oracle import Oracle, oracles, ranked_states, unflawed, windows
from lmev2.prompts import load_prompt
from lmev2.rows import CONTEXT, ORACLE_CUT, write_rows
from lmev2.trajectory import Trajectory
from lmev2.truncate import IMAGE_LEFT_OUT, fit_context

FULL = RenderSettings(mode="full")
FOCUSED = RenderSettings(mode="focused", slice_chars=200, note_chars=100)
QUESTION = {"question_id": "q", "question": "Which line does the page show?", "question_type": "procedure"}
NOTE = {"title": "How to send", "description": "From the crate.", "content": "- Press Send."}


class Words:
    """Counts words; an image costs 5."""

    def count(self, text: str) -> int:
        return len(text.split())

    def count_image(self, path: Path) -> int:
        return 5


class Store:
    """Trajectories by id."""

    def __init__(self, *runs: Trajectory):
        self.runs = {run.trajectory_id: run for run in runs}

    def trajectory(self, name: str) -> Trajectory:
        return self.runs[name]


def ignore(done: int, total: int) -> None:
    pass


def notes_of(*names: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    pools = (("procedure_note", "procedure"), ("hint_note", "hint"))
    return {(name, pool): {**NOTE, "title": f"{name} {kind}"} for name in names for pool, kind in pools}


def make_context(
    kind: Any,
    oracle: Oracle,
    runs: Sequence[Trajectory],
    budget: Budget | None = None,
    render: RenderSettings = FULL,
    notes: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The context row of the one question, and what of its oracle it shows."""
    known = notes_of(*(run.trajectory_id for run in runs)) if notes is None else notes
    (context,), (cut,) = context_rows(
        kind,
        [QUESTION],
        {"q": oracle},
        Store(*runs),
        known,
        render,
        budget,
        ignore,  # type: ignore[arg-type]
    )
    return context, cut


def states_in(context: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [
        (item["trajectory_id"], state)
        for item in context["items"]
        if item["type"] == "text"
        for state in item["states"]
    ]


def text_of(context: Mapping[str, Any]) -> str:
    return "\n".join(item["value"] for item in context["items"] if item["type"] == "text")


state_names = st.tuples(st.sampled_from(["run1", "run2", "run3"]), st.integers(0, 6))
oracles_drawn = st.lists(st.lists(state_names, min_size=1, max_size=4, unique=True), min_size=1, max_size=4).map(
    lambda hops: Oracle(tuple(map(tuple, hops)))
)


@given(st.sets(st.integers(0, 19), min_size=1), st.integers(0, 4))
def test_windows_hold_what_lies_near_and_never_meet(annotated: set[int], radius: int) -> None:
    found = windows(sorted(annotated), 20, radius)
    near = {state for state in range(20) if any(abs(state - one) <= radius for one in annotated)}
    assert {state for first, last in found for state in range(first, last + 1)} == near
    assert sum(last - first + 1 for first, last in found) == len(near)
    assert found == sorted(found)
    # Two windows are one exactly when a state lies in both: those of neighbours may touch.
    single = sorted((max(0, one - radius), min(19, one + radius)) for one in annotated)
    merges = sum(second[0] <= max(one[1] for one in single[: number + 1]) for number, second in enumerate(single[1:]))
    assert len(found) == len(single) - merges


@given(oracles_drawn)
def test_states_are_ranked_by_hops_and_then_by_distance(oracle: Oracle) -> None:
    candidates = {name: range(7) for name in oracle.trajectories}
    ranked = ranked_states(oracle, candidates)
    assert sorted(ranked) == sorted((name, state) for name in candidates for state in range(7))
    first = oracle.first_of_hops()
    assert ranked[: len(first)] == first and len(first) <= len(oracle.hops)
    assert all(set(first) & set(hop) for hop in oracle.hops)
    # No state of these could be left out: each is the first of a hop that the ones before it do not cover.
    for number, state in enumerate(first):
        assert any(hop[0] == state and not set(first[:number]) & set(hop) for hop in oracle.hops)

    def place(state: tuple[str, int]) -> tuple[int, int, int]:
        distance = min(abs(state[1] - one) for name, one in sum(oracle.hops, ()) if name == state[0])
        return distance, list(candidates).index(state[0]), state[1]

    rest = ranked[len(first) :]
    assert rest == sorted(rest, key=place)


def test_labels_of_unknown_trajectories_are_left_out_but_no_hop_is() -> None:
    questions = [{"question_id": name, "question_type": "procedure"} for name in ("a", "b")]
    rows = [
        {"question_id": "a", "hop": 1, "trajectory_id": "run2", "state_index": 3},
        {"question_id": "a", "hop": 0, "trajectory_id": "gone", "state_index": 0},
        {"question_id": "a", "hop": 0, "trajectory_id": "run1", "state_index": 2},
        {"question_id": "b", "hop": 0, "trajectory_id": "run1", "state_index": 1},
        {"question_id": "other", "hop": 0, "trajectory_id": "gone", "state_index": 1},
    ]
    found = oracles(questions, rows, {"run1", "run2"})
    assert found == {"a": Oracle(((("run1", 2),), (("run2", 3),))), "b": Oracle(((("run1", 1),),))}
    assert found["a"].trajectories == ("run1", "run2")
    with pytest.raises(DataError, match=r"1 of 2 questions .* have none in evidence\.jsonl \(b\)"):
        oracles(questions, rows[:3], {"run1", "run2"})
    with pytest.raises(DataError, match=r"1 questions names a trajectory that no haystack .* \(a\); set run\.tiers"):
        oracles(questions, rows, {"run1"})


def test_questions_with_a_flawed_premise_are_not_asked() -> None:
    kinds = ["procedure", "procedure-abs", "errors-gotchas", "static-environment-abs", "dynamic-environment"]
    kept = unflawed([{"question_type": kind} for kind in kinds])
    assert [row["question_type"] for row in kept] == ["procedure", "errors-gotchas", "dynamic-environment"]


@given(
    oracles_drawn, st.integers(0, 400), st.booleans(), st.sampled_from(["oracle_trajectories", "oracle_slices_notes"])
)
def test_a_budget_takes_what_matters_most_and_holds(oracle: Oracle, tokens: int, images: bool, kind: str) -> None:
    trees = {index: f"RootWebArea 'P'\n{'word ' * (7 * index)}" for index in range(7)}
    runs = [make_run(7, name, tree=trees) for name in ("run1", "run2", "run3")]
    budget = Budget(Words(), tokens, images)
    context, cut = make_context(kind, oracle, runs, budget)
    items = context["items"]
    assert fit_context(items, Words(), tokens, images).kept == len(items)
    shown = states_in(context)
    assert cut["states_shown"] == len(shown) == len(set(shown)) and set(shown) <= set(whole_of(oracle, kind))
    assert shown == [state for state in whole_of(oracle, kind) if state in shown]  # in the context's own order
    assert shown == sorted(chosen(oracle, runs, kind, tokens, images), key=whole_of(oracle, kind).index)
    everything, none_cut = make_context(kind, oracle, runs)
    assert states_in(everything) == whole_of(oracle, kind)
    assert none_cut["states_shown"] == none_cut["states"] == cut["states"] and none_cut["notes_shown"] == cut["notes"]


def whole_of(oracle: Oracle, kind: str) -> list[tuple[str, int]]:
    """All states that a context may show, in its order."""
    near = {name: {one + step for one in oracle.annotated(name) for step in (-1, 0, 1)} for name in oracle.trajectories}
    return [
        (name, state)
        for name in oracle.trajectories
        for state in range(7)
        if kind == "oracle_trajectories" or state in near[name]
    ]


def chosen(oracle: Oracle, runs: Sequence[Trajectory], kind: str, tokens: int, images: bool) -> set[tuple[str, int]]:
    """Brute force: the states that the rule gives room, by contexts made anew for every set."""
    by_name = {run.trajectory_id: run for run in runs}
    whole = whole_of(oracle, kind)
    first = oracle.first_of_hops()
    near = {name: oracle.annotated(name) for name in oracle.trajectories}
    rest = sorted(
        (state for state in whole if state not in first),
        key=lambda state: (min(abs(state[1] - one) for one in near[state[0]]), whole.index(state)),
    )
    notes = [(name, pool) for name in oracle.trajectories for pool in ("procedure_note", "hint_note")]
    steps: list[Any] = [*first, *(notes if kind == "oracle_slices_notes" else []), *rest]
    taken: list[Any] = []
    for step in steps:
        if cost([*taken, step], by_name, oracle, kind, images) <= tokens:
            taken.append(step)
    return {step for step in taken if isinstance(step[1], int)}


def cost(taken: Sequence[Any], runs: Mapping[str, Trajectory], oracle: Oracle, kind: str, images: bool) -> int:
    """Words of a context of these notes and states."""
    states = [step for step in taken if isinstance(step[1], int)]
    notes = [step for step in taken if not isinstance(step[1], int)]
    total = 0
    if notes:
        total += 12  # words of the heading
        total += sum(
            len(f"### Procedure note of trajectory {name} Title: {name} procedure".split()) for name, _ in notes
        )
        total += sum(len(f"Description: {NOTE['description']} {NOTE['content']}".split()) for _ in notes)
    if states:
        total += 13
    for name in {state[0] for state in states}:
        run = runs[name]
        head = f"### Trajectory {name} Goal: {run.goal} Outcome: {run.outcome} Start URL: {run.start_url} Actions: "
        actions = " ".join(f"{n} -> {n + 1}: {action}" for n, action in enumerate(run.action_sequence()))
        total += len((head + actions).split())
        own = {index for one, index in states if one == name}
        if kind == "oracle_slices_notes":
            for first, last in windows(oracle.annotated(name), len(run.states)):
                if own & set(range(first, last + 1)):
                    centres = [one for one in oracle.annotated(name) if first <= one <= last]
                    total += len(["####", "Evidence", "window:", "states", "0-1,", "around"]) + len(centres)
        for index in own:
            state = run.states[index]
            led = run.transition_action(index - 1) if index else "none (first state)"
            lines = f"[State {index} (step 1)] URL: {state.url} Action that led here: {led} Accessibility tree: {state.tree}"
            total += len(lines.split()) + (5 if images else len(IMAGE_LEFT_OUT.split()))
    return total


def test_slices_and_notes_are_laid_out_as_in_table_7(tmp_path: Path) -> None:
    one, two = make_run(6, "run1", goal="Send it"), make_run(3, "run2", goal="Void it")
    oracle = Oracle(((("run1", 1), ("run2", 2)), (("run1", 2), ("run1", 5))))
    context, cut = make_context("oracle_slices_notes", oracle, [one, two])
    text = text_of(context)
    marks = [
        "## Procedure and Hint Notes Learned from Previous Tasks in the Environment",
        "### Procedure note of trajectory run1\nTitle: run1 procedure\nDescription: From the crate.\n- Press Send.",
        "### Hint note of trajectory run1\nTitle: run1 hint\nDescription: From the crate.\n- Press Send.",
        "### Procedure note of trajectory run2\n",
        "### Hint note of trajectory run2\n",
        "## Oracle Trajectories and Relevant State Slices from Previous Tasks in the Environment",
        "### Trajectory run1\nGoal: Send it\nOutcome: success\nStart URL: http://shop.test\nActions:\n  0 -> 1: click('a1')",
        "#### Evidence window: states 0-3, around 1, 2",
        "[State 0 (step 10)]\nURL: http://shop.test/p0\n",
        "[State 3 (step 16)]",
        "#### Evidence window: states 4-5, around 5",
        "[State 5 (step 20)]",
        "### Trajectory run2\nGoal: Void it",
        "#### Evidence window: states 1-2, around 2",
        "[State 2 (step 14)]",
    ]
    places = [
        text.index(mark, 0 if number == 0 else text.index(marks[number - 1])) for number, mark in enumerate(marks)
    ]
    assert places == sorted(places)
    images = [(item["trajectory_id"], item["states"]) for item in context["items"] if item["type"] == "image"]
    assert images == [(name, [state]) for name, state in states_in(context)]  # each state is followed by its screenshot
    assert (cut["trajectories"], cut["notes"], cut["notes_shown"], cut["states"], cut["states_shown"]) == (
        2,
        4,
        4,
        8,
        8,
    )
    write_rows(tmp_path / "contexts.parquet", CONTEXT, [context])
    write_rows(tmp_path / "cuts.parquet", ORACLE_CUT, [cut])


def test_whole_trajectories_have_no_notes_and_no_windows() -> None:
    context, cut = make_context("oracle_trajectories", Oracle(((("run1", 1),),)), [make_run(4)], notes={})
    text = text_of(context)
    assert "Notes" not in text and "window" not in text and cut["notes"] == 0
    assert states_in(context) == [("run1", index) for index in range(4)]


def test_nothing_is_shown_without_context_and_a_trajectory_without_note_is_named() -> None:
    context, cut = make_context("no_context", Oracle(()), [])
    assert context["items"] == [] and (cut["states"], cut["notes"]) == (0, 0)
    with pytest.raises(DataError, match="'run1' has no procedure_note"):
        make_context("oracle_slices_notes", Oracle(((("run1", 1),),)), [make_run(4)], notes={})


@pytest.mark.parametrize("kind", ["oracle_trajectories", "oracle_slices_notes"])
def test_focused_contexts_show_each_hop_even_where_no_line_bears_on_the_question(kind: str) -> None:
    dull = {index: f"RootWebArea 'Other'\n\tbutton 'Zzz {index}'" for index in range(5)}
    telling = {3: "RootWebArea 'Lines'\n\tStaticText 'This page does show a line: 42'"}
    runs = [make_run(5, "run1", tree=dull), make_run(5, "run2", tree=dull | telling)]
    oracle = Oracle(((("run1", 4),), (("run2", 3), ("run2", 1))))
    context, cut = make_context(kind, oracle, runs, render=FOCUSED)
    shown = states_in(context)
    assert {("run1", 4), ("run2", 3)} <= set(shown)
    assert cut["states_shown"] == len(shown) < cut["states"]
    text = text_of(context)
    assert "RootWebArea 'Other'" in text and "a line: 42" in text
    assert text.count("Goal: Send the parcel") == 2  # above each trajectory, and nowhere else
    assert "Start URL" not in text and "### Trajectory run1 (success)" in text


def test_texts_that_no_file_can_hold_are_mended(tmp_path: Path) -> None:
    run = make_run(2, tree={1: "RootWebArea '\ud800'"}, goal="Half \ud83d")
    context, _ = make_context("oracle_trajectories", Oracle(((("run1", 1),),)), [run])
    write_rows(tmp_path / "contexts.parquet", CONTEXT, [context])


def test_the_readers_prompt_is_table_7s(project: Path) -> None:
    for domain in ("web", "enterprise"):
        prompts = [load_prompt(project / f"workflow/prompts/{kind}_{domain}.md") for kind in ("oracle", "reader")]
        assert prompts[0].system == prompts[1].system
        assert prompts[0].user == "# Memory context:\n{memory_context}\n\n# Question to answer:\n{question}"


def test_a_state_without_screenshot_has_text_alone() -> None:
    run = make_run(2)
    bare = Trajectory(**{**vars(run), "states": (make_state(0, screenshot=None), make_state(1, screenshot=None))})
    context, _ = make_context("oracle_trajectories", Oracle(((("run1", 1),),)), [bare])
    assert {item["type"] for item in context["items"]} == {"text"}
