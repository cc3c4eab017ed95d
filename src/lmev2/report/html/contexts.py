"""Reading memory contexts of all methods and tiers, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lmev2.rows import CONTEXT, check_readable, reading


def stream_contexts(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the rows of all files, a file after the other.

    Arrow holds the texts of one row group, that is, of one job's questions; as Python objects there is one row.

    Raises:
        RowError: a file is damaged or its columns are not those of the contract; names the file.
    """
    for path in files:
        yield from _rows(path)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    check_readable(path, CONTEXT)
    with reading(path), pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=1, use_threads=False):
            yield from batch.to_pylist()
