"""The runs of the test of the whole LLM path: their data, their configuration, and what they left."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from chatserver import Call, ChatServer, make_tokenizer
from llm_script import DIMENSION, NO_REPLY, Script
from pipeline import Pipeline, make_pipeline
from unit.dataroot import SCORERS, DataRoot, make_data_root, make_id, write_png

from lmev2.rows import CONTEXT, POOL_ENTRY, read_rows
from lmev2.shards import shard_names

RUNS, STATES, QUESTIONS = 8, 3, 14
TREE_CHARS = 200
API_KEY = "key-b81f04e27c"
(SHARD,) = shard_names(1)
FULL, NO_EVENT, RERANK = METHODS = ("agentrunbook_r", "agentrunbook_r_no_event", "agentrunbook_r_rerank")
TABLES = ("table2.csv", "evidence.csv", "origins.csv")
POOLS = ("event", "hint_note", "procedure_note")
CONTROLLER = ("note", "event", "query", "rerank", "repair")
TRANSITIONS = [(run, pre) for run in range(RUNS) for pre in range(STATES - 1)]
BROKEN_QUERIES = sorted(NO_REPLY["query"])


def make_data(path: Path) -> DataRoot:
    """A data root whose gold answers, questions and screenshots can be told from everything else."""
    root = make_data_root(path, trajectories=RUNS, states=STATES, questions=QUESTIONS)
    for number in range(QUESTIONS):
        root.edit_line("questions.jsonl", number + 1, partial(mark, number))
    root.edit_line("trajectories.jsonl", 6, shorten)
    for run in range(RUNS):
        for state in range(STATES):
            write_png(screenshot(root, run, state), 5 * (run * STATES + state))
    return root


def mark(number: int, question: dict[str, Any]) -> None:
    question["question"] = f"Case {number:02d}. {question['question']}"
    if question["answer"] != "A":
        question["answer"] = f"zq-gold-{number:02d}"


def shorten(trajectory: dict[str, Any]) -> None:
    for index, state in enumerate(trajectory["states"]):
        state["accessibility_tree"] = (
            f"RootWebArea 'Short page {index}'\n\t[a{index}] link 'On'\n\t[b{index}] textbox 'Note'"
        )


def screenshot(root: DataRoot, run: int, state: int) -> Path:
    return root.path / f"screenshots/{make_id('trajectory', run)}/{state}.png"


def overlay_of(folder: Path) -> dict[str, Any]:
    """Configuration of a run with every role at an endpoint."""
    tokenizer = make_tokenizer(folder / "tokenizer.json")

    def role(name: str, **settings: Any) -> dict[str, Any]:
        return {
            "backend": "openai",
            "model": f"test-{name}",
            "endpoint": f"LMEV2_{name.upper()}",
            "retries": 1,
            **settings,
        }

    unused: dict[str, Any] = {"file": None, "quantize": None}
    return {
        "data": {"root": str(folder / "data")},
        "cache": str(folder / "cache"),
        "run": {"questions": None, "methods": list(METHODS)},
        "shards": {"trajectories": 1, "questions": 1},
        "pools": {"event": {"retry_tree_chars": TREE_CHARS}},
        "methods": {RERANK: {"inherits": FULL, "label": "AgentRunbook-R, reranked", "rerank": {}}},
        "models": {
            "reader": role("reader", **unused, tokenizer=tokenizer, reply_format="free", concurrency=4),
            "judge": role("judge", **unused, concurrency=4),
            "controller": role("controller", images=True, thinking=True, sampling={"temperature": 0.6, "seed": 1}),
            "embedder": role("embedder", tokenizer=tokenizer, dimension=DIMENSION),
        },
    }


@dataclass
class Runs:
    """The finished runs.

    Attributes:
        server: with all requests.
        ends: number of requests when each run ended, by the run's name.
        outputs: what each run printed.
        events: rows of the event pool that the first run left.
        pools, contexts, tables: rows by pool and by method, and bytes by file, of the whole run.
        contexts_again, tables_again: of the run from the cache.
    """

    root: DataRoot
    pipeline: Pipeline
    server: ChatServer
    ends: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    pools: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    contexts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tables: dict[str, bytes] = field(default_factory=dict)
    contexts_again: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tables_again: dict[str, bytes] = field(default_factory=dict)

    def run(self, name: str, *targets: str, fails: bool = False) -> None:
        """Run the pipeline under a name."""
        done = self.pipeline.run(*(f"results/{target}" for target in targets), check=not fails)
        assert (done.returncode != 0) == fails, done.stdout[-6000:]
        self.outputs[name], self.ends[name] = done.stdout, len(self.server.of())

    def calls(self, *kinds: str) -> list[Call]:
        """Requests before the run from the cache."""
        return [call for call in self.server.of()[: self.ends["again"]] if not kinds or call.kind in kinds]

    def rows(self, pool: str) -> list[dict[str, Any]]:
        return list(read_rows(self.pipeline.results / "pools" / pool / f"{SHARD}.parquet", POOL_ENTRY))

    def read_contexts(self) -> dict[str, list[dict[str, Any]]]:
        folder = self.pipeline.results / "contexts"
        return {name: list(read_rows(folder / name / "small" / f"{SHARD}.parquet", CONTEXT)) for name in METHODS}

    def read_tables(self) -> dict[str, bytes]:
        files = [name.replace(".csv", ending) for name in TABLES for ending in (".csv", ".md")]
        return {name: (self.pipeline.results / name).read_bytes() for name in files}


@contextmanager
def finished_runs(project: Path, folder: Path) -> Iterator[Runs]:
    """Run the pipeline five times: with an endpoint that fails for some notes and one event, then for some queries, then
    whole, then again, and at last without results but with the call cache."""
    root, overlay, script = make_data(folder / "data"), overlay_of(folder), Script()
    pipeline = make_pipeline(project, folder, overlay)
    models = [{"id": f"test-{name}"} for name in overlay["models"]]
    with ChatServer(script, models) as server:
        endpoints = [overlay["models"][name]["endpoint"] for name in overlay["models"]]
        pipeline.env.update({f"{name}_BASE_URL": server.url for name in endpoints})
        pipeline.env.update({f"{name}_API_KEY": API_KEY for name in endpoints})
        pipeline.env["PYTHONPATH"] = str(pipeline.folder / "src")  # jobs, too, use the copy
        runs = Runs(root, pipeline, server)

        script.broken = {"note", "event"}
        pipeline.configure(overlay | {"errors": {"allow": 1}})
        runs.run("pools", f"pools/procedure_note/{SHARD}.parquet", f"pools/event/{SHARD}.parquet", fails=True)
        runs.events = runs.rows("event")

        script.broken = {"query"}
        pipeline.configure(overlay)
        runs.run("queries", *TABLES, fails=True)

        script.broken = set()
        runs.run("whole", *TABLES)
        runs.run("again", *TABLES)
        runs.pools = {pool: runs.rows(pool) for pool in POOLS}
        runs.contexts, runs.tables = runs.read_contexts(), runs.read_tables()

        shutil.rmtree(pipeline.results)
        runs.run("cached", *TABLES)
        runs.contexts_again, runs.tables_again = runs.read_contexts(), runs.read_tables()
        yield runs


def number_of(row: dict[str, Any]) -> int:
    """The number of a context row's question."""
    return [make_id("question", number) for number in range(QUESTIONS)].index(row["question_id"])


def by_question(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {number_of(row): row for row in rows}


def kind_of(number: int) -> str:
    """The type of a question."""
    return list(SCORERS)[number // 2]
