"""A run whose every endpoint fails in every way ends with the table of a clean run, and its logs count what went wrong.

One pipeline over a made-up data root: first with an endpoint that answers rightly, then without what models made and
with one that fails on schedule, again and again until it is finished.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chatserver import Answer, Call, ChatServer, bags_of_words, completion, make_tokenizer
from faultserver import ALL, FaultSchedule, faults
from llm_script import subject_of, value_of
from pipeline import Pipeline, make_pipeline, merged, overlay_for

from lmev2.rows import ANSWER, CONTEXT, SCORE, read_rows

SEED = 20
DIMENSION = 32
TIMEOUT_S = 3
METHODS = ("agentrunbook_r", "no_retrieval")
TARGETS = ("results/table2.csv", "results/evidence.csv")
MOST_RUNS = 6
CELL = "small/0of1.parquet"
MEASURED = {"latency_s", "wall_s", "waited_s", "replayed", "prompt_tokens", "completion_tokens"}
_COUNTED = re.compile(r"faults of model calls: (.*)$", re.MULTILINE)
_PART = re.compile(r"(\d+) (retried|failed|asked again): ([^;]*)")
_NAME = re.compile(r"([^,]+?) x(\d+)")
_ROWS = re.compile(r"TooManyErrors: \S+: \d+ rows failed \((.*?)\), errors\.allow")


def right(call: Call) -> Answer:
    """What the models reply where all is well; a reader's answer depends on its whole prompt."""
    if call.task == "embedding":
        return Answer(bags_of_words(call.body, DIMENSION))
    if call.task == "reader":
        told = hashlib.sha256("".join(call.texts).encode()).hexdigest()[:6]
        return Answer(completion(f"\\boxed{{K-{told}}}"))
    if call.task == "judge":
        label = hashlib.sha256("".join(call.texts).encode()).digest()[0] % 2
        return Answer(completion(f'{{"label": {label}, "reason": "it says so"}}'))
    if call.task == "chat":  # a look before the run
        return Answer(completion('{"label": 1, "reason": "ok"}'))
    subject = subject_of(call) if call.task in ("note", "event") else len(call.prompt)
    return Answer(completion(json.dumps(value_of(call.task, subject))))


def overlay(folder: Path) -> dict[str, Any]:
    """Configuration of a small run with every role at the endpoint, which waits for nothing."""
    tokenizer = make_tokenizer(folder / "tokenizer.json")

    def role(name: str, **settings: Any) -> dict[str, Any]:
        calls = {"timeout_s": TIMEOUT_S, "retries": 5, "retry_wait_s": 0, "concurrency": 4, "endpoint": "FAULTY"}
        return {"backend": "openai", "model": f"test-{name}", **calls, **settings}

    unused: dict[str, Any] = {"file": None, "quantize": None, "script": None}
    models = {
        "reader": role("reader", **unused, tokenizer=tokenizer, reply_format="free"),
        "judge": role("judge", **unused, label_attempts=7),
        "controller": role("controller", thinking=None),
        "embedder": role("embedder", tokenizer=tokenizer, dimension=DIMENSION, batch_size=2),
    }
    return merged(overlay_for(folder, [], []), {"run": {"methods": list(METHODS)}, "models": models})


@dataclass
class FaultyRun:
    """The two runs.

    Attributes:
        schedule: with what was injected.
        logged: counts of the jobs' logs by outcome and name, over all invocations.
        clean, faulty: what each run left, by file.
        outputs: what each invocation of the faulty run printed.
    """

    schedule: FaultSchedule
    pipeline: Pipeline
    elsewhere: ChatServer
    logged: Counter[tuple[str, str]] = field(default_factory=Counter)
    clean: dict[str, Any] = field(default_factory=dict)
    faulty: dict[str, Any] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    seen: dict[Path, int] = field(default_factory=dict)

    def run(self) -> bool:
        """Invoke Snakemake; returns whether it finished, and counts what the logs that it wrote tell."""
        done = self.pipeline.run("--keep-going", *TARGETS, check=False)
        self.outputs.append(done.stdout)
        for path in (self.pipeline.results / "logs").rglob("*.log"):
            written = path.stat().st_mtime_ns
            if self.seen.get(path) != written:
                self.seen[path] = written
                self.logged.update(counts_of(path.read_text(encoding="utf-8")))
        return done.returncode == 0


def counts_of(log: str) -> Counter[tuple[str, str]]:
    """What one job's log counts, by outcome and name."""
    counts = Counter[tuple[str, str]]()
    for line in _COUNTED.findall(log):
        for _, outcome, names in _PART.findall(line):
            counts.update({(outcome, name.strip()): int(count) for name, count in _NAME.findall(names)})
    for kinds in _ROWS.findall(log):
        for kind in kinds.split(", "):
            count, name = kind.split(" ")
            if name in ("length", "malformed_reply"):  # others are counted where the call failed
                counts["failed", name] += int(count)
    counts["failed", "wrong dimension"] += log.count("ModelSetupError: 'test-embedder' returned vectors of")
    return +counts


