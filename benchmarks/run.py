"""Benchmarks of the pipeline's stages on made-up data of named sizes.

    PYTHONPATH=src python -m benchmarks.run OUT --sizes small medium full
    PYTHONPATH=src python -m benchmarks.run OUT --sizes full --only ingest raw_state

A stage is a function of a folder, ``OUT/work/<size>``; it finds the data root in ``root/`` and what the stages before
it left beside that. Each runs in a process of its own, and its cost is added to ``OUT/results.jsonl``.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import measure_call, record
from benchmarks.synthetic import SIZES, write_data_root

# Each has STAGES: functions by name, in an order in which they can run.
MODULES = ("benchmarks.data_stages", "benchmarks.query_stages", "benchmarks.planning")
SEED = 1


def stages() -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Names and functions of all stages, in order."""
    for module in MODULES:
        yield from importlib.import_module(module).STAGES.items()


def prepare(work: Path, size: str) -> None:
    """Make the data root of a size, unless it is there already."""
    root = work / "root"
    if root.is_dir():
        return
    partial = work / "root.partial"
    shutil.rmtree(partial, ignore_errors=True)
    write_data_root(partial, seed=SEED, **asdict(SIZES[size]))
    partial.rename(root)


def main() -> None:
    names = [name for name, _ in stages()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="takes data, results of the stages, and results.jsonl; several GB")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["small"])
    parser.add_argument("--only", nargs="+", choices=names, help="stages; those before them must have run")
    arguments = parser.parse_args()
    out = arguments.out.absolute()
    for size in arguments.sizes:
        work = out / "work" / size
        work.mkdir(parents=True, exist_ok=True)
        prepare(work, size)
        for name, function in stages():
            if arguments.only is None or name in arguments.only:
                cost = measure_call(function, work)
                record(out, name, size, cost)
                print(f"{size} {name}: {cost.wall_s} s, CPU {cost.cpu_s} s, {cost.peak_mb} MB", flush=True)


if __name__ == "__main__":
    main()
