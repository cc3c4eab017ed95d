"""Memories of the user's own for tests: an ingested data root, classes that remember their calls, and such as fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dataroot import Object, make_data_root

from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.memory.base import MemoryQuery
from lmev2.memory.plugin import PluginMemory
from lmev2.models.types import ModelCallError

STATES = 3


@dataclass(frozen=True)
class World:
    """An ingested data root: six runs, three of each domain."""

    root: Path
    store: StateStore
    runs: dict[str, Object]
    questions: list[Object]
    haystacks: dict[str, list[str]]

    @property
    def web(self) -> tuple[str, ...]:
        return tuple(name for name, run in self.runs.items() if run["domain"] == "web")

    def query(self, number: int = 0) -> MemoryQuery:
        question = self.questions[number]
        image = self.root / question["image"] if question["image"] else None
        return MemoryQuery(question["question"], image, tuple(self.haystacks[question["id"]]))


@contextmanager
def open_world(folder: Path) -> Iterator[World]:
    """Make the data root below a folder and open its states."""
    root = make_data_root(folder / "root", trajectories=6, states=STATES, questions=14)
    ingest_dataset(root.path, folder / "data", ["medium"])
    with StateStore(folder / "data" / "states.parquet", folder / "data" / "trajectories.parquet") as store:
        runs = {run["id"]: run for run in root.trajectories}
        yield World(root.path, store, runs, root.questions, root.haystacks("medium"))


class Recorder:
    """Of the shape of the public harness's classes; remembers every call."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.calls: list[tuple[str, Any]] = []

    def insert(self, trajectory: dict[str, Any]) -> None:
        self.calls.append(("insert", trajectory))

    def query(self, query: str, query_image: str | None = None) -> list[dict[str, Any]]:
        self.calls.append(("query", (query, query_image)))
        return [{"type": "text", "value": f"about {query}"}]


class Hooked(Recorder):
    def configure_runtime(self, **kwargs: Any) -> None:
        self.calls.append(("configure_runtime", kwargs))

    def set_query_context(self, **kwargs: Any) -> None:
        self.calls.append(("set_query_context", kwargs))

    def clear_query_context(self) -> None:
        self.calls.append(("clear_query_context", None))

    def post_query_hook(
        self, *, query: str, query_image: str | None, memory_context: list[dict[str, str]]
    ) -> dict[str, Any]:
        self.calls.append(("post_query_hook", (query, query_image, memory_context)))
        return {"anything": 1}


class Made(list[Any]):
    """Makes a plugin memory of a class and holds the instances that were made."""

    def memory(self, world: World, kind: type = Recorder, **options: Any) -> PluginMemory:
        made = self

        class Kept(kind):  # type: ignore[misc]
            def __init__(self, **options: Any) -> None:
                super().__init__(**options)
                made.append(self)

        Kept.__name__ = kind.__name__
        return PluginMemory(Kept, options, world.store)


def answering(value: Any) -> type:
    """A class whose query returns ``value``, or what it gives when called with the instance."""

    class Answering(Recorder):
        def query(self, query: str, query_image: str | None = None) -> Any:
            super().query(query, query_image)
            return value(self) if callable(value) else value

    return Answering


def raising(error: BaseException, method: str = "query") -> type:
    """A class one of whose methods raises."""

    def fail(self: Recorder, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((method, "failed"))
        raise error

    return type("Raising", (Hooked,), {method: fail})


def fault(memory: PluginMemory, query: MemoryQuery) -> str:
    """Detail of the failure that a query ends with."""
    with pytest.raises(ModelCallError) as caught:
        memory.query(query)
    assert caught.value.kind == "memory_error"
    return caught.value.detail
