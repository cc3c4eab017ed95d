"""A run that is killed in the middle of reading goes on where it was: no finished call is made twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chatserver import Answer, ChatServer, completion, make_tokenizer
from pipeline import make_pipeline, overlay_for


@pytest.fixture
def server() -> Iterator[ChatServer]:
    answer = Answer(completion(r"\boxed{K-0-2}"), delay_s=0.25)
    with ChatServer(lambda call: answer) as running:
        yield running


def test_a_killed_run_repeats_no_finished_call(project: Path, tmp_path: Path, server: ChatServer) -> None:
    concurrency = 2
    overlay = overlay_for(tmp_path, [], [{"regex": ".", "text": '{"label": 0, "reason": "no"}'}])
    overlay["run"] = {"methods": ["rag_slice"], "questions": None}
    overlay["models"]["reader"] = {
        "backend": "openai",
        "model": "m",
        "file": None,
        "quantize": None,
        "tokenizer": make_tokenizer(tmp_path / "tokenizer.json"),
        "endpoint": "RESUME_TEST",
        "reply_format": "free",
        "concurrency": concurrency,
    }
    pipeline = make_pipeline(project, tmp_path, overlay)
    pipeline.env["RESUME_TEST_BASE_URL"] = server.url

    killed = subprocess.Popen(
        pipeline.command("results/table2.csv"),
        env=pipeline.env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 240
    while len(server.calls) < 3:
        assert killed.poll() is None and time.monotonic() < deadline, "the run ended before it could be killed"
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    before = len(server.calls)

    # The killed run left its lock and half-made outputs; Snakemake says how to unlock.
    blocked = pipeline.run("results/table2.csv", check=False)
    if blocked.returncode != 0:
        assert "--unlock" in blocked.stdout
        pipeline.run("--unlock")
        pipeline.run("results/table2.csv")
    asked = {call.texts[-1] for call in server.calls}
    assert before < len(asked)  # it was killed in the middle
    assert len(server.calls) - len(asked) <= concurrency, "a finished call was repeated"
    table = (pipeline.results / "table2.csv").read_bytes()

    undisturbed = len(server.calls)
    for output in ("answers", "contexts", "scores"):
        for path in (pipeline.results / output).rglob("*.parquet"):
            path.unlink()
    for name in ("metrics.duckdb", "table2.csv", "table2.md"):
        (pipeline.results / name).unlink()
    assert "Reading answers" in pipeline.run("results/table2.csv").stdout
    assert len(server.calls) == undisturbed
    assert (pipeline.results / "table2.csv").read_bytes() == table
