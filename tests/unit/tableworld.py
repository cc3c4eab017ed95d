"""Random rows of a run, and its tables made from them."""

from __future__ import annotations

import csv
import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lmev2.data.schema import CATEGORIES, QUESTION_TYPES
from lmev2.rows import ANSWER, CONTEXT, POOL_ENTRY, QUESTION, SCORE, write_rows
from lmev2.tables.database import collect
from lmev2.tables.export import TableFiles, export_table

PAPER = Path(__file__).resolve().parents[2] / "resources" / "paper" / "table2.csv"
SQL = Path(__file__).resolve().parents[2] / "workflow" / "sql"
VIEWS, TABLE2, EVIDENCE, ORIGINS = (
    (SQL / f"{name}.sql").read_text(encoding="utf-8") for name in ("views", "table2", "evidence", "origins")
)
KINDS = ("api_error", "length", "judge_error", "memory_error")
GOALS = {"mode": "rules", "goals": 9, "changed": 0, "flagged": 0, "origins": {"unchanged": 9}}
SOURCES = {"data": "D1, fingerprint f00", "goals": json.dumps(GOALS), "prompt judge": "abc123"}
SCHEMAS = {"contexts": CONTEXT, "answers": ANSWER, "scores": SCORE}
POOLS = ("raw_state", "hint_note", "event")
Row = dict[str, Any]


@dataclass
class Run:
    """Rows of a run, by stage."""

    methods: list[str]
    tiers: list[str]
    remarks: dict[str, str] = field(default_factory=dict)
    partners: dict[str, list[str]] = field(default_factory=dict)
    questions: list[Row] = field(default_factory=list)
    contexts: list[Row] = field(default_factory=list)
    answers: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)
    entries: list[Row] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    agent: dict[str, Any] | None = None  # settings of the role

    def of(self, stage: str, method: str, tier: str) -> list[Row]:
        rows: list[Row] = getattr(self, stage)
        return [row for row in rows if (row["method"], row["tier"]) == (method, tier)]

    @property
    def settings(self) -> dict[str, Any]:
        return {"run": {"notes": self.remarks, "questions": None}, "render": {"mode": "full"}}

    @property
    def spec(self) -> dict[str, Any]:
        methods = [
            {
                "method": name,
                "label": self.labels.get(name, f"Label of {name}"),
                "family": self.families.get(name, "rag"),
            }
            for name in self.methods
        ]
        models: dict[str, Any] = {
            "reader": {"model": "R1", "seed": 3},
            "judge": {"model": "J1"},
            "embedder": {"model": "E1"},
        }
        if self.agent is not None:
            models["agent"] = self.agent
        statistics = {"resamples": 500, "seed": 0, "level": 0.95, "alpha": 0.05}
        return {
            "methods": methods,
            "tiers": self.tiers,
            "models": models,
            "settings": self.settings,
            "partners": self.partners,
            "statistics": statistics,
        }


def blank(schema: pa.Schema) -> Row:
    """A value for every required field."""
    values = {pa.string(): "x", pa.int32(): 0, pa.float64(): 0.5, pa.bool_(): False}
    return {one.name: values.get(one.type, []) for one in schema if not one.nullable}


def make_run(
    seed: int, questions: int = 20, errors: float = 0.1, kinds: Sequence[str] = QUESTION_TYPES, methods: int = 3
) -> Run:
    """Random rows; ``kinds`` are the question types that occur."""
    rng = random.Random(seed)
    # Neither methods nor tiers stand in the order of the alphabet.
    run = Run([f"m{9 - number}" for number in range(methods)], ["small", "medium"])
    run.entries = [make_entry(rng, pool) for pool in POOLS for _ in range(questions)]
    for number in range(questions):
        kind = rng.choice(list(kinds))
        fact = {"question_id": f"q{number:03d}", "domain": "web", "question_type": kind, "category": CATEGORIES[kind]}
        run.questions.append(blank(QUESTION) | fact)
        for method, tier in itertools.product(run.methods, run.tiers):
            key = {"question_id": fact["question_id"], "method": method, "tier": tier}
            run.scores.append(make_score(rng, key | fact, errors))
            run.contexts.append(make_context(rng, key, run.scores[-1]["error"] == "memory_error"))
            if method == run.methods[0]:
                run.contexts[-1]["query_origin"] = None  # a method without queries
            run.answers.append(make_answer(rng, key))
    return run


