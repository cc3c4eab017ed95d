"""Finding one trajectory: in the tables of an ingestion, or in a data root that was not ingested."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from lmev2.data.errors import DataError, Problems
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.layout import SCREENSHOTS_FOLDER, TRAJECTORIES_FILE
from lmev2.data.schema import TrajectoryRecord, parse_record
from lmev2.data.store import StateStore
from lmev2.data.trajectories import find_screenshots, order_faults, state_rows, trajectory_row
from lmev2.trajectory import State, Trajectory

_ID = re.compile(rb'"id"\s*:\s*"([^"\\]*)"')
_CLOSEST = 5


class UnknownTrajectory(LookupError):
    """There is no trajectory of that id.

    Attributes:
        closest: ids that look alike, the closest first; empty when none does.
        count: how many trajectories there are.
    """

    def __init__(self, trajectory_id: str, place: Path, ids: Iterable[str]):
        known = sorted(set(ids))
        self.count = len(known)
        self.closest = tuple(closest_ids(trajectory_id, known))
        super().__init__(f"no trajectory {trajectory_id!r} among the {self.count} of {place}")


def closest_ids(wanted: str, known: Iterable[str]) -> list[str]:
    """Up to five ids that contain the wanted one or look like it."""
    ids = list(known)
    inside = [name for name in ids if wanted and wanted.casefold() in name.casefold()]
    alike = difflib.get_close_matches(wanted, ids, _CLOSEST, cutoff=0.5)
    return list(dict.fromkeys([*inside, *alike]))[:_CLOSEST]


def ingested_trajectory(data: Path, trajectory_id: str) -> Trajectory:
    """A trajectory of an ingestion's tables.

    Args:
        data: folder of ``states.parquet`` and ``trajectories.parquet``.
        trajectory_id: its id.

    Raises:
        UnknownTrajectory: the tables do not hold it.
        DataError: a table is missing or damaged.
        RowError: a table is of another format.
    """
    with StateStore(data / "states.parquet", data / "trajectories.parquet") as store:
        if trajectory_id not in store:
            raise UnknownTrajectory(trajectory_id, data, store.trajectory_ids)
        return store.trajectory(trajectory_id)


def root_trajectory(root: Path, trajectory_id: str) -> Trajectory:
    """A trajectory of a data root, as an ingestion would store it. The other lines are passed over unread; a state
    whose screenshot is not there has none.

    Raises:
        UnknownTrajectory: no line has this id.
        DataError: there is no file of trajectories, or the trajectory's line does not fit the format.
    """
    root = Path(os.path.abspath(root))
    path = root / TRAJECTORIES_FILE
    if not path.is_file():
        raise DataError(f"found no {path}, expected the trajectories of a data root there")
    quoted = json.dumps(trajectory_id, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ids: list[str] = []
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            match = _ID.search(raw)
            name = match[1].decode("utf-8", "replace") if match is not None else None
            ids += [name] if name is not None else []
            if quoted in raw:
                record = _record(root, number, raw, trajectory_id, name == trajectory_id)
                if record is not None:
                    return _trajectory(record, root)
    raise UnknownTrajectory(trajectory_id, path, ids)


def _record(root: Path, number: int, raw: bytes, trajectory_id: str, named: bool) -> TrajectoryRecord | None:
    """The trajectory of a line; None when it is another one that mentions the id, ``named`` if the line's first id is
    the wanted one."""
    problems = Problems(root)
    line = JsonLinesFile(root, TRAJECTORIES_FILE, "trajectory", "id", problems, lambda count: None).parse(number, raw)
    if line is None and named:
        problems.raise_if_any()
    if line is None or line.id != trajectory_id:
        return None
    record = parse_record(TrajectoryRecord, line, problems)
    for fault in order_faults(record) if record is not None else ():
        problems.add(fault, file=line.file, line=line.number, id=line.label)
    problems.raise_if_any()
    return record


def _trajectory(record: TrajectoryRecord, root: Path) -> Trajectory:
    shots = find_screenshots(record, root / SCREENSHOTS_FOLDER, required=False)
    rows = state_rows(record, shots.paths)
    states = (State(**{**row, "screenshot": path}) for row, path in zip(rows, shots.paths, strict=True))
    facts = {name: value for name, value in trajectory_row(record).items() if name != "state_count"}
    return Trajectory(**facts, states=tuple(states))
