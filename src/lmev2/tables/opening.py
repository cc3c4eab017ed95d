"""Opening the database of a run for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

# What else than the file can be wrong when it is opened and read: this program has it open already, in another way, or
# there is too little memory. Damage has many kinds; of checksums that do not match DuckDB tells by its general error.
_NOT_THE_FILE: Final = (duckdb.ConnectionException, duckdb.OutOfMemoryException)


class DatabaseError(RuntimeError):
    """A database that cannot be read; the message says what to do."""


@contextmanager
def open_database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of a run, read only, for as long as the context lasts.

    Every table is read once before the context begins, so that damage is told apart from what goes wrong in the
    context.

    Raises:
        DatabaseError: it is missing or damaged, may not be read, or another program writes to it.
    """
    with _opened(path) as connection:
        yield connection


def _opened(path: Path) -> duckdb.DuckDBPyConnection:
    try:
        connection = duckdb.connect(str(path), read_only=True)
        try:
            _read_all(connection)
        except BaseException:
            connection.close()
            raise
    except _NOT_THE_FILE:
        raise
    except duckdb.Error as error:
        raise DatabaseError(_what_to_do(path, str(error))) from error
    return connection


def _read_all(connection: duckdb.DuckDBPyConnection) -> None:
    """Read every value of every table; parts that are damaged are found only when they are read."""
    tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    for names in tables:
        table = ".".join('"' + name.replace('"', '""') + '"' for name in names)
        connection.execute(f"SELECT bit_xor(hash(one)) FROM {table} AS one").fetchall()


def _what_to_do(path: Path, said: str) -> str:
    if "Conflicting lock" in said:
        return f"{path}: another program has the file open ({said}); close it there and run again"
    if "Could not set lock" in said:
        return f"{path}: its file system does not lock it ({said}); set `results` to a folder on another one"
    if "Permission denied" in said:
        return f"{path}: the file may not be read ({said}); change its permissions and run again"
    return (
        f"{path}: not a readable database ({said}); delete it and run again: the rule collect_scores writes it from "
        "rows that stay"
    )
