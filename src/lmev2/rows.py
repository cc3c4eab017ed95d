"""Row contracts: the Parquet schema of every file that passes between rules, and the only way to write one.

Every stage writes through :func:`write_rows`, which checks field names and types and renames a finished temporary file
into place, so that a reader never sees half a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lmev2.files import replacing

_STR, _INT, _FLOAT, _BOOL = pa.string(), pa.int32(), pa.float64(), pa.bool_()


# Arrow by itself cuts 1.5 to an integer, takes a string for a list of characters, and drops unknown fields of a struct.
_PYTHON_TYPES: dict[pa.DataType, tuple[type, ...]] = {_STR: (str,), _INT: (int,), _FLOAT: (float, int), _BOOL: (bool,)}


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
        "images_left_out": _INT,  # screenshots that a text-only controller did not see
    },
    {"text": _STR, "origin_detail": _STR},  # why an entry is repaired, a fallback, or made from cut trees
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
        "waited_s": _FLOAT,  # failed attempts of model calls and waits between them; outside the latency
        "replayed": _BOOL,  # the latency is the one measured when the query first ran
    },
    {
        "query_origin": _STR,  # question, rules, model, repaired, fallback; null without queries
        "rerank_origin": _STR,  # model, repaired, fallback: the worst of the choices; null where none was made
        "error": _STR,
        "error_detail": _STR,
    },
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
        "images_shown": _BOOL,  # the reader accepts images
        "images_left_out": _INT,  # screenshots and question images that a text-only reader sees as a placeholder line
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
        "judge_labels": pa.list_(pa.field("item", _INT)),  # of all repeats that gave one; null where no judge was asked
        "judge_reason": _STR,
        "evidence_covered": _BOOL,  # null without evidence labels
        "evidence_covered_before": _BOOL,  # in the context before truncation
        "gold_supported": _BOOL,  # null where gold support is not defined
        "error": _STR,
        "error_detail": _STR,
    },
)


# What a further judge says of an answer. It stands beside the score and never changes it.
VERDICT = _schema(
    {
        "question_id": _STR,
        "method": _STR,
        "tier": _STR,
        "scorer": _STR,
        "judge": _STR,  # name in the configuration
        "labels": pa.list_(pa.field("item", _INT)),  # of all repeats that gave one
    },
    {"label": _INT, "reason": _STR, "error": _STR, "error_detail": _STR},  # no label exactly when there is an error
)

# What a coding agent did for one question: sums over its attempts.
AGENT_RUN = _schema(
    {
        "question_id": _STR,
        "method": _STR,
        "tier": _STR,
        "agent": _STR,  # with its version
        "model": _STR,
        "attempts": _INT,
        "outcome": _STR,  # of the last attempt: finished, timeout, crashed
        "commands": _INT,  # shell commands
        "requests": _INT,  # model calls
        "input_tokens": _INT,
        "cached_tokens": _INT,  # of the input tokens
        "output_tokens": _INT,
        "reasoning_tokens": _INT,  # of the output tokens
        "wall_s": _FLOAT,
        "spans": _INT,
        "states": _INT,  # in the spans
        "spans_dropped": _INT,
        "isolation": _STR,  # of the sandbox in which the agent worked
        "replayed": _BOOL,
    },
    {"fault": _STR, "dropped": _STR},  # why there is no output; the spans that were dropped and why, as JSON
)


# How much of a question's oracle a context of the pilot studies shows.
ORACLE_CUT = _schema(
    {
        "question_id": _STR,
        "method": _STR,  # what the context holds
        "tier": _STR,
        "trajectories": _INT,  # oracle trajectories
        "notes": _INT,  # notes of these, 0 where contexts have none
        "notes_shown": _INT,
        "states": _INT,  # states of these trajectories, or those in the evidence windows
        "states_shown": _INT,
    },
)

# Sizes of a trajectory: tokens of its texts in the reader's tokens, and its screenshots apart.
TRAJECTORY_TOKENS = _schema(
    {
        "trajectory_id": _STR,
        "states": _INT,
        "text_tokens": _INT,
        "images": _INT,
        "image_tokens": _INT,
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
    count = 0
    batch: list[Mapping[str, Any]] = []
    with replacing(target) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for row in rows:
            _check_row(row, schema, target, count)
            batch.append(row)
            count += 1
            if len(batch) >= batch_size:
                writer.write_table(_to_table(batch, schema, target, count))
                batch = []
        writer.write_table(_to_table(batch, schema, target, count))
    return count


def read_rows(path: str | Path, schema: pa.Schema, batch_size: int = 512) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file as dictionaries, a batch in memory at a time.

    Raises:
        RowError: the file is damaged or its columns are not those of the contract; names the file.
        FileNotFoundError: there is no such file.
    """
    with reading(path), pq.ParquetFile(path) as file:
        _check_columns(path, schema, file.schema_arrow)
        for batch in file.iter_batches(batch_size=batch_size):
            yield from batch.to_pylist()


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Name the file, and say what to do, where a Parquet file turns out to be damaged.

    Raises:
        RowError: the file is damaged.
        FileNotFoundError, PermissionError: passed on, since nothing is wrong with the content.
    """
    try:
        yield
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise RowError(f"{path}: not a readable Parquet file ({error}); delete it and run again") from error


def check_readable(path: str | Path, schema: pa.Schema | None = None) -> None:
    """Look at a Parquet file's end, where its description stands.

    Raises:
        RowError: the file is damaged, or its columns are not those of the contract, if one is given; names it.
    """
    with reading(path):
        found = pq.read_schema(path)
    if schema is not None:
        _check_columns(path, schema, found)


def _check_columns(path: str | Path, schema: pa.Schema, found: pa.Schema) -> None:
    if _columns(found) != _columns(schema):
        raise RowError(f"{path}: expected columns {_columns(schema)}, found {_columns(found)}; delete it and run again")


def _columns(schema: pa.Schema) -> list[str]:
    """Names and types; Parquet names the parts of nested types differently, so these are not compared."""
    return sorted(f"{one.name}: {'nested' if pa.types.is_nested(one.type) else one.type}" for one in schema)


def _check_row(row: Mapping[str, Any], schema: pa.Schema, path: Path, number: int) -> None:
    fault = _fault_in_fields(row, list(schema), "")
    if fault is not None:
        raise RowError(f"{path}: row {number} {fault}")


def _fault_in_fields(values: Mapping[str, Any], fields: Sequence[pa.Field], prefix: str) -> str | None:
    """What is wrong with named values, such as ``lacks 'items[0].value'``; None when they fit."""
    names = [field.name for field in fields]
    unknown = values.keys() - set(names)
    if unknown:
        return f"has unknown fields {sorted(prefix + name for name in unknown)}; the contract is {names}"
    for field in fields:
        value, name = values.get(field.name), prefix + field.name
        if value is None and not field.nullable:
            return f"lacks {name!r}"
        fault = None if value is None else _fault_in_value(value, field.type, name)
        if fault is not None:
            return fault
    return None


def _fault_in_value(value: Any, kind: pa.DataType, name: str) -> str | None:
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        return _fault_in_fields(value, [kind.field(number) for number in range(kind.num_fields)], f"{name}.")
    if pa.types.is_list(kind) and isinstance(value, list | tuple):
        if pa.types.is_floating(kind.value_type):
            return None  # vectors are long, and Arrow refuses what is no number
        faults = (_fault_in_value(item, kind.value_type, f"{name}[{number}]") for number, item in enumerate(value))
        return next((fault for fault in faults if fault is not None), None)
    if isinstance(value, _PYTHON_TYPES.get(kind, ())) and (kind == _BOOL or not isinstance(value, bool)):
        return None
    return f"has {name!r} = {value!r:.80}, expected {kind}"


def _to_table(batch: list[Mapping[str, Any]], schema: pa.Schema, path: Path, end: int) -> pa.Table:
    try:
        return pa.Table.from_pylist([dict(row) for row in batch], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError) as error:
        raise RowError(f"{path}: rows {end - len(batch)} to {end - 1}: {error}") from error
