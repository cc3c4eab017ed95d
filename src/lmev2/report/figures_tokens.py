"""Context tokens of every method, before and after truncation to the reader's budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lmev2.report.figures import GREY, INK, Row, count_text, incomplete_note, plot
from lmev2.report.figures_boxes import BOX_NOTE, Spread, draw_spread
from lmev2.report.figures_rows import Column, Panel, RowSheet

_COLUMNS = (
    Column("before", "mean before", 0.75),
    Column("after", "mean after", 0.7),
    Column("cut", "cut", 0.35),
)
_BUDGET_REACH = 1.5  # times the largest context; a budget beyond stands in the notes only


def plot_tokens(database: Path, query: str, png: Path, pdf: Path) -> None:
    """Write the figure; see :func:`draw_tokens` and :func:`lmev2.report.figures.plot`."""
    plot(database, query, draw_tokens, png, pdf)


def draw_tokens(rows: Sequence[Row]) -> Figure:
    """Tokens after truncation, tokens before it paler below, and the budget as a line.

    Args:
        rows: one per method and tier: ``tokens`` and ``tokens_before`` with ``mean``, ``mean_before``, ``quantiles``
            and ``quantiles_before`` (None or empty where every row has an error), ``questions``, ``cut``, ``budget``,
            ``errors``, ``all_rows``.
    """
    largest = max([value for row in rows for value in (*_list(row, "tokens"), *_list(row, "tokens_before"))] or [0])
    budget = rows[0]["budget"]
    near = budget is not None and budget <= max(largest, 1) * _BUDGET_REACH
    panel = Panel("tokens", "", 1, _COLUMNS, "Context tokens, counted by the reader")
    notes = [*incomplete_note(rows, shown="tokens"), _notes(rows, budget, near)]
    sheet = RowSheet(rows, [panel], "Context tokens per question", notes, lane=0.23)
    axes = sheet.axes("tokens")
    axes.set_xlim(0, max(largest, budget if near else 0, 1) * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if near:
        line = axes.axvline(budget, color=INK, linewidth=1, linestyle="--", zorder=1.5)
        line.set_gid("budget")
    for row in rows:
        method, _, y = sheet.cell(row)
        sheet.number("tokens", "before", y, count_text(row["mean_before"]))
        sheet.number("tokens", "after", y, count_text(row["mean"]))
        sheet.number("tokens", "cut", y, count_text(row["cut"]) if row["questions"] else "–")
        for suffix, at in (("", y - sheet.lane * 0.2), ("_before", y + sheet.lane * 0.22)):
            values = _list(row, f"tokens{suffix}")
            if values:
                name = f"{'before' if suffix else 'after'} {method.name} {row['tier']}"
                spread = Spread(name, values, row[f"quantiles{suffix}"], row[f"mean{suffix}"])
                colour = GREY if suffix else method.colour
                draw_spread(axes, spread, at, sheet.lane * 0.3, colour, pale=bool(suffix))
    return sheet.figure


def _list(row: Row, name: str) -> list[float]:
    return row[name] or []


def _notes(rows: Sequence[Row], budget: int | None, near: bool) -> str:
    notes = [
        "Upper lane: after truncation; lower, grey lane: before. Cut: questions that lost an item.",
        BOX_NOTE,
    ]
    if budget is not None:
        notes.append(f"{'Dashed' if near else 'Not drawn'}: the reader's budget of {budget:,} tokens.")
    if any(not row["questions"] for row in rows):
        notes.append("Rows with dashes have no question without an error.")
    return " ".join(notes)
