"""What a data root holds: questions, haystacks, trajectories and states, by tier and domain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from lmev2.rows import check_readable
from lmev2.tables.export import TableFiles, run_query, write_table
from lmev2.tables.layout import Block, Cell, Column, Layout

# Tables of the ingested data, by the names that queries read them by.
VIEWS: Final = ("questions", "haystacks", "trajectories", "states", "evidence")
_NOTES: Final = (
    "Of all questions of the data root, not only those of the run. Trajectories and states are those that a haystack "
    "of the tier names; each counts once. A tree is the accessibility tree of a state, in characters.",
    "A labelled hop is one that evidence labels name; it counts as covered when any of its labelled states is in the "
    "context.",
)


def export_statistics(
    data: Mapping[str, Path], query: str, files: TableFiles, title: str, notes: Iterable[str] = ()
) -> None:
    """Write the table: a row per statistic, a column per tier and domain.

    Args:
        data: Parquet files by the name that the query reads them by, see :func:`open_data`.
        query: gives a row per tier and domain, whose columns after these two are named ``heading: statistic``.
        files: to write.
        title: of the table.
        notes: on the data, for below the table.
    """
    with open_data(data) as connection:
        result = run_query(connection, query)
    cells = [(str(row[0]), str(row[1])) for row in result.rows]
    names = [tuple(name.split(": ", 1)) for name in result.header[2:]]
    values = [[_value(row[number]) for row in result.rows] for number in range(2, len(result.header))]
    header = ["group", "statistic", *(f"{tier}_{domain}" for tier, domain in cells)]
    rows = [[*name, *line] for name, line in zip(names, values, strict=True)]
    columns = (Column(""), *(Column(domain, f"Tier {tier}", right=True) for tier, domain in cells))
    layout = Layout(title, columns, tuple(_blocks(names, values)), (*_NOTES, *notes))
    write_table(files, header, rows, layout)


def open_data(data: Mapping[str, Path]) -> duckdb.DuckDBPyConnection:
    """A database in memory whose views are these Parquet files.

    Args:
        data: files by the names of ``VIEWS``.
    """
    connection = duckdb.connect()
    try:
        for view, path in data.items():
            check_readable(path)
            connection.read_parquet(str(path)).create_view(view)
    except BaseException:
        connection.close()
        raise
    return connection


def _value(value: Any) -> int | float | None:
    """A count as it is, anything else with one decimal at most."""
    if value is None:
        return None
    number = round(float(value), 1)
    return int(value) if number == int(number) else number


def _blocks(names: Sequence[Sequence[str]], values: Sequence[Sequence[int | float | None]]) -> list[Block]:
    groups: dict[str, list[tuple[Cell, ...]]] = {}
    for (group, statistic), line in zip(names, values, strict=True):
        cells = ["" if value is None else f"{value:,}" for value in line]
        groups.setdefault(group, []).append((Cell(statistic), *map(Cell, cells)))
    return [Block(group, tuple(rows)) for group, rows in groups.items()]
