"""Reference points of LAFS, from a CSV file like the paper's Table 2."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lmev2.data.errors import DataError
from lmev2.lafs import REFERENCE_METHODS, Point

_COLUMNS: Final = ("method", "label", "tier", "overall", "latency_s")


def read_reference(path: Path, tier: str) -> dict[str, Point]:
    """The tier's reference points by label.

    Args:
        path: CSV with the columns ``method``, ``label``, ``tier``, ``overall`` (0 to 1) and ``latency_s`` (seconds).
        tier: haystack size.

    Raises:
        DataError: columns, rows or numbers are missing or wrong; names them.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            lacking = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            rows = [] if lacking else list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"reference points: {path} cannot be read as CSV: {error}") from error
    if lacking:
        raise DataError(f"reference points: {path} lacks the column(s) {', '.join(lacking)}")
    own = [row for row in rows if row["tier"] == tier and row["method"] in REFERENCE_METHODS]
    methods = [row["method"] for row in own]
    if sorted(methods) != sorted(REFERENCE_METHODS):
        raise DataError(
            f"reference points: {path} has, for tier {tier!r}, rows of {', '.join(sorted(methods)) or 'no method'}; "
            f"expected one of each of {', '.join(sorted(REFERENCE_METHODS))}"
        )
    points = {str(row["label"] or row["method"]): _point(path, row) for row in own}
    if len(points) != len(own):
        raise DataError(f"reference points: {path} has a label twice on tier {tier!r}")
    return points


def _point(path: Path, row: Mapping[str, Any]) -> Point:
    values = []
    for name, most in (("latency_s", math.inf), ("overall", 1.0)):
        try:
            value = float(row[name] or "")
        except ValueError:
            value = math.nan
        if not (0 <= value <= most and math.isfinite(value)):
            text = f"reference points: {path}, {row['method']} on {row['tier']}: found {name} {row[name]!r}"
            raise DataError(f"{text}, expected a number from 0{' to 1' if most == 1 else ''}")
        values.append(value)
    return Point(values[0], round(100 * values[1], 6))
