"""Faults of storage and processes in a whole run: what is said, what is lost (nothing), and what is made anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bwrap import needs_bwrap
from chatserver import Answer, Call, ChatServer, completion, make_tokenizer
from pipeline import Pipeline, make_pipeline, overlay_for

from lmev2.rows import ANSWER, read_rows

ANSWERS = "results/answers/no_retrieval/small/0of1.parquet"
QUESTIONS = 14
OLD, NEW = "m-old", "m-new"


@dataclass
class Resumed:
    """A run whose Snakemake was killed while its reader's job went on, and then resumed with another reader.

    Attributes:
        job_left: seconds after which that job was gone; None: it stayed.
        refused: what the next run said.
        rows: answers of the resumed run.
        asked: models of the requests, in order.
    """

    pipeline: Pipeline
    job_left: float | None
    refused: str
    rows: list[dict[str, Any]]
    asked: list[str]


@pytest.fixture(scope="module")
def resumed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resumed]:
    folder = tmp_path_factory.mktemp("faults")
    answered: list[str] = []

    def reply(call: Call) -> Answer:
        model = call.body["model"]
        slow = model == OLD and answered.count(OLD) >= 2
        answered.append(model)
        return Answer(completion(f"\\boxed{{{model}}}"), delay_s=3.0 if slow else 0.0)

    overlay = overlay_for(folder, [], [])
    overlay["run"] = {"methods": ["no_retrieval"], "questions": None}
    overlay["models"]["reader"] = {
        "backend": "openai",
        "model": OLD,
        "file": None,
        "quantize": None,
        "tokenizer": make_tokenizer(folder / "tokenizer.json"),
        "endpoint": "FAULT_TEST",
        "reply_format": "free",
        "concurrency": 1,
    }
    overlay["preflight"] = False
    pipeline = make_pipeline(project, folder, overlay)
    with ChatServer(reply) as server:
        pipeline.env["FAULT_TEST_BASE_URL"] = server.url
        run = subprocess.Popen(
            pipeline.command(ANSWERS), env=pipeline.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait(lambda: len(server.calls) >= 3 or run.poll() is not None, 240)
        jobs = processes(pipeline)
        assert run.poll() is None and run.pid in jobs and len(jobs) > 1
        run.kill()  # Snakemake alone
        run.wait()
        killed = time.monotonic()
        gone = wait(lambda: not processes(pipeline), 40)
        job_left = time.monotonic() - killed if gone else None
        for number in processes(pipeline):
            os.kill(number, signal.SIGKILL)
        refused = pipeline.run(ANSWERS, check=False).stdout
        pipeline.run("--unlock")
        overlay["models"]["reader"]["model"] = NEW
        pipeline.configure(overlay)
        pipeline.run(ANSWERS)
        rows = list(read_rows(pipeline.directory / ANSWERS, ANSWER))
        yield Resumed(pipeline, job_left, refused, rows, [call.body["model"] for call in server.of()])


def wait(done: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is so, at most so long."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def processes(pipeline: Pipeline) -> list[int]:
    """Numbers of the Python processes that work in the run's folder."""
    found = []
    for path in Path("/proc").iterdir():
        try:
            at_home = path.name.isdigit() and (path / "cwd").resolve() == pipeline.directory.resolve()
            if at_home and b"python" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:  # it has ended
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can watch a process")
def test_a_job_ends_when_its_snakemake_was_killed(resumed: Resumed) -> None:
    assert resumed.job_left is not None
    assert resumed.asked.count(OLD) <= 4  # two answered, one under way, one that may have been next


def test_the_lock_of_a_killed_run_is_told_from_that_of_a_living_one(resumed: Resumed) -> None:
    assert "Directory cannot be locked" in resumed.refused
    assert "No run lives in this folder any more" in resumed.refused and "`snakemake --unlock`" in resumed.refused


