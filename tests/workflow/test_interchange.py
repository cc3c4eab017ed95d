"""Run folders of the public harness in the whole pipeline: written, imported beside the run's rows, written again, packed."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from pipeline import METHODS, Pipeline, merged
from unit.harnessworld import edit_json

from lmev2.cli import main
from lmev2.interchange.layout import AGGREGATED, OURS, RECORDS, RUN_ARGS, RUN_FILES
from lmev2.rows import CONTEXT, SCORE, read_rows

METHOD, TIER = "rag_slice_notes", "small"
EXPORTED = ("no_retrieval", METHOD)
DOMAINS = ("web", "enterprise")


def configured(pipeline: Pipeline, folder: Path, over: dict[str, Any]) -> Pipeline:
    """The same run folder with more configuration laid over it."""
    overlay = merged(yaml.safe_load(pipeline.overlay.read_text(encoding="utf-8")), over)
    changed = dataclasses.replace(pipeline, overlay=folder)
    changed.configure(overlay)
    return changed


@pytest.fixture(scope="module")
def exported(finished: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A copy of a finished run with the run folders of some of its methods."""
    folder = tmp_path_factory.mktemp("interchange")
    shutil.copytree(finished.directory, folder / "run", symlinks=True)
    pipeline = configured(dataclasses.replace(finished, directory=folder / "run"), folder / "overlay.yaml", {})
    folders = len(METHODS) * len(DOMAINS)
    assert pipeline.planned("harness_runs") == {"export_harness_run": folders, "harness_runs": 1}
    pipeline.run(
        *(f"results/harness_runs/{name}_{domain}_{TIER}/{RUN_ARGS}" for name in EXPORTED for domain in DOMAINS)
    )
    left = folders - len(EXPORTED) * len(DOMAINS)
    assert pipeline.planned("harness_runs") == {"export_harness_run": left, "harness_runs": 1}
    return pipeline


@pytest.fixture(scope="module")
def imported(exported: Pipeline) -> Pipeline:
    """The run with one of its methods imported beside it, twice: as ours, and as others would write it."""
    runs = [exported.results / "harness_runs" / f"{METHOD}_{domain}_{TIER}" for domain in DOMAINS]
    theirs = exported.directory / "theirs"
    for run in runs:
        shutil.copytree(run, theirs / run.name)
        lines = (run / RECORDS).read_text(encoding="ascii").splitlines()
        plain = [{key: value for key, value in json.loads(line).items() if key != OURS} for line in lines]
        text = "".join(json.dumps(record) + "\n" for record in plain)
        (theirs / run.name / RECORDS).write_text(text, encoding="ascii")
        edit_json(theirs / run.name / RUN_ARGS, lambda args: args.update(model="another-reader"))
    for name, folders in (("again", runs), ("theirs", [theirs / run.name for run in runs])):
        out = exported.directory / "imports" / name
        command = ["import-run", *map(str, folders), "--name", name, "--label", f"Label of {name}", "--out", str(out)]
        assert main(command) == 0
    over = {"run": {"imports": ["imports/again", "imports/theirs"]}}
    pipeline = configured(exported, exported.directory / "imported.yaml", over)
    planned = pipeline.planned("results/table2.csv", "results/evidence.csv")
    assert planned == {"select_import": 2, "collect_scores": 1, "export_table2": 1, "export_evidence": 1}
    pipeline.run("results/table2.csv", "results/evidence.csv")
    return pipeline


