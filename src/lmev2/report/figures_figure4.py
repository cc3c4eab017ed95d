"""Figure 4: accuracy from oracle contexts, the paper's values beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from lmev2.report.figures import INK, TIER_MARKERS, Row, incomplete_note, share_text, write_figure
from lmev2.report.figures_rows import Column, Panel, RowSheet
from lmev2.tables.export import read_table
from lmev2.tables.figure4 import PAPER, RUN, context_label
from lmev2.tables.pilots import ACCURACIES

_NUMBER = (Column("share", "", 0.3),)
_PANELS: Final = (
    Panel("overall", "Overall", 3, _NUMBER),
    *(Panel(name, name.capitalize(), 1, _NUMBER) for name in ACCURACIES[1:]),
    Panel("covered", "Evidence\ncovered", 1, _NUMBER),
)
_LANES: Final = (RUN, PAPER)  # a row's two lanes


def plot_figure4(table: Path, png: Path, pdf: Path) -> None:
    """Draw the table's CSV; see :func:`draw_figure4` and :func:`lmev2.report.figures.write_figure`."""
    write_figure(figure4_lanes(read_table(table)), draw_figure4, png, pdf)


def figure4_lanes(table: Sequence[Mapping[str, str]]) -> list[Row]:
    """A row of the figure per reader and context, with a lane for this run and one for the paper.

    Published rows of readers and contexts that this run has are in the lane below ours; the others have rows of their
    own.
    """
    ours = [row for row in table if row["source"] == RUN]
    matched = {(row["paper_reader"], row["context"]) for row in ours}
    others = [row for row in table if row["source"] == PAPER and (row["reader"], row["context"]) not in matched]
    lanes: list[Row] = []
    for position, row in enumerate([*ours, *others]):
        published = row["source"] == PAPER
        named = {
            "method_position": position,
            "method": f"{row['source']} {row['reader']} {row['context']} {row['tier']}",
            "label": f"{row['reader']}: {context_label(row)}",
            "family": row["reader"],
        }
        run = {} if published else {name: _number(row[name]) for name in (*ACCURACIES, "covered")}
        prefix = "" if published else "paper_"
        paper = {name: _number(row[f"{prefix}{name}"]) for name in ACCURACIES}
        counts = {"errors": int(row["errors"] or 0), "all_rows": int(row["questions"] or 0)}
        lanes.append({**named, **counts, "tier_position": 0, "tier": RUN, "values": run})
        lanes.append({**named, "errors": 0, "all_rows": 0, "tier_position": 1, "tier": PAPER, "values": paper})
    return lanes


def draw_figure4(rows: Sequence[Row]) -> Figure:
    """One panel per accuracy and one for evidence coverage, a row per reader and context, lanes for run and paper.

    Args:
        rows: of :func:`figure4_lanes`: ``values`` by panel, shares from 0 to 1 or None.
    """
    questions = max(row["all_rows"] for row in rows)
    counted = f"{questions:,} questions without a flawed premise" if questions else "published values"
    notes = [
        *incomplete_note(rows),
        "Circles: this run. Diamonds: the paper, over its 323 questions; beside ours where reader and context are the "
        "same.",
    ]
    sheet = RowSheet(rows, _PANELS, f"Accuracy from oracle contexts, {counted}", notes)
    for panel in _PANELS:
        axes = sheet.axes(panel.name)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1], ["0", ".5" if panel.name == "overall" else "", "1"])
    for row in rows:
        method, lane, y = sheet.cell(row)
        for panel in _PANELS:
            value = row["values"].get(panel.name)
            sheet.number(panel.name, "share", y, share_text(value))
            if value is None:
                continue
            (dot,) = sheet.axes(panel.name).plot(
                value,
                y,
                TIER_MARKERS[lane],
                color=method.colour if row["tier"] == RUN else "white",
                markeredgecolor=INK,
                markeredgewidth=0.6,
                markersize=3.6 if row["tier"] == RUN else 3.1,
                clip_on=False,
                zorder=3,
            )
            dot.set_gid(f"{panel.name} {method.name} {row['tier']}")
    return sheet.figure


def _number(text: str) -> float | None:
    return float(text) if text else None
