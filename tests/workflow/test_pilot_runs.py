"""Pilot studies in the whole pipeline: two readers and a coding agent, what is counted, and what is run again."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pipeline import Pipeline, make_pipeline, merged, overlay_for, write_script
from unit.dataroot import DataRoot, make_data_root
from unit.goalworld import ORDER
from workflow.conftest import JUDGE
from workflow.test_reruns import configured, edited, library, prompt

from lmev2.metrics import is_abstention
from lmev2.rows import AGENT_RUN, ANSWER, CONTEXT, ORACLE_CUT, read_rows

SHARD = "0of1"
SHOWN = ("oracle_trajectories", "oracle_slices_notes")
FILES = "oracle_trajectory_files"
CONTEXTS = ("no_context", *SHOWN)
LAST = {"export_figure4": 1, "plot_figure4": 1, "pilots": 1}
PRICE = {"input": 1000.0, "cached_input": 1000.0, "output": 0.0, "currency": "EUR"}
READER = [{"match": "# Question to answer:", "text": r"\boxed{the reader's answer}"}]
# It reads the page's code from the context, fails for one record, and knows nothing by itself.
OTHER = [
    {"match": "record 0: which", "error": "api_error", "text": "503 the endpoint is down"},
    {"match": "Code K-1-2'", "text": r"\boxed{K-1-2}"},
    {"match": "# Question to answer:", "text": r"\boxed{UNKNOWN}"},
]


def shell(command: str) -> str:
    return json.dumps({"thought": "next", "tool": "shell", "arguments": {"command": command}})


LOOK = shell("cat trajectories/*/trajectory.json | grep -o 'Code K-[0-9]-2' | head -1")
ANSWERS = [
    {"match": "written", "text": json.dumps({"thought": "done", "final": "It is written."})},
    *(
        {"match": f"Code K-{run}-2", "text": shell(f'echo \'{{"answer": "K-{run}-2"}}\' > answer.json; echo written')}
        for run in range(4)
    ),
    {"match": "INSTRUCTION.md", "text": LOOK},
]


def pilot_overlay(folder: Path) -> dict[str, Any]:
    overlay = overlay_for(folder, READER, JUDGE)
    DataRoot(folder / "data").edit_line("trajectories.jsonl", 2, lambda run: run.update(goal=ORDER))
    plain = {"backend": "scripted", "file": None, "context_length": 8192, "sampling": {"max_tokens": 512}}
    other = {
        **plain,
        "model": "scripted-other",
        "label": "Other reader",
        "script": write_script(folder / "other.jsonl", OTHER),
        "context_tokens": 700,
        "price": PRICE,
    }
    agent = {
        "agent": "loop",
        "backend": "scripted",
        "model": "scripted-agent",
        "script": write_script(folder / "agent.jsonl", ANSWERS),
        "isolation": "none",
        "attempts": 1,
    }
    pilots = {
        "readers": {"other": other},
        "figure4": {"readers": ["reader", "other"], "contexts": [*CONTEXTS, FILES]},
        "table6": {"readers": ["other"]},
    }
    over = {"pilots": pilots, "models": {"agent": agent}, "errors": {"allow": 14}, "render": {"mode": "full"}}
    overlay = merged(overlay, over)
    overlay["run"]["methods"] = ["no_retrieval", "rag_slice_notes"]
    return overlay


def calls(pipeline: Pipeline) -> set[str]:
    """Files of the call cache that hold replies."""
    return {str(path) for path in (pipeline.folder / "cache" / "chat").rglob("*.json")}


@pytest.fixture(scope="module")
def piloted(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline whose pilot studies are done."""
    folder = tmp_path_factory.mktemp("pilots")
    pipeline = make_pipeline(project, folder, pilot_overlay(folder))
    pipeline.run(f"results/answers/no_retrieval/small/{SHARD}.parquet")
    before = calls(pipeline)
    pipeline.run(f"results/pilots/answers/no_context/reader/{SHARD}.parquet")
    assert calls(pipeline) == before  # without context, the run's reader is asked what no_retrieval asked it
    pipeline.run("pilots")
    return pipeline


