"""What all figures share: sizes, colours, text that is measured before it is placed, and files with stable bytes.

Every figure is as wide as two columns of print; its type is at least 7 points at that size. Places are given in inches
from the top left, so that a figure with more rows grows instead of crowding. A method has one colour and one marker in
all figures, by its position in the run.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
from matplotlib import style as styles
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.text import Text

from lmev2.files import replacing
from lmev2.tables.opening import open_database

_log = logging.getLogger("lmev2")

Row = dict[str, Any]

WIDTH = 7.2  # inches: two columns of print
MARGIN = 0.06
NORMAL, SMALL, HEAD = 7.5, 7.0, 9.0  # points
LINE = 0.135  # inches between lines of text
GREY, PALE, INK = "#666666", "#F3F3F3", "#222222"
DOTS_PER_INCH = 300

# Okabe and Ito's colours, told apart by colour-blind readers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
# Nine, so that colour and marker together repeat after 72 methods.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "<")
TIER_MARKERS = ("o", "D", "s", "^")

_FONT = "DejaVu Sans"  # comes with matplotlib: the same everywhere

_STYLE = {
    "font.family": _FONT,
    "font.size": NORMAL,
    "axes.linewidth": 0.6,
    "axes.edgecolor": GREY,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,  # printers refuse the default
}


@dataclass(frozen=True)
class Method:
    """A row of the run, at its position from 0."""

    position: int
    name: str
    label: str
    family: str

    @property
    def colour(self) -> str:
        """Its colour in every figure."""
        return COLOURS[self.position % len(COLOURS)]

    @property
    def marker(self) -> str:
        """Its marker where methods share a panel."""
        return MARKERS[self.position % len(MARKERS)]


def methods_of(rows: Sequence[Row]) -> list[Method]:
    """The methods that rows name, in table order."""
    found = {Method(row["method_position"], row["method"], row["label"], row["family"]) for row in rows}
    return sorted(found, key=lambda method: method.position)


def tiers_of(rows: Sequence[Row]) -> list[str]:
    """The tiers that rows name, in table order."""
    return [tier for _, tier in sorted({(row["tier_position"], row["tier"]) for row in rows})]


def tier_name(tier: str) -> str:
    """A tier as the paper calls it."""
    return f"LME-V2-{tier.capitalize()}"


def plot(database: Path, query: str, draw: Callable[[Sequence[Row]], Figure], png: Path, pdf: Path) -> None:
    """Draw the rows of a query over the run's database and write the figure; see :func:`write_figure`.

    Args:
        database: the run's DuckDB file.
        query: the figure's SQL.
        draw: makes the figure.
        png, pdf: the files to write.
    """
    write_figure(fetch(database, query), draw, png, pdf)


def write_figure(rows: Sequence[Row], draw: Callable[[Sequence[Row]], Figure], png: Path, pdf: Path) -> None:
    """Draw rows and write the figure.

    A character that the font lacks is drawn as a box, and the log says which and in what text: with another font, the
    figure would depend on what is installed.

    Args:
        rows: what is drawn.
        draw: makes the figure.
        png, pdf: the files to write; equal rows give equal bytes.
    """
    with drawing(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # told below, with the text
        figure = draw(rows)
        for text, missing in lacking_glyphs(figure).items():
            _log.warning("%s: %s has no glyph for %s in %r, drawn as boxes", png.name, _FONT, ", ".join(missing), text)
        for path in (png, pdf):
            # Dates and versions would make equal figures unequal files.
            metadata = {"CreationDate": None, "Producer": None} if path is pdf else {"Software": None}
            with replacing(path) as temporary:
                figure.savefig(temporary, format=path.suffix[1:], dpi=DOTS_PER_INCH, metadata=metadata)


def fetch(database: Path, query: str) -> list[Row]:
    """Rows of a query over a database file, see :func:`fetch_rows`."""
    with open_database(database) as connection:
        return fetch_rows(connection, query)


def fetch_rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    """Rows of a query by column name; what is not a number is None, in lists left out."""
    result = connection.execute(query)
    names = [column[0] for column in result.description or []]
    return [{name: _clean(value) for name, value in zip(names, row, strict=True)} for row in result.fetchall()]


def _clean(value: Any) -> Any:
    if isinstance(value, list):
        return [one for one in map(_clean, value) if one is not None]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def drawing() -> Iterator[None]:
    """The figures' own style, whatever matplotlib's configuration on this machine is."""
    with styles.context(["default", _STYLE]):
        yield


def canvas(height: float) -> Figure:
    """An empty figure."""
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the figure's top left."""
    whole_width, whole = figure.get_size_inches()
    return figure.add_axes(
        (left / whole_width, 1 - (top + height) / whole, width / whole_width, height / whole), facecolor="none"
    )


