"""A record of ``per_question.jsonl`` from the rows of a question, and the rows again from a record.

The harness's fields hold what every harness run has. What else our rows say (where an item comes from, items that were
dropped, the judge's reason) stands under one key of our own that others ignore; with it, rows survive the round trip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lmev2.data.layout import path_fault
from lmev2.data.schema import CATEGORIES
from lmev2.interchange.images import told_name
from lmev2.interchange.layout import HARNESS_CATEGORIES, NOT_RECORDED, OURS
from lmev2.scoring.spec import parse_eval_function

Row = Mapping[str, Any]

_CONTEXT_EXTRAS = ("queries", "query_origin", "rerank_origin", "waited_s", "replayed")
_ANSWER_EXTRAS = ("images_shown", "images_left_out", "wall_s", "model", "finish_reason")
_SCORE_EXTRAS = ("judge_label", "judge_reason")
_ITEM_EXTRAS = ("trajectory_id", "states", "pool", "score")
# What a record of others says nothing about.
_NOT_TOLD: Mapping[str, Any] = {
    "queries": "{}",
    "query_origin": None,
    "rerank_origin": None,
    "waited_s": 0.0,
    "replayed": False,
    "images_shown": True,
    "images_left_out": 0,
    "wall_s": 0.0,
    "finish_reason": None,
}
_NO_EVIDENCE = dict.fromkeys(("evidence_covered", "evidence_covered_before", "gold_supported"))


class Rows(NamedTuple):
    """The rows of one question, method and tier, by the contracts of :mod:`lmev2.rows`."""

    context: dict[str, Any]
    answer: dict[str, Any]
    score: dict[str, Any]


def relative_path(path: str, root: str) -> str:
    """A path below the data root ``root`` relative to it; any other as it stands, or as an imported run named it."""
    inside = path.removeprefix(root.rstrip("/") + "/")
    return inside if inside != path and path_fault(inside) is None else told_name(path)


def harness_question(question: Row, root: str) -> dict[str, Any]:
    """The question object of ``runtime_inputs/questions.json``: with an image, ``question`` is text and image."""
    text = question["question"]
    image = question["image"]
    return {
        "id": question["question_id"],
        "domain": question["domain"],
        "environment": question["environment"],
        "question_type": question["question_type"],
        "question": {"text": text, "image": relative_path(image, root)} if image else text,
        "answer": question["answer"],
        "eval_function": question["eval_function"],
    }


def make_record(
    number: int, question: Row, haystack: Sequence[str], rows: Rows, messages: Sequence[Any], root: str
) -> dict[str, Any]:
    """A record.

    Args:
        number: position of the question in ``runtime_inputs/questions.json``.
        question: the question's row.
        haystack: its trajectory ids.
        rows: its context, answer and score.
        messages: what the reader was sent, as the harness writes it down; may be empty.
        root: the data root, for relative paths.
    """
    context, answer, score = rows
    items = [{"type": item["type"], "value": _item_value(item, root)} for item in context["items"]]
    kept = len(items) - answer["items_dropped"]
    correct = score["correct"]
    record = {
        "index": number,
        "stream_index": number,
        "question_id": question["question_id"],
        "question_type": question["question_type"],
        "category": HARNESS_CATEGORIES[question["question_type"]],
        "is_abstention_problem": parse_eval_function(question["eval_function"]).name == "llm_abstention_checker",
        "eval_function": question["eval_function"],
        "question_text": question["question"],
        "question_image": relative_path(question["image"], root) if question["image"] else None,
        "haystack_ids": list(haystack),
        "memory_context": items[:kept],
        "memory_query_duration_seconds": None if context["error"] else context["latency_s"],
        "memory_post_query_duration_seconds": 0.0,
        "memory_post_query_metadata": None,
        "memory_context_original_token_count": answer["context_tokens_before"],
        "memory_context_token_count": answer["context_tokens"],
        "memory_context_was_truncated": answer["context_tokens_before"] > answer["context_tokens"],
        "prompt_messages": list(messages),
        "answer_gold": question["answer"],
        "response_raw": answer["reply"],
        "response_parsed_boxed": answer["parsed"],
        "is_unknown": answer["unknown"],
        "score": None if correct is None else float(correct),
        "score_bool": correct,
        "usage": {
            "prompt_tokens": answer["prompt_tokens"],
            "completion_tokens": answer["completion_tokens"],
            "total_tokens": answer["prompt_tokens"] + answer["completion_tokens"],
        },
        "timestamp_utc": NOT_RECORDED,
    }
    if score["error"] is not None:
        record |= {"error": score["error"], "error_detail": score["error_detail"]}
    return record | {OURS: _extras(rows, items[kept:])}


def _item_value(item: Row, root: str) -> str:
    return relative_path(item["value"], root) if item["type"] == "image" else item["value"]


def _extras(rows: Rows, dropped: Sequence[Row]) -> dict[str, Any]:
    return {
        "items": [{name: item[name] for name in _ITEM_EXTRAS} for item in rows.context["items"]],
        "dropped_items": list(dropped),
        **{name: rows.context[name] for name in _CONTEXT_EXTRAS},
        **{name: rows.answer[name] for name in _ANSWER_EXTRAS},
        **{name: rows.score[name] for name in _SCORE_EXTRAS},
    }


def rows_of(record: Row, domain: str, reader: str, method: str, tier: str) -> Rows:
    """The rows of a valid record, as rows of ``method`` and ``tier``. Evidence facts stay null.

    Args:
        record: a record whose fields were checked.
        domain: the run's domain.
        reader: the run's reader, where the record does not name it.
    """
    ours: dict[str, Any] = {**_NOT_TOLD, "model": reader, **dict.fromkeys(_SCORE_EXTRAS), **(record.get(OURS) or {})}
    key = {"question_id": record["question_id"], "method": method, "tier": tier}
    items = [*record["memory_context"], *ours.get("dropped_items", ())]
    blank: dict[str, Any] = {"trajectory_id": None, "states": [], "pool": None, "score": None}
    facts = ours.get("items", [blank] * len(items))
    failed = {"error": record.get("error"), "error_detail": record.get("error_detail")}
    well = dict.fromkeys(failed)
    # A query without a latency failed; a verdict that did not come leaves context and answer whole.
    of_context = failed if record["memory_query_duration_seconds"] is None else well
    of_answer = well if failed["error"] == "judge_error" else failed
    context = {
        **key,
        "items": [
            {"type": item["type"], "value": item["value"], **{name: fact[name] for name in _ITEM_EXTRAS}}
            for item, fact in zip(items, facts, strict=True)
        ],
        "latency_s": record["memory_query_duration_seconds"] or 0.0,
        **{name: ours[name] for name in _CONTEXT_EXTRAS},
        **of_context,
    }
    answer = {
        **key,
        "reply": record["response_raw"],
        "parsed": record["response_parsed_boxed"],
        "unknown": record["is_unknown"],
        "prompt_tokens": record["usage"]["prompt_tokens"],
        "completion_tokens": record["usage"]["completion_tokens"],
        "context_tokens_before": record["memory_context_original_token_count"],
        "context_tokens": record["memory_context_token_count"],
        "items_before": len(items),
        "items_dropped": len(items) - len(record["memory_context"]),
        **{name: ours[name] for name in _ANSWER_EXTRAS},
        **of_answer,
    }
    correct = None if record["score"] is None else record["score"] == 1
    score = {
        **key,
        "domain": domain,
        "question_type": record["question_type"],
        "category": CATEGORIES[record["question_type"]],
        "scorer": parse_eval_function(record["eval_function"]).name,
        "correct": correct,
        "unknown": None if correct is None else record["is_unknown"],
        **{name: ours[name] for name in _SCORE_EXTRAS},
        **_NO_EVIDENCE,
        **failed,
    }
    return Rows(context, answer, score)
