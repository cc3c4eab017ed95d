"""The query stage: each question of a shard is asked of a memory, one at a time, and the call is timed.

The latency is the wall time of the query call alone; a model call inside it counts for the attempt that first answered
it, without waits, failed attempts or replays. It is measured once and kept in the call cache under everything that can
change the query's work, so that a repeated run reports the latency that was measured first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lmev2.data.store import StateStore
from lmev2.index import PoolIndex
from lmev2.memory.base import Memory, MemoryContext, MemoryQuery
from lmev2.memory.none import NoMemory
from lmev2.memory.rag import RagMemory
from lmev2.memory.settings import Method, NoneMethod, RenderSettings
from lmev2.models.cache import CallCache
from lmev2.models.stopwatch import collect
from lmev2.models.types import EmbeddingBackend, ModelCallError
from lmev2.progress import Report

_WARM_UP = "warm-up"


def open_memory(
    spec: Mapping[str, Any],
    indexes: Mapping[str, PoolIndex],
    store: StateStore,
    embedder: Callable[[], EmbeddingBackend],
) -> Memory:
    """Build the memory that a query job's ``spec`` describes.

    Args:
        spec: with ``method`` and, unless the family is ``none``, ``render`` and ``embedder``.
        indexes: open indexes by table name.
        store: states of the trajectories.
        embedder: makes the embedding model; called only by a memory that embeds.
    """
    method: Method = TypeAdapter(Method).validate_python(spec["method"] | {"label": spec["name"]})
    if isinstance(method, NoneMethod):
        return NoMemory()
    return RagMemory(method, RenderSettings.model_validate(spec["render"]), indexes, embedder(), store)


def query_rows(
    memory: Memory,
    questions: Sequence[Mapping[str, Any]],
    haystacks: Mapping[str, Sequence[str]],
    spec: Mapping[str, Any],
    digests: Mapping[str, str],
    cache: CallCache,
    report: Report,
) -> Iterator[dict[str, Any]]:
    """Context rows of the questions, in order; a query whose model calls fail gives a row with kind ``memory_error``.

    Args:
        memory: the memory to ask.
        questions: question rows.
        haystacks: trajectory ids in haystack order, by question id.
        spec: the job's settings; ``name`` and ``tier`` go into the rows.
        digests: content digest of every index in use, for the key of the kept latency.
        cache: keeps the latencies.
        report: progress callback.
    """
    for number, question in enumerate(questions, start=1):
        image = Path(question["image"]) if question["image"] else None
        query = MemoryQuery(question["question"], image, tuple(haystacks[question["question_id"]]))
        row = _row(question["question_id"], spec)
        try:
            if number == 1 and spec["method"]["family"] != "none":
                # Loading models and opening tables is not part of a query's latency.
                memory.query(MemoryQuery(_WARM_UP, None, query.haystack))
            with collect() as ledger:
                context = memory.query(query)
        except ModelCallError as error:
            yield row | {"error": "memory_error", "error_detail": str(error)}
        else:
            latency, replayed = _first_latency(ledger.honest_s, query, spec, digests, cache)
            yield row | _found(context) | {"latency_s": latency, "replayed": replayed}
        report(number, len(questions))


def _first_latency(
    measured: float, query: MemoryQuery, spec: Mapping[str, Any], digests: Mapping[str, str], cache: CallCache
) -> tuple[float, bool]:
    if spec["method"]["family"] == "none":
        return 0.0, False
    key = {
        "query": query.text,
        "image": hashlib.sha256(query.image.read_bytes()).hexdigest() if query.image else None,
        "haystack": list(query.haystack),
        "settings": {name: spec[name] for name in ("method", "render", "embedder", "code")},
        "indexes": dict(digests),
    }
    kept = cache.get_json("latency", key)
    if kept is not None:
        return float(kept["latency_s"]), True
    cache.put_json("latency", key, {"latency_s": measured})
    return measured, False


def _row(question_id: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "method": spec["name"],
        "tier": spec["tier"],
        "items": [],
        "queries": "{}",
        "latency_s": 0.0,
        "replayed": False,
        "error": None,
        "error_detail": None,
    }


def _found(context: MemoryContext) -> dict[str, Any]:
    queries = json.dumps(context.queries, ensure_ascii=False, sort_keys=True)
    return {"items": [item.as_row() for item in context.items], "queries": queries}
