"""Writing ``states.parquet``: one row group per trajectory, so that a trajectory is one cheap read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lmev2.rows import STATE, RowError


class StateWriter:
    """Writes a trajectory's states at a time; use as a context manager.

    The file is complete, and readable, only after the context manager ends: give it a temporary path.

    Attributes:
        rows: states written so far.
    """

    def __init__(self, path: Path):
        self._path = path
        # A dictionary of trees costs time and holds nothing twice that compression does not find.
        self._writer = pq.ParquetWriter(path, STATE, compression="zstd", use_dictionary=["trajectory_id"])
        self.rows = 0

    def __enter__(self) -> StateWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def write(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Write the states of one trajectory, in order, as one row group.

        Raises:
            RowError: the states do not fit the contract, or are not those of one trajectory from 0 on.
        """
        places = {(row["trajectory_id"], row["state_index"] - position) for position, row in enumerate(states)}
        if len(places) != 1 or next(iter(places))[1] != 0:
            raise RowError(f"{self._path}: row {self.rows}: expected the states of one trajectory in order from 0")
        try:
            table = pa.Table.from_pylist([dict(row) for row in states], schema=STATE)
            table.validate()
            nulls = [field.name for field in STATE if not field.nullable and table.column(field.name).null_count]
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise RowError(f"{self._path}: rows from {self.rows}: {error}") from error
        if nulls:
            raise RowError(f"{self._path}: rows from {self.rows} lack {', '.join(nulls)}")
        self._writer.write_table(table, row_group_size=len(states))
        self.rows += len(states)
