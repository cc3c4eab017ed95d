"""Goals that stand on the first page only, as a private task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browsergymworld import agentlab_run, neutral_run, observation
from dataroot import SHARED_DATA

from lmev2.browsergym.importing import import_runs, read_run
from lmev2.browsergym.private_task import SENTENCE, with_private_task
from lmev2.browsergym.run import Picture, Run, Step

DEV = SHARED_DATA / "workarena_goals_dev.jsonl"
TITLE = "Sort the van list."
TEXT = 'Sort the "van" list by:\n - Lease end (descending)\n\nDon\'t forget to mark this task as "Closed - complete".'


def page(title: str = TITLE, text: str = TEXT, more: str = "") -> str:
    """The form of a private task, as BrowserGym writes its tree."""
    return (
        "RootWebArea 'PTSK0001 | Private Task'\n\t[a1] heading 'Private Task'\n"
        f"\t[a2] textbox 'Number' value='PTSK0001', clickable, visible\n"
        f"\t[a3] textbox 'Short description' value={title!r}, clickable, visible\n"
        f"\t[a4] textbox 'Description' value={text!r}, clickable, visible\n"
        f"\t\tStaticText {text!r}{more}"
    )


def run(tree: str, goal: str = SENTENCE) -> Run:
    pixels = Picture(np.zeros((2, 2, 3), dtype=np.uint8))
    step = Step("step", "http://example.test/vtb_task.do", tree, None, None, "", pixels)
    other = replace(step, tree=page("Another", "Another text"))
    return Run(goal, True, None, (step, other), ("a note",))


@pytest.mark.parametrize("goal", [SENTENCE, f" {SENTENCE}\n"])
def test_the_goal_becomes_what_the_first_page_tells(goal: str) -> None:
    before = run(page(), goal)
    found = with_private_task(before)
    assert found.goal == f"{SENTENCE}\n\n{TITLE}\n{TEXT}"
    assert found.notes == ("a note", "the goal is taken from the private task on the first page")
    assert found.steps is before.steps and found.success is before.success


@pytest.mark.parametrize("goal", ["Find it", f"{SENTENCE}\n\n{TITLE}\n{TEXT}", "Please complete the following task"])
def test_other_goals_stay(goal: str) -> None:
    before = run(page(), goal)
    assert with_private_task(before) is before


@pytest.mark.parametrize(
    "tree",
    [
        "RootWebArea 'Home'\n\t[a1] link 'My work'",
        page(text=""),
        page(title=""),
        page(more="\n\t[a9] textbox 'Description' value='Something else'"),
        page().replace("textbox 'Desc", "heading 'Desc"),
        "",
    ],
)
def test_a_page_that_does_not_tell_it_leaves_the_sentence_and_a_note(tree: str) -> None:
    found = with_private_task(run(tree))
    assert found.goal == SENTENCE
    assert len(found.notes) == 2 and "the goal is only 'Please complete the following task.'" in found.notes[1]


def test_fields_shown_twice_or_marked_as_mandatory_are_one_field() -> None:
    again = f"\n\t[a8] textbox 'Mandatory - preloaded with saved data Short description' value={TITLE!r}, required"
    assert with_private_task(run(page(more=again))).goal == f"{SENTENCE}\n\n{TITLE}\n{TEXT}"


@pytest.mark.parametrize("kind", ["neutral", "agentlab"])
def test_both_kinds_of_folder_are_read_so(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "run"
    if kind == "neutral":
        neutral_run(folder, goal=SENTENCE)
        path = folder / "steps" / "0000.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"axtree_txt": page()}), encoding="utf-8")
    else:
        texts = {"goal": SENTENCE, "goal_object": ({"type": "text", "text": SENTENCE},)}
        first = observation(0, axtree_txt=page(), **texts)
        agentlab_run(folder, change={0: {name: first[name] for name in ("axtree_txt", *texts)}})
    assert read_run(folder).goal == f"{SENTENCE}\n\n{TITLE}\n{TEXT}"
    (report,) = import_runs([folder], tmp_path / "out", "enterprise", "workarena", ("small",)).runs
    assert "the goal is taken from the private task on the first page" in report.notes
    (line,) = (tmp_path / "out" / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["goal"] == f"{SENTENCE}\n\n{TITLE}\n{TEXT}"


@pytest.mark.skipif(not DEV.is_file(), reason=f"no real goals at {DEV}")
def test_real_goals_of_level_3_are_what_their_pages_tell() -> None:
    goals = [row["goal"] for line in DEV.open(encoding="utf-8") if (row := json.loads(line))["level"] == "L3"]
    assert len(goals) > 10
    for goal in goals:
        title, text = goal.removeprefix(f"{SENTENCE}\n\n").split("\n", 1)
        assert with_private_task(run(page(title, text))).goal == goal
