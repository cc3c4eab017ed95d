"""The query stage: each question of a shard is asked of a memory, one at a time, and the call is timed.

The latency is the wall time of the query call alone; a model call inside it counts for the attempt that first answered
it, without waits, failed attempts or replays. It is measured once and kept in the call cache under everything that can
change the query's work, so that a repeated run reports the latency that was measured first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmev2.memory.base import Memory, MemoryContext, MemoryQuery, empty_row
from lmev2.models.cache import CallCache
from lmev2.models.stopwatch import collect
from lmev2.models.text import well_formed
from lmev2.models.types import ModelCallError
from lmev2.progress import Report
from lmev2.prompts import Prompt
from lmev2.rows import HAYSTACK, read_rows
from lmev2.shards import in_shard

Row = Mapping[str, Any]
# What a job's settings hold that changes nothing about the work of one query.
_NAMES = ("name", "tier", "shard", "allow")


def query_rows(
    memory: Memory,
    questions: Sequence[Row],
    haystacks: Mapping[str, Sequence[str]],
    spec: Mapping[str, Any],
    digests: Mapping[str, str],
    cache: CallCache,
    report: Report,
) -> list[dict[str, Any]]:
    """Context rows of the questions, in their order; a question whose model calls fail gets a row with kind
    ``memory_error``.

    Questions about the same haystack are asked one after the other, and the memory is prepared for each haystack once,
    outside the measured time; where that fails, it is tried again for the next question.

    Args:
        memory: the memory to ask.
        questions: question rows.
        haystacks: trajectory ids in haystack order, by question id.
        spec: the job's settings; ``name`` and ``tier`` go into the rows, and everything else into the key of the kept
            latency.
        digests: digest by name of all else that changes a query's work, for that key: data, indexes and prompts.
        cache: keeps the latencies.
        report: progress callback.
    """
    rows: dict[int, dict[str, Any]] = {}
    ready: tuple[str, ...] | None = None
    for number in _by_haystack(questions, haystacks):
        question = questions[number]
        query = query_of(question, haystacks, spec)
        row = empty_row(question["question_id"], spec["name"], spec["tier"])
        with collect() as ledger:
            try:
                if query.haystack != ready:
                    ready = None
                    memory.prepare(query.haystack)
                    ready = query.haystack
                with collect() as call:
                    context = memory.query(query)
            except ModelCallError as error:
                detail = error.detail if error.kind == "memory_error" else str(error)
                row |= {"error": "memory_error", "error_detail": detail}
            else:
                latency, replayed = _first_latency(call.honest_s, query, spec, digests, cache)
                row |= _found(context) | {"latency_s": latency, "replayed": replayed}
        rows[number] = _writable(row | {"waited_s": ledger.waited_s})
        report(len(rows), len(questions))
    return [rows[number] for number in range(len(questions))]


def questions_of_shard(
    questions: Sequence[Row], haystacks: Mapping[str, Sequence[str]], shard: str, by_haystack: bool
) -> list[Row]:
    """The questions of a shard, in order.

    Args:
        questions: question rows.
        haystacks: trajectory ids in haystack order, by question id.
        shard: the shard's name.
        by_haystack: spread haystacks over the shards, not questions, so that all questions about a haystack meet in
            one job: a memory that is filled anew for each haystack then fills it once in the whole run.

    Raises:
        ValueError: not the name of a shard.
    """

    def identifier(question: Row) -> str:
        name = str(question["question_id"])
        return haystack_digest(haystacks[name]) if by_haystack else name

    return [question for question in questions if in_shard(identifier(question), shard)]


def data_digest(manifest: Path, goals: Path) -> dict[str, str]:
    """The identity of the data that a memory reads: what stands behind the ids of a haystack.

    Args:
        manifest: of the ingested data.
        goals: summary of what goal sanitisation changed in them. Where it changed nothing, the identity is that of the
            ingested data, however it was found out.
    """
    data: str = json.loads(manifest.read_text(encoding="utf-8"))["fingerprint"]
    changed = json.loads(goals.read_text(encoding="utf-8"))["digest"]
    return {"data": data if changed is None else hashlib.sha256(f"{data} {changed}".encode()).hexdigest()}


def haystacks_of_tier(file: str | Path, tier: str) -> dict[str, list[str]]:
    """Trajectory ids in haystack order, by question id.

    Raises:
        RowError: the file does not keep the contract of haystacks.
    """
    return {row["question_id"]: row["trajectory_ids"] for row in read_rows(file, HAYSTACK) if row["tier"] == tier}


def haystack_digest(haystack: Sequence[str]) -> str:
    """SHA-256 of a haystack's trajectory ids in order."""
    return hashlib.sha256("\n".join(haystack).encode()).hexdigest()


def prompt_digests(prompts: Mapping[str, Prompt]) -> dict[str, str]:
    """SHA-256 by prompt name, of what a model is sent."""
    return {
        f"prompt {name}": hashlib.sha256(json.dumps([prompt.system, prompt.user]).encode()).hexdigest()
        for name, prompt in prompts.items()
    }


def _by_haystack(questions: Sequence[Row], haystacks: Mapping[str, Sequence[str]]) -> list[int]:
    """Positions of the questions, those about equal haystacks together, in order of first appearance."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, question in enumerate(questions):
        groups.setdefault(tuple(haystacks[question["question_id"]]), []).append(number)
    return [number for group in groups.values() for number in group]


def query_of(question: Row, haystacks: Mapping[str, Sequence[str]], spec: Mapping[str, Any]) -> MemoryQuery:
    """What the memory may see of a question."""
    image = Path(question["image"]) if question["image"] else None
    method = spec["method"]
    sees_type = method["family"] == "rag" and method["queries"] == "generated" and method["question_type"]
    kind = question["question_type"] if sees_type else None
    return MemoryQuery(question["question"], image, tuple(haystacks[question["question_id"]]), kind)


def _first_latency(
    measured: float, query: MemoryQuery, spec: Mapping[str, Any], digests: Mapping[str, str], cache: CallCache
) -> tuple[float, bool]:
    if spec["method"]["family"] == "none":
        return 0.0, False
    key = {
        "query": query.text,
        "question_type": query.question_type,
        "image": hashlib.sha256(query.image.read_bytes()).hexdigest() if query.image else None,
        "haystack": list(query.haystack),
        "settings": {name: value for name, value in spec.items() if name not in _NAMES},
        "digests": dict(digests),
    }
    kept = cache.get_json("latency", key)
    if kept is not None:
        return float(kept["latency_s"]), True
    cache.put_json("latency", key, {"latency_s": measured})
    return measured, False


def _found(context: MemoryContext) -> dict[str, Any]:
    return {
        "items": [item.as_row() for item in context.items],
        "queries": json.dumps(context.queries, ensure_ascii=False, sort_keys=True),
        "query_origin": context.query_origin,
        "rerank_origin": context.rerank_origin,
    }


def _writable(value: Any) -> Any:
    """A row, or a part of one, with every text well-formed: pages, models and endpoints say what UTF-8 cannot hold."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_writable(part) for part in value]
    if isinstance(value, dict):
        return {name: _writable(part) for name, part in value.items()}
    return value
