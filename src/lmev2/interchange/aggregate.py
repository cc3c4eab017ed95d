"""``aggregated_metrics.json`` of a run folder, from its records; and the overview of two domains together.

Rows without a score (those with an error) are in no mean, share or count, and make the object say ``incomplete``. Its
``count_all_questions`` then differs from the number of records, so that the harness's own tools refuse the folder too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lmev2.interchange.layout import NOT_RECORDED

Record = Mapping[str, Any]

PLAIN: Final = ("static", "dynamic", "procedure", "gotchas")
FLAWED: Final = ("static-abs", "dynamic-abs", "procedure-abs")
POOLED: Final[Mapping[str, tuple[str, str]]] = {
    name.removesuffix("-abs"): (name.removesuffix("-abs"), name) for name in FLAWED
}

# Fields of a record that the metrics are made of.
USED_FIELDS: Final = (
    "category",
    "is_abstention_problem",
    "is_unknown",
    "score",
    "usage",
    "memory_query_duration_seconds",
    "memory_post_query_duration_seconds",
    "memory_context_original_token_count",
    "memory_context_token_count",
    "memory_context_was_truncated",
)


def aggregate(
    records: Sequence[Record], haystacks: Mapping[str, Sequence[str]], completed_at: str = NOT_RECORDED
) -> dict[str, Any]:
    """The object of ``aggregated_metrics.json``.

    Args:
        records: the run's records, with at least :data:`USED_FIELDS`; ``error`` names the kind where there is no score.
        haystacks: trajectory ids by question id.
        completed_at: when the run ended.
    """
    scored = [record for record in records if record["score"] is not None]
    plain = [record for record in scored if not record["is_abstention_problem"]]
    flawed = [record for record in scored if record["is_abstention_problem"]]
    lists = list(haystacks.values())
    shared = bool(lists) and all(list(one) == list(lists[0]) for one in lists)
    found: dict[str, Any] = {
        "overall": {
            "overall_full_set": _mean_score(scored),
            "overall_non_abstention_only": _mean_score(plain),
            "overall_abstention_only": _mean_score(flawed),
            "count_all_questions": len(scored),
            "count_non_abstention": len(plain),
            "count_abstention": len(flawed),
        },
        "non_abstention_by_category": {name: _breakdown(_of(plain, name)) for name in PLAIN},
        "abstention_by_category": {name: _breakdown(_of(flawed, name)) for name in FLAWED},
        "combined_abstention_by_category": {name: _breakdown(_of(scored, *pair)) for name, pair in POOLED.items()},
        "abstention_overall": _breakdown(flawed),
        "tokens": _tokens(scored),
        "memory_context": {
            "avg_original_tokens": _mean([record["memory_context_original_token_count"] for record in scored]),
            "avg_final_tokens": _mean([record["memory_context_token_count"] for record in scored]),
            "num_truncated_sequences": sum(bool(record["memory_context_was_truncated"]) for record in scored),
        },
        "memory_query": _timing([record["memory_query_duration_seconds"] for record in records]),
        "memory_post_query": _timing([record["memory_post_query_duration_seconds"] for record in records]),
        "completed_at_utc": completed_at,
        "shared_haystack": shared,
    }
    if shared:
        found["shared_haystack_ids"] = list(lists[0])
    return found | incompleteness(records)


def incompleteness(records: Sequence[Record]) -> dict[str, Any]:
    """Marks of a run with rows that have no score: ``incomplete`` and ``errors`` by kind; empty for a complete run."""
    errors = Counter(str(record.get("error")) for record in records if record["score"] is None)
    return {"incomplete": True, "errors": dict(sorted(errors.items()))} if errors else {}


def overview(parts: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """``metric_overview.json``: accuracies and latency of several domains together, averages weighted by counts.

    Args:
        parts: the ``aggregated_metrics.json`` of each domain.
    """
    overall = [part["overall"] for part in parts]
    found = {
        "overall_full_set": _weighted([(one["overall_full_set"], one["count_all_questions"]) for one in overall]),
        "gotchas_accuracy": _weighted_share(parts, "non_abstention_by_category", "gotchas"),
    }
    for name in POOLED:
        found[f"{name}_accuracy"] = _weighted_share(parts, "combined_abstention_by_category", name)
    found["memory_query_avg_seconds"] = _weighted(
        [(part["memory_query"]["avg_seconds"], part["overall"]["count_all_questions"]) for part in parts]
    )
    return found


def _weighted_share(parts: Sequence[Mapping[str, Any]], section: str, name: str) -> float | None:
    cells = [part[section][name] for part in parts]
    return _weighted([(cell["pct_correct"], cell["count"]) for cell in cells])


def _weighted(values: Sequence[tuple[float | None, int]]) -> float | None:
    present = [(value, count) for value, count in values if value is not None and count]
    total = sum(count for _, count in present)
    return sum(value * count for value, count in present) / total if total else None


def _mean_score(records: Sequence[Record]) -> float | None:
    return _mean([float(record["score"]) for record in records])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _of(records: Sequence[Record], *categories: str) -> list[Record]:
    return [record for record in records if record["category"] in categories]


def _breakdown(rows: Sequence[Record]) -> dict[str, Any]:
    """Shares correct, answered wrongly, and answered ``UNKNOWN``."""
    count = len(rows)
    if not count:
        return {"count": 0, "pct_correct": None, "pct_answered_wrong": None, "pct_unknown": None}
    unknown = sum(1 for row in rows if row["is_unknown"])
    correct = sum(1 for row in rows if row["score"] and not row["is_unknown"])
    return {
        "count": count,
        "pct_correct": correct / count,
        "pct_answered_wrong": (count - correct - unknown) / count,
        "pct_unknown": unknown / count,
    }


def _tokens(records: Sequence[Record]) -> dict[str, Any]:
    prompt, completion = (
        [record["usage"][name] for record in records] for name in ("prompt_tokens", "completion_tokens")
    )
    total = [one + other for one, other in zip(prompt, completion, strict=True)]
    values = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return {name: sum(counts) for name, counts in values.items()} | {
        f"avg_{name}": _mean(counts) for name, counts in values.items()
    }


def _timing(durations: Sequence[float | None]) -> dict[str, float | None]:
    """Seconds over the calls that ended well. Percentiles are the harness's: the value at position ``n // 2``, or
    ``int(0.95 n)``, of the sorted ones, counted from 0."""
    known = sorted(float(one) for one in durations if one is not None)
    if not known:
        return {**dict.fromkeys(("avg_seconds", "p50_seconds", "p95_seconds", "max_seconds")), "total_seconds": 0.0}
    total = sum(known)
    return {
        "avg_seconds": total / len(known),
        "p50_seconds": known[len(known) // 2],
        "p95_seconds": known[min(len(known) - 1, int(0.95 * len(known)))],
        "max_seconds": known[-1],
        "total_seconds": total,
    }
