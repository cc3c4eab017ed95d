"""Search within a haystack: building an index, and the time of a query, checked against brute force.

    PYTHONPATH=src python -m benchmarks.query OUT
    PYTHONPATH=src python -m benchmarks.query OUT --trajectories 1500 --dimension 4096
    PYTHONPATH=src python -m benchmarks.query OUT --trajectories 1500 --dimension 256 --chunks 8

An index holds 27 entries of each trajectory, the slices of its states, or so many chunks of each; vectors are random.
Each query has a haystack of its own: 500 trajectories, or a third of them where there are fewer. Building and
searching are processes of their own; the first query, which opens files, stands apart. Every query's result is
compared with the ranking by 64-bit cosine similarity over all entries of its haystack: same order, same scores.
Prints two Markdown tables.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Cost, measure_call
from benchmarks.query_calls import CANDIDATES, FOUND_FILE, build, search_candidates, search_vectors, search_words
from benchmarks.query_data import Asked, Case, name_of, queries_of, read_case, vectors_of, write_shards
from lmev2.tables.layout import markdown_table

_BUILD = ("entries", "dimension", "full text", "wall s", "CPU s", "peak MB", "disk MB")
_SEARCH = (
    "search",
    "haystack",
    "dimension",
    "first ms",
    "p50 ms",
    "p95 ms",
    "CPU ms a query",
    "peak MB",
    "as brute force",
)


def check(folder: Path, found: list[list[tuple[str, float]]]) -> bool:
    """Whether each query's hits are the first of the exact ranking, with its scores."""
    case = read_case(folder)
    vectors = {name_of(number): vectors_of(case, number) for number in range(case.trajectories)}
    return all(
        _best(case, vectors, asked, len(hits)) == [(entry.split("/", 1)[1], score) for entry, score in hits]
        for asked, hits in zip(queries_of(case), found, strict=True)
    )


def _best(case: Case, vectors: Mapping[str, Any], asked: Asked, k: int) -> list[tuple[str, float]]:
    """The exact ranking's start: ids without their pool, and scores."""
    query = asked.vector.astype(np.float64)
    scores = []
    for name in asked.haystack:
        rows = vectors[name].astype(np.float64)
        norms = np.sqrt((rows * rows).sum(axis=1)) * np.sqrt((query * query).sum())
        scores.append((rows * query).sum(axis=1) / norms)
    every = np.concatenate(scores)
    order = np.argsort(-every, kind="stable")[:k]
    entries = case.states * case.chunks
    found = []
    for place in map(int, order):
        state, chunk = divmod(place % entries, case.chunks)
        found.append((f"{asked.haystack[place // entries]}/{state:04d}/{chunk:04d}", float(every[place])))
    return found


def run_case(folder: Path, case: Case) -> tuple[list[str], list[list[str]]]:
    """Measure a case: the cells of its lines in the two tables."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case.write(folder)
    write_shards(folder, case)
    built = measure_call(build, folder)
    size = sum(path.stat().st_size for path in (folder / "index.lance").rglob("*") if path.is_file())
    words = "yes" if case.chunks > 1 else "no"
    first = [f"{case.entries:,}", f"{case.dimension:,}", words, *_cells(built), f"{size / 2**20:,.0f}"]
    searches = {f"best {case.k} by vector": search_vectors}
    if case.chunks > 1:
        searches = {
            f"best {CANDIDATES} by vector": search_candidates,
            f"best {CANDIDATES} by words": search_words,
        }
    return first, [_searched(folder, case, title, function) for title, function in searches.items()]


def _searched(folder: Path, case: Case, title: str, function: Callable[[Path], None]) -> list[str]:
    cost = measure_call(function, folder)
    result = json.loads((folder / FOUND_FILE).read_text(encoding="utf-8"))
    walls, cpu = 1000 * np.array(result["walls"]), 1000 * np.array(result["cpu"][1:])
    times = [walls[0], *np.percentile(walls[1:], (50, 95)), cpu.mean()]
    exact = "-"  # BM25 needs the whole index's words; a unit test compares it with its definition
    if function is not search_words:
        exact = "yes" if check(folder, [[tuple(hit) for hit in hits] for hits in result["found"]]) else "NO"
    inside = f"{case.haystack * case.states * case.chunks:,} of {case.entries:,}"
    return [title, inside, f"{case.dimension:,}", *(f"{one:.0f}" for one in times), f"{cost.peak_mb:,.0f}", exact]


def _cells(cost: Cost) -> list[str]:
    return [f"{cost.wall_s:.1f}", f"{cost.cpu_s:.1f}", f"{cost.peak_mb:,.0f}"]


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return markdown_table(header, lines, [False, *[True] * (len(header) - 1)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="takes pools and indexes; the largest are several GB")
    parser.add_argument("--trajectories", type=int, nargs="+", default=[100, 400, 1500])
    parser.add_argument("--states", type=int, default=27)
    parser.add_argument("--chunks", type=int, default=1, help="entries of a state; from 2 on they have texts")
    parser.add_argument("--dimension", type=int, nargs="+", default=[1024])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("-k", type=int, default=6)
    arguments = parser.parse_args()
    built, searched = [], []
    for dimension in arguments.dimension:
        for trajectories in arguments.trajectories:
            case = Case(trajectories, arguments.states, arguments.chunks, dimension, arguments.queries, arguments.k)
            folder = arguments.out.absolute() / "query" / f"{trajectories}-{arguments.chunks}-{dimension}"
            first, lines = run_case(folder, case)
            built.append(first)
            searched += lines
    print(_table(_BUILD, built), _table(_SEARCH, searched), sep="\n\n")


if __name__ == "__main__":
    main()
