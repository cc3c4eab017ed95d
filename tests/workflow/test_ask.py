"""``lmev2 ask`` on a finished run: it finds what the run's own queries found, and knows the run as it was made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from pipeline import Pipeline
from workflow.test_reruns import configured

from lmev2.rows import CONTEXT, HAYSTACK, QUESTION, read_rows

RETRIEVAL = ["rag_slice", "rag_slice_notes", "rag_hybrid"]


def ask(pipeline: Pipeline, *arguments: str, status: int = 0) -> tuple[Any, str]:
    """What the pipeline's own library answers, started where the run was, and what it says meanwhile."""
    env = pipeline.env | {"PYTHONPATH": str(pipeline.folder / "src"), "COLUMNS": "80"}
    command = [sys.executable, "-m", "lmev2", "ask", *arguments, "--configfile", str(pipeline.overlay), "--json"]
    done = subprocess.run(command, cwd=pipeline.directory, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout or "null"), done.stderr


@pytest.mark.parametrize("method", RETRIEVAL)
def test_a_question_of_the_run_finds_what_the_run_found(finished: Pipeline, method: str) -> None:
    data = finished.results / "data"
    question = list(read_rows(data / "selected.parquet", QUESTION))[3]
    name = question["question_id"]
    contexts = read_rows(finished.results / "contexts" / method / "small" / "0of1.parquet", CONTEXT)
    (row,) = [row for row in contexts if row["question_id"] == name]
    value, _ = ask(finished, question["question"], "--method", method, "--like", name)
    assert value["warnings"] == []
    assert value["queries"] == json.loads(row["queries"])
    texts = [item["value"] for item in row["items"] if item["type"] == "text"]
    assert [one["text"] for one in value["evidence"]] == texts and texts
    images = [item["value"] for item in row["items"] if item["type"] == "image"]
    assert [path for one in value["evidence"] for path in one["images"]] == images
    (haystack,) = [
        one["trajectory_ids"]
        for one in read_rows(data / "haystacks.parquet", HAYSTACK)
        if (one["question_id"], one["tier"]) == (name, "small")
    ]
    assert value["haystack"]["trajectories"] == len(haystack)
    assert value["answer"]["parsed"] == "the reader's answer" and value["answer"]["replayed"]
    assert value["answer"]["prompt_domain"] == question["domain"]


def test_the_run_is_left_as_it_is(finished: Pipeline) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.results.rglob("*") if path.is_file()}
    value, told = ask(finished, "Which code does record 3 show?", "--method", "agentrunbook_r")
    assert value["query_origin"] in ("model", "repaired", "fallback") and "Warning" not in told
    assert {path: path.stat().st_mtime_ns for path in finished.results.rglob("*") if path.is_file()} == before


def test_other_settings_are_warned_of(finished: Pipeline) -> None:
    with configured(finished, {"pools": {"slice_radius": 2}, "render": {"slice_chars": 200}}):
        value, told = ask(finished, "Which code?", "--method", "rag_slice", "--no-answer")
    assert [warning.partition("other settings of the ")[2].split(" (")[0] for warning in value["warnings"]] == (
        ["rendering", "pools"]
    )
    assert told.count("Warning: ") == 2


def test_the_command_that_is_named_makes_what_is_missing(finished: Pipeline) -> None:
    index = finished.results / "index" / "raw_state.json"
    kept = index.read_bytes(), os.stat(index)
    index.unlink()
    try:
        _, told = ask(finished, "Which code?", "--method", "rag_slice", status=1)
        words = told.splitlines()[-1].split()
        assert words[0] == "snakemake" and "results/index/raw_state.json" in words
        done = subprocess.run(
            [sys.executable, "-m", *words, "-n"],
            cwd=finished.directory,
            env=finished.env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0 and "index_pool" in done.stdout, done.stdout + done.stderr
    finally:
        index.write_bytes(kept[0])
        os.utime(index, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))
