"""One run that is killed at many points and resumed after each, and what each kill cost.

``KILL_POINTS`` in the environment says how many of the points of :data:`POINTS` are used: 5 by default, all with 20.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from chatserver import Answer, Call, bags_of_words, completion, make_tokenizer
from pipeline import Pipeline, merged, overlay_for

SEED = 20
DIMENSION = 16
CONCURRENCY = 2
BATCH = 2  # texts in a request for vectors
MOST_IN_FLIGHT = 2 * CONCURRENCY  # two jobs at once, each with so many requests under way
RAG, AGENT = "agentrunbook_r", "agentrunbook_c"
SHARD = "0of1"
_KEYS = ("entry_id", "question_id", "method", "tier", "hop", "trajectory_id", "state_index", "judge")


@dataclass(frozen=True)
class Point:
    """Where a run is killed.

    Attributes:
        stage: the rule.
        target: file or target that the killed run makes; empty: everything.
        task, calls: kill after so many requests of this task (see ``chatserver``); without a task, when the rule's job
            has begun.
        longest_s: the seeded delay that follows is at most this; the kill comes at once when the rule's job is
            finished.
    """

    stage: str
    target: str = ""
    task: str = ""
    calls: int = 0
    longest_s: float = 1.0


def _cell(stage: str, method: str) -> str:
    return f"results/{stage}/{method}/small/{SHARD}.parquet"


# In the order in which stages follow each other. The first five of `SHORT` are those of the short form.
POINTS = (
    Point("ingest_dataset", "results/data/manifest.json", longest_s=0.4),
    Point("apply_goals", "results/goals/summary.json", longest_s=0.4),
    Point("build_raw_state", f"results/pools/raw_state/{SHARD}.parquet", longest_s=0.4),
    Point("generate_note", f"results/pools/hint_note/{SHARD}.parquet", "note", 2, 0.3),
    Point("generate_event", f"results/pools/event/{SHARD}.parquet", "event", 3, 0.3),
    Point("embed_pool", f"results/embeddings/event/{SHARD}.parquet", "embedding", 2, 0.3),
    Point("index_pool", "results/index/event.json", longest_s=1.5),
    Point("query_memory", _cell("contexts", RAG), "query", 1, 0.3),
    Point("query_memory", _cell("contexts", RAG), "query", 3, 0.3),
    Point("build_agent_pool", f"results/agent/pool/{SHARD}.jsonl", longest_s=0.4),
    Point("query_agent_memory", _cell("contexts", AGENT), longest_s=2.0),
    Point("read_answers", _cell("answers", RAG), "reader", 1, 0.3),
    Point("read_answers", _cell("answers", RAG), "reader", 2, 0.3),
    Point("read_answers", _cell("answers", AGENT), "reader", 3, 0.3),
    Point("score_answers", _cell("scores", RAG), "judge", 1, 0.3),
    Point("score_answers", _cell("scores", AGENT), "judge", 2, 0.3),
    Point("collect_scores", "results/metrics.duckdb", longest_s=1.0),
    Point("export_table2", longest_s=1.0),
    Point("build_report", longest_s=2.0),
    Point("write_provenance", longest_s=0.1),
)
_SHORT = (3, 5, 8, 12, 16)
SHORT_TABLES = [f"results/{name}.csv" for name in ("table2", "evidence", "origins", "latencies")]


def points(count: int) -> list[Point]:
    """The first ``count`` points of the short form, or all."""
    return list(POINTS) if count >= len(POINTS) else [POINTS[number] for number in _SHORT[:count]]


class Models:
    """Replies by content, each after a moment, and which of them were sent before their client went away."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.answered = 0
        self._guard = threading.Lock()

    def __call__(self, call: Call) -> Answer:
        time.sleep(self.delay_s)
        with self._guard:
            self.answered += 1
        if call.task == "embedding":
            return Answer(bags_of_words(call.body, DIMENSION))
        mark = hashlib.sha256(json.dumps(call.body, sort_keys=True).encode()).hexdigest()
        replies = {
            "note": {f"{part}_note": _note(part, mark) for part in ("procedure", "hint")},
            "event": {"overview": f"A code is looked for: {mark}.", "state_transition": f"Another page: {mark}."},
            "query": {"raw_state_queries": ["Code", mark], "event_query": f"change {mark}", "note_query": "a code"},
            "judge": {"label": int(mark, 16) % 2, "reason": mark},
        }
        reply = replies.get(call.task)
        return Answer(completion(f"\\boxed{{{mark[:6]}}}" if reply is None else json.dumps(reply)))


def _note(part: str, mark: str) -> dict[str, str]:
    return {"title": f"{part} {mark}", "description": "Open the page.", "content": f"- {mark}"}


def overlay_of(folder: Path, methods: list[str]) -> dict[str, Any]:
    """Configuration of a small run with every role at the endpoint ``KILL_TEST``."""
    overlay = overlay_for(folder, [], [])
    role: dict[str, Any] = {"backend": "openai", "endpoint": "KILL_TEST", "file": None, "quantize": None}
    tokenizer = make_tokenizer(folder / "tokenizer.json")
    chat = {**role, "concurrency": CONCURRENCY}
    overlay["models"] = {
        "reader": {**chat, "model": "m-reader", "tokenizer": tokenizer, "reply_format": "free"},
        "judge": {**chat, "model": "m-judge"},
        "controller": {"backend": "openai", "endpoint": "KILL_TEST", "model": "m-control", "concurrency": CONCURRENCY},
        "embedder": {
            "backend": "openai",
            "endpoint": "KILL_TEST",
            "model": "m-embed",
            "tokenizer": tokenizer,
            "dimension": DIMENSION,
            "batch_size": BATCH,
            "concurrency": CONCURRENCY,
        },
    }
    return merged(overlay, {"run": {"methods": methods}, "preflight": False})


