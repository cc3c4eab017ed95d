"""A made-up run: questions, contexts, answers and labels of methods on two tiers, as files of question shards."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.synthetic import TYPES
from benchmarks.synthetic_pages import Site, visit
from lmev2.data.schema import CATEGORIES
from lmev2.rows import ANSWER, CONTEXT, EVIDENCE, QUESTION, STATE, write_rows

Row = dict[str, Any]

TIERS = ("small", "medium")
SHARDS = 16
SLICES = 8  # of a context
_PAGES = 60
_STATES = 27


@dataclass(frozen=True)
class Scale:
    """How much there is; ``context_chars`` is the mean size of a context."""

    questions: int
    methods: int
    context_chars: int


def read_scale(folder: Path) -> Scale:
    """The scale of the run in a folder."""
    return Scale(**json.loads((folder / "scale.json").read_text(encoding="utf-8")))


def method_names(scale: Scale) -> list[str]:
    """Names of the methods, in table order."""
    return [f"method_{number:02d}" for number in range(scale.methods)]


def stage_files(folder: Path, stage: str, scale: Scale) -> list[Path]:
    """A stage's files, one a method, tier and question shard."""
    jobs = itertools.product(method_names(scale), TIERS, range(SHARDS))
    return [folder / stage / f"{method}-{tier}-{shard:02d}.parquet" for method, tier, shard in jobs]


def write_run(folder: Path, scale: Scale) -> None:
    """Write the files of all stages before the scores."""
    folder.mkdir(parents=True)
    (folder / "scale.json").write_text(json.dumps(asdict(scale)), encoding="utf-8")
    questions = _questions(scale)
    write_rows(folder / "questions.parquet", QUESTION, questions)
    write_rows(folder / "evidence.parquet", EVIDENCE, _evidence(questions))
    write_rows(folder / "states.parquet", STATE, _states())
    pages = _pages(scale)
    rng = random.Random(7)
    files = zip(stage_files(folder, "contexts", scale), stage_files(folder, "answers", scale), strict=True)
    jobs = itertools.product(method_names(scale), TIERS, range(SHARDS))
    for (method, tier, shard), (contexts, answers) in zip(jobs, files, strict=True):
        own = questions[shard::SHARDS]
        write_rows(contexts, CONTEXT, (_context(rng, row, method, tier, pages) for row in own))
        write_rows(answers, ANSWER, (_answer(rng, row, method, tier) for row in own))


def _questions(scale: Scale) -> list[Row]:
    every = [kind for kind, (_, share) in TYPES.items() for _ in range(share)]
    rows = []
    for number in range(scale.questions):
        kind = every[number * len(every) // scale.questions]
        rows.append(
            {
                "question_id": f"{number:08x}",
                "domain": "enterprise" if number % 2 else "web",
                "environment": "desk" if number % 2 else "shop",
                "question_type": kind,
                "category": CATEGORIES[kind],
                "question": f"On the site, what is the release code of the record Plodra {number}? Mark your answer.",
                "answer": f"KA {number % 50}, PLO {number}",
                "eval_function": TYPES[kind][0],
                "image": None,
            }
        )
    return rows


def _evidence(questions: Sequence[Row]) -> Iterator[Row]:
    for number, row in enumerate(questions):
        place = {"trajectory_id": f"t{number % _PAGES:03d}", "state_index": number % _STATES}
        yield {"question_id": row["question_id"], "hop": 0, **place}


def _states() -> Iterator[Row]:
    for number, state in itertools.product(range(_PAGES), range(_STATES)):
        yield {"trajectory_id": f"t{number:03d}", "state_index": state, "url": "u", "tree": "t", "screenshot": None}


def _pages(scale: Scale) -> list[str]:
    """Texts of slices."""
    site = Site("shop", "reporting", _PAGES, scale.context_chars // SLICES)
    return [visit(site, random.Random(number)).tree() for number in range(_PAGES)]


def _context(rng: random.Random, question: Row, method: str, tier: str, pages: Sequence[str]) -> Row:
    items = []
    for place in rng.sample(range(len(pages)), SLICES):
        state = rng.randrange(1, _STATES - 1)
        items.append(
            {
                "type": "text",
                "value": f"### Slice (similarity 0.5, trajectory t{place:03d})\n{pages[place]}",
                "trajectory_id": f"t{place:03d}",
                "states": [state - 1, state, state + 1],
                "pool": "raw_state",
                "score": rng.random(),
            }
        )
    return {
        "question_id": question["question_id"],
        "method": method,
        "tier": tier,
        "items": items,
        "queries": json.dumps({"raw_state": [question["question"]]}),
        "latency_s": rng.uniform(0.01, 2),
        "waited_s": 0.0,
        "replayed": False,
        "query_origin": "question",
        "rerank_origin": None,
        "error": None,
        "error_detail": None,
    }


def _answer(rng: random.Random, question: Row, method: str, tier: str) -> Row:
    parsed = question["answer"] if rng.random() < 0.5 else "none of these"
    dropped = rng.choice((0, 0, 2))
    return {
        "question_id": question["question_id"],
        "method": method,
        "tier": tier,
        "reply": f"The page says so. \\boxed{{{parsed}}}",
        "parsed": parsed,
        "unknown": question["eval_function"].startswith("llm_"),  # scored without a judge
        "prompt_tokens": 200_000,
        "completion_tokens": 300,
        "context_tokens_before": 250_000,
        "context_tokens": 195_000,
        "items_before": SLICES,
        "items_dropped": dropped,
        "images_shown": False,
        "images_left_out": 0,
        "wall_s": 20.0,
        "model": "reader",
        "finish_reason": "stop",
        "error": None,
        "error_detail": None,
    }
