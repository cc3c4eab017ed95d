"""Jobs that fail: they say why, leave nothing half-made, and what they finished is not paid for again."""

from __future__ import annotations

import re
from pathlib import Path

from pipeline import make_pipeline, overlay_for
from rules.conftest import METHOD, SHARD, TIER, Run
from unit.dataroot import DataRoot

JOB = ("read_answers", METHOD, TIER, SHARD)
HEADLINE = f"{'/'.join(JOB)}: 7 rows failed (4 api_error, 3 length), errors.allow is 0:"


def test_a_failing_reader_stops_the_run_with_the_list_of_questions(refused: Run) -> None:
    assert refused.status != 0
    log = refused.log(*JOB)
    assert f"ERROR {'/'.join(JOB)} failed\nTraceback (most recent call last):" in log
    _, _, message = log.partition(HEADLINE)
    listed = dict(re.findall(r"^  (\w+): (\w+): ", message, re.MULTILINE))
    assert listed == dict.fromkeys(refused.ids(1), "api_error") | dict.fromkeys(refused.ids(3), "length")
    assert "503 the endpoint is down" in message and "cut at max_tokens" in message
    assert "raise errors.allow" in message
    assert HEADLINE in refused.output  # the failed job's log is shown


def test_a_failed_job_leaves_no_output_and_what_came_before_stays(refused: Run) -> None:
    stages = {name.split("/")[0] for name in refused.results}
    assert not stages & {"answers", "scores", "metrics.duckdb", "table2.csv"}
    assert f"contexts/{METHOD}/{TIER}/{SHARD}.parquet" in refused.results
    assert not [name for name in refused.results if name.endswith(".tmp")]


def test_finished_calls_of_a_failed_job_are_in_the_cache(refused: Run) -> None:
    assert refused.chat_files and set(refused.chat_replies.values()) == {r"\boxed{K-0-2}"}


def test_allowed_errors_pass_and_no_finished_call_is_repeated(refused: Run, allowed: Run) -> None:
    assert allowed.status == 0, allowed.output[-4000:]
    assert {path: allowed.chat_files[path] for path in refused.chat_files} == refused.chat_files
    hits, misses, writes = map(
        int, re.findall(r"call cache: (\d+) hits, (\d+) misses, (\d+) writes", allowed.log(*JOB))[0]
    )
    assert (hits, misses, writes) == (len(refused.ids(0, 2)), len(refused.ids(1, 3)), 0)
    # Nothing before the queries ran again; they too may have rows that were let through.
    done = re.findall(r"^Job \d+: (.*)$", allowed.output, re.MULTILINE)
    assert [message.split()[0] for message in done[:4]] == ["Querying", "Reading", "Scoring", "Collecting"]
    names = ("comparisons", "evidence", "lafs", "latencies", "origins", "paper_check", "shares", "table2")
    written = (*(f"{name}.csv" for name in names), "provenance.json", "report/index.html")
    tables = [f"Writing results/{name}" for name in written]
    figures = [
        f"Drawing results/{name}.png" for name in ("errors", "evidence", "frontier", "latency", "table2", "tokens")
    ]
    assert sorted(done[4:]) == sorted([*figures, *tables])


def test_a_bad_data_root_stops_at_ingestion_with_file_line_and_id(project: Path, tmp_path: Path) -> None:
    pipeline = make_pipeline(project, tmp_path, overlay_for(tmp_path, [], []))
    root = DataRoot(tmp_path / "data")
    twice = root.questions[3]["id"]
    root.append("questions.jsonl", root.lines("questions.jsonl")[3] + b"\n")
    failed = pipeline.run("results/data/selected.parquet", check=False)
    assert failed.returncode != 0
    log = (pipeline.results / "logs" / "ingest_dataset.log").read_text(encoding="utf-8")
    problem = f"questions.jsonl, line 15, question '{twice}': "
    assert "lmev2.data.errors.DataError: " in log and "1 problem(s):" in log
    assert problem in log and "line 4 already" in log
    assert problem in failed.stdout
    assert [path.name for path in (pipeline.results / "data").iterdir()] == ["screenshots.json"]
    assert "select_questions" not in {path.stem for path in (pipeline.results / "logs").iterdir()}
