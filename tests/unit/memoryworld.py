"""A small real memory for tests: an ingested data root with its pools in indexes, and what opens memories on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataroot import make_data_root

from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.index import PoolIndex, build_index, cosine
from lmev2.memory.base import ContextItem, MemoryContext, MemoryQuery
from lmev2.memory.families import Controller, Tools, open_memory
from lmev2.memory.rag import RagMemory
from lmev2.models.scripted import ScriptedEmbedder
from lmev2.models.settings import EmbedderSettings
from lmev2.models.types import EmbeddingBackend
from lmev2.pools.embed import embedding_rows
from lmev2.pools.event import build_events
from lmev2.pools.note import NOTE_POOLS, build_notes
from lmev2.pools.raw_state import raw_state_entries
from lmev2.pools.settings import EventSettings, NoteSettings
from lmev2.rows import EMBEDDING, HAYSTACK, POOL_ENTRY, QUESTION, read_rows, write_rows

DIMENSION = 64
Spec = dict[str, Any]


def ignore(done: int, total: int) -> None:
    pass


def make_embedder(dimension: int = DIMENSION) -> ScriptedEmbedder:
    return ScriptedEmbedder(EmbedderSettings(backend="scripted", model="scripted", dimension=dimension))


def no_controller() -> None:
    raise AssertionError("a method without need of one asked for the controller")


def make_spec(**method: Any) -> Spec:
    """Settings of a query job, as the workflow gives them."""
    row = {"family": "rag", "pools": ["note", "raw_state"], "queries": "question", "top_k": {"raw_state": 3, "note": 2}}
    return {
        "name": "rag",
        "tier": "medium",
        "shard": "000-of-001",
        "method": row | method,
        "render": {"mode": "focused", "slice_chars": 400, "note_chars": 200},
        "embedder": {"backend": "scripted", "model": "scripted", "dimension": DIMENSION},
        "code": "c1",
    }


NONE_SPEC: Spec = {"name": "none", "tier": "small", "shard": "000-of-001", "method": {"family": "none"}}


@dataclass(frozen=True)
class World:
    """An ingested data root with its pools in indexes."""

    store: StateStore
    indexes: dict[str, PoolIndex]
    questions: list[dict[str, Any]]
    haystacks: dict[str, list[str]]
    notes: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def tools(
        self,
        embedder: Callable[[], EmbeddingBackend] = make_embedder,
        controller: Callable[[], Controller | None] = no_controller,
        without: str | None = None,
    ) -> Tools:
        indexes = {name: index for name, index in self.indexes.items() if name != without}
        return Tools(indexes, self.store, embedder, controller, lambda path: path)

    def memory(self, **method: Any) -> RagMemory:
        memory = open_memory(make_spec(**method), self.tools(controller=lambda: None))
        assert isinstance(memory, RagMemory)
        return memory


@contextmanager
def open_world(folder: Path) -> Iterator[World]:
    """A world of eight runs, four a domain, with 14 questions about them."""
    root = make_data_root(folder / "root", trajectories=8, states=4, questions=14)
    data = folder / "data"
    ingest_dataset(root.path, data, ["medium"])
    with StateStore(data / "states.parquet", data / "trajectories.parquet") as store:
        runs = [store.trajectory(name) for name in store.trajectory_ids]
        notes = [entry for run in runs for entry in build_notes(run, NoteSettings())]
        entries = {pool: [entry for entry in notes if entry["pool"] == pool] for pool in NOTE_POOLS}
        entries["event"] = [entry for run in runs for entry in build_events(run, EventSettings())]
        entries["raw_state"] = [entry for run in runs for entry in raw_state_entries(run, 1)]
        indexes = {}
        for table, rows in entries.items():
            pool, vectors = folder / f"{table}.parquet", folder / f"{table}-vectors.parquet"
            write_rows(pool, POOL_ENTRY, rows)
            write_rows(vectors, EMBEDDING, embedding_rows(rows, store, make_embedder(), ignore))
            build_index(
                table, [pool], [vectors], folder / f"{table}.lance", folder / f"{table}.json", make_embedder().dimension
            )
            indexes[table] = PoolIndex(folder / f"{table}.lance", folder / f"{table}.json")
        haystacks = {
            row["question_id"]: row["trajectory_ids"] for row in read_rows(data / "haystacks.parquet", HAYSTACK)
        }
        questions = list(read_rows(data / "questions.parquet", QUESTION))
        yield World(store, indexes, questions, haystacks, notes, entries["event"])


def query_of(world: World, number: int = 0) -> MemoryQuery:
    question = world.questions[number]
    return MemoryQuery(question["question"], None, tuple(world.haystacks[question["question_id"]]))


def texts_of(context: MemoryContext, pool: str) -> list[ContextItem]:
    return [item for item in context.items if item.type == "text" and item.pool == pool]


def nearest(texts: Mapping[Any, str], query: str, k: int) -> list[Any]:
    """Brute force: the keys of the texts most similar to a query, ties in the given order."""
    embedder = make_embedder()
    scores = cosine(embedder.embed_documents(list(texts.values())), embedder.embed_query(query))
    ranked = sorted(zip(texts, scores, strict=True), key=lambda pair: -pair[1])
    return [key for key, _ in ranked[:k]]
