"""``lmev2 inspect``: a trajectory and its states, from an ingestion's tables or from a data root."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dataroot import DataRoot, make_data_root, make_id

from lmev2.cli import main
from lmev2.data.find import UnknownTrajectory, root_trajectory
from lmev2.data.ingest import ingest_dataset
from lmev2.goals.apply import apply_goals
from lmev2.terminal import display_width

RUN = make_id("trajectory", 2)


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return make_data_root(tmp_path / "root")


@pytest.fixture
def results(root: DataRoot, tmp_path: Path) -> Path:
    ingest_dataset(root.path, tmp_path / "results" / "data", ["small", "medium"])
    return tmp_path / "results"


@pytest.fixture(params=["results", "data"])
def place(request: pytest.FixtureRequest, root: DataRoot, results: Path) -> list[str]:
    """The options that name where to look."""
    return ["--results", str(results)] if request.param == "results" else ["--data", str(root.path)]


def out_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["inspect", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_states_stand_in_a_table(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of(capsys, RUN, *place)
    assert f"Trajectory  {RUN} (web, webarena)\nGoal        Find the code of record 2\n" in out
    assert "Outcome     failure, 4 states\nStart       http://example.test/run2/page0\n" in out
    rows = [re.split(r"  +", line) for line in out.split("\n") if re.match(r"\d", line)]
    assert rows == [
        ["0", "0", "Page 0 of run 2", "/run2/page0"],
        ["1", "1", "Page 1 of run 2", "/run2/page1", "click('a0')"],
        ["2", "2", "Page 2 of run 2", "/run2/page2", "fill('b1', 'note 1')"],
        ["3", "3", "Page 3 of run 2", "/run2/page3", rows[3][4]],
    ]
    assert rows[3][4].startswith("goto('http://example.te")


def test_a_runs_data_are_those_with_sanitised_goals_once_there_are(
    root: DataRoot, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = results / "goals" / "trajectories.parquet", results / "goals" / "states.parquet"
    old = results / "data" / "trajectories.parquet", results / "data" / "states.parquet"
    goals = [
        {"trajectory_id": run["id"], "goal": run["goal"], "sanitized": f"Rewritten {number}"}
        for number, run in enumerate(root.trajectories)
    ]
    apply_goals(*old, goals, *new)
    assert "Goal        Rewritten 2\n" in out_of(capsys, RUN, "--results", str(results))
    new[1].unlink()  # half made, they are not there
    assert "Goal        Find the code of record 2\n" in out_of(capsys, RUN, "--results", str(results))


@pytest.mark.parametrize("columns", [40, 80, 100, 200])
def test_the_table_fits_the_terminal(
    root: DataRoot, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    wide = "RootWebArea '" + "宽" * 80 + "', focused"
    changes = {"url": "http://example.test/" + "x" * 300 + "/end", "action": "fill('a', '" + "é" * 300 + "')"}
    root.edit_line("trajectories.jsonl", 3, lambda run: run["states"][1].update(changes, accessibility_tree=wide))
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = out_of(capsys, RUN, "--data", str(root.path)).split("\n")
    assert max(map(display_width, lines)) <= columns
    if columns == 200:
        assert any("/end" in line and "…" in line for line in lines)


def test_a_state_is_shown_whole(
    place: list[str], root: DataRoot, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    out = out_of(capsys, RUN, *place, "--state", "1")
    shot = root.path / "screenshots" / RUN / "1.png"
    assert out.startswith(
        f"State       1 of 0 to 3, trajectory {RUN}\nStep        1\nTitle       Page 1 of run 2\n"
        "Address     http://example.test/run2/page1\nLed here    click('a0')\n"
        "  on        [a0] link 'Next page 0', clickable, visible\n"
        f"Thought     Page 1 should show more.\nScreenshot  {shot}\n\nTree, lines 1 to 6 of 6\n"
    )
    assert "\n  [n0] navigation 'Main'\n    [a1] link 'Next page 1', clickable, visible\n" in out
    assert "more lines" not in out
    first = out_of(capsys, RUN, *place, "--state", "0")
    assert "Led here    (the start)\nThought     (none)\n" in first


def test_lines_of_the_tree_are_paged(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    lines = out_of(capsys, RUN, *place, "--state", "1", "--lines", "all").split("Tree, lines 1 to 6 of 6\n")[1]
    shown = []
    turn = "1-2"
    while turn:
        page = out_of(capsys, RUN, *place, "--state", "1", "--lines", turn)
        body = page.split(" of 6\n")[1].rstrip("\n").split("\n")
        more = re.fullmatch(r"\d more lines: --lines (\S+), or --lines all", body[-1])
        turn = more[1] if more else ""
        shown += body[: len(body) - bool(more)]
    assert "\n".join(shown) + "\n" == lines
    assert "Tree: 6 lines, none from 7 on" in out_of(capsys, RUN, *place, "--state", "1", "--lines", "7-9")


def test_json_is_whole(place: list[str], root: DataRoot, capsys: pytest.CaptureFixture[str]) -> None:
    value = json.loads(out_of(capsys, RUN, *place, "--json"))
    raw = root.trajectories[2]
    assert {name: value[name] for name in ("goal", "outcome", "start_url", "domain", "environment")} == {
        name: raw[name] for name in ("goal", "outcome", "start_url", "domain", "environment")
    }
    assert [state["action"] for state in value["states"]] == [state["action"] for state in raw["states"]]
    assert value["states"][1]["action_annotated"] == "click('a0') -> [a0] link 'Next page 0', clickable, visible"
    state = json.loads(out_of(capsys, RUN, *place, "--state", "2", "--json"))
    assert state["tree"] == raw["states"][2]["accessibility_tree"]
    assert state == value["states"][2] | {"tree": state["tree"]}


def test_an_unknown_id_names_the_closest(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", RUN[:-1] + "x", *place]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"There is no trajectory '{RUN[:-1]}x' among the 6 of " in err
    assert f"Closest: {RUN}" in err
    assert main(["inspect", RUN[2:6], *place]) == 1
    assert f"Closest: {RUN}" in capsys.readouterr().err
    assert main(["inspect", "~", *place]) == 1
    assert "Closest" not in capsys.readouterr().err


def test_an_unknown_state_names_the_known_ones(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", RUN, *place, "--state", "4"]) == 1
    assert f"Trajectory {RUN} has no state 4, only 0 to 3." in capsys.readouterr().err


def test_data_that_are_not_there_are_bad_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", RUN, "--results", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert f"found no {tmp_path}/data/states.parquet" in err and "--data DATA_ROOT" in err
    assert main(["inspect", RUN, "--data", str(tmp_path)]) == 1
    assert f"found no {tmp_path}/trajectories.jsonl" in capsys.readouterr().err


def test_a_broken_line_of_the_trajectory_is_named_and_others_do_not_matter(
    root: DataRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    root.replace_line("trajectories.jsonl", 2, b'{"id": "' + RUN.encode())
    root.replace_line("trajectories.jsonl", 1, b'{"states": [{"id": "' + RUN.encode() + b'"}], "id": "other"}')
    assert out_of(capsys, RUN, "--data", str(root.path)).startswith(f"Trajectory  {RUN}")
    lines = root.lines("trajectories.jsonl")
    broken = lines[2].replace(b'"goal"', b'"aim"', 1)
    root.replace_line("trajectories.jsonl", 3, broken)
    assert main(["inspect", RUN, "--data", str(root.path)]) == 1
    assert f"trajectories.jsonl, line 3, trajectory '{RUN}': field 'goal' is missing" in capsys.readouterr().err
    root.replace_line("trajectories.jsonl", 3, lines[2][:-20])
    assert main(["inspect", RUN, "--data", str(root.path)]) == 1
    assert f"line 3, trajectory '{RUN}': found malformed JSON" in capsys.readouterr().err


def test_a_missing_screenshot_does_not_keep_a_state_from_being_shown(
    root: DataRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    (root.path / "screenshots" / RUN / "1.png").unlink()
    assert "Screenshot  (none)\n" in out_of(capsys, RUN, "--data", str(root.path), "--state", "1")


def test_what_pages_wrote_cannot_command_the_terminal(root: DataRoot, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;title\x07 \x9b2J \u202e"
    changes = {"url": evil, "action": evil, "thought": evil, "accessibility_tree": f"RootWebArea 'A{evil}'"}
    root.edit_line("trajectories.jsonl", 3, lambda run: run.update(goal=evil))
    root.edit_line("trajectories.jsonl", 3, lambda run: run["states"][1].update(changes))
    for more in ([], ["--state", "1"], ["--json"], ["--state", "1", "--json"]):
        out = out_of(capsys, RUN, "--data", str(root.path), *more)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x", "y"],
        ["x", "--state", "-1"],
        ["x", "--state", "last"],
        ["x", "--lines", "0-3"],
        ["x", "--lines", "5-3"],
        ["x", "--lines", "some"],
        ["x", "--results", "a", "--data", "b"],
    ],
)
def test_wrong_commands_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["inspect", *arguments])
    assert stopped.value.code == 2
    assert "usage: lmev2" in capsys.readouterr().err


def test_output_that_nobody_reads_to_its_end_is_no_traceback(root: DataRoot) -> None:
    tree = "\n".join(f"\t[{number}] cell 'x'" for number in range(200_000))
    root.edit_line("trajectories.jsonl", 3, lambda run: run["states"][1].update(accessibility_tree=tree))
    command = [
        sys.executable,
        "-m",
        "lmev2",
        "inspect",
        RUN,
        "--data",
        str(root.path),
        "--state",
        "1",
        "--lines",
        "all",
    ]
    with subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_shipped_data(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of(capsys, "desk-01", "--data", str(project / "resources" / "minibench"))
    assert all(len(line) <= 80 for line in out.split("\n"))
    assert "Outcome     success, 11 states" in out


def test_an_id_that_is_no_text_is_unknown(tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "data")
    with pytest.raises(UnknownTrajectory):
        root_trajectory(root.path, "\udcff")
