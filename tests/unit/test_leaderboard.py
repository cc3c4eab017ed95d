"""Leaderboard packages: their layout, their numbers, and every reason against one."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.harnessworld import edit_json, edit_record, make_world, point_runs

from lmev2.cli import main
from lmev2.data.errors import DataError
from lmev2.interchange import layout
from lmev2.interchange.leaderboard import Submission, build_package
from lmev2.lafs import Point, lafs
from lmev2.metrics import table_row

# Reference points of the tier small (paper, Table 2).
REFERENCE = [Point(0.2, 51.0), Point(177.2, 69.9), Point(26.9, 58.6), Point(108.3, 74.9)]


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    (tmp_path / "about.md").write_text("# What it is\n", encoding="utf-8")
    (tmp_path / "memory.py").write_text("class Memory: ...\n", encoding="utf-8")
    points = {"fast": point_runs(tmp_path, "fast", 21), "slow": point_runs(tmp_path, "slow", 22)}
    return Submission("mine-1", tmp_path / "about.md", tmp_path / "memory.py", points, private=True)


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="ascii"))


def reasons(submission: Submission, tmp_path: Path) -> str:
    with pytest.raises(DataError) as refused:
        build_package(submission, tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    return str(refused.value)


def test_a_package_holds_what_the_leaderboard_asks_for(submission: Submission, tmp_path: Path) -> None:
    folder, tarball, warnings = build_package(submission, tmp_path / "out")
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    point_files = ["metric_overview.json", "operating_point_metadata.json"]
    point_files += [f"{domain}/{name}" for domain in ("web", "enterprise") for name in layout.RUN_FILES]
    expected = ["SYSTEM_DESCRIPTION.md", "memory.py", "submission_overview.json"]
    expected += [f"operating_points/{point}/{name}" for point in ("fast", "slow") for name in point_files]
    assert found == sorted(expected)
    with tarfile.open(tarball) as archive:
        members = archive.getmembers()
        assert sorted(member.name for member in members if member.isfile()) == [f"mine-1/{name}" for name in found]
        assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == (
            {(0, 0, 0, "", "")}
        )
        for member in members:
            if member.isfile():
                assert archive.extractfile(member).read() == (tmp_path / "out" / member.name).read_bytes()  # type: ignore[union-attr]
    for point, folders in submission.points.items():
        for domain, source in zip(("web", "enterprise"), folders, strict=True):
            for name in layout.RUN_FILES:
                copy = folder / "operating_points" / point / domain / name
                assert copy.read_bytes() == (source / name).read_bytes()
    assert str(tmp_path) not in "".join(
        path.read_text() for path in folder.rglob("*.json") if "runtime" not in str(path)
    )
    assert warnings == [
        "private package: not the whole benchmark: questions by domain are 14 web, 14 enterprise (28), the official ones "
        "240 web, 211 enterprise (451)"
    ]


def test_its_numbers_are_those_of_both_domains_together(submission: Submission, tmp_path: Path) -> None:
    folder, _, _ = build_package(submission, tmp_path / "out")
    content = load(folder / "submission_overview.json")
    points = []
    for name, seed in (("fast", 21), ("slow", 22)):
        world = make_world(tmp_path / "data", seed)
        row = table_row(world.scores)
        found = load(folder / "operating_points" / name / "metric_overview.json")
        latency = sum(one["latency_s"] for one in world.contexts) / len(world.contexts)
        assert found == pytest.approx(
            {
                "overall_full_set": row["overall"].value,
                "static_accuracy": row["static"].value,
                "dynamic_accuracy": row["dynamic"].value,
                "procedure_accuracy": row["workflow"].value,
                "gotchas_accuracy": row["gotchas"].value,
                "memory_query_avg_seconds": latency,
            }
        )
        points.append(Point(latency, 100 * float(row["overall"].value or 0)))
        metadata = load(folder / "operating_points" / name / "operating_point_metadata.json")
        assert (metadata["submission_name"], metadata["operating_point_name"]) == ("mine-1", name)
        assert (metadata["method"], metadata["tier"]) == ("rag", "small")
        assert sum(metadata["runs"]["web"]["question_type_counts"].values()) == 14
    assert (content["method"], content["tier"], content["private"]) == ("rag", "small", True)
    summary = content["lafs"]
    assert summary["reference_lafs"] == pytest.approx(lafs(REFERENCE))
    assert summary["submission_lafs"] == pytest.approx(lafs([*REFERENCE, *points]))
    assert summary["lafs_gain"] == pytest.approx(summary["submission_lafs"] - summary["reference_lafs"])
    assert next(one["name"] for one in summary["reference_frontier"]) == "RAG: query -> slice + notes"
    for one, point in zip(content["operating_points"], points, strict=True):
        assert one["lafs_accuracy_percentage_points"] == pytest.approx(point.accuracy)
        assert one["memory_query_avg_seconds"] == pytest.approx(point.latency_s)


def test_the_same_runs_give_the_same_tarball(submission: Submission, tmp_path: Path) -> None:
    first = build_package(submission, tmp_path / "one")[1].read_bytes()
    for path in sorted((tmp_path / "fast").rglob("*.json")):
        path.touch()
        path.chmod(0o600)
    assert build_package(submission, tmp_path / "other")[1].read_bytes() == first


def test_incomplete_runs_are_refused(submission: Submission, tmp_path: Path) -> None:
    broken = point_runs(tmp_path, "broken", 23, errors=0.3)
    text = reasons(replace(submission, points={**submission.points, "broken": broken}), tmp_path)
    assert text.startswith("no package of 'mine-1', for 2 reason(s):")
    for folder in broken:
        failed = sum(row["error"] is not None for row in make_world(tmp_path / "data", 23, errors=0.3).scores)
        assert f"point 'broken': {folder} is incomplete: " in text and failed > 0


def test_every_reason_is_listed(submission: Submission, tmp_path: Path) -> None:
    web, enterprise = submission.points["fast"]
    edit_json(web / layout.RUN_ARGS, lambda args: args.update(model="other", evaluator_model="other"))
    slow_web, slow_enterprise = submission.points["slow"]
    edit_json(slow_web / layout.AGGREGATED, lambda value: value["overall"].update(count_all_questions=3))
    edit_record(slow_enterprise, 2, lambda record: record.update(category="x"))
    bad = replace(
        submission,
        name="mine/1",
        description=tmp_path / "nothing.md",
        points={
            "fast ": (web, enterprise),
            "slow": (slow_web, slow_enterprise),
            "swapped": (enterprise, web),
            "gone": (tmp_path / "gone", enterprise),
        },
    )
    text = reasons(replace(bad, private=False), tmp_path)
    for part in (
        "submission name 'mine/1' may hold only",
        "operating point name 'fast ' may hold only",
        f"description: no file {tmp_path / 'nothing.md'}",
        "overall.count_all_questions is 3, but the records give 14",
        "field 'category': found 'x'",
        f"{enterprise} is a run of domain 'enterprise', expected one of 'web' there",
        f"{tmp_path / 'gone'}: no such folder",
        "reader 'other' does not contain 'qwen3.5-9b'",
        "judge 'other' does not contain 'gpt-5.2'",
    ):
        assert part in text, part


def test_points_must_be_of_one_method_tier_and_data(submission: Submission, tmp_path: Path) -> None:
    fast = submission.points["fast"]
    stranger = make_world(tmp_path / "data", 24, method="other").export(tmp_path / "stranger")
    fewer = make_world(tmp_path / "data", 0, questions=26).export(tmp_path / "fewer")
    points = {"fast": fast, "stranger": (stranger[0], stranger[1]), "fewer": (fewer[0], fewer[1])}
    text = reasons(replace(submission, points=points), tmp_path)
    assert "different methods: rag (" in text and "other (" in text
    assert "points 'fast' and 'stranger' have different web haystacks" in text
    assert "points 'fast' and 'fewer' have different web questions" in text
    medium = tmp_path / "medium" / "rag_web_medium"
    shutil.copytree(fast[0], medium)
    edit_json(medium / layout.RUN_ARGS, lambda args: args.update(tier="medium"))
    assert "different tiers: small (" in reasons(
        replace(submission, points={"a": fast, "b": (medium, fast[1])}), tmp_path
    )


def test_points_run_under_several_names_become_one_method_when_told(submission: Submission, tmp_path: Path) -> None:
    other = point_runs(tmp_path, "other", 25, method="rag_slow")
    both = replace(submission, points={"fast": submission.points["fast"], "slow": other})
    assert "different methods" in reasons(both, tmp_path)
    folder, _, _ = build_package(replace(both, method="rag"), tmp_path / "out")
    args = load(folder / "operating_points" / "slow" / "web" / layout.RUN_ARGS)
    assert args == {**load(other[0] / layout.RUN_ARGS), "method": "rag"}
    metadata = load(folder / "operating_points" / "slow" / "operating_point_metadata.json")
    assert (metadata["method"], metadata["runs"]["web"]["method"]) == ("rag", "rag_slow")


def test_no_latency_is_no_point(submission: Submission, tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 0)
    for row in world.contexts:
        row["latency_s"] = 0.0
    web, enterprise = world.export(tmp_path / "instant")
    text = reasons(replace(submission, points={"instant": (web, enterprise)}), tmp_path)
    for domain in ("web", "enterprise"):
        assert f"point 'instant', {domain} run: the latency must be above 0 s, found 0.0" in text


def test_a_private_package_may_have_other_models_and_questions_and_nothing_else(
    submission: Submission, tmp_path: Path
) -> None:
    for folders in submission.points.values():
        for folder in folders:
            edit_json(folder / layout.RUN_ARGS, lambda args: args.update(model="SmolLM2"))
    assert "reader 'SmolLM2' does not contain" in reasons(replace(submission, private=False), tmp_path)
    folder, _, warnings = build_package(submission, tmp_path / "out")
    assert sum("private package" in warning for warning in warnings) == 5
    content = load(folder / "submission_overview.json")
    assert content["private"] is True and len(content["rules_not_met"]) == 5
    assert str(tmp_path) not in json.dumps(content)
    edit_record(submission.points["fast"][0], 1, lambda record: record.update(category="x"))
    with pytest.raises(DataError, match="for 1 reason"):
        build_package(submission, tmp_path / "elsewhere")


def test_what_is_there_is_not_overwritten(submission: Submission, tmp_path: Path) -> None:
    build_package(submission, tmp_path / "out")
    with pytest.raises(DataError, match="exists already"):
        build_package(submission, tmp_path / "out")


def command(submission: Submission, tmp_path: Path, *more: str) -> list[str]:
    points = [f"--point={name}={web},{other}" for name, (web, other) in submission.points.items()]
    files = ["--description", str(submission.description), "--code", str(submission.code)]
    return [
        "leaderboard",
        "--name",
        submission.name,
        *files,
        *points,
        "--out",
        str(tmp_path / "out"),
        "--private",
        *more,
    ]


def test_the_command_line_packs(submission: Submission, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(submission, tmp_path)) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path}/out/mine-1\n{tmp_path}/out/mine-1.tar.gz\n"
    assert err.startswith("Warning: private package: not the whole benchmark")
    assert main(command(submission, tmp_path)) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(command(replace(submission, name="a b"), tmp_path)) == 1
    assert main(command(replace(submission, name="other"), tmp_path, "--reference", "nowhere.csv")) == 1


@pytest.mark.parametrize(
    "more", [["--point", "fast=a,b"], ["--point", "fast"], ["--point", "x=a"], ["--point", "x=a,b,c"], ["--loud"]]
)
def test_a_wrong_command_is_bad_usage(submission: Submission, tmp_path: Path, more: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(command(submission, tmp_path, *more))
    assert stopped.value.code == 2


def test_the_command_line_imports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(path) for path in make_world(tmp_path / "data", 26, errors=0.2).export(tmp_path / "runs")]
    arguments = [
        "import-run",
        *folders,
        "--name",
        "theirs",
        "--label",
        "Theirs",
        "--out",
        str(tmp_path / "imports/theirs"),
    ]
    assert main(arguments) == 0
    out, _ = capsys.readouterr()
    assert "rag_web_small: 14 questions of domain web; rows with an error:" in out
    assert f'run: {{imports: ["{tmp_path}/imports/theirs"]}}' in out
    assert main(arguments) == 1
    assert "Nothing was imported." in capsys.readouterr().err
    for wrong in (["--name", "a b"], ["--label", " "], ["--tier", "large"]):
        with pytest.raises(SystemExit) as stopped:
            main([*arguments, *wrong])
        assert stopped.value.code == 2
