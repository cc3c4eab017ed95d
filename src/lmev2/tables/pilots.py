"""What the tables of the pilot studies tell of one reader and context."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from lmev2.metrics import TABLE_CATEGORIES, is_abstention, table_row
from lmev2.rows import ANSWER, ORACLE_CUT, SCORE, read_rows
from lmev2.tables.notes import read_goal_notes
from lmev2.tables.paper import OVERALL

ACCURACIES: Final = (OVERALL, *TABLE_CATEGORIES)
# Columns that :func:`facts` gives.
COUNTS: Final = ("questions", "errors", "error_kinds")
TOKENS: Final = ("prompt_tokens", "completion_tokens")
Row = Mapping[str, Any]


def facts(scores: Iterable[str | Path], answers: Iterable[str | Path]) -> dict[str, str]:
    """Accuracies and counts of one reader and context over the questions without a flawed premise.

    Args:
        scores, answers: files of its shards.

    Returns:
        As text: ``questions``, ``errors``, ``error_kinds``, accuracies over the rows with a score (empty without any),
        shares ``covered_before``, ``covered`` and ``gold_support`` (empty where not defined), and mean tokens of rows
        without an error: ``tokens_before`` and ``tokens`` of the context, ``prompt_tokens``, ``completion_tokens``.
    """
    scored = [row for path in scores for row in read_rows(path, SCORE) if not is_abstention(row["question_type"])]
    asked = {row["question_id"] for row in scored}
    answered = [row for path in answers for row in read_rows(path, ANSWER) if row["question_id"] in asked]
    kinds = Counter(row["error"] for row in scored if row["error"] is not None)
    good = [row for row in answered if row["error"] is None]
    return {
        "questions": str(len(scored)),
        "errors": str(sum(kinds.values())),
        "error_kinds": ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())),
        **{name: _share(found.value) for name, found in table_row(scored).items()},
        "covered_before": _share(_mean(scored, "evidence_covered_before")),
        "covered": _share(_mean(scored, "evidence_covered")),
        "gold_support": _share(_mean(scored, "gold_supported")),
        "tokens_before": _count(_mean(good, "context_tokens_before")),
        "tokens": _count(_mean(good, "context_tokens")),
        **{name: _count(_mean(good, name)) for name in TOKENS},
    }


def cut_facts(cuts: Iterable[str | Path]) -> dict[str, str]:
    """How much of the oracle contexts show, summed over questions: ``states_shown`` of ``states``, ``notes_shown`` of
    ``notes``, and ``questions_cut``, of which something was left out."""
    rows = [row for path in cuts for row in read_rows(path, ORACLE_CUT)]
    sums = {name: str(sum(row[name] for row in rows)) for name in ("states_shown", "states", "notes_shown", "notes")}
    cut = sum(row["states_shown"] < row["states"] or row["notes_shown"] < row["notes"] for row in rows)
    return {**sums, "questions_cut": str(cut)}


def cost(answers: Iterable[str | Path], price: Mapping[str, Any] | None) -> tuple[str, str]:
    """Cost of all answers by the price of a million tokens, and its currency; empty without a price.

    Cached input counts as any other: answers do not say how much of it there was. Failed calls cost nothing here.
    """
    if price is None:
        return "", ""
    rows = [row for path in answers for row in read_rows(path, ANSWER)]
    total = sum(price["input"] * row["prompt_tokens"] + price["output"] * row["completion_tokens"] for row in rows)
    return f"{total / 1e6:.4f}", str(price["currency"])


def by_cell(paths: Sequence[str], cells: int) -> list[list[str]]:
    """Files of all cells, in their order, as one list per cell; each has as many shards."""
    size = len(paths) // cells if cells else 0
    return [list(paths[number * size : (number + 1) * size]) for number in range(cells)]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [float(row[name]) for row in rows if row[name] is not None]
    return fmean(values) if values else None


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def made_of(spec: Mapping[str, Any], manifest: Path, goals: Path) -> list[str]:
    """Notes on how a table of the pilot studies was made: models, remarks on them, rendering, data and their goals.

    Args:
        spec: with ``cells`` (``label`` and ``model``), ``remarks`` by model, ``judge`` and, where contexts were
            rendered, ``render``.
        manifest: of the ingested data.
        goals: summary of what was done to their goals.
    """
    models_of = {cell["label"]: cell["model"] for cell in spec["cells"]}
    readers = [label if model in label else f"{label} ({model})" for label, model in models_of.items()]
    models = list(dict.fromkeys(cell["model"] for cell in spec["cells"]))
    data = json.loads(manifest.read_text(encoding="utf-8"))
    notes = [f"Answered by: {', '.join(readers)}." if readers else "This run has no reader here."]
    notes += [spec["remarks"][model] for model in models if model in spec["remarks"]]
    rendered = f" Contexts are rendered {spec['render']}." if "render" in spec else ""
    notes.append(f"Judge: {spec['judge']}.{rendered} Data fingerprint: {data['fingerprint']}.")
    return notes + read_goal_notes(goals)