def left(results: Path) -> dict[str, Any]:
    """Tables and rows of a run without measured times and what an endpoint may leave out."""
    found: dict[str, Any] = {}
    for target in TARGETS:
        with (results.parent / target).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        found[target] = [{name: cell for name, cell in row.items() if "latency" not in name} for row in rows]
    for stage, contract in (("contexts", CONTEXT), ("answers", ANSWER), ("scores", SCORE)):
        for method in METHODS:
            rows_of = read_rows(results / stage / method / CELL, contract)
            found[f"{stage}/{method}"] = [
                {name: cell for name, cell in row.items() if name not in MEASURED} for row in rows_of
            ]
    return found


@pytest.fixture(scope="module")
def faulty(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    folder = tmp_path_factory.mktemp("faults")
    settings = overlay(folder)
    pipeline = make_pipeline(project, folder, settings)
    with ChatServer(right) as elsewhere:
        schedule = FaultSchedule(right, faults(elsewhere.url), SEED, enabled=False)
        with ChatServer(schedule, [{"id": f"test-{role}"} for role in ALL], check=right) as server:
            pipeline.env.update(FAULTY_BASE_URL=server.url, FAULTY_API_KEY="key-of-the-fault-test")
            run = FaultyRun(schedule, pipeline, elsewhere)
            assert run.run(), run.outputs[-1][-6000:]
            assert run.logged.total() == 0
            run.clean = left(pipeline.results)

            for path in pipeline.results.iterdir():  # what models made
                if path.name not in ("data", "goals", "logs", "benchmarks", "pools"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            for pool in ("event", "procedure_note", "hint_note"):
                shutil.rmtree(pipeline.results / "pools" / pool)
            pipeline.configure(settings | {"cache": str(folder / "second_cache")})
            schedule.enabled, run.outputs = True, []
            while not run.run():
                assert len(run.outputs) < MOST_RUNS, run.outputs[-1][-6000:]
            run.faulty = left(pipeline.results)
            print(f"\n{schedule.table()}\n{len(run.outputs)} invocations")
            yield run


def test_the_faulty_run_ends_as_the_clean_one(faulty: FaultyRun) -> None:
    assert [name for name in faulty.clean if faulty.clean[name] != faulty.faulty[name]] == []
    (row, _) = faulty.clean["results/table2.csv"]
    assert (row["method"], row["questions"], row["errors"]) == ("agentrunbook_r", "14", "0")


def test_every_kind_of_fault_is_met_and_none_is_lost(faulty: FaultyRun) -> None:
    assert faulty.schedule.undealt() == []
    assert faulty.schedule.injected.total() > 80
    assert faulty.schedule.survived == faulty.schedule.injected


def test_the_logs_count_each_fault_by_kind(faulty: FaultyRun) -> None:
    for outcome in ("retried", "asked again", "failed"):
        logged = Counter({name: count for (kind, name), count in faulty.logged.items() if kind == outcome})
        injected = faulty.schedule.logged(outcome)  # type: ignore[arg-type]
        # On a busy machine a right answer, too, may come too late.
        assert logged["time-out"] >= injected["time-out"]
        logged["time-out"] = injected["time-out"]
        assert +logged == +injected, outcome


def test_only_what_cannot_pass_ends_an_invocation(faulty: FaultyRun) -> None:
    assert 1 < len(faulty.outputs) <= MOST_RUNS
    failing = {role for role, name in faulty.schedule.injected if faulty.schedule.by_name[name].outcome == "failed"}
    assert failing == set(ALL)
    for output in faulty.outputs[:-1]:
        assert re.search(r"302|returned vectors of|errors\.allow is 0", output)


def test_redirects_reach_nobody(faulty: FaultyRun) -> None:
    assert (faulty.elsewhere.calls, faulty.elsewhere.looks) == ([], [])


def test_a_log_that_leaves_something_out_is_noticed() -> None:
    log = "x INFO faults of model calls: 3 retried: 429 x2, connection lost x1; 1 failed: 302 x1\nmore"
    assert counts_of(log) == {("retried", "429"): 2, ("retried", "connection lost"): 1, ("failed", "302"): 1}
    assert counts_of("INFO faults of model calls: none") == {}
    failed = "lmev2.failures.TooManyErrors: read/a: 3 rows failed (2 length, 1 api_error), errors.allow is 0:\n"
    assert counts_of(failed) == {("failed", "length"): 2}
