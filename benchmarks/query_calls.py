"""What the search benchmark measures, each in a process of its own: building an index, and asking it all queries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.query_data import Asked, queries_of, read_case, shard_files
from lmev2.index import Hit, PoolIndex, build_index

FOUND_FILE = "found.json"
CANDIDATES = 200  # of each ranking, in a search that fuses vectors and words


def build(folder: Path) -> None:
    """Build the index of the folder's case."""
    case = read_case(folder)
    build_index("benchmark", *shard_files(folder), folder / "index.lance", folder / "index.json", case.dimension)


def search_vectors(folder: Path) -> None:
    """Search for every query's vector; what was found and how long it took goes into a file."""
    case = read_case(folder)
    _ask_all(folder, lambda index, asked: index.search(asked.vector, asked.haystack, case.k))


def search_candidates(folder: Path) -> None:
    """The same for the candidates by vector of a search that fuses rankings."""
    _ask_all(folder, lambda index, asked: index.candidates(asked.vector, asked.haystack, CANDIDATES))


def search_words(folder: Path) -> None:
    """The same for the candidates by words."""
    _ask_all(folder, lambda index, asked: index.text_candidates(asked.text, asked.vector, asked.haystack, CANDIDATES))


def _ask_all(folder: Path, ask: Callable[[PoolIndex, Asked], list[Hit]]) -> None:
    index = PoolIndex(folder / "index.lance", folder / "index.json")
    found, walls, processor = [], [], []
    for asked in queries_of(read_case(folder)):
        started, used = time.perf_counter(), time.process_time()
        hits = ask(index, asked)
        walls.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
        found.append([[hit.entry_id, hit.score] for hit in hits])
    result = {"found": found, "walls": walls, "cpu": processor}
    (folder / FOUND_FILE).write_text(json.dumps(result), encoding="utf-8")
