"""Coding agents in the whole pipeline: their sandboxes, contexts, traces and costs, what fails, and what is run again."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from bwrap import needs_bwrap
from pipeline import Pipeline, make_pipeline, merged, overlay_for, write_script
from unit.dataroot import DataRoot
from workflow.conftest import JUDGE, READER
from workflow.test_reruns import TABLES, configured, edited, library, prompt

from lmev2.rows import AGENT_RUN, CONTEXT, SCORE, read_rows

pytestmark = needs_bwrap

ROWS = {
    "codex": [],
    "agentrunbook_c": ["workflow", "manifest", "helper"],
    "agentrunbook_c_no_helper": ["workflow", "manifest"],
}
METHODS = ["no_retrieval", *ROWS]
CELL = "small/0of1"
WITH_AGENTS = {**TABLES, "export_agents": 1}
ONE = {"query_agent_memory": 1, "read_answers": 1, "score_answers": 1, **WITH_AGENTS}


def agent_overlay(folder: Path) -> dict[str, Any]:
    overlay = overlay_for(folder, READER, JUDGE)
    return merged(overlay, {"run": {"methods": METHODS}})


@pytest.fixture(scope="module")
def searched(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A finished run of the rule-based agent."""
    folder = tmp_path_factory.mktemp("agents")
    pipeline = make_pipeline(project, folder, agent_overlay(folder))
    pipeline.run()
    return pipeline


