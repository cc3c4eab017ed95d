"""Reading trajectories: any of them with one cheap read, the last ones kept in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

import pyarrow.parquet as pq

from lmev2.data.errors import DataError
from lmev2.rows import STATE, TRAJECTORY, RowError, read_rows, reading
from lmev2.trajectory import State, Trajectory


class StateStore:
    """Trajectories of ``states.parquet`` and ``trajectories.parquet``. Thread-safe; close it, or use it with ``with``.

    Args:
        states: one row group per trajectory.
        trajectories: the trajectories' other fields.
        keep: how many trajectories stay in memory, latest used.

    Raises:
        DataError: a file is missing or damaged, or the two do not fit each other.
        RowError: the columns of the trajectories are not those of the contract, or a part of a file is damaged.
    """

    def __init__(self, states: Path, trajectories: Path, keep: int = 16):
        for path in (states, trajectories):
            if not path.is_file():
                raise DataError(f"found no {path}, expected a table of the ingested data")
        self._keep = keep
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Trajectory] = OrderedDict()
        self._facts = {row["trajectory_id"]: row for row in read_rows(trajectories, TRAJECTORY)}
        self._path = states
        try:
            with reading(states):
                self._file = pq.ParquetFile(states)
        except RowError as error:
            raise DataError(str(error)) from error
        try:
            with reading(states):
                self._groups = self._index(states)
        except BaseException:
            self._file.close()
            raise

    def _index(self, states: Path) -> dict[str, int]:
        """Row group by trajectory id, from the metadata and the id column alone."""
        columns = set(self._file.schema_arrow.names)
        if columns != set(STATE.names):
            raise DataError(
                f"{states}: found columns {sorted(columns)}, expected {sorted(STATE.names)}; delete it and run again"
            )
        ids = self._file.read(columns=["trajectory_id"]).column(0).to_pylist()
        groups: dict[str, int] = {}
        start = 0
        for group in range(self._file.num_row_groups):
            end = start + self._file.metadata.row_group(group).num_rows
            held = set(ids[start:end])
            if len(held) != 1 or not held.isdisjoint(groups):
                raise DataError(f"{states}: row group {group} holds {sorted(held)}, expected one trajectory of its own")
            groups[held.pop()] = group
            expected = self._facts.get(ids[start], {}).get("state_count")
            if expected != end - start:
                raise DataError(
                    f"{states}: found {end - start} states of trajectory {ids[start]!r}, expected {expected} by the "
                    "table of trajectories; ingest the data again"
                )
            start = end
        missing = sorted(self._facts.keys() - groups.keys())
        if missing:
            raise DataError(f"{states}: found no states of trajectories {missing[:5]}; ingest the data again")
        return groups

    def __enter__(self) -> StateStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; trajectories handed out stay usable."""
        with self._lock:
            self._file.close()

    @property
    def trajectory_ids(self) -> list[str]:
        """Ids of all trajectories, sorted."""
        return sorted(self._facts)

    def __contains__(self, trajectory_id: str) -> bool:
        return trajectory_id in self._facts

    def facts(self, trajectory_id: str) -> Mapping[str, Any]:
        """A trajectory's fields but its states: domain, environment, goal, outcome, start_url, state_count.

        Raises:
            KeyError: there is no such trajectory in the tables.
        """
        if trajectory_id not in self._facts:
            raise KeyError(f"no trajectory {trajectory_id!r} among the {len(self._facts)} that were ingested")
        return MappingProxyType(self._facts[trajectory_id])

    def trajectory(self, trajectory_id: str) -> Trajectory:
        """A trajectory with all its states.

        Raises:
            KeyError: there is no such trajectory in the tables.
        """
        with self._lock:
            kept = self._kept.pop(trajectory_id, None)
            trajectory = self._read(trajectory_id) if kept is None else kept
            self._kept[trajectory_id] = trajectory
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        return trajectory

    def states(self, trajectory_id: str, first: int, last: int) -> tuple[State, ...]:
        """States ``first`` to ``last`` of a trajectory, both included.

        Raises:
            KeyError: there is no such trajectory in the tables.
            IndexError: a bound lies outside the trajectory, or ``first`` lies behind ``last``.
        """
        states = self.trajectory(trajectory_id).states
        if not 0 <= first <= last < len(states):
            raise IndexError(f"trajectory {trajectory_id} has {len(states)} states, not {first} to {last}")
        return states[first : last + 1]

    def _read(self, trajectory_id: str) -> Trajectory:
        if trajectory_id not in self._groups:
            raise KeyError(f"no trajectory {trajectory_id!r} among the {len(self._groups)} that were ingested")
        with reading(self._path):
            rows = self._file.read_row_group(self._groups[trajectory_id]).to_pylist()
        fields = {key: value for key, value in self._facts[trajectory_id].items() if key != "state_count"}
        return Trajectory(**fields, states=tuple(_state(row) for row in rows))


def _state(row: dict[str, Any]) -> State:
    return State(**{**row, "screenshot": Path(row["screenshot"]) if row["screenshot"] else None})
