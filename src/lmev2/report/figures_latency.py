"""The distribution of query latencies, a row per method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from lmev2.report.figures import Row, incomplete_note, plot, seconds_text
from lmev2.report.figures_axes import log_seconds_axis
from lmev2.report.figures_boxes import BOX_NOTE, QUANTILES, Spread, draw_spread
from lmev2.report.figures_rows import Column, Panel, RowSheet

_COLUMNS = tuple(
    Column(name, heading, 0.44)
    for name, heading in (("mean", "mean"), ("p50", "median"), ("p95", "p95"), ("max", "max"))
)


def plot_latency(database: Path, query: str, png: Path, pdf: Path) -> None:
    """Write the figure; see :func:`draw_latency` and :func:`lmev2.report.figures.plot`."""
    plot(database, query, draw_latency, png, pdf)


def draw_latency(rows: Sequence[Row]) -> Figure:
    """Latencies on a logarithmic axis with their mean, median, 95th percentile and maximum in seconds.

    Args:
        rows: one per method and tier: ``latencies`` in seconds, ``mean``, ``p05`` to ``p95`` and ``max`` of them
            (None or empty where no query succeeded), ``errors`` (queries without one) and ``all_rows``.
    """
    panel = Panel("latency", "", 1, _COLUMNS, "Query latency (s, logarithmic)")
    notes = [BOX_NOTE]
    if any(row["mean"] is None for row in rows):
        notes.append("Rows with dashes have no measured latency.")
    failed = incomplete_note(rows, "latency", "latencies")
    sheet = RowSheet(rows, [panel], "Query latency in seconds", [*failed, " ".join(notes)], lane=0.17)
    axes = sheet.axes("latency")
    values = [value for row in rows for value in row["latencies"] or ()]
    positive = [value for value in values if value > 0]
    zero = log_seconds_axis(axes, values, min([*positive, 0.1]) / 1.25, max([*positive, 0.1]) * 1.25)

    def shown(value: float) -> float:
        return value if value > 0 else zero

    for row in rows:
        method, _, y = sheet.cell(row)
        for column in _COLUMNS:
            sheet.number("latency", column.name, y, seconds_text(row[column.name]))
        if not row["latencies"] or None in [row["mean"], *(row[name] for name in QUANTILES)]:
            continue
        spread = Spread(
            f"{method.name} {row['tier']}",
            [shown(value) for value in row["latencies"]],
            [shown(row[name]) for name in QUANTILES],
            shown(row["mean"]),
        )
        draw_spread(axes, spread, y, sheet.lane * 0.62, method.colour)
    return sheet.figure
