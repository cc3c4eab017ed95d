"""Reading memory contexts of all methods and tiers, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lmev2.rows import CONTEXT, RowError


def stream_contexts(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the rows of all files, a file after the other.

    Arrow holds the texts of one row group, that is, of one job's questions; as Python objects there is one row.

    Raises:
        RowError: a file is damaged or its columns are not those of the contract; names the file.
    """
    for path in files:
        yield from _rows(path)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            names = file.schema_arrow.names
            if set(names) != set(CONTEXT.names):
                raise RowError(f"{path}: found columns {sorted(names)}, expected {sorted(CONTEXT.names)}")
            for batch in file.iter_batches(batch_size=1, use_threads=False):
                yield from batch.to_pylist()
    except pa.ArrowInvalid as error:
        raise RowError(f"{path}: not a readable Parquet file ({error}); delete it and run again") from error
