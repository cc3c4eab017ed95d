"""Measurements as a Markdown table: ``python -m benchmarks.tables FOLDER``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measure import Cost, read_records
from benchmarks.synthetic import SIZES

_HEADER = ("stage", "size", "wall s", "CPU s", "peak MB", "growth of CPU", "growth of memory")
_ALIGN = ("---", "---", "---:", "---:", "---:", "---:", "---:")


def make_table(records: Mapping[tuple[str, str], Cost]) -> str:
    """A line a stage and size. Growth is the ratio to the size before, beside that of the trajectories.

    Args:
        records: measurements by stage and name of the size.
    """
    lines = [_HEADER, _ALIGN]
    for stage in dict.fromkeys(stage for stage, _ in records):
        before: tuple[str, Cost] | None = None
        for size in (size for size in SIZES if (stage, size) in records):
            cost = records[stage, size]
            numbers = (f"{cost.wall_s:.1f}", f"{cost.cpu_s:.1f}", f"{cost.peak_mb:,.0f}")
            lines.append((stage, size, *numbers, *_growth(before, size, cost)))
            before = size, cost
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _growth(before: tuple[str, Cost] | None, size: str, cost: Cost) -> tuple[str, str]:
    if before is None:
        return "", ""
    name, former = before
    data = SIZES[size].trajectories / SIZES[name].trajectories
    ratios = cost.cpu_s / max(former.cpu_s, 0.01), cost.peak_mb / max(former.peak_mb, 0.1)
    return f"× {ratios[0]:.1f} (data × {data:.1f})", f"× {ratios[1]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="in which results.jsonl lies")
    print(make_table(read_records(parser.parse_args().folder)), end="")


if __name__ == "__main__":
    main()