def test_a_second_run_in_the_folder_is_refused_and_not_told_to_unlock(resumed: Resumed) -> None:
    pipeline = resumed.pipeline
    locks = pipeline.directory / ".snakemake" / "locks"
    living = (
        "import sys, time; from pathlib import Path; from lmev2.run_lock import hold\n"
        "assert hold(Path.cwd()); print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", living], cwd=pipeline.directory, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "held\n"
            locks.mkdir(exist_ok=True)
            (locks / "0.output.lock").write_text(f"{ANSWERS}\n", encoding="utf-8")
            refused = pipeline.run(ANSWERS, "--forcerun", "read_answers", check=False)
        finally:
            holder.kill()
            (locks / "0.output.lock").unlink(missing_ok=True)
    assert refused.returncode != 0 and "Directory cannot be locked" in refused.stdout
    assert "No run lives" not in refused.stdout


def test_a_resumed_run_with_another_setting_mixes_no_rows(resumed: Resumed) -> None:
    # Equal questions are asked once, so that these are fewer than questions; those of the old reader are asked again.
    assert 2 <= resumed.asked.count(OLD) < resumed.asked.count(NEW) <= QUESTIONS
    assert len(resumed.rows) == QUESTIONS == len({row["question_id"] for row in resumed.rows})
    assert {(row["reply"], row["parsed"]) for row in resumed.rows} == {(f"\\boxed{{{NEW}}}", NEW)}


@needs_bwrap
def test_a_results_folder_that_cannot_be_written_to_is_named_before_any_job(resumed: Resumed) -> None:
    pipeline = resumed.pipeline
    results = str(pipeline.results)
    command = pipeline.command("results/data/selected.parquet")
    selected = pipeline.results / "data/selected.parquet"
    aside = selected.rename(selected.with_name("aside"))
    try:
        done = subprocess.run(
            ["bwrap", "--dev-bind", "/", "/", "--ro-bind", results, results, "--", *command],
            env=pipeline.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
    finally:
        aside.rename(selected)
    assert done.returncode != 0
    assert "results: the folder results cannot be written to" in done.stdout
    assert "localrule select_questions" not in done.stdout and "Selecting" not in done.stdout


@needs_bwrap
def test_a_read_only_cache_that_holds_every_reply_is_enough(resumed: Resumed) -> None:
    pipeline = resumed.pipeline
    cache = str(pipeline.overlay.parent / "cache")
    command = pipeline.command(ANSWERS, "--forcerun", "read_answers")
    done = subprocess.run(
        ["bwrap", "--dev-bind", "/", "/", "--ro-bind", cache, cache, "--", *command],
        env=pipeline.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    assert f"Warning: cache: the folder {cache} cannot be written to" in done.stdout
    assert "read_answers" in done.stdout
    assert list(read_rows(pipeline.directory / ANSWERS, ANSWER)) == resumed.rows


def test_a_damaged_file_between_rules_is_named_and_made_anew_once_deleted(resumed: Resumed) -> None:
    pipeline = resumed.pipeline
    contexts = pipeline.results / "contexts/no_retrieval/small/0of1.parquet"
    whole = contexts.read_bytes()
    contexts.write_bytes(whole[: len(whole) // 2])
    failed = pipeline.run(ANSWERS, "--forcerun", "read_answers", check=False)
    assert failed.returncode != 0
    assert "0of1.parquet: not a readable Parquet file" in failed.stdout
    assert "delete it and run again" in failed.stdout
    contexts.unlink()
    again = pipeline.run(ANSWERS)
    assert contexts.exists() and "query_memory" in again.stdout
    assert list(read_rows(pipeline.directory / ANSWERS, ANSWER)) == resumed.rows  # replayed


def test_a_clock_that_was_set_back_is_told_of(resumed: Resumed) -> None:
    pipeline = resumed.pipeline
    before = {path: path.stat() for path in pipeline.results.rglob("*") if path.is_file()}

    def shift(seconds: int) -> None:
        for path, facts in before.items():
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + seconds * 10**9))

    try:
        shift(-(10**6))  # the clock was behind: everything else looks newer, contents decide
        behind = pipeline.run("-n", ANSWERS).stdout
        shift(10**6)
        ahead = pipeline.run("-n", ANSWERS).stdout
    finally:
        shift(0)
    assert "are from the future" in ahead and "--forceall" in ahead and "Nothing to be done" in ahead
    assert "are from the future" not in behind