def table(pipeline: Pipeline, name: str) -> dict[str, dict[str, str]]:
    with (pipeline.results / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def without(row: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in row.items() if name not in ("method", "label", *names)}


def test_run_folders_hold_the_tables_accuracies(exported: Pipeline) -> None:
    accuracies = {name: float(row["overall"]) for name, row in table(exported, "table2").items()}
    for method in EXPORTED:
        correct = count = 0.0
        for domain in DOMAINS:
            folder = exported.results / "harness_runs" / f"{method}_{domain}_{TIER}"
            assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json*")) == sorted(RUN_FILES)
            overall = json.loads((folder / AGGREGATED).read_text(encoding="ascii"))["overall"]
            correct += overall["overall_full_set"] * overall["count_all_questions"]
            count += overall["count_all_questions"]
        assert count == 14 and correct / count == pytest.approx(accuracies[method], abs=0.0006)


def test_an_imported_run_is_a_row_like_the_original(imported: Pipeline) -> None:
    rows, evidence = table(imported, "table2"), table(imported, "evidence")
    assert list(rows) == [*METHODS, "again", "theirs"]
    original = without(rows[METHOD], "significant")
    for name in ("again", "theirs"):
        assert {key: value for key, value in rows[name].items() if key in original} == {**original}
        assert rows[name]["label"] == f"Label of {name}"
    assert without(evidence["again"]) == without(evidence[METHOD])
    # Records of others do not say which states they show.
    assert (evidence["theirs"]["covered"], evidence["theirs"]["labelled"]) == ("", "0")
    assert evidence["theirs"]["gold_support"] == evidence[METHOD]["gold_support"]
    notes = (imported.results / "table2.md").read_text(encoding="utf-8")
    assert (
        "- Label of again on small is imported (reader: scripted-reader, judge: scripted-judge): 14 of 14 questions.\n"
        in notes
    )
    assert "- Label of theirs on small is imported (reader: another-reader, judge: scripted-judge)" in notes
    assert "its items do not tell their states" in notes


def test_imported_images_are_files_of_the_data_root(imported: Pipeline) -> None:
    rows = read_rows(imported.results / "contexts" / "again" / TIER / "imported.parquet", CONTEXT)
    images = [item["value"] for row in rows for item in row["items"] if item["type"] == "image"]
    assert images and all(Path(value).is_file() for value in images)


def test_questions_outside_the_sample_are_left_out(imported: Pipeline) -> None:
    over = {"run": {"questions": 7, "methods": ["no_retrieval"], "imports": ["imports/again"]}, "results": "fewer"}
    fewer = configured(imported, imported.directory / "fewer.yaml", over)
    fewer.run("fewer/table2.csv")
    notes = (fewer.directory / "fewer" / "table2.md").read_text(encoding="utf-8")
    assert "judge: scripted-judge): 7 of 7 questions; 7 of its questions are not in this run and left out" in notes
    scores = list(read_rows(fewer.directory / "fewer" / "scores" / "again" / TIER / "imported.parquet", SCORE))
    assert len(scores) == 7


def test_export_import_export_gives_equal_files(imported: Pipeline) -> None:
    runs = {domain: imported.results / "harness_runs" / f"{METHOD}_{domain}_{TIER}" for domain in DOMAINS}
    out = imported.directory / "imports" / METHOD
    assert (
        main(["import-run", *map(str, runs.values()), "--name", METHOD, "--label", "The same", "--out", str(out)]) == 0
    )
    over = {"run": {"methods": ["no_retrieval"], "imports": [f"imports/{METHOD}"]}, "results": "second"}
    second = configured(imported, imported.directory / "second.yaml", over)
    targets = [f"second/harness_runs/{METHOD}_{domain}_{TIER}/{RUN_ARGS}" for domain in DOMAINS]
    planned = second.planned(*targets)
    assert planned["export_harness_run"] == 2 and "read_answers" not in planned and "query_memory" not in planned
    second.run(*targets)
    for target, run in zip(targets, runs.values(), strict=True):
        for name in RUN_FILES:
            again = (second.directory / target).parent / name
            assert again.read_bytes() == (run / name).read_bytes(), name


def test_an_import_that_does_not_fit_is_refused_before_any_job(imported: Pipeline) -> None:
    for folders, message in (
        (["imports/nowhere"], "is no import folder: it lacks import.json"),
        (["imports/again", "imports/again"], "'again' on small is imported twice"),
    ):
        over = {"run": {"imports": folders}}
        failed = configured(imported, imported.directory / "wrong.yaml", over).run("-n", check=False)
        assert failed.returncode != 0 and message in failed.stdout


def test_a_run_of_the_pipeline_can_be_packed(
    exported: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(exported.results / "harness_runs" / f"{METHOD}_{domain}_{TIER}") for domain in DOMAINS]
    (tmp_path / "about.md").write_text("About.\n", encoding="utf-8")
    (tmp_path / "code.py").write_text("pass\n", encoding="utf-8")
    command = ["leaderboard", "--name", "mine", "--point", f"only={','.join(runs)}", "--out", str(tmp_path / "out")]
    command += ["--description", str(tmp_path / "about.md"), "--code", str(tmp_path / "code.py")]
    assert main(command) == 1
    assert "reader 'scripted-reader' does not contain 'qwen3.5-9b'" in capsys.readouterr().err
    assert main([*command, "--private"]) == 0
    overview = json.loads((tmp_path / "out" / "mine" / "submission_overview.json").read_text(encoding="ascii"))
    assert overview["private"] is True and overview["method"] == METHOD
