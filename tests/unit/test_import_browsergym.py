"""``lmev2 import-browsergym``: recorded runs of both kinds become trajectories, aligned, checked and never overwritten."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from browsergymworld import TIERS, agentlab_run, arguments, neutral_run, neutral_step, refusal, write_json
from dataroot import DataRoot, png_bytes, write_png
from PIL import Image

from lmev2.browsergym.importing import import_runs
from lmev2.cli import main
from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset


def trajectories(out: Path) -> list[dict[str, Any]]:
    return DataRoot(out).trajectories


@pytest.mark.parametrize("kind", ["neutral", "agentlab"])
def test_a_run_becomes_an_aligned_trajectory(tmp_path: Path, kind: str) -> None:
    make = neutral_run if kind == "neutral" else agentlab_run
    source, out = make(tmp_path / "run"), tmp_path / "out"
    assert main(arguments(out, source)) == 0
    (run,) = trajectories(out)
    states = run.pop("states")
    name = run.pop("id")
    assert run == {
        "domain": "web",
        "environment": "testshop",
        "goal": "Find it",
        "outcome": "success",
        "start_url": "http://example.test/0",
    }
    assert len(name) == 12
    assert [state["action"] for state in states] == [None, "click('a0')", "fill('b1', 'x')"]
    assert [state["thought"] for state in states] == [None, "thought 0", "thought 1"]
    for number, state in enumerate(states):
        assert (state["state_index"], state["step"]) == (number, number)
        assert state["url"] == f"http://example.test/{number}"
        assert state["accessibility_tree"] == neutral_step(number)["axtree_txt"]
        assert state["screenshot"] == f"screenshots/{name}/{number}.png"
        assert (out / state["screenshot"]).read_bytes() == png_bytes(number)
        assert set(state) == {"state_index", "step", "url", "action", "thought", "accessibility_tree", "screenshot"}
    assert sorted(path.name for path in out.iterdir()) == ["screenshots", "trajectories.jsonl"]


def test_both_kinds_of_folder_of_one_run_have_one_id(tmp_path: Path) -> None:
    ids = set()
    for number, source in enumerate([neutral_run(tmp_path / "a"), agentlab_run(tmp_path / "b")]):
        report = import_runs([source], tmp_path / str(number), "web", "shop", TIERS)
        ids.add(report.runs[0].trajectory_id)
    assert len(ids) == 1


def test_runs_recorded_from_shipped_trajectories_give_them_back(project: Path, tmp_path: Path) -> None:
    shipped = project / "resources" / "minibench"
    runs = DataRoot(shipped).trajectories[:3]
    for run in runs:
        folder = tmp_path / "runs" / run["id"]
        write_json(folder / "run.json", {name: run[name] for name in ("goal", "outcome", "start_url")})
        after = [*run["states"][1:], {"action": None, "thought": None}]
        for state, following in zip(run["states"], after, strict=True):
            chosen = {name: following[name] for name in ("action", "thought")}
            name = f"steps/{state['state_index']:04}"
            write_json(
                folder / f"{name}.json", {"url": state["url"], "axtree_txt": state["accessibility_tree"], **chosen}
            )
            shutil.copy(shipped / state["screenshot"], folder / f"{name}.png")
    report = import_runs([tmp_path / "runs"], tmp_path / "out", "enterprise", "desk", TIERS)
    names = {run.folder.name: run.trajectory_id for run in report.runs}
    imported = {run["id"]: run for run in trajectories(tmp_path / "out")}
    for run in runs:
        twin = imported[names[run["id"]]]
        for state in [*run["states"], *twin["states"]]:
            state["screenshot"] = state["screenshot"].rpartition("/")[2]
        assert twin | {"id": run["id"]} == run | {"domain": "enterprise", "environment": "desk"}


def test_what_was_imported_completes_to_a_data_root(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main([*arguments(out, neutral_run(tmp_path / "a"), agentlab_run(tmp_path / "b", reward=0)), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    needed = ["questions.jsonl", "haystacks/lme_v2_small.json", "haystacks/lme_v2_medium.json"]
    assert report["needed"] == needed
    assert main(["validate", str(out), "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert sorted(value["problems_by_file"]) == sorted(needed)
    ids = [run["trajectory_id"] for run in report["runs"]]
    question = {
        "id": "q1",
        "domain": "web",
        "environment": "testshop",
        "question_type": "procedure",
        "question": "?",
        "image": None,
        "answer": "x",
        "eval_function": "norm_phrase_set_match|lower=true",
    }
    write_json(out / "questions.jsonl", question)
    for tier in TIERS:
        write_json(out / f"haystacks/lme_v2_{tier}.json", {"q1": ids})
    assert main(["validate", str(out)]) == 0
    manifest = ingest_dataset(out, tmp_path / "ingested", TIERS)
    assert (manifest.trajectories_used, manifest.states, manifest.extra_fields) == (2, 6, {})


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"reward": 1.0}, "success"),
        ({"reward": 0.5}, "failure"),
        ({"reward": 0.0}, "failure"),
        ({"outcome": "success"}, "success"),
        ({"outcome": "failure", "reward": 0.0}, "failure"),
    ],
)
def test_outcome_of_neutral_runs(tmp_path: Path, facts: dict[str, Any], outcome: str) -> None:
    report = import_runs([neutral_run(tmp_path / "run", **facts)], tmp_path / "out", "web", "shop", TIERS)
    assert [run.outcome for run in report.runs] == [outcome]


@pytest.mark.parametrize("summary", [True, False])
@pytest.mark.parametrize(("reward", "outcome"), [(1.0, "success"), (0.4, "failure"), (0.0, "failure")])
def test_outcome_of_agentlab_runs(tmp_path: Path, summary: bool, reward: float, outcome: str) -> None:
    source = agentlab_run(tmp_path / "run", reward=reward, summary=summary)
    (run,) = import_runs([source], tmp_path / "out", "web", "shop", TIERS).runs
    assert run.outcome == outcome
    assert any("no summary_info.json" in note for note in run.notes) is not summary


def test_a_run_that_broke_off_loses_the_step_without_observation(tmp_path: Path) -> None:
    source = agentlab_run(tmp_path / "run", change={2: {"broken": True}}, reward=0)
    (run,) = import_runs([source], tmp_path / "out", "web", "shop", TIERS).runs
    assert run.states == 2
    assert "step_2.pkl.gz holds no observation, because the run broke off, and is left out" in run.notes
    assert "the last action led to no recorded observation and is left out" in run.notes
    (value,) = trajectories(tmp_path / "out")
    assert [state["action"] for state in value["states"]] == [None, "click('a0')"]


def test_notes_tell_what_the_format_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tmp_path / "out", agentlab_run(tmp_path / "run"))) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "1 image(s) of the goal are left out: a goal is text" in words
    assert "1 action(s) failed in the browser" in words
    assert "Still needed for a data root: questions.jsonl" in words


def test_addresses_of_older_recordings(tmp_path: Path) -> None:
    change = {number: {"url": ...} for number in range(3)}
    import_runs([agentlab_run(tmp_path / "run", change=change)], tmp_path / "out", "web", "shop", TIERS)
    (run,) = trajectories(tmp_path / "out")
    assert [state["url"] for state in run["states"]] == [f"http://example.test/{number}" for number in range(3)]


def test_screenshots_from_pixels_and_jpeg(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    source = agentlab_run(tmp_path / "run", pictures=False, change={0: {"screenshot": pixels}})
    Image.fromarray(pixels).save(source / "screenshot_step_1.jpg")
    write_png(source / "screenshot_step_2.png", 7)
    import_runs([source], tmp_path / "out", "web", "shop", TIERS)
    (run,) = trajectories(tmp_path / "out")
    shots = [tmp_path / "out" / state["screenshot"] for state in run["states"]]
    assert np.array_equal(np.asarray(Image.open(shots[0])), pixels)
    assert all(shot.read_bytes().startswith(b"\x89PNG") for shot in shots)
    assert np.asarray(Image.open(shots[1])).shape == (6, 8, 3)


def test_trees_of_raw_observations_need_browsergym(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = {"nodes": [{"role": "x"}]}
    source = agentlab_run(tmp_path / "run", change={1: {"axtree_txt": ..., "axtree_object": tree}})
    monkeypatch.setitem(sys.modules, "browsergym", None)
    error = refusal(capsys, tmp_path / "out", source)
    assert "step_1.pkl.gz: found 'axtree_object' without 'axtree_txt'" in error
    assert "pip install browsergym-core" in error
    module = ModuleType("browsergym.utils.obs")
    calls: list[Any] = []

    def flatten_axtree_to_str(value: Any, **options: Any) -> str:
        calls.append((value, options["with_visible"], options["with_clickable"]))
        return "RootWebArea 'made'"

    module.flatten_axtree_to_str = flatten_axtree_to_str  # type: ignore[attr-defined]
    for name in ("browsergym", "browsergym.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "browsergym.utils.obs", module)
    import_runs([source], tmp_path / "out", "web", "shop", TIERS)
    (run,) = trajectories(tmp_path / "out")
    assert run["states"][1]["accessibility_tree"] == "RootWebArea 'made'"
    assert calls == [(tree, True, True)]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({1: {"axtree_txt": ...}}, "step_1.pkl.gz: found neither 'axtree_txt' nor 'axtree_object'"),
        ({1: {"url": 5}}, "step_1.pkl.gz: found int as 'url'"),
        ({1: {"broken": True}}, "step_1.pkl.gz: found NoneType as observation"),
        (
            {2: {"last_action": "click('z9')"}},
            "step_2.pkl.gz: found \"click('z9')\" as the observation's 'last_action'",
        ),
    ],
)
def test_agentlab_runs_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[int, dict[str, Any]], text: str
) -> None:
    source = agentlab_run(tmp_path / "run", change=change)
    error = refusal(capsys, tmp_path / "out", source)
    assert f"1 of 1 runs cannot be taken in:\n  {source}: " in error
    assert text in error
    assert not (tmp_path / "out").exists()


def break_neutral(name: str, folder: Path) -> None:
    step = folder / "steps/0001.json"
    value = json.loads(step.read_text(encoding="utf-8"))
    changes: dict[str, Any] = {
        "no run file": lambda: (folder / "run.json").unlink(),
        "no steps": lambda: shutil.rmtree(folder / "steps"),
        "a gap": lambda: [step.with_suffix(end).unlink() for end in (".json", ".png")],
        "twice": lambda: write_json(folder / "steps/01.json", value),
        "no screenshot": lambda: step.with_suffix(".png").unlink(),
        "malformed": lambda: step.write_text("{", encoding="utf-8"),
        "no tree": lambda: write_json(step, {"url": "x"}),
        "unknown field": lambda: write_json(step, {**value, "reward": 1}),
        "mistyped": lambda: write_json(step, {**value, "action": 3}),
        "no outcome": lambda: write_json(folder / "run.json", {"goal": "x"}),
        "wrong outcome": lambda: write_json(folder / "run.json", {"goal": "x", "outcome": "maybe"}),
        "two outcomes": lambda: write_json(folder / "run.json", {"goal": "x", "outcome": "success", "reward": 0.0}),
        "early actions": lambda: [
            write_json(folder / f"steps/{number:04}.json", {**neutral_step(number), "action": action})
            for number, action in enumerate([None, "click('a0')", "click('a1')"])
        ],
        "no picture": lambda: step.with_suffix(".png").write_text("no picture", encoding="utf-8"),
    }
    changes[name]()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no run file", "found no run.json"),
        ("no steps", "found no steps/NNNN.json"),
        ("a gap", "found 2 steps, but none of number 1"),
        ("twice", "0001.json and 01.json have the same number"),
        ("no screenshot", "steps/0001.json: found no 0001.png beside it"),
        ("malformed", "steps/0001.json: found malformed JSON"),
        ("no tree", "steps/0001.json: field 'axtree_txt': Field required"),
        ("unknown field", "steps/0001.json: field 'reward': Extra inputs are not permitted"),
        ("mistyped", "steps/0001.json: field 'action': Input should be a valid string"),
        ("no outcome", "run.json: found neither 'outcome' nor 'reward'"),
        ("wrong outcome", "run.json: field 'outcome': Input should be 'success' or 'failure'"),
        ("two outcomes", "run.json: found outcome 'success' with reward 0.0"),
        ("early actions", "steps/0000.json has no action, but steps/0002.json, the last one, has"),
        ("no picture", "steps/0001.json: the screenshot cannot be read (0001.png is no picture)"),
    ],
)
def test_neutral_runs_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    source = neutral_run(tmp_path / "run")
    break_neutral(name, source)
    good = neutral_run(tmp_path / "good", "Another")
    error = refusal(capsys, tmp_path / "out", source, good)
    assert f"1 of 2 runs cannot be taken in:\n  {source}: " in error
    assert text in error


def test_runs_that_do_not_fit_can_be_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = neutral_run(tmp_path / "runs/bad")
    (bad / "run.json").unlink()
    neutral_run(tmp_path / "runs/good")
    (tmp_path / "runs/never").mkdir()
    write_json(tmp_path / "runs/never/summary_info.json", {"cum_reward": 0, "err_msg": "x"})
    assert main([*arguments(tmp_path / "out", tmp_path / "runs"), "--skip-invalid", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["skipped"]) == {str(bad), str(tmp_path / "runs/never")}
    assert len(trajectories(tmp_path / "out")) == len(report["runs"]) == 1


def test_folders_of_runs_are_searched(tmp_path: Path) -> None:
    study = tmp_path / "study"
    agentlab_run(study / "2026-01-01_agent_on_task")
    neutral_run(study / "deeper/still/run", "Other goal")
    neutral_run(study / "_repeated", "Repeated")
    neutral_run(study / ".hidden", "Hidden")
    report = import_runs([study, study / "deeper"], tmp_path / "out", "web", "shop", TIERS)
    assert [run.folder.name for run in report.runs] == ["2026-01-01_agent_on_task", "run"]


def test_a_root_is_added_to_and_nothing_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    one, two = neutral_run(tmp_path / "one"), neutral_run(tmp_path / "two", "Other goal")
    assert main(arguments(out, one)) == 0
    (out / "trajectories.jsonl").write_bytes((out / "trajectories.jsonl").read_bytes().rstrip(b"\n"))
    first = (out / "trajectories.jsonl").read_bytes()
    capsys.readouterr()
    assert "the same run is in " in refusal(capsys, out, two, one)
    assert main([*arguments(out, two), "--prefix", "shop"]) == 0
    assert (out / "trajectories.jsonl").read_bytes().startswith(first + b"\n")
    ids = [run["id"] for run in trajectories(out)]
    assert ids[1].startswith("shop-") and len(set(ids)) == 2
    assert sorted(path.name for path in (out / "screenshots").iterdir()) == sorted(ids)
    capsys.readouterr()
    shutil.copytree(one, tmp_path / "copy")
    assert f"the same run is in {one} already" in refusal(capsys, tmp_path / "new", one, tmp_path / "copy")


def test_a_folder_in_the_way_leaves_the_root_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = neutral_run(tmp_path / "one"), neutral_run(tmp_path / "two", "Other goal")
    names = [run.trajectory_id for run in import_runs([one, two], tmp_path / "trial", "web", "shop", TIERS).runs]
    write_png(tmp_path / "out/screenshots" / names[1] / "0.png", 1)
    error = refusal(capsys, tmp_path / "out", one, two)
    assert f"found folder {tmp_path}/out/screenshots/{names[1]}, but no such trajectory" in error


def test_ids_depend_on_the_content_alone(tmp_path: Path) -> None:
    def name(folder: str, **facts: Any) -> str:
        source = neutral_run(tmp_path / folder, **facts)
        if folder == "other tree":
            write_json(source / "steps/0002.json", {**neutral_step(2), "axtree_txt": "RootWebArea ''"})
        if folder == "other picture":
            write_png(source / "steps/0002.png", 99)
        return import_runs([source], tmp_path / f"{folder} out", "web", "shop", TIERS).runs[0].trajectory_id

    assert name("a") == name("b") == name("c", outcome="success")
    assert len({name("d"), name("other tree"), name("other picture"), name("failed", reward=0.0)}) == 4


def test_half_characters_of_pages_are_kept_readable(tmp_path: Path) -> None:
    source = neutral_run(tmp_path / "run")
    write_json(source / "steps/0001.json", {**neutral_step(1), "axtree_txt": "RootWebArea '\ud83d x é'"})
    import_runs([source], tmp_path / "out", "web", "shop", TIERS)
    (run,) = trajectories(tmp_path / "out")
    assert run["states"][1]["accessibility_tree"].endswith(" x é'")


def test_sources_without_runs_are_bad_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "found no folder" in refusal(capsys, tmp_path / "out", tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert "found no run in" in refusal(capsys, tmp_path / "out", tmp_path / "empty")


def test_a_broken_root_is_not_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/trajectories.jsonl").write_bytes(b"{\n")
    assert "trajectories.jsonl, line 1" in refusal(capsys, tmp_path / "out", neutral_run(tmp_path / "run"))


def test_killed_in_the_middle_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lmev2.browsergym.importing._append", stop)
    with pytest.raises(KeyboardInterrupt):
        import_runs([neutral_run(tmp_path / "run")], tmp_path / "out", "web", "shop", TIERS)
    assert not (tmp_path / "out").exists()


def test_twenty_reasons_at_most_are_shown(tmp_path: Path) -> None:
    for number in range(25):
        (neutral_run(tmp_path / f"runs/{number}") / "run.json").unlink()
    with pytest.raises(DataError, match="25 of 25 runs cannot be taken in, the first 20 reasons") as caught:
        import_runs([tmp_path / "runs"], tmp_path / "out", "web", "shop", TIERS)
    assert len(caught.value.problems) == 20


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["run"],
        ["run", "--out", "o", "--domain", "moon", "--environment", "e"],
        ["run", "--out", "o", "--domain", "web"],
        ["run", "--out", "o", "--domain", "web", "--environment", " "],
        ["run", "--out", "o", "--domain", "web", "--environment", "e", "--prefix", "../x"],
    ],
)
def test_wrong_commands_end_with_2(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["import-browsergym", *options])
    assert stopped.value.code == 2
    assert "usage: lmev2" in capsys.readouterr().err