def table(pipeline: Pipeline, name: str) -> list[dict[str, str]]:
    with (pipeline.results / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def asked(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    rows = DataRoot(pipeline.folder / "data").questions
    return {row["id"]: row for row in rows if not is_abstention(row["question_type"])}


def test_every_reader_and_context_has_a_row_over_the_unflawed_questions(piloted: Pipeline) -> None:
    rows = {(row["reader"], row["context"]): row for row in table(piloted, "figure4") if row["source"] == "run"}
    readers = ("scripted-reader", "Other reader")
    keys = [(reader, context) for reader in readers for context in CONTEXTS]
    agent = ("Loop + scripted-agent", FILES)
    assert list(rows) == [*keys, agent, ("scripted-reader", "rag_slice_notes")]
    questions = asked(piloted)
    failing = sum("record 0: which" in row["question"] for row in questions.values())
    assert len(questions) == 8 and failing
    for (reader, context), row in rows.items():
        assert row["questions"] == "8"
        assert row["errors"] == (str(failing) if reader == "Other reader" else "0")
        assert row["error_kinds"] == (f"{failing} api_error" if reader == "Other reader" else "")
        if context in (*SHOWN, FILES):
            assert row["covered_before"] == "1.000" and row["covered"] == "1.000"
    assert rows["scripted-reader", "no_context"]["covered"] == "0.000"
    assert (rows["scripted-reader", "rag_slice_notes"]["tier"], rows[keys[0]]["tier"]) == ("small", "oracle")
    other = {context: float(rows["Other reader", context]["overall"]) for context in CONTEXTS}
    assert other["no_context"] == 0 < other["oracle_trajectories"] == other["oracle_slices_notes"]
    assert "INCOMPLETE" in (piloted.results / "figure4.md").read_text(encoding="utf-8")
    published = [row for row in table(piloted, "figure4") if row["source"] == "paper"]
    assert len(published) == 7
    for name in ("figure4.png", "figure4.pdf", "figure4.tex"):
        assert (piloted.results / name).stat().st_size > 1000


def test_contexts_are_cut_to_each_readers_budget(piloted: Pipeline) -> None:
    for context in SHOWN:
        for reader, budget in (("reader", 1200), ("other", 700)):
            path = Path(context) / reader / f"{SHARD}.parquet"
            cuts = {row["question_id"]: row for row in read_rows(piloted.results / "pilots/cuts" / path, ORACLE_CUT)}
            answers = list(read_rows(piloted.results / "pilots/answers" / path, ANSWER))
            assert set(cuts) == set(asked(piloted)) == {row["question_id"] for row in answers}
            for row in answers:
                assert row["items_dropped"] == 0 and row["context_tokens"] == row["context_tokens_before"] <= budget
                cut = cuts[row["question_id"]]
                assert 0 < cut["states_shown"] <= cut["states"] <= 3 and cut["trajectories"] == 1


def test_the_agent_answers_from_the_oracle_files_alone(piloted: Pipeline) -> None:
    path = piloted.results / "pilots"
    answers = {row["question_id"]: row for row in read_rows(path / f"answers/{FILES}/agent/{SHARD}.parquet", ANSWER)}
    for name, question in asked(piloted).items():
        record = question["question"].split("record ")[1][0]
        assert answers[name]["parsed"] == f"K-{record}-2" and answers[name]["model"] == "scripted-agent"
    runs = list(read_rows(path / f"runs/{SHARD}.parquet", AGENT_RUN))
    assert {(row["method"], row["outcome"], row["fault"]) for row in runs} == {(FILES, "finished", None)}
    assert {one.name for one in (path / "traces" / SHARD).iterdir() if one.is_dir()} == set(answers)
    for row in read_rows(path / f"contexts/{FILES}/agent/{SHARD}.parquet", CONTEXT):
        assert {state for item in row["items"] for state in item["states"]} == {0, 1, 2}  # nothing is cut


def test_table_6_has_the_published_rows_and_ours_with_their_cost(piloted: Pipeline) -> None:
    rows = table(piloted, "table6")
    assert [row["source"] for row in rows] == ["paper"] * 7 + ["run"]
    own = rows[-1]
    assert (own["model"], own["questions"], own["currency"]) == ("Other reader", "8", "EUR")
    path = piloted.results / f"pilots/answers/no_context/other/{SHARD}.parquet"
    tokens = sum(row["prompt_tokens"] for row in read_rows(path, ANSWER))
    assert float(own["cost"]) == pytest.approx(tokens / 1000, abs=1e-4) and tokens
    assert all(row["cost"] == row["questions"] == "" for row in rows[:-1])
    text = (piloted.results / "table6.md").read_text(encoding="utf-8")
    assert "This run" in text and "INCOMPLETE" in text and "scripted-other" in text


def test_every_table_that_is_not_made_from_the_database_tells_of_rewritten_goals(piloted: Pipeline) -> None:
    names = ("figure4", "table6", "table1", "statistics")
    piloted.run(*(f"results/{name}.md" for name in names))
    for name in names:
        text = (piloted.results / f"{name}.md").read_text(encoding="utf-8")
        assert "Goals: 1 of 4 goals rewritten without their routes (goals/report.csv)." in text, name


def test_a_change_runs_again_what_it_can_change(piloted: Pipeline) -> None:
    assert piloted.planned("pilots") == {}

    def with_other(**values: Any) -> Any:
        return configured(piloted, {"pilots": {"readers": {"other": values}}})

    answers = {"read_pilot_answers": 3, "score_pilot_answers": 3, "export_table6": 1, **LAST}
    with with_other(sampling={"temperature": 0.5}):
        assert piloted.planned("pilots") == answers
    with with_other(context_tokens=800):
        assert piloted.planned("pilots") == {**answers, "build_oracle_contexts": 2}
    with with_other(price={"input": 2.0}):
        assert piloted.planned("pilots") == {"export_table6": 1, "pilots": 1}
    with with_other(label="Another name"):
        assert piloted.planned("pilots") == {"export_table6": 1, **LAST}
    with with_other(concurrency=1, retries=0, timeout_s=9, endpoint="ELSEWHERE"):
        assert piloted.planned("pilots") == {}
    with edited(prompt(piloted, "oracle_web"), "# Question", "A line.\n\n# Question"):
        assert piloted.planned("pilots") == {"read_pilot_answers": 4, "score_pilot_answers": 4, **LAST}
    with edited(prompt(piloted, "agent_oracle"), "Use only local files", "Use local files only"):
        assert piloted.planned("pilots") == {"answer_oracle_files": 1, "score_pilot_answers": 1, **LAST}
    code = "RADIUS: Final = 1", "RADIUS: Final = 2"
    with edited(library(piloted, "pilots/oracle.py"), *code):
        assert piloted.planned("pilots")["build_oracle_contexts"] == 7
    with configured(piloted, {"pilots": {"figure4": {"contexts": ["no_context"]}}}):
        assert piloted.planned("pilots") == LAST


def test_a_data_root_without_labels_is_refused_before_any_job(project: Path, tmp_path: Path) -> None:
    overlay = pilot_overlay(tmp_path)
    make_data_root(tmp_path / "bare", trajectories=4, states=3, questions=14, evidence=False)
    overlay["data"]["root"] = str(tmp_path / "bare")
    pipeline = make_pipeline(project, tmp_path, overlay)
    failed = pipeline.run("-n", "results/figure4.csv", check=False)
    assert failed.returncode != 0
    said = f"oracle contexts (pilots.figure4) need evidence labels, but {tmp_path / 'bare'} has no evidence.jsonl"
    assert said in failed.stdout and "docs/pilots.md" in failed.stdout
    assert pipeline.planned("results/table2.csv")["read_answers"] == 2  # all else needs none
    with configured(pipeline, {"pilots": {"figure4": {"contexts": ["no_context"]}}}):
        assert pipeline.planned("results/figure4.csv")["build_oracle_contexts"] == 2


def without_a_label(root: DataRoot) -> tuple[str, str]:
    """A line of the labels' file, and what is said when it is gone."""
    kinds = {row["id"]: row["question_type"] for row in root.questions}
    lines = [(line.decode(), json.loads(line)["question_id"]) for line in root.lines("evidence.jsonl")]
    line, name = next((line, name) for line, name in lines if not is_abstention(kinds[name]))
    return f"{line}\n", f"1 of 8 questions without a flawed premise have none in evidence.jsonl ({name})"


def test_incomplete_labels_are_refused_before_any_model_call(project: Path, tmp_path: Path) -> None:
    pipeline = make_pipeline(project, tmp_path, pilot_overlay(tmp_path))
    root = DataRoot(tmp_path / "data")
    line, said = without_a_label(root)
    with edited(root.path / "evidence.jsonl", line, ""):
        failed = pipeline.run("pilots", check=False)
        assert failed.returncode != 0 and said in failed.stdout
        assert not calls(pipeline) and not (pipeline.results / "data").exists()
        for target in ("table2.csv", "table6.csv", f"pilots/answers/no_context/reader/{SHARD}.parquet"):
            assert pipeline.planned(f"results/{target}")  # they need none
    assert pipeline.planned("pilots")["build_oracle_contexts"] == 7


def test_contexts_of_former_labels_do_not_pass_for_those_of_incomplete_ones(piloted: Pipeline) -> None:
    root = DataRoot(piloted.folder / "data")
    line, _ = without_a_label(root)
    again = {"ingest_dataset": 1, "build_oracle_contexts": 7}
    with edited(root.path / "evidence.jsonl", line, ""):
        assert again.items() <= piloted.planned("pilots").items()
    labels = (root.path / "evidence.jsonl").rename(root.path / "elsewhere.jsonl")
    assert again.items() <= piloted.planned("pilots").items()
    labels.rename(root.path / "evidence.jsonl")
    assert piloted.planned("pilots") == {}


def test_readers_that_tables_cannot_tell_apart_are_refused(piloted: Pipeline) -> None:
    with configured(piloted, {"pilots": {"readers": {"other": {"label": "scripted-reader"}}}}):
        failed = piloted.run("-n", "pilots", check=False)
        assert failed.returncode != 0
        said = "pilots.figure4: readers must have different labels, found 'scripted-reader' of reader, other"
        assert said in failed.stdout