def table(pipeline: Pipeline, name: str) -> list[dict[str, str]]:
    with (pipeline.results / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_row_finds_pages_and_is_told_of_in_the_tables(searched: Pipeline) -> None:
    assert [row["method"] for row in table(searched, "table2")] == METHODS
    agents = {row["method"]: row for row in table(searched, "agents")}
    assert list(agents) == list(ROWS)
    for row in agents.values():
        assert (row["agent"], row["model"], row["questions"], row["failed"]) == ("search", "rules", "14", "0")
        assert float(row["states"]) > 0 and row["requests"] == "0.0" and row["cost"] == ""
    assert float(agents["agentrunbook_c"]["commands"]) > 0
    evidence = {row["method"]: row for row in table(searched, "evidence")}
    assert float(evidence["agentrunbook_c"]["covered_before"]) == 1.0  # each question names its page
    notes = (searched.results / "table2.md").read_text(encoding="utf-8")
    assert "Codex" in notes and "calls no model" in notes
    for row in read_rows(searched.results / "contexts" / "agentrunbook_c" / f"{CELL}.parquet", CONTEXT):
        assert row["items"][0]["value"].startswith("## Support Analysis")
        assert {item["pool"] for item in row["items"][1:]} == {"span"}


def test_traces_tell_what_was_done_and_hold_no_haystack(searched: Pipeline) -> None:
    questions = {row["id"] for row in DataRoot(searched.folder / "data").questions}
    for method, parts in ROWS.items():
        folder = searched.results / "agent" / "traces" / method / CELL
        assert {path.name for path in folder.iterdir()} - {".snakemake_timestamp"} == questions
        for name in questions:
            files = sorted(path.name for path in (folder / name).iterdir())
            assert files == ["attempt_1.events.jsonl.gz", "summary.json"]
            text = gzip.decompress((folder / name / files[0]).read_bytes()).decode()
            events = list(map(json.loads, text.splitlines()))
            commands = [event["command"] for event in events if event["type"] == "command"]
            read = [event["what"] for event in events if event["type"] == "read"]
            assert any("inspect_trajectory.py" in command for command in commands) == ("helper" in parts)
            assert any("TRAJECTORY_SUMMARY" in what for what in read) == ("manifest" in parts)
            assert "StaticText" not in text
            summary = json.loads((folder / name / "summary.json").read_text(encoding="utf-8"))
            assert summary["attempts"][0]["outcome"] == "finished" and summary["output"]["spans"]
    assert not (searched.results / "logs" / "query_agent_memory" / "codex" / "small" / "0of1.traces").exists()


def test_runs_stand_in_the_database(searched: Pipeline) -> None:
    with duckdb.connect(str(searched.results / "metrics.duckdb"), read_only=True) as database:
        rows = database.execute(
            "SELECT method, count(*), sum(attempts), count(fault), count(cost) FROM agent_runs GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert rows == [(method, 14, 14, 0, 0) for method in sorted(ROWS)]


def test_trajectories_are_written_once_and_share_their_pictures(searched: Pipeline) -> None:
    pool = searched.results / "agent" / "pool" / "0of1"
    runs = DataRoot(searched.folder / "data").trajectories
    assert {path.name for path in pool.iterdir() if path.is_dir()} == {run["id"] for run in runs}
    picture = next(pool.glob("*/screenshots/*.png"))
    assert picture.stat().st_nlink > 1


def test_a_prompt_or_a_row_asks_agents_only_and_a_price_nobody(searched: Pipeline) -> None:
    with edited(prompt(searched, "agent_instruction"), "Be quick", "Be very quick"):
        three = dict.fromkeys(("query_agent_memory", "read_answers", "score_answers"), 3)
        assert searched.planned() == {**WITH_AGENTS, **three}
    with edited(prompt(searched, "reader_web"), "## User", "## User\n\nA line."):
        assert "query_agent_memory" not in searched.planned()
    fewer = {"methods": {"agentrunbook_c": {"parts": ["manifest"]}}}
    with configured(searched, fewer):
        assert searched.planned() == {**ONE, "export_methods": 1}
    with configured(searched, {"models": {"agent": {"isolation": "none"}}}):
        assert "query_agent_memory" not in searched.planned()
    priced = {"models": {"agent": {"price": {"input": 1.0, "cached_input": 0.1, "output": 9.0}}}}
    with configured(searched, priced):
        assert searched.planned() == WITH_AGENTS
    inside = "agent/inside/search_agent/rank.py"
    with edited(
        library(searched, inside), "from __future__ import annotations", "from __future__ import annotations\n\nX = 1"
    ):
        assert searched.planned()["query_agent_memory"] == 3
    assert searched.planned() == {}


def test_results_come_again_from_the_cache(searched: Pipeline, tmp_path: Path) -> None:
    files = [searched.results / f"{name}.csv" for name in ("table2", "agents", "evidence", "latencies")]
    before = {path.name: path.read_bytes() for path in files}
    shutil.move(searched.results / "agent" / "traces", tmp_path / "traces")
    shutil.rmtree(searched.results)
    searched.run()
    assert {path.name: path.read_bytes() for path in files} == before
    log = (searched.results / "logs" / "query_agent_memory" / "codex" / "small" / "0of1.log").read_text(
        encoding="utf-8"
    )
    assert log.count("from the cache") == 14
    for path in (tmp_path / "traces").rglob("*.gz"):
        again = searched.results / "agent" / "traces" / path.relative_to(tmp_path / "traces")
        assert again.read_bytes() == path.read_bytes()


def test_an_agent_that_cannot_run_is_noticed_before_any_work(project: Path, tmp_path: Path) -> None:
    overlay = agent_overlay(tmp_path)
    codex = {"agent": "codex", "backend": "openai", "model": "m", "program": "/nowhere/codex"}
    pipeline = make_pipeline(project, tmp_path, merged(overlay, {"models": {"agent": codex}}))
    done = pipeline.run(check=False)
    assert done.returncode != 0 and "/nowhere/codex" in done.stdout
    assert not (pipeline.results / "data").exists()
    # What needs no agent needs no program.
    pipeline.run("results/data/manifest.json")


def test_more_attempts_ask_nobody_again_and_isolation_is_told_as_it_was(searched: Pipeline) -> None:
    changed = {"models": {"agent": {"attempts": 5, "attempt_s": 99, "isolation": "none"}}}
    with configured(searched, changed):
        searched.run()
        log = searched.results / "logs" / "query_agent_memory" / "codex" / "small" / "0of1.log"
        assert log.read_text(encoding="utf-8").count("from the cache") == 14
    runs = read_rows(searched.results / "agent" / "runs" / "codex" / f"{CELL}.parquet", AGENT_RUN)
    assert {row["isolation"] for row in runs} == {"bubblewrap"}
    assert "Without isolation" not in (searched.results / "table2.md").read_text(encoding="utf-8")


def says(command: str) -> str:
    return json.dumps({"thought": "next", "tool": "shell", "arguments": {"command": command}})


def output(spans: list[dict[str, Any]]) -> str:
    return json.dumps({"memory_markdown": "## Support Analysis\nThere.", "trajectory_spans": spans})


def writing(text: str) -> str:
    return says(f"cat > memory_module_output.json <<'END'\n{text}\nEND\necho written")


@pytest.fixture(scope="module")
def faulty(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A finished run of the agent loop whose scripted model fails in every way, by the record that is asked for."""
    folder = tmp_path_factory.mktemp("faulty")
    overlay = agent_overlay(folder)
    runs = [run["id"] for run in DataRoot(folder / "data").trajectories]
    good = {"trajectory_id": runs[3], "start_state_index": 2, "end_state_index": 2}
    unknown = {"trajectory_id": "elsewhere", "start_state_index": 0, "end_state_index": 0}
    script = [
        {"match": "written", "text": json.dumps({"thought": "done", "final": "It is written."})},
        {
            "regex": r"(?s)record 1: which.*Mark",
            "text": writing(output([{**good, "trajectory_id": runs[1], "start_state_index": 0}])),
        },
        {"regex": r"record 0: which code does \S+ show\?\\nA\.", "text": "never", "error": "api_error"},
        {"match": "record 0: which", "text": writing('{"memory_markdown": "half')},
        {"match": "record 2: which", "text": says("sleep 60 & sleep 60")},
        {"match": "record 3: which", "text": writing(output([unknown, good]))},
        {"match": "query-time agent", "text": says("cat question.json")},
    ]
    agent = {
        "agent": "loop",
        "backend": "scripted",
        "model": "scripted-agent",
        "script": write_script(folder / "agent.jsonl", script),
        "attempts": 2,
        "attempt_s": 4,
        "max_states": 2,
        "price": {"input": 1000.0, "cached_input": 1000.0, "output": 0.0},
    }
    overlay = merged(overlay, {"models": {"agent": agent}, "errors": {"allow": 14}})
    overlay["run"]["methods"] = ["no_retrieval", "agentrunbook_c"]
    pipeline = make_pipeline(project, folder, overlay)
    pipeline.run()
    return pipeline


def test_each_fault_has_its_outcome_and_the_others_finish(faulty: Pipeline) -> None:
    questions = {row["id"]: row["question"] for row in DataRoot(faulty.folder / "data").questions}
    records = {name: text.split("record ")[1][0] for name, text in questions.items()}
    runs = {
        row["question_id"]: row
        for row in read_rows(faulty.results / "agent/runs/agentrunbook_c" / f"{CELL}.parquet", AGENT_RUN)
    }
    assert set(runs) == set(questions)
    told = {"0": "not_json", "1": "too_many_states", "2": "missing"}
    ended = {"0": "finished", "1": "finished", "2": "timeout"}
    for name, row in runs.items():
        record = records[name]
        if record == "3":
            assert row["fault"] is None and (row["attempts"], row["states"], row["spans_dropped"]) == (1, 1, 1)
            assert json.loads(row["dropped"])[0]["reason"] == "unknown_trajectory"
        else:
            # The endpoint fails for the one question about record 0 that has choices.
            crashed = "\nA. " in questions[name] and record == "0"
            assert row["attempts"] == 2 and ("missing" if crashed else told[record]) in row["fault"]
            assert row["outcome"] == ("crashed" if crashed else ended[record])
    scores = {
        row["question_id"]: row
        for row in read_rows(faulty.results / "scores/agentrunbook_c" / f"{CELL}.parquet", SCORE)
    }
    assert {scores[name]["error"] for name in runs if records[name] != "3"} == {"memory_error"}
    assert {scores[name]["error"] for name in runs if records[name] == "3"} == {None}


def test_failed_rows_are_counted_and_cost_what_they_cost(faulty: Pipeline) -> None:
    (row,) = table(faulty, "agents")
    failed = sum("record 3" not in question["question"] for question in DataRoot(faulty.folder / "data").questions)
    assert (row["agent"], row["model"], row["failed"]) == ("loop", "scripted-agent", str(failed))
    assert float(row["input_tokens"]) > 0 and float(row["requests"]) >= 2
    # 1000 for a million input tokens, nothing for output; the table rounds.
    assert float(row["cost"]) == pytest.approx(float(row["input_tokens"]) / 1000, abs=0.01)
    assert row["currency"] == "USD"
    table2 = {one["method"]: one for one in table(faulty, "table2")}["agentrunbook_c"]
    assert table2["errors"] == str(failed) and table2["error_kinds"] == f"{failed} memory_error"
    assert "INCOMPLETE" in (faulty.results / "table2.md").read_text(encoding="utf-8")


def test_without_leave_the_job_fails_keeps_its_traces_and_asks_again(faulty: Pipeline) -> None:
    overlay = yaml.safe_load(faulty.overlay.read_text(encoding="utf-8"))
    with edited(
        faulty.overlay,
        faulty.overlay.read_text(encoding="utf-8"),
        yaml.safe_dump(merged(overlay, {"errors": {"allow": 0}})),
    ):
        done = faulty.run(check=False)
    assert done.returncode != 0
    assert "memory_error: no usable output in 2 attempts: attempt 1: not_json" in done.stdout
    traces = faulty.results / "logs" / "query_agent_memory" / "agentrunbook_c" / "small" / "0of1.traces"
    assert len(list(traces.iterdir())) == 14
