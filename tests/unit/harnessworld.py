"""Random runs whose rows fit together, as run folders of the public harness."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unit.dataroot import SCORERS, write_png

from lmev2.data.schema import CATEGORIES
from lmev2.interchange.aggregate import aggregate
from lmev2.interchange.export import ExportedRun, export_run, run_args
from lmev2.interchange.layout import (
    AGGREGATED,
    HAYSTACK,
    NOT_RECORDED,
    RECORDS,
    folder_name,
    write_json,
)
from lmev2.prompts import Prompt
from lmev2.rows import EVIDENCE, write_rows

Row = dict[str, Any]
PROMPT = Prompt("Be brief.", "Context:\n{memory_context}\nQuestion: {question}")
HASHES = {"reader_web": "aa", "reader_enterprise": "bb"}
ERRORS = ("memory_error", "api_error", "length", "judge_error")
READER, JUDGE = "Qwen3.5-9B", "GPT-5.2-test"
CYCLE = tuple(itertools.product(SCORERS, ("web", "enterprise")))


@dataclass
class World:
    """Rows of one method and tier over a data root at ``root``; every question asks in its own words."""

    root: Path
    method: str
    tier: str
    questions: list[Row] = field(default_factory=list)
    haystacks: list[Row] = field(default_factory=list)
    evidence: list[Row] = field(default_factory=list)
    contexts: list[Row] = field(default_factory=list)
    answers: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)
    reader: str = READER
    judge: str = JUDGE

    def args(self, domain: str) -> Row:
        """``run_args.json``."""
        roles = {"reader": {"model": self.reader, "context_tokens": 99, "file": "/of/this/machine.gguf"}}
        spec = {
            "name": self.method,
            "tier": self.tier,
            "models": {**roles, "judge": {"model": self.judge, "stamps": {"file": [1, 2]}}},
            "method": {"family": "rag"},
            "render": {"mode": "full"},
        }
        return run_args(spec, domain, "fingerprint", HASHES)

    def exported(self, domain: str, **changes: Any) -> ExportedRun:
        """What the export gets."""
        values: dict[str, Any] = {
            "method": self.method,
            "tier": self.tier,
            "domain": domain,
            "args": self.args(domain),
            "completed_at": NOT_RECORDED,
            "questions": self.questions,
            "haystacks": self.haystacks,
            "contexts": self.contexts,
            "answers": self.answers,
            "scores": self.scores,
            "prompt": PROMPT,
            "root": str(self.root),
        }
        return ExportedRun(**{**values, **changes})

    def export(self, folder: Path, *domains: str, **changes: Any) -> list[Path]:
        """Write run folders below ``folder``."""
        paths = []
        for domain in domains or ("web", "enterprise"):
            run = self.exported(domain, **changes)
            paths.append(folder / folder_name(run.method, domain, self.tier))
            export_run(paths[-1], run)
        return paths


def official_kinds() -> list[tuple[str, str]]:
    """Type and domain of 451 questions, as many of each domain and category as the official release has."""
    counts = {"static-environment": 120, "static-environment-abs": 69, "dynamic-environment": 127}
    counts |= {"procedure": 100, "procedure-abs": 6, "errors-gotchas": 29}
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    return [(kind, "web" if number < 240 else "enterprise") for number, kind in enumerate(kinds)]


def make_world(
    root: Path,
    seed: int,
    questions: int = 28,
    errors: float = 0.0,
    method: str = "rag",
    shared: bool = False,
    kinds: Sequence[tuple[str, str]] = CYCLE,
) -> World:
    """A random run; ``errors`` is the share of rows that failed, ``shared`` gives a domain's questions one haystack.

    Types and domains of the questions go round in ``kinds``.
    """
    rng = random.Random(seed)
    world = World(root, method, "small")
    for number in range(questions):
        kind, domain = kinds[number % len(kinds)]
        question = _question(root, number, kind, domain)
        world.questions.append(question)
        names = [f"t{one}" for one in rng.sample(range(9), 4)]
        names = [f"{domain}{one}" for one in range(4)] if shared else names
        world.haystacks.append({"question_id": question["question_id"], "tier": "small", "trajectory_ids": names})
        world.haystacks.append({"question_id": question["question_id"], "tier": "medium", "trajectory_ids": ["other"]})
        for hop in range(rng.randint(0, 2)):
            key = {"question_id": question["question_id"], "hop": hop}
            world.evidence.append({**key, "trajectory_id": rng.choice(names), "state_index": rng.randint(0, 3)})
        error = rng.choice(ERRORS) if rng.random() < errors else None
        _add_rows(world, rng, question, names, error)
    rng.shuffle(world.questions)
    return world


def point_runs(tmp_path: Path, name: str, seed: int, **changes: Any) -> tuple[Path, Path]:
    """Run folders of a world over the same questions and haystacks, whatever the seed of its answers."""
    shape = {key: value for key, value in changes.items() if key in ("questions", "kinds")}
    base = make_world(tmp_path / "data", 0, **shape)
    world = make_world(tmp_path / "data", seed, **changes)
    world.haystacks = base.haystacks
    web, enterprise = world.export(tmp_path / name)
    return web, enterprise


def total_anew(folder: Path) -> None:
    """Write ``aggregated_metrics.json`` by the records as they are."""
    haystacks = json.loads((folder / HAYSTACK).read_text(encoding="utf-8"))
    write_json(folder / AGGREGATED, aggregate(records(folder), haystacks))


def _question(root: Path, number: int, kind: str, domain: str) -> Row:
    name = f"{number:08x}"
    image = root / "question_screenshots" / f"{name}.png" if kind == "errors-gotchas" else None
    if image is not None:
        write_png(image, number)
    return {
        "question_id": name,
        "domain": domain,
        "environment": "shop",
        "question_type": kind,
        "category": CATEGORIES[kind],
        "question": f"Which code has record {number}?\u2028Say it “exactly”.",
        "answer": f"K-{number}",
        "eval_function": SCORERS[kind],
        "image": None if image is None else str(image),
    }


def _add_rows(world: World, rng: random.Random, question: Row, names: list[str], error: str | None) -> None:
    key = {"question_id": question["question_id"], "method": world.method, "tier": world.tier}
    of_memory = error if error == "memory_error" else None
    of_answer = None if error == "judge_error" else error
    items = [] if of_memory else [_item(world.root, rng, names) for _ in range(rng.randint(0, 4))]
    world.contexts.append(
        {
            **key,
            "items": items,
            "queries": json.dumps({"raw_state": ["é"]}),
            "latency_s": 0.0 if of_memory else rng.uniform(0.01, 9),
            "waited_s": rng.uniform(0, 2),
            "replayed": rng.random() < 0.5,
            "query_origin": rng.choice([None, "question"]),
            "rerank_origin": rng.choice([None, "model", "repaired", "fallback"]),
            "error": of_memory,
            "error_detail": of_memory and "it broke",
        }
    )
    dropped = rng.randint(0, len(items))
    tokens = rng.randint(0, 500)
    correct = None if error else rng.random() < 0.5
    unknown = correct is False and rng.random() < 0.5
    parsed = "UNKNOWN" if unknown else rng.choice([question["answer"], "no\u2028idea"])
    world.answers.append(
        {
            **key,
            "reply": f"So: \\boxed{{{parsed}}}",
            "parsed": parsed,
            "unknown": unknown,
            "prompt_tokens": rng.randint(0, 5000),
            "completion_tokens": rng.randint(0, 500),
            "context_tokens_before": tokens + (rng.randint(1, 90) if dropped else 0),
            "context_tokens": tokens,
            "items_before": len(items),
            "items_dropped": dropped,
            "images_shown": rng.random() < 0.5,
            "images_left_out": rng.randint(0, 2),
            "wall_s": rng.uniform(0, 4),
            "model": "served-name",
            "finish_reason": "length" if error == "length" else "stop",
            "error": of_answer,
            "error_detail": of_answer and "it broke",
        }
    )
    judged = question["eval_function"].startswith("llm_") and not error
    world.scores.append(
        {
            **key,
            **{name: question[name] for name in ("domain", "question_type", "category")},
            "scorer": question["eval_function"].split("|")[0],
            "correct": correct,
            "unknown": None if error else unknown,
            "judge_label": int(bool(correct)) if judged else None,
            "judge_reason": "because" if judged else None,
            "evidence_covered": None,
            "evidence_covered_before": None,
            "gold_supported": None,
            "error": error,
            "error_detail": error and "it broke",
        }
    )


def _item(root: Path, rng: random.Random, names: list[str]) -> Row:
    trajectory, state = rng.choice(names), rng.randint(0, 3)
    origin = {"trajectory_id": trajectory, "states": [state], "pool": "raw_state", "score": rng.random()}
    if rng.random() < 0.6:
        return {"type": "text", "value": f"State {state} shows K-{rng.randint(0, 30)}\u2028 and more", **origin}
    shot = root / "screenshots" / trajectory / f"{state}.png"
    if not shot.exists():
        write_png(shot, state)
    return {"type": "image", "value": str(shot), **origin}


def edit_json(path: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file's value in place."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def edit_record(folder: Path, number: int, change: Callable[[Row], object]) -> None:
    """Change the record on a line, counted from 1, in place."""
    lines = (folder / RECORDS).read_text(encoding="utf-8").split("\n")
    record = json.loads(lines[number - 1])
    change(record)
    lines[number - 1] = json.dumps(record)
    (folder / RECORDS).write_text("\n".join(lines), encoding="utf-8")


def records(folder: Path) -> list[Row]:
    """The records of a run folder."""
    return [json.loads(line) for line in (folder / RECORDS).read_text(encoding="ascii").splitlines()]


def write_evidence(path: Path, world: World) -> None:
    """The evidence labels as Parquet."""
    write_rows(path, EVIDENCE, world.evidence)