def make_context(rng: random.Random, key: Row, failed: bool) -> Row:
    key = key | {"queries": "{}", "replayed": rng.random() < 0.5, "waited_s": rng.uniform(0, 9)}
    if failed:
        return key | {
            "items": [],
            "latency_s": 0.0,
            "error": "memory_error",
            "query_origin": None,
            "rerank_origin": None,
        }
    texts = ["text" * rng.randint(0, 5) for _ in range(rng.randint(0, 3))]
    item = {"trajectory_id": None, "states": [], "pool": None, "score": None}
    items = [item | {"type": "text", "value": text} for text in texts]
    items += [item | {"type": "image", "value": "/long/path/1.png"}] * rng.randint(0, 2)
    origin = rng.choice(("question", "model", "repaired", "fallback"))
    choice = rng.choice((None, "model", "repaired", "fallback"))
    return key | {
        "items": items,
        "latency_s": rng.uniform(0, 3),
        "query_origin": origin,
        "rerank_origin": choice,
    }


CUT = "length: the reply was cut after 8 tokens; with trees of 12000 characters"
# Origins with details; the last value says whether a model made the entry from cut trees.
DETAILS = (
    ("rules", None, False),
    ("model", None, False),
    ("model", CUT, True),
    ("repaired", "the first reply was not the JSON object asked for", False),
    ("repaired", f"{CUT}; the first reply was not the JSON object asked for", True),
    ("fallback", f"{CUT}: length: the reply was cut after 8 tokens", False),
    ("fallback", "api_error: 503", False),
)
SHORTENED = {(origin, detail): short for origin, detail, short in DETAILS}


def make_entry(rng: random.Random, pool: str) -> Row:
    origin, detail, _ = DETAILS[0] if pool == "raw_state" else rng.choice(DETAILS)
    row = blank(POOL_ENTRY) | {"entry_id": f"{pool}/{rng.random()}", "pool": pool, "origin": origin}
    return row | {"origin_detail": detail, "images_left_out": 0 if origin == "rules" else rng.randint(0, 3)}


def make_answer(rng: random.Random, key: Row) -> Row:
    counts = ("prompt_tokens", "completion_tokens", "context_tokens_before", "context_tokens", "items_before")
    return (
        blank(ANSWER)
        | key
        | {name: rng.randint(0, 5000) for name in counts}
        | {"items_dropped": rng.randint(0, 5), "images_left_out": rng.randint(0, 6)}
    )


def make_score(rng: random.Random, key: Row, errors: float) -> Row:
    maybe = (True, False, None)
    row = key | {name: rng.choice(maybe) for name in ("evidence_covered", "evidence_covered_before", "gold_supported")}
    if rng.random() < errors:
        return row | {"scorer": "s", "correct": None, "unknown": None, "error": rng.choice(KINDS), "error_detail": "d"}
    return row | {"scorer": "s", "correct": rng.random() < 0.4, "unknown": False, "error": None, "error_detail": None}


def write_stage(folder: Path, stage: str, schema: pa.Schema, rows: Sequence[Row], shards: int) -> list[Path]:
    paths = [folder / stage / f"{shard}.parquet" for shard in range(shards)]
    for shard, path in enumerate(paths):
        write_rows(path, schema, rows[shard::shards])
    return paths


def make_database(folder: Path, run: Run, shards: int = 2) -> Path:
    write_rows(folder / "questions.parquet", QUESTION, run.questions)
    stages = {
        stage: write_stage(folder, stage, schema, getattr(run, stage), shards) for stage, schema in SCHEMAS.items()
    }
    pools = write_stage(folder, "pools", POOL_ENTRY, run.entries, shards) if run.entries else []
    collect(folder / "metrics.duckdb", run.spec, folder / "questions.parquet", stages, pools, PAPER, VIEWS, SOURCES)
    return folder / "metrics.duckdb"


def files_in(folder: Path, name: str = "t") -> TableFiles:
    return TableFiles(*(folder / f"{name}.{ending}" for ending in ("csv", "md", "tex")))


def export(folder: Path, run: Run, query: str, shards: int = 2) -> tuple[list[dict[str, str]], str]:
    """The table as rows of texts, and its Markdown."""
    database = make_database(folder, run, shards)
    export_table(database, query, files_in(folder), "A title")
    with (folder / "t.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file)), (folder / "t.md").read_text(encoding="utf-8")
