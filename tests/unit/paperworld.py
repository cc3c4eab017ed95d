"""A run whose per-question scores are the paper's own Table 2."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from unit.tableworld import PAPER, Row, Run, blank

from lmev2.data.schema import CATEGORIES
from lmev2.rows import ANSWER, QUESTION

OFFICIAL_TYPES = {
    "static-environment": 134,
    "static-environment-abs": 55,
    "dynamic-environment": 86,
    "dynamic-environment-abs": 41,
    "procedure": 74,
    "procedure-abs": 32,
    "errors-gotchas": 29,
}
PAPER_MODELS = {
    "reader": {"model": "Qwen3.5-9B"},
    "judge": {"model": "gpt-5.2"},
    "controller": {"model": "Qwen3.5-9B"},
    "embedder": {"model": "Qwen3-Embedding-8B"},
}


def published(name: str) -> list[dict[str, str]]:
    with (PAPER.parent / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class PaperRun(Run):
    """Labels, families and models of the paper."""

    @property
    def spec(self) -> dict[str, Any]:
        facts = {row["method"]: row for row in published("table2")}
        methods = [
            {"method": name, "label": facts[name]["label"], "family": facts[name]["family"]} for name in self.methods
        ]
        return {**super().spec, "methods": methods, "models": PAPER_MODELS}


def paper_run() -> PaperRun:
    """The official numbers of questions; of each category, the first round(cell * n) are right."""
    table = published("table2")
    run = PaperRun(list(dict.fromkeys(row["method"] for row in table)), ["small", "medium"])
    ranks: dict[str, int] = {}
    for kind, count in OFFICIAL_TYPES.items():
        for _ in range(count):
            category = CATEGORIES[kind]
            rank = ranks[category] = ranks.get(category, 0) + 1
            fact = {"question_id": f"{category}-{rank:03d}", "question_type": kind, "category": category}
            run.questions.append(blank(QUESTION) | fact | {"domain": "web"})
    for line in table:
        for question in run.questions:
            key = {"question_id": question["question_id"], "method": line["method"], "tier": line["tier"]}
            add_rows(run, key, question, line, ranks)
    return run


def add_rows(run: Run, key: Row, question: Row, line: dict[str, str], sizes: dict[str, int]) -> None:
    category = question["category"]
    rank = int(question["question_id"].rpartition("-")[2])
    kept = {name: question[name] for name in ("domain", "question_type", "category")}
    correct = rank <= round(float(line[category]) * sizes[category])
    run.scores.append(key | kept | {"scorer": "s", "correct": correct, "unknown": False})
    context = {"items": [], "queries": "{}", "latency_s": float(line["latency_s"]), "waited_s": 0.0, "replayed": False}
    run.contexts.append(key | context)
    run.answers.append(blank(ANSWER) | key)


def sql(name: str) -> str:
    return (Path(__file__).resolve().parents[2] / "workflow" / "sql" / f"{name}.sql").read_text(encoding="utf-8")
