"""Distributions in lanes: every value a dot, the middle half boxed, whiskers from the 5th to the 95th percentile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from lmev2.report.figures import INK

_FEW = 100  # dots that are drawn larger
_MOST_VECTORS = 500  # more dots go into the PDF as an image
_GOLDEN = 0.6180339887
QUANTILES = ("p05", "p25", "p50", "p75", "p95")
BOX_NOTE = "Dots: questions. Box: middle half with the median; line: 5th to 95th percentile; white diamond: mean."


@dataclass(frozen=True)
class Spread:
    """A distribution to draw.

    Attributes:
        name: of the drawn artists.
        values: all of it.
        quantiles: as in ``QUANTILES``.
        mean: its mean.
    """

    name: str
    values: Sequence[float]
    quantiles: Sequence[float]
    mean: float


def draw_spread(axes: Axes, spread: Spread, y: float, height: float, colour: str, pale: bool = False) -> None:
    """Draw a distribution around ``y``.

    Args:
        axes: where.
        spread: what.
        y: middle of the lane.
        height: of the box, in the unit of y.
        colour: of the dots.
        pale: it is the lesser of two.
    """
    edge = "#999999" if pale else INK
    # Spread evenly and the same in every drawing.
    places = [y + ((number * _GOLDEN) % 1 - 0.5) * height * 0.8 for number in range(len(spread.values))]
    few = len(places) <= _FEW
    (dots,) = axes.plot(
        spread.values,
        places,
        ".",
        color=colour,
        alpha=0.3 if pale else 0.6,
        markersize=4.2 if few else 2.2,
        markeredgecolor=INK,
        markeredgewidth=0.25 if few else 0,
        zorder=2,
        clip_on=False,
        rasterized=len(spread.values) > _MOST_VECTORS,
    )
    dots.set_gid(f"values {spread.name}")
    low, first, middle, third, high = spread.quantiles
    for start, end in ((low, first), (third, high)):
        axes.plot((start, end), (y, y), color=edge, linewidth=0.7, zorder=3, clip_on=False)
    box = Rectangle((first, y - height / 2), third - first, height, fill=False, edgecolor=edge, linewidth=0.7)
    box.set(zorder=3, clip_on=False)
    axes.add_patch(box)
    axes.plot((middle, middle), (y - height / 2, y + height / 2), color=edge, linewidth=1.2, zorder=3, clip_on=False)
    (mean,) = axes.plot(
        spread.mean,
        y,
        "D",
        color="white",
        markeredgecolor=edge,
        markeredgewidth=0.8,
        markersize=3,
        zorder=4,
        clip_on=False,
    )
    mean.set_gid(f"mean {spread.name}")