def write(figure: Figure, left: float, top: float, text: str, size: float = NORMAL, **how: Any) -> Text:
    """Text whose first line begins ``top`` inches below the figure's upper edge."""
    width, height = figure.get_size_inches()
    options = {"va": "top", "ha": "left", "color": INK, "parse_math": False, **how}
    return figure.text(left / width, 1 - top / height, text, fontsize=size, **options)


@cache
def text_width(text: str, size: float = NORMAL, weight: str = "normal") -> float:
    """Width of a line of text in inches."""
    renderer = RendererAgg(1, 1, 720)  # type: ignore[no-untyped-call]
    properties = FontProperties(family=_FONT, size=size, weight=weight)
    pixels: float = renderer.get_text_width_height_descent(text, properties, False)[0]  # type: ignore[no-untyped-call]
    return pixels / 720


def wrap(text: str, width: float, size: float = NORMAL, weight: str = "normal") -> list[str]:
    """Lines of at most ``width`` inches; words that are wider are broken."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size, weight) <= width:
            lines[-1] = longer
            continue
        lines.append("")
        for letter in word:
            if lines[-1] and text_width(lines[-1] + letter, size, weight) > width:
                lines.append("")
            lines[-1] += letter
    return [line for line in lines if line] or [""]


def lacking_glyphs(figure: Figure) -> dict[str, list[str]]:
    """Texts of a figure with characters that the font cannot draw, and these with their codes."""
    known = get_font(findfont(FontProperties(family=_FONT))).get_charmap()
    found = {}
    for text in dict.fromkeys(artist.get_text() for artist in figure.findobj(Text)):
        missing = [one for one in dict.fromkeys(text) if not one.isspace() and ord(one) not in known]
        if missing:
            found[text] = [f"{one} (U+{ord(one):04X})" if one.isprintable() else f"U+{ord(one):04X}" for one in missing]
    return found


def incomplete_note(rows: Sequence[Row], lack: str = "score", shown: str = "accuracies") -> list[str]:
    """The first remark below a figure of means over rows where rows failed; else none.

    Args:
        rows: with ``method``, ``tier``, and the ``errors`` and ``all_rows`` of these two.
        lack: what the failed rows do not have.
        shown: what is over the other rows.
    """
    cells = {(row["method"], row["tier"]): (row["errors"], row["all_rows"]) for row in rows}
    failed, total = (sum(numbers) for numbers in zip(*cells.values(), strict=True))
    if not failed:
        return []
    return [f"INCOMPLETE: {failed:,} of {total:,} rows failed and have no {lack}; {shown} are over the others."]


def note_lines(notes: Sequence[str]) -> list[str]:
    """Remarks below a figure, wrapped to its width."""
    # At few dots per inch letters are rounded, and lines may become a little wider than measured.
    return [line for note in notes for line in wrap(note, 0.985 * (WIDTH - 2 * MARGIN), SMALL)]


def share_text(value: float | None) -> str:
    """A share with three decimals, without the zero before the point."""
    if value is None:
        return "–"
    text = f"{value:.3f}"
    return text.removeprefix("0") if text.startswith("0.") else text[:4]


def seconds_text(value: float | None) -> str:
    """Seconds with three digits that say something, at most three decimals."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.3f}"


def count_text(value: float | None) -> str:
    """A count or a mean of counts, with commas."""
    return "–" if value is None else f"{value:,.0f}"
