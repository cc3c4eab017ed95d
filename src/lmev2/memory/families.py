"""Memories from a query job's settings: the one place that knows all families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lmev2.data.store import StateStore
from lmev2.index import PoolIndex
from lmev2.memory.base import Memory
from lmev2.memory.none import NoMemory
from lmev2.memory.plugin import open_plugin
from lmev2.memory.queries import QueryWriter, QuestionQueries
from lmev2.memory.query_model import ModelQueries
from lmev2.memory.query_rules import RuleQueries
from lmev2.memory.rag import RagMemory
from lmev2.memory.rerank import Reranker
from lmev2.memory.search import PoolSearch
from lmev2.memory.settings import AgentMethod, Method, NoneMethod, PluginMethod, RagMethod, RenderSettings
from lmev2.memory.summary import HaystackSummaries
from lmev2.models.settings import ControllerSettings
from lmev2.models.types import ChatBackend, EmbeddingBackend, ModelSetupError
from lmev2.prompts import Prompt


@dataclass(frozen=True)
class Controller:
    """The controller's model with its role's settings and the prompts of the queries, by name."""

    chat: ChatBackend
    settings: ControllerSettings
    prompts: Mapping[str, Prompt]


@dataclass(frozen=True)
class Tools:
    """What memories are made of; each part is made only when a memory needs it.

    Attributes:
        indexes: open indexes by table name.
        store: states of the trajectories.
        embedder: makes the embedding model.
        controller: makes the controller; None where it is rules.
        path: fills in the placeholders of a configured path.
    """

    indexes: Mapping[str, PoolIndex]
    store: StateStore
    embedder: Callable[[], EmbeddingBackend]
    controller: Callable[[], Controller | None]
    path: Callable[[str], str]


def open_indexes(folders: Iterable[str | Path], manifests: Iterable[str | Path]) -> dict[str, PoolIndex]:
    """Open indexes by table, which their folders are named after.

    Args:
        folders: LanceDB folders.
        manifests: of the indexes, in the same order.

    Raises:
        PoolIndexError: an index is missing or cannot be read.
    """
    return {
        Path(folder).stem: PoolIndex(Path(folder), Path(manifest))
        for folder, manifest in zip(folders, manifests, strict=True)
    }


def open_controller(
    settings: ControllerSettings, make: Callable[[ControllerSettings], ChatBackend], prompts: Mapping[str, Prompt]
) -> Controller | None:
    """The controller's model; None where the controller is rules.

    Args:
        settings: of the role.
        make: makes the model.
        prompts: of the queries, by name.
    """
    return None if settings.backend == "rules" else Controller(make(settings), settings, prompts)


def open_memory(spec: Mapping[str, Any], tools: Tools) -> Memory:
    """Build the memory that a query job's ``spec`` describes.

    Args:
        spec: with ``name``, ``method`` and, for family ``rag``, ``render``.
        tools: what it is made of.

    Raises:
        ValueError: an index is missing, or has another dimension than the embedder.
        ModelSetupError: the method reranks, but the controller is rules; or a plugin cannot be loaded.
    """
    method: Method = TypeAdapter(Method).validate_python(spec["method"] | {"label": spec["name"]})
    if isinstance(method, NoneMethod):
        return NoMemory()
    if isinstance(method, PluginMethod):
        folder = Path(tools.path(method.path)) if method.path is not None else None
        return open_plugin(method, folder, tools.store)
    if isinstance(method, AgentMethod):
        raise ValueError(f"{method.label!r} is of family agent, whose sandboxes another rule makes")
    return _open_rag(method, RenderSettings.model_validate(spec["render"]), tools)


def _open_rag(method: RagMethod, render: RenderSettings, tools: Tools) -> RagMemory:
    missing = [table for table in method.tables() if table not in tools.indexes]
    if missing:
        raise ValueError(f"the method searches {missing[0]!r}, but only {sorted(tools.indexes)} are open")
    indexes = {table: tools.indexes[table] for table in method.tables()}
    controller = tools.controller() if method.uses_controller() else None
    return RagMemory(
        method,
        render,
        PoolSearch(indexes, tools.embedder(), method.search),
        tools.store,
        _writer(method, controller, HaystackSummaries(indexes, tools.store)),
        _reranker(method, controller),
    )


def _writer(method: RagMethod, controller: Controller | None, summaries: HaystackSummaries) -> QueryWriter:
    if method.queries == "question":
        return QuestionQueries()
    if controller is None:
        return RuleQueries()
    return ModelQueries(controller.chat, controller.settings, controller.prompts["query"], summaries)


def _reranker(method: RagMethod, controller: Controller | None) -> Reranker | None:
    if method.rerank is None:
        return None
    if controller is None:
        raise ModelSetupError(
            f"method {method.label!r} reranks, which takes a model, but the controller is rules; set "
            "models.controller to a model or leave `rerank` out"
        )
    return Reranker(controller.chat, controller.settings, controller.prompts["rerank"], method.rerank)