@dataclass
class Kill:
    """One kill and what came of it.

    Attributes:
        finished: requests answered before it.
        in_flight: requests that were under way.
        calls: requests that had come before it.
        running: rules whose jobs had begun and were not finished.
        hit: the run was killed; False: it ended in the moment before.
        repeated: units (requests, or texts to embed) that were asked for in this attempt and again in a later one.
    """

    point: Point
    delay_s: float
    finished: int
    in_flight: int
    calls: int
    running: list[str]
    hit: bool
    repeated: int = 0


@dataclass
class KilledRun:
    """A run folder that is killed again and again.

    Args:
        models: of the server ``server``.
    """

    pipeline: Pipeline
    models: Models
    calls: list[Call]
    kills: list[Kill] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(SEED))

    def kill_at(self, point: Point) -> Kill:
        """Start the run, kill its whole process group at a point, and say what was under way.

        Raises:
            AssertionError: the run failed, or never came to the point.
        """
        delay_s = self._random.uniform(0, point.longest_s)
        logs, seen = self._logs(), len(self.calls)
        output = self.pipeline.directory.parent / f"attempt_{len(self.kills)}.txt"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                self.pipeline.command(*([point.target] if point.target else [])),
                env=self.pipeline.env,
                start_new_session=True,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        due = float("inf")
        deadline = time.monotonic() + 900
        while time.monotonic() < due:
            text = output.read_text(encoding="utf-8", errors="replace")
            if process.poll() is not None:
                break
            assert time.monotonic() < deadline, f"{point} was not reached:\n{text[-4000:]}"
            if f"(Rule: {point.stage})" in text:
                break
            if due == float("inf") and self._reached(point, logs, seen):
                due = time.monotonic() + delay_s
            time.sleep(0.02)
        # In this order: a request that is answered in between counts as under way, never as missing.
        finished = self.models.answered
        alive = process.poll() is None
        if alive:
            os.killpg(process.pid, signal.SIGKILL)
        assert alive or process.wait() == 0, output.read_text(encoding="utf-8", errors="replace")[-6000:]
        process.wait()
        calls = len(self.calls)
        begun = {rule for rule, times in self._logs().items() if logs.get(rule) != times}
        text = output.read_text(encoding="utf-8", errors="replace")
        running = sorted(rule for rule in begun if f"(Rule: {rule})" not in text)
        kill = Kill(point, delay_s, finished, calls - finished, calls, running, alive)
        self.kills.append(kill)
        return kill

    def unlock(self) -> None:
        """What ``snakemake --unlock`` does, without its start."""
        shutil.rmtree(self.pipeline.directory / ".snakemake" / "locks", ignore_errors=True)

    def count_repeats(self) -> int:
        """Fill in what each kill made repeat, and return how many units were asked for twice within one attempt."""
        ends = [kill.calls for kill in self.kills]
        first: dict[str, int] = {}
        within = 0
        for number, call in enumerate(self.calls):
            attempt = sum(number >= end for end in ends)
            for unit in units(call):
                if unit in first and first[unit] == attempt:
                    within += 1
                elif unit in first:
                    self.kills[first[unit]].repeated += 1
                first[unit] = attempt
        return within

    def _reached(self, point: Point, logs: dict[str, dict[Path, int]], seen: int) -> bool:
        if point.task:
            return self._count(point, seen) >= point.calls
        return self._logs().get(point.stage, {}) != logs.get(point.stage, {})

    def _count(self, point: Point, seen: int) -> int:
        return sum(call.task == point.task for call in self.calls[seen:])

    def _logs(self) -> dict[str, dict[Path, int]]:
        """Times of change of the log files, by rule."""
        folder = self.pipeline.results / "logs"
        found: dict[str, dict[Path, int]] = {}
        for path in folder.rglob("*.log"):
            found.setdefault(path.relative_to(folder).parts[0].removesuffix(".log"), {})[path] = path.stat().st_mtime_ns
        return found


def units(call: Call) -> list[str]:
    """What is paid for in a request: the request, or each text that it embeds."""
    if call.task == "embedding":
        return [f"embedding {text}" for text in call.body["input"]]
    return [call.path + json.dumps(call.body, sort_keys=True)]


def faults_in_rows(results: Path) -> list[str]:
    """Parquet files that cannot be read whole, or hold a row twice."""
    faults = []
    for path in sorted(results.rglob("*.parquet")):
        if path.name.startswith("."):
            continue  # a temporary file of a killed job
        try:
            table = pq.read_table(path)
        except Exception as error:
            faults.append(f"{path}: {error}")
            continue
        keys = [name for name in _KEYS if name in table.column_names]
        rows = Counter(zip(*(table.column(name).to_pylist() for name in keys), strict=True))
        faults += [f"{path}: {count} rows {key}" for key, count in rows.items() if count > 1]
    return faults


def table_of(kills: list[Kill], equal: bool) -> str:
    """The kills as a Markdown table."""
    lines = [
        "| # | stage | kill | delay (s) | jobs under way | calls answered | in flight | repeated | tables equal |",
        "|--:|---|---|--:|---|--:|--:|--:|---|",
    ]
    for number, kill in enumerate(kills, 1):
        point = kill.point
        when = f"after {point.calls} `{point.task}` requests" if point.task else "job has begun"
        lines.append(
            f"| {number} | `{point.stage}` | {when} | {kill.delay_s:.2f} | {', '.join(kill.running) or 'none' if kill.hit else 'the run had ended'} | "
            f"{kill.finished} | {kill.in_flight} | {kill.repeated} | {'yes' if equal else 'no'} |"
        )
    return "\n".join(lines) + "\n"
