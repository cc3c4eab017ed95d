"""A query job of a coding agent: the agent from its settings, and a trace and a row for every question."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmev2.agent.isolation import check_isolation
from lmev2.agent.runner import AgentResult, AgentRunner, write_trace
from lmev2.agent.sandbox import Sandbox
from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import Agent, Mount
from lmev2.data.store import StateStore
from lmev2.memory.agent import AgentMemory, Files, run_row
from lmev2.memory.base import MemoryQuery
from lmev2.memory.query import query_of
from lmev2.memory.settings import RenderSettings
from lmev2.models.cache import CallCache

_log = logging.getLogger(__name__)


class Recorder:
    """Writes the trace of each result as it comes, and keeps what the table of agent runs needs.

    Args:
        questions: question rows of the job.
        haystacks: trajectory ids by question id.
        spec: the job's settings.
        traces: folder of the traces, emptied first; one folder in it per question.
        agent: the agent that is asked.
    """

    def __init__(
        self,
        questions: Sequence[Mapping[str, Any]],
        haystacks: Mapping[str, Sequence[str]],
        spec: Mapping[str, Any],
        traces: Path,
        agent: Agent,
    ):
        self._spec, self._traces, self._agent = spec, traces, agent
        self._ids: dict[MemoryQuery, list[str]] = {}
        for question in questions:
            self._ids.setdefault(query_of(question, haystacks, spec), []).append(question["question_id"])
        self._order = [question["question_id"] for question in questions]
        self._rows: dict[str, dict[str, Any]] = {}
        shutil.rmtree(traces, ignore_errors=True)
        traces.mkdir(parents=True)

    def observe(self, query: MemoryQuery, result: AgentResult) -> None:
        """Take note of a result. Of questions that are asked alike, it is that of the first without one."""
        name = self._ids[query].pop(0)
        write_trace(self._traces / name, result)
        row = run_row(result, self._agent.name, self._agent.model, name, self._spec["name"], self._spec["tier"])
        self._rows[name] = row
        _log.info(
            "question %s: %s in %.1f s, %d attempts, %d commands%s",
            name,
            "no output" if result.output is None else f"{row['states']} states",
            result.wall_s,
            row["attempts"],
            row["commands"],
            ", from the cache" if result.replayed else "",
        )

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table of agent runs, in the order of the questions."""
        return [self._rows[name] for name in self._order if name in self._rows]


def open_runner(
    agent: Agent, settings: AgentSettings, identity: Mapping[str, Any], cache: CallCache, private: Sequence[Path]
) -> AgentRunner:
    """What asks the agent.

    Args:
        identity: all that can change what the agent does, besides what it sees.
        private: files and folders that no agent may see.
    """

    def check() -> None:
        check_isolation(settings.isolation, private)
        agent.check()

    def open_box(folder: Path, mounts: Sequence[Mount]) -> Sandbox:
        return Sandbox(folder, settings.isolation, mounts)

    return AgentRunner(
        agent, identity, settings.attempts, settings.attempt_s, settings.isolation, open_box, cache, check
    )


def open_memory(
    agent: Agent,
    settings: AgentSettings,
    spec: Mapping[str, Any],
    files: Files,
    store: StateStore,
    cache: CallCache,
    identity: Mapping[str, Any],
    recorder: Recorder,
    private: Sequence[Path],
) -> AgentMemory:
    """The memory of a job.

    Args:
        identity: all that can change what the agent does, besides what it sees.
        private: files and folders that no agent may see.
    """

    return AgentMemory(
        open_runner(agent, settings, identity, cache, private),
        spec["method"]["parts"],
        settings.max_states,
        files,
        store,
        RenderSettings.model_validate(spec["render"]),
        recorder.observe,
    )
