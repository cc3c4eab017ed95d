"""Sanitised goals as rows, and the report that shows each goal before and after."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lmev2.csv_cells import csv_cell
from lmev2.data.store import StateStore
from lmev2.files import replacing
from lmev2.goals.check import Flag
from lmev2.goals.sanitize import Sanitized
from lmev2.goals.trees import holds_route, rewrite_tree
from lmev2.models.text import well_formed

_STR, _INT = pa.string(), pa.int32()

# A trajectory's goal before and after; lists as JSON.
GOAL = pa.schema(
    [
        pa.field("trajectory_id", _STR, nullable=False),
        pa.field("domain", _STR, nullable=False),
        pa.field("goal", _STR, nullable=False),
        pa.field("sanitized", _STR, nullable=False),
        pa.field("removed_routes", _STR, nullable=False),
        pa.field("kept_values", _STR, nullable=False),
        pa.field("flags", _STR, nullable=False),
        pa.field("origin", _STR, nullable=False),  # unchanged, rules, model, repaired, fallback
        pa.field("copies", _INT, nullable=False),  # of the goal in the trajectory's trees, rewritten like it
        pa.field("origin_detail", _STR),
    ]
)
REPORT_COLUMNS = (
    "trajectory_id", "domain", "goal_before", "goal_after", "route_removed", "values_kept", "flags", "origin",
    "origin_detail", "copies_in_states",
)  # fmt: skip
_SEPARATOR = " | "

# Goals with their domains to what becomes of them. Rules know nothing of models: their jobs depend on no model's code.
SanitizeAll = Callable[[Sequence[tuple[str, str]]], Sequence[Sanitized]]


def goal_rows(names: Sequence[str], store: StateStore, sanitize_all: SanitizeAll) -> list[dict[str, Any]]:
    """Rows of the trajectories' goals, in order.

    Args:
        names: trajectory ids.
        sanitize_all: makes the results of all goals, in order.
    """
    facts = [store.facts(name) for name in names]
    results = sanitize_all([(one["goal"], one["domain"]) for one in facts])
    return [_row(name, one, result, store) for name, one, result in zip(names, facts, results, strict=True)]


def _copies(store: StateStore, name: str, goal: str, sanitized: str) -> tuple[int, list[Flag]]:
    """The number of the goal's copies that are rewritten in a trajectory's trees, and a flag if a route is left."""
    if goal == sanitized:
        return 0, []  # spares reading the states
    copies, left = 0, []
    for state in store.trajectory(name).states:
        tree, count = rewrite_tree(state.tree, goal, sanitized)
        copies += count
        if holds_route(tree, goal, sanitized):
            left.append(state.state_index)
    return copies, [Flag("copy_left", f"states {', '.join(map(str, left))}")] if left else []


def _row(name: str, facts: Mapping[str, Any], result: Sanitized, store: StateStore) -> dict[str, Any]:
    copies, left = _copies(store, name, facts["goal"], well_formed(result.text))
    return {
        "trajectory_id": name,
        "domain": facts["domain"],
        "goal": facts["goal"],
        "sanitized": well_formed(result.text),
        "removed_routes": _list(result.removed_routes),
        "kept_values": _list(result.values),
        "flags": _list(map(str, [*result.flags, *left])),
        "origin": result.origin,
        "copies": copies,
        "origin_detail": None if result.detail is None else well_formed(result.detail),
    }


def _list(texts: Iterable[str]) -> str:
    return well_formed(json.dumps(list(texts), ensure_ascii=False))


def write_report(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write the report, a row a trajectory, those with flags first, then rewritten ones, then by id.

    Args:
        path: the CSV file.
        rows: of :data:`GOAL`, of all shards.

    Returns:
        the number of rows with flags.
    """
    ordered = sorted(rows, key=lambda row: (row["flags"] == "[]", row["origin"] == "unchanged", row["trajectory_id"]))
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(REPORT_COLUMNS)
        writer.writerows(_report_rows(ordered))
    return sum(row["flags"] != "[]" for row in ordered)


def _report_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    for row in rows:
        lists = [_SEPARATOR.join(json.loads(row[name])) for name in ("removed_routes", "kept_values", "flags")]
        values = [
            row["trajectory_id"], row["domain"], row["goal"], row["sanitized"], *lists, row["origin"],
            row["origin_detail"], row["copies"],
        ]  # fmt: skip
        yield [csv_cell(value) for value in values]
