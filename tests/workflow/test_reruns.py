"""What a change plans, seen in dry runs over a finished run."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from pipeline import METHODS, Pipeline
from unit.dataroot import png_bytes

TABLES = {"collect_scores": 1, "export_table2": 1, "export_evidence": 1, "plot_table2": 1, "all": 1}


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    """Replace a piece of a file for the time of a test."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} no longer holds {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def test_the_run_made_a_table_with_every_row(finished: Pipeline) -> None:
    with (finished.results / "table2.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == METHODS
    assert list(rows[0]) == (
        [
            "method",
            "label",
            "tier",
            "overall",
            "static",
            "dynamic",
            "workflow",
            "gotchas",
            "latency_s",
            "questions",
            "errors",
        ]
    )
    assert {row["questions"] for row in rows} == {"14"}
    assert {row["errors"] for row in rows} == {"0"}
    # The judge accepts everything, the rules nothing: the judged share of the questions is right.
    assert {row["gotchas"] for row in rows} == {"1.000"}
    assert rows[0]["latency_s"] == "0.000" and float(rows[1]["latency_s"]) > 0


def test_a_second_run_has_nothing_to_do(finished: Pipeline) -> None:
    assert "Nothing to be done" in finished.run().stdout
    assert finished.planned() == {}


def test_the_judges_prompt_reruns_scores_and_tables_only(finished: Pipeline) -> None:
    prompt = finished.folder / "workflow" / "prompts" / "judge_gotchas.md"
    with edited(prompt, "strict grader", "very strict grader"):
        assert finished.planned() == {"score_answers": len(METHODS), **TABLES}


def test_the_readers_prompt_reruns_answers(finished: Pipeline) -> None:
    prompt = finished.folder / "workflow" / "prompts" / "reader_web.md"
    with edited(prompt, "experienced colleague", "colleague"):
        assert finished.planned() == {"read_answers": len(METHODS), "score_answers": len(METHODS), **TABLES}


def test_a_tables_query_reruns_that_table(finished: Pipeline) -> None:
    with edited(finished.folder / "workflow" / "sql" / "table2.sql", "AS overall", "AS total"):
        assert finished.planned() == {"export_table2": 1, "plot_table2": 1, "all": 1}


@pytest.mark.parametrize("module", ["scoring/judge.py", "rows.py", "models/cache.py", "memory/render.py"])
def test_a_comment_in_the_library_plans_nothing(finished: Pipeline, module: str) -> None:
    path = finished.folder / "src" / "lmev2" / module
    with edited(path, "from __future__ import annotations\n", "from __future__ import annotations\n\n# A remark.\n"):
        assert finished.planned() == {}


def test_a_changed_judge_reruns_scores_and_tables_only(finished: Pipeline) -> None:
    judge = finished.folder / "src" / "lmev2" / "scoring" / "judge.py"
    with edited(judge, "_REASON_CHARS: Final = 240", "_REASON_CHARS: Final = 120"):
        assert finished.planned() == {"score_answers": len(METHODS), **TABLES}


def test_changed_notes_rerun_only_the_methods_that_use_them(finished: Pipeline) -> None:
    overlay = yaml.safe_load(finished.overlay.read_text(encoding="utf-8"))
    text = yaml.safe_dump({**overlay, "pools": {"note": {"hint_chars": 999}}})
    with edited(finished.overlay, finished.overlay.read_text(encoding="utf-8"), text):
        planned = finished.planned()
    assert planned == {
        "generate_note": 1,
        "embed_pool": 2,
        "index_pool": 2,
        "query_memory": 1,
        "read_answers": 1,
        "score_answers": 1,
        **TABLES,
    }


def test_a_wrong_data_root_is_an_error_also_over_a_finished_run(finished: Pipeline) -> None:
    root = str(finished.folder / "data")
    with edited(finished.overlay, f"root: {root}", f"root: {root}-typo"):
        failed = finished.run("results/table2.csv", check=False)
    assert failed.returncode != 0 and f"no folder {root}-typo" in failed.stdout


def test_a_new_question_image_is_noticed(finished: Pipeline) -> None:
    image = next((finished.folder / "data" / "question_screenshots").glob("*.png"))
    content = image.read_bytes()
    try:
        image.write_bytes(png_bytes(99))
        assert "ingest_dataset" in finished.planned()
    finally:
        image.write_bytes(content)


def test_fewer_allowed_errors_repeat_the_calls_that_were_let_through(finished: Pipeline) -> None:
    text = finished.overlay.read_text(encoding="utf-8")
    with edited(finished.overlay, text, text + "errors: {allow: 2}\n"):
        planned = finished.planned()
    assert planned["read_answers"] == planned["score_answers"] == len(METHODS)


def test_mechanics_of_calls_plan_nothing(finished: Pipeline) -> None:
    with edited(finished.overlay, "concurrency: 2", "concurrency: 3"):
        assert finished.planned() == {}
