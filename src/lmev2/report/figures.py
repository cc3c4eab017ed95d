"""Figures drawn from the tables, legible in print and to colour-blind readers (Okabe-Ito colours and hatches)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lmev2.files import replacing

_CATEGORIES = ("overall", "static", "dynamic", "workflow", "gotchas")
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999", "#000000")
_MOST_LABELLED = 6  # bars of more methods are too narrow for a number each
_HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "--", "++", "**")


def plot_table2(table: Path, evidence: Path, png: Path, pdf: Path) -> None:
    """Accuracy by category of every method, one panel a tier, and what reached the reader beside it.

    Args:
        table: table 2 as CSV.
        evidence: the evidence table as CSV.
        png, pdf: the files to write; 200 dots per inch.
    """
    scores, support = _read(table), _read(evidence)
    tiers = list(dict.fromkeys(row["tier"] for row in scores))
    methods = {row["method"]: row["label"] for row in scores}
    figure, axes = plt.subplots(
        len(tiers), 2, figsize=(9.5, 0.9 + 3.0 * len(tiers)), width_ratios=(5, 2.4), squeeze=False, layout="constrained"
    )
    for row, tier in zip(axes, tiers, strict=True):
        in_tier = [line for line in scores if line["tier"] == tier]
        _bars(row[0], in_tier, methods, _CATEGORIES, [name.capitalize() for name in _CATEGORIES])
        row[0].set_title(f"LME-V2-{tier.capitalize()}: accuracy, {in_tier[0]['questions']} questions", fontsize=10)
        below = [line for line in support if line["tier"] == tier]
        _bars(row[1], below, methods, ("covered", "gold_support"), ["Evidence\ncovered", "Gold\nsupport"])
        row[1].set_title("What reached the reader", fontsize=10)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(methods), 4), frameon=False, fontsize=9)
    for path in (png, pdf):
        _save(figure, path)
    plt.close(figure)


def _bars(
    axes: Axes, rows: Sequence[dict[str, str]], methods: Mapping[str, str], keys: Sequence[str], labels: Sequence[str]
) -> None:
    width = 0.8 / len(methods)
    for number, (method, label) in enumerate(methods.items()):
        row = next(line for line in rows if line["method"] == method)
        heights = [float(row[key]) if row[key] else 0.0 for key in keys]
        places = [position + (number - (len(methods) - 1) / 2) * width for position in range(len(keys))]
        bars = axes.bar(
            places,
            heights,
            width * 0.92,
            label=label,
            color=_COLOURS[number % len(_COLOURS)],
            # Shifted by one where the colours start again, so that no two methods look alike.
            hatch=_HATCHES[(number + number // len(_COLOURS)) % len(_HATCHES)],
            edgecolor="white",
            linewidth=0.5,
        )
        if len(methods) <= _MOST_LABELLED:
            texts = [f"{float(row[key]):.2f}".lstrip("0") if row[key] else "n/a" for key in keys]
            axes.bar_label(bars, texts, fontsize=6.5 if len(methods) > 4 else 7.5, padding=1)
    axes.set_xticks(range(len(keys)), labels, fontsize=9)
    axes.set_ylim(0, 1.05)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _save(figure: Figure, path: Path) -> None:
    # Without dates in the metadata, the same table gives the same file.
    metadata = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=200, metadata=metadata)
