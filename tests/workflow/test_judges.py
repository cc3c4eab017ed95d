"""Further judges and repeated verdicts in the whole pipeline: what they plan, what they write, and what they never touch."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pipeline import Pipeline, job_counts, make_pipeline, merged, overlay_for, write_script
from workflow.conftest import JUDGE, READER
from workflow.test_reruns import TABLES, configured, prompt

from lmev2.rows import SCORE, VERDICT, read_rows

METHODS = ["no_retrieval", "rag_slice"]
SCORED = {"score_answers": len(METHODS), **TABLES}
AGREEMENT = {"export_judge_agreement": 1, "write_provenance": 1, "all": 1}
CELL = "small/0of1"
# Of the answers that are judged, the second judge refuses those to questions with a record of an even number.
STRICT = [{"regex": r"record [02468]\b", "text": '{"label": 0, "reason": "no"}'}, *JUDGE]


def second(folder: Path, name: str = "second", rules: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    script = write_script(folder / f"{name}.jsonl", STRICT if rules is None else rules)
    return {name: {"backend": "scripted", "model": f"scripted-{name}", "script": script}}


@pytest.fixture(scope="module")
def judged(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A finished run with one judge. Tests put back what they change."""
    folder = tmp_path_factory.mktemp("judges")
    overlay = merged(overlay_for(folder, READER, JUDGE), {"run": {"methods": METHODS}})
    pipeline = make_pipeline(project, folder, overlay)
    pipeline.run()
    return pipeline


def table(pipeline: Pipeline, name: str) -> list[dict[str, str]]:
    with (pipeline.results / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_one_judge_makes_no_table_of_agreement(judged: Pipeline) -> None:
    assert not (judged.results / "judge_agreement.csv").exists() and judged.planned() == {}
    rows = list(read_rows(judged.results / "scores" / "rag_slice" / f"{CELL}.parquet", SCORE))
    assert {tuple(row["judge_labels"]) for row in rows if row["judge_label"] is not None} == {(1,)}


@pytest.mark.parametrize(
    "change",
    [{"model": "another-judge"}, {"sampling": {"temperature": 0.5}}, {"label_attempts": 5}],
    ids=["model", "sampling", "attempts"],
)
def test_another_judge_asks_no_reader(judged: Pipeline, change: dict[str, Any]) -> None:
    with configured(judged, {"models": {"judge": change}}):
        assert judged.planned() == SCORED


def test_repeats_score_again_and_make_the_table(judged: Pipeline) -> None:
    with configured(judged, {"models": {"judge": {"repeats": 3}}}):
        assert judged.planned() == {**SCORED, "export_judge_agreement": 1}


def test_a_further_judge_is_asked_and_compared_and_nothing_else(judged: Pipeline) -> None:
    with configured(judged, {"judges": second(judged.folder)}):
        assert judged.planned() == {"judge_again": len(METHODS), **AGREEMENT}


def test_an_even_number_of_repeats_and_a_taken_name_are_refused(judged: Pipeline) -> None:
    with configured(judged, {"models": {"judge": {"repeats": 2}}}):
        assert "repeats must be odd" in judged.run("-n", check=False).stdout
    # Not by writing judge.jsonl, which is the script of the run's own judge.
    with configured(judged, {"judges": {"judge": second(judged.folder)["second"]}}):
        assert "which is the run's own judge" in judged.run("-n", check=False).stdout


def test_agreement_of_two_judges_and_of_repeats(judged: Pipeline) -> None:
    before = [(judged.results / f"{name}.csv").read_bytes() for name in ("table2", "shares", "evidence")]
    over = {"judges": merged(second(judged.folder), {"second": {"repeats": 3}})}
    with configured(judged, over):
        assert job_counts(judged.run().stdout) == {"judge_again": len(METHODS), **AGREEMENT}
        assert judged.planned() == {}
        # How it is asked reruns nothing; what it is asked reruns its verdicts only.
        mechanics = {"concurrency": 3, "timeout_s": 5, "retries": 1, "endpoint": "ELSEWHERE"}
        with configured(judged, {"judges": {"second": mechanics}}):
            assert judged.planned() == {}
        with configured(judged, {"judges": {"second": {"model": "a-third"}}}):
            assert judged.planned() == {"judge_again": len(METHODS), **AGREEMENT}
        name = prompt(judged, "judge_gotchas")
        text = name.read_text(encoding="utf-8")
        name.write_text(text.replace("strict grader", "very strict grader"), encoding="utf-8")
        try:
            assert judged.planned() == {"judge_again": len(METHODS), **SCORED, "export_judge_agreement": 1}
        finally:
            name.write_text(text, encoding="utf-8")
    assert [(judged.results / f"{name}.csv").read_bytes() for name in ("table2", "shares", "evidence")] == before
    scores, verdicts = (
        {
            (row["question_id"], row["method"]): row
            for method in METHODS
            for row in read_rows(judged.results / folder / method / f"{CELL}.parquet", schema)
        }
        for folder, schema in (("scores", SCORE), ("judges/second", VERDICT))
    )
    asked = {key for key, row in scores.items() if row["judge_labels"] is not None}
    assert verdicts.keys() == asked and asked
    refused = [row for row in verdicts.values() if row["label"] == 0]
    assert 0 < len(refused) < len(asked) and all(row["labels"] == [row["label"]] * 3 for row in verdicts.values())
    rows = {(row["compared"], row["scorer"]): row for row in table(judged, "judge_agreement")}
    whole = rows["judges", "all"]
    assert (whole["judge"], whole["other"], whole["answers"]) == ("judge", "second", str(len(asked)))
    assert (whole["judge_only_1"], whole["other_only_1"]) == (str(len(refused)), "0")
    assert whole["agreement"] == f"{1 - len(refused) / len(asked):.3f}" and whole["kappa"] == "0.000"
    assert (whole["judge_flips"], whole["other_flips"]) == ("", "0.000")
    assert rows["repeats", "all"]["agreement"] == "1.000" and rows["repeats", "all"]["judge"] == "second"
    provenance = json.loads((judged.results / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["models"]["judges.second"]["settings"]["repeats"] == 3
    assert "judge_agreement.csv" in provenance["tables"]


def test_a_judge_that_fails_stops_the_table_of_agreement_and_no_other(judged: Pipeline) -> None:
    broken = second(judged.folder, "broken", [{"regex": r"record [02468]\b", "text": "I cannot tell."}, *JUDGE])
    with configured(judged, {"judges": broken}):
        failed = judged.run("--keep-going", check=False)
        assert failed.returncode != 0
        log = (judged.results / "logs" / "judge_again" / "broken" / "rag_slice" / f"{CELL}.log").read_text(
            encoding="utf-8"
        )
        assert "TooManyErrors" in log and "judge_error" in log
        assert judged.planned("results/table2.csv", "results/report/index.html") == {}
        with configured(judged, {"errors": {"allow": 14}}):
            rules = ("judge_again", "export_judge_agreement")  # scores, too, would be made again: fewer failures pass
            judged.run("results/judge_agreement.csv", "--allowed-rules", *rules)
    (whole,) = [row for row in table(judged, "judge_agreement") if row["scorer"] == "all"]
    assert int(whole["other_errors"]) > 0 and whole["judge_errors"] == "0"
    text = (judged.results / "judge_agreement.md").read_text(encoding="utf-8")
    assert text.startswith("# INCOMPLETE: Agreement of judges")
