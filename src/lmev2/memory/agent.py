"""Coding agents as memories: an agent explores the haystack's files and names states to show (paper, Tables 10, 11)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmev2.agent.instruction import AgentPrompts
from lmev2.agent.output import Span, read_memory
from lmev2.agent.package import build_package
from lmev2.agent.pool import TrajectoryEntry, read_entries
from lmev2.agent.runner import AgentResult, AgentRunner
from lmev2.agent.types import Mount, PartName, Task
from lmev2.data.store import StateStore
from lmev2.memory.agent_render import render_output
from lmev2.memory.base import MemoryContext, MemoryQuery
from lmev2.memory.settings import RenderSettings
from lmev2.models.types import ModelCallError


@dataclass(frozen=True)
class Files:
    """What sandboxes are made of.

    Attributes:
        folders: each trajectory's folder by id.
        entries: what the manifests tell of each trajectory, by id.
        prompts: texts with their parts marked.
    """

    folders: Mapping[str, Path]
    entries: Mapping[str, TrajectoryEntry]
    prompts: AgentPrompts

    @staticmethod
    def of_pool(shards: Iterable[str | Path], entries: Iterable[str | Path], prompts: AgentPrompts) -> Files:
        """What the pool of trajectory files holds: per shard a folder of folders, and a file of entries."""
        known = {name: one for file in entries for name, one in read_entries(Path(file)).items()}
        return Files({path.name: path.absolute() for shard in shards for path in Path(shard).iterdir()}, known, prompts)

    def shown(self, trajectory_ids: Iterable[str]) -> dict[str, Any]:
        """What stands behind a sandbox's mounts, for the key of a kept result: every trajectory and what its files
        hold."""
        return {"trajectories": [[name, self.entries[name].digest] for name in trajectory_ids]}


class AgentMemory:
    """A coding agent that is asked once per question, in a sandbox of its own.

    Args:
        runner: asks the agent.
        parts: what the sandbox holds beside the files.
        max_states: states in all spans together.
        files: what sandboxes are made of.
        store: the states that the spans name.
        render: how the context is written out.
        observe: is told of every result, also of one without an output, as soon as it is there.
    """

    def __init__(
        self,
        runner: AgentRunner,
        parts: Sequence[PartName],
        max_states: int,
        files: Files,
        store: StateStore,
        render: RenderSettings,
        observe: Callable[[MemoryQuery, AgentResult], None],
    ):
        self._runner, self._parts, self._max_states = runner, tuple(parts), max_states
        self._files, self._store, self._render = files, store, render
        self._observe = observe

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Nothing: the haystack's files exist already, and the sandbox is made when a question is asked."""

    def query(self, query: MemoryQuery) -> MemoryContext:
        """What the agent found.

        Raises:
            ModelCallError: no attempt left a usable output (``memory_error``).
            ModelSetupError: the agent or its sandbox cannot run here.
        """

        def build(folder: Path) -> tuple[Task, Sequence[Mount]]:
            return build_package(
                folder,
                question=query.text,
                image=query.image,
                haystack=query.haystack,
                find_trajectory=self._files.folders.__getitem__,
                entries=self._files.entries,
                parts=self._parts,
                prompts=self._files.prompts,
                max_states=self._max_states,
            )

        def read(folder: Path) -> dict[str, Any]:
            states = {name: self._files.entries[name].states for name in query.haystack}
            return asdict(read_memory(folder, states, self._max_states))

        result = self._runner.ask(self._files.shown(query.haystack), build, read)
        self._observe(query, result)
        if result.output is None:
            raise ModelCallError("memory_error", result.fault())
        spans = [Span(**one) for one in result.output["spans"]]
        items = render_output(result.output["markdown"], spans, query.text, self._store, self._render)
        return MemoryContext(items)


def run_row(result: AgentResult, agent: str, model: str, question_id: str, method: str, tier: str) -> dict[str, Any]:
    """What an agent did for a question, as a row of the contract of agent runs."""
    output = result.output or {}
    spans, dropped = output.get("spans", []), output.get("dropped", [])  # none where it was asked for an answer
    usage = result.usage
    return {
        "question_id": question_id,
        "method": method,
        "tier": tier,
        "agent": agent,
        "model": model,
        "attempts": len(result.attempts),
        "outcome": result.attempts[-1].outcome,
        "commands": sum(one.commands for one in result.attempts),
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "wall_s": result.wall_s,
        "spans": len(spans),
        "states": sum(one["last"] - one["first"] + 1 for one in spans),
        "spans_dropped": sum(one.get("count", 1) for one in dropped),
        "isolation": result.isolation,
        "replayed": result.replayed,
        "fault": None if result.output is not None else result.fault(),
        "dropped": json.dumps(dropped, ensure_ascii=False) if dropped else None,
    }
