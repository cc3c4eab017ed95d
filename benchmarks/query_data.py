"""Made-up pools for the search benchmark: entries of trajectories with random vectors, and texts where words count."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.synthetic_pages import Words
from lmev2.rows import EMBEDDING, POOL_ENTRY

Vectors = npt.NDArray[np.float32]

HAYSTACK = 500  # trajectories of a question of tier medium, or a third of all where there are fewer
_SHARDS = 16
_CHUNK_WORDS = 75  # about 600 characters
_QUESTION_WORDS = 30
_REPEATED = 20  # entries, of which one has the vector of another: ties must stand in haystack order
_POOL = "benchmark"


@dataclass(frozen=True)
class Case:
    """What is searched.

    Attributes:
        trajectories: number of them, with ``states`` states each.
        chunks: entries of a state; texts are searched, too, where there are several.
        dimension: of the vectors.
        queries: number of them, each with a haystack of its own.
        k: hits of a query.
    """

    trajectories: int
    states: int
    chunks: int
    dimension: int
    queries: int
    k: int

    @property
    def entries(self) -> int:
        """Of the whole index."""
        return self.trajectories * self.states * self.chunks

    @property
    def haystack(self) -> int:
        """Trajectories of a query's haystack."""
        return min(HAYSTACK, self.trajectories // 3)

    def write(self, folder: Path) -> None:
        """Keep it where :func:`read_case` finds it."""
        (folder / "case.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


@dataclass(frozen=True)
class Asked:
    """A query: its vector, its text and its haystack in order."""

    vector: Vectors
    text: str
    haystack: list[str]


def read_case(folder: Path) -> Case:
    """The case that was written into a folder."""
    return Case(**json.loads((folder / "case.json").read_text(encoding="utf-8")))


def shard_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Pool files and files of vectors, in the same order."""
    numbers = range(_SHARDS)
    return [folder / f"pool{n}.parquet" for n in numbers], [folder / f"vectors{n}.parquet" for n in numbers]


def name_of(trajectory: int) -> str:
    """Id of a trajectory."""
    return f"trajectory-{trajectory:05d}"


def vectors_of(case: Case, trajectory: int) -> Vectors:
    """Vectors of a trajectory's entries, states outermost, shape (states x chunks, dimension)."""
    rng = np.random.default_rng([1, trajectory])
    found = _unit(rng, case.states * case.chunks, case.dimension)
    shared = _unit(np.random.default_rng(2), 1, case.dimension)[0]
    found[rng.random(len(found)) < 1 / _REPEATED] = shared
    return found


def queries_of(case: Case) -> Iterator[Asked]:
    """The queries. Every tenth has the vector that many entries share."""
    rng = np.random.default_rng(3)
    words, draw = Words("search"), random.Random(4)
    shared = _unit(np.random.default_rng(2), 1, case.dimension)[0]
    for number in range(case.queries):
        vector = shared if number % 10 == 9 else _unit(rng, 1, case.dimension)[0]
        chosen = rng.permutation(case.trajectories)[: case.haystack]
        yield Asked(vector, words.draw(draw, _QUESTION_WORDS), [name_of(int(one)) for one in chosen])


def write_shards(folder: Path, case: Case) -> None:
    """Write pool and vectors, a shard in memory at a time."""
    words = Words("search")
    for shard, (pool_file, vector_file) in enumerate(zip(*shard_files(folder), strict=True)):
        members = range(shard, case.trajectories, _SHARDS)
        places = [(t, state, chunk) for t in members for state in range(case.states) for chunk in range(case.chunks)]
        rng = np.random.default_rng([5, shard])
        _write_pool(pool_file, case, places, _texts(words, rng, len(places)) if case.chunks > 1 else None)
        flat = np.concatenate([vectors_of(case, t) for t in members]).ravel()
        starts = pa.array(np.arange(len(places) + 1) * case.dimension, pa.int32())
        columns = _bounds(case, places) | {"vector": pa.ListArray.from_arrays(starts, pa.array(flat))}
        pq.write_table(pa.table({name: columns[name] for name in EMBEDDING.names}, schema=EMBEDDING), vector_file)


def _write_pool(file: Path, case: Case, places: Sequence[tuple[int, int, int]], texts: list[str] | None) -> None:
    count = len(places)
    payloads = [
        json.dumps({"title": f"Page {state}", "url": f"http://shop.example/{state}", "chunk": chunk})
        for _, state, chunk in places
    ]
    columns = _bounds(case, places) | {
        "pool": pa.array([_POOL] * count),
        "payload": pa.array(payloads),
        "origin": pa.array(["rules"] * count),
        "images_left_out": pa.array([0] * count, pa.int32()),
        "text": pa.nulls(count, pa.string()) if texts is None else pa.array(texts),
        "origin_detail": pa.nulls(count, pa.string()),
    }
    pq.write_table(pa.table({name: columns[name] for name in POOL_ENTRY.names}, schema=POOL_ENTRY), file)


def _bounds(case: Case, places: Sequence[tuple[int, int, int]]) -> dict[str, pa.Array]:
    states = np.array([state for _, state, _ in places], np.int32)
    return {
        "entry_id": pa.array([f"{_POOL}/{name_of(t)}/{state:04d}/{chunk:04d}" for t, state, chunk in places]),
        "trajectory_id": pa.array([name_of(t) for t, _, _ in places]),
        "first_state": pa.array(np.maximum(states - 1, 0)),
        "last_state": pa.array(np.minimum(states + 1, case.states - 1)),
        "center_state": pa.array(states),
    }


def _texts(words: Words, rng: np.random.Generator, count: int) -> list[str]:
    shares = 1 / (np.arange(len(words.words)) + 2.7)
    drawn = rng.choice(len(shares), (count, _CHUNK_WORDS), p=shares / shares.sum())
    return [" ".join(words.words[number] for number in row) for row in drawn]


def _unit(rng: np.random.Generator, count: int, dimension: int) -> Vectors:
    found = rng.standard_normal((count, dimension), dtype=np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found
