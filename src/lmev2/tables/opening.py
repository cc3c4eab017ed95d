"""Opening the database of a run for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

# What DuckDB says of a file that is no database, is cut, or whose parts do not match their checksums.
_DAMAGED: Final = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.SerializationException)


class DatabaseError(RuntimeError):
    """A database that is missing or damaged; the message says what to delete."""


@contextmanager
def open_database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of a run, read only, for as long as the context lasts.

    Raises:
        DatabaseError: it cannot be read, when it is opened or later.
    """
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            yield connection
    except _DAMAGED as error:
        raise DatabaseError(
            f"{path}: not a readable database ({error}); delete it and run again: the rule collect_scores writes it "
            "from rows that stay"
        ) from error
