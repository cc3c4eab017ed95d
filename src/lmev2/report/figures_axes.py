"""Axes that several figures share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from lmev2.report.figures import GREY, SMALL


def log_seconds_axis(axes: Axes, values: Sequence[float], least: float, most: float) -> float:
    """Make the x axis logarithmic from ``least`` to ``most`` seconds, or to the next decades where it has none.

    Where ``values`` hold zeros, a place left of the axis, behind a dotted line, stands for 0.

    Returns:
        The place of 0 on the axis.
    """
    first, last = math.log10(least), math.log10(most)
    if math.floor(last + 1e-9) - math.ceil(first - 1e-9) < 1:  # not two ticks
        first, last = math.floor(first), math.ceil(last)
    span = last - first
    zero, line = 10 ** (first - 0.12 * span), 10 ** (first - 0.06 * span)
    ticks = [10.0**power for power in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)]
    labels = [f"{tick:g}" for tick in ticks]
    zeros = any(value <= 0 for value in values)
    if zeros:
        ticks, labels = [zero, *ticks], ["0", *labels]
        axes.axvline(line, color=GREY, linewidth=0.7, linestyle=":", zorder=1)
    axes.set_xscale("log")
    axes.set_xlim(zero if zeros else 10**first, 10**last)
    axes.set_xticks(ticks, labels, fontsize=SMALL)
    axes.minorticks_off()
    return float(zero)
