"""Row contracts: the Parquet schema of every file that passes between rules, and the only way to write one.

Every stage writes through :func:`write_rows`, which checks field names and types and renames a finished temporary file
into place, so that a reader never sees half a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_STR, _INT, _FLOAT, _BOOL = pa.string(), pa.int32(), pa.float64(), pa.bool_()


def _schema(required: Mapping[str, pa.DataType], optional: Mapping[str, pa.DataType] | None = None) -> pa.Schema:
    fields = [pa.field(name, kind, nullable=False) for name, kind in required.items()]
    fields += [pa.field(name, kind, nullable=True) for name, kind in (optional or {}).items()]
    return pa.schema(fields)


QUESTION = _schema(
    {
        "question_id": _STR,
        "domain": _STR,
        "environment": _STR,
        "question_type": _STR,
        "category": _STR,
        "question": _STR,
        "answer": _STR,
        "eval_function": _STR,
    },
    {"image": _STR},  # absolute path of the question image
)

TRAJECTORY = _schema(
    {
        "trajectory_id": _STR,
        "domain": _STR,
        "environment": _STR,
        "goal": _STR,
        "outcome": _STR,
        "start_url": _STR,
        "state_count": _INT,
    },
)

# `action` and `thought` led *to* this state (state 0 has none); `action_annotated` is the action with the line of the
# element that it names, looked up in the state before.
STATE = _schema(
    {"trajectory_id": _STR, "state_index": _INT, "url": _STR, "tree": _STR},
    {
        "step": _INT,
        "action": _STR,
        "action_annotated": _STR,
        "thought": _STR,
        "screenshot": _STR,  # absolute path
    },
)

HAYSTACK = _schema({"question_id": _STR, "tier": _STR, "trajectory_ids": pa.list_(pa.field("item", _STR))})

# One state of one hop of a question's evidence; a hop is covered when any of its states is in the context.
EVIDENCE = _schema({"question_id": _STR, "hop": _INT, "trajectory_id": _STR, "state_index": _INT})

# `text` is what gets embedded. A raw-state slice leaves it null: its text is rendered from its states when it is
# embedded, so that no tree is stored three times.
POOL_ENTRY = _schema(
    {
        "entry_id": _STR,
        "pool": _STR,
        "trajectory_id": _STR,
        "first_state": _INT,
        "last_state": _INT,
        "center_state": _INT,
        "payload": _STR,  # JSON object, fields by pool
        "origin": _STR,  # model, repaired, fallback, rules
    },
    {"text": _STR},
)

EMBEDDING = _schema(
    {
        "entry_id": _STR,
        "trajectory_id": _STR,
        "first_state": _INT,
        "last_state": _INT,
        "center_state": _INT,
        "vector": pa.list_(pa.field("item", pa.float32())),
    },
)

CONTEXT_ITEM = pa.struct(
    [
        pa.field("type", _STR, nullable=False),  # text or image
        pa.field("value", _STR, nullable=False),  # the text, or the image's absolute path
        pa.field("trajectory_id", _STR),
        pa.field("states", pa.list_(pa.field("item", _INT)), nullable=False),  # states whose content the item shows
        pa.field("pool", _STR),
        pa.field("score", _FLOAT),
    ]
)

CONTEXT = _schema(
    {
        "question_id": _STR,
        "method": _STR,
        "tier": _STR,
        "items": pa.list_(pa.field("item", CONTEXT_ITEM)),
        "queries": _STR,  # JSON object: what was searched, by pool
        "latency_s": _FLOAT,
        "replayed": _BOOL,  # the latency is the one measured when the query first ran
    },
    {"error": _STR, "error_detail": _STR},
)

ANSWER = _schema(
    {
        "question_id": _STR,
        "method": _STR,
        "tier": _STR,
        "reply": _STR,
        "parsed": _STR,
        "unknown": _BOOL,
        "prompt_tokens": _INT,
        "completion_tokens": _INT,
        "context_tokens_before": _INT,
        "context_tokens": _INT,
        "items_before": _INT,
        "items_dropped": _INT,
        "images_left_out": _INT,  # shown as a placeholder line to a text-only reader
        "wall_s": _FLOAT,
        "model": _STR,
    },
    {"finish_reason": _STR, "error": _STR, "error_detail": _STR},
)

SCORE = _schema(
    {
        "question_id": _STR,
        "method": _STR,
        "tier": _STR,
        "domain": _STR,
        "question_type": _STR,
        "category": _STR,
        "scorer": _STR,
    },
    {
        "correct": _BOOL,  # null exactly when there is an error
        "unknown": _BOOL,
        "judge_label": _INT,
        "judge_reason": _STR,
        "evidence_covered": _BOOL,  # null without evidence labels
        "evidence_covered_before": _BOOL,  # in the context before truncation
        "gold_supported": _BOOL,  # null where gold support is not defined
        "error": _STR,
        "error_detail": _STR,
    },
)


class RowError(ValueError):
    """A row that does not fit its contract."""


def write_rows(path: str | Path, schema: pa.Schema, rows: Iterable[Mapping[str, Any]], batch_size: int = 512) -> int:
    """Write rows to a Parquet file, in batches, and return how many there were.

    Raises:
        RowError: a field is missing, unknown, null where it must not be, or of the wrong type; names file and row.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            batch: list[Mapping[str, Any]] = []
            for row in rows:
                _check_row(row, schema, target, count)
                batch.append(row)
                count += 1
                if len(batch) >= batch_size:
                    writer.write_table(_to_table(batch, schema, target, count))
                    batch = []
            writer.write_table(_to_table(batch, schema, target, count))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def read_rows(path: str | Path, schema: pa.Schema, batch_size: int = 512) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file as dictionaries, a batch in memory at a time.

    Raises:
        RowError: the file cannot be read or its columns are not those of the contract; names the file.
    """
    try:
        with pq.ParquetFile(path) as file:
            found = set(file.schema_arrow.names)
            if found != set(schema.names):
                raise RowError(f"{path}: expected columns {sorted(schema.names)}, found {sorted(found)}")
            for batch in file.iter_batches(batch_size=batch_size):
                yield from batch.to_pylist()
    except pa.ArrowInvalid as error:
        raise RowError(f"{path}: not a readable Parquet file ({error}); delete it and run again") from error


def read_many(paths: Iterable[str | Path], schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """Yield the rows of several Parquet files, in the given order."""
    for path in paths:
        yield from read_rows(path, schema)


def _check_row(row: Mapping[str, Any], schema: pa.Schema, path: Path, number: int) -> None:
    unknown = row.keys() - set(schema.names)
    if unknown:
        raise RowError(f"{path}: row {number} has unknown fields {sorted(unknown)}; the contract is {schema.names}")
    for field in schema:
        if not field.nullable and row.get(field.name) is None:
            raise RowError(f"{path}: row {number} lacks {field.name!r}")


def _to_table(batch: list[Mapping[str, Any]], schema: pa.Schema, path: Path, end: int) -> pa.Table:
    try:
        return pa.Table.from_pylist([dict(row) for row in batch], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise RowError(f"{path}: rows {end - len(batch)} to {end - 1}: {error}") from error
