"""A free question to a configured method, on the indexes that a run left: its evidence, and the reader's answer."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmev2.ask_evidence import Evidence, evidence_of
from lmev2.ask_run import GOALS, HAYSTACKS, MANIFEST, STATES, TRAJECTORIES
from lmev2.config import ConfigError
from lmev2.data.errors import DataError
from lmev2.data.find import closest_ids
from lmev2.data.store import StateStore
from lmev2.index import PoolIndexError
from lmev2.memory.base import Memory, MemoryContext
from lmev2.memory.families import Tools, open_controller, open_indexes, open_memory
from lmev2.memory.plugin_source import PluginError
from lmev2.memory.query import query_of
from lmev2.memory.settings import AgentMethod
from lmev2.models.cache import CallCache
from lmev2.models.factory import make_chat, make_embedder
from lmev2.models.settings import ControllerSettings, EmbedderSettings, ReaderSettings
from lmev2.models.stopwatch import Ledger, collect
from lmev2.models.types import ModelCallError, ModelSetupError
from lmev2.plan import Plan
from lmev2.prompts import PromptError, load_prompt
from lmev2.reader import answer_rows
from lmev2.rows import HAYSTACK, RowError, read_rows

_FAILURES = (
    ConfigError, DataError, ModelCallError, ModelSetupError, PluginError, PoolIndexError, PromptError, RowError,
)  # fmt: skip
_ASKED = "asked"  # stands for a question's id, which a free question has none of


class AskError(Exception):
    """The run, or the models, cannot answer: something is missing, damaged, or failed."""


@dataclass(frozen=True)
class Request:
    """A question and of what it is asked.

    Attributes:
        question: its text.
        method: a row of ``methods``.
        image: a question image.
        domain: ask about the trajectories of this domain only.
        like, tier: ask about the haystack of this question; its tier, None for the first of the run.
        answer: let the reader answer.
    """

    question: str
    method: str
    image: Path | None = None
    domain: str | None = None
    like: str | None = None
    tier: str | None = None
    answer: bool = True


@dataclass(frozen=True)
class Haystack:
    """The trajectories that were asked about.

    Attributes:
        ids: in order.
        states: how many they have together.
        domains: number of trajectories by domain.
        tier: of the question's haystack; None for all trajectories.
    """

    ids: tuple[str, ...]
    states: int
    domains: Mapping[str, int]
    tier: str | None


@dataclass(frozen=True)
class Answer:
    """What the reader said.

    Attributes:
        row: of the contract of answers; its ``wall_s`` is the call alone, as first made.
        domain: of the prompt.
        seconds: that it took here, loading the model included.
        replayed: the reply came from the call cache.
    """

    row: Mapping[str, Any]
    domain: str
    seconds: float
    replayed: bool


@dataclass(frozen=True)
class Reply:
    """All that came of a question.

    Attributes:
        haystack: what was asked about.
        context: what the memory returned.
        evidence: the same, to look at.
        answer: of the reader; None where none was wanted.
        loading_s: opening tables, indexes and models, and what the method does when its history is inserted.
        retrieval: of the query call; its ``honest_s`` is the latency that tables show.
    """

    haystack: Haystack
    context: MemoryContext
    evidence: Sequence[Evidence]
    answer: Answer | None
    loading_s: float
    retrieval: Ledger


def ask(plan: Plan, request: Request, say: Callable[[str], None], threads: int | None = None) -> Reply:
    """Ask a question.

    Args:
        plan: the run, whose indexes and tables exist.
        request: the question.
        say: told what is being done, a short line each.
        threads: of models in this process; None for all cores of this machine.

    Raises:
        AskError: the run or a model cannot answer; says why.
    """
    try:
        with _Asking(plan, request, say, threads or os.cpu_count() or 1) as asking:
            return asking.reply()
    except _FAILURES as error:
        raise AskError(str(error)) from error


class _Asking(contextlib.AbstractContextManager["_Asking"]):
    """A question while it is asked: the run's files are open."""

    def __init__(self, plan: Plan, request: Request, say: Callable[[str], None], threads: int):
        self._plan, self._request, self._say, self._threads = plan, request, say, threads
        self._started = time.perf_counter()
        self._results = Path(plan.results)
        plan.check_cache()
        self._cache = CallCache(plan.cache)
        self._agent = isinstance(plan.config.methods[request.method], AgentMethod)
        tier = request.tier or plan.config.run.tiers[0]
        wildcards = {"method": request.method, "tier": tier, "qshard": plan.question_shards[0]}
        rule = "query_agent_memory" if self._agent else "query_memory"
        self._spec: dict[str, Any] = json.loads(plan.spec(rule, wildcards))
        self._open = contextlib.ExitStack()
        self._store = self._open.enter_context(StateStore(self._results / STATES, self._results / TRAJECTORIES))

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def reply(self) -> Reply:
        """Retrieve, and let the reader answer."""
        haystack = self._haystack()
        row = {
            "question_id": _ASKED,
            "question": self._request.question,
            "question_type": None,
            "image": None if self._request.image is None else str(self._request.image.absolute()),
        }
        lists = {_ASKED: haystack.ids}
        self._say(f"Opening {self._request.method}")
        memory = self._agent_memory(row, lists) if self._agent else self._memory()
        query = query_of(row, lists, self._spec)
        memory.prepare(query.haystack)
        loading_s = time.perf_counter() - self._started
        self._say("Retrieving")
        with collect() as ledger:
            context = memory.query(query)
        evidence = evidence_of(context.items, self._request.question, self._store)
        answer = self._answer(row, context, self._domain(haystack, evidence)) if self._request.answer else None
        return Reply(haystack, context, evidence, answer, loading_s, ledger)

    def _haystack(self) -> Haystack:
        request, store = self._request, self._store
        tier = None
        if request.like is not None:
            ids, tier = self._haystack_like(request.like)
        else:
            known = store.trajectory_ids
            ids = [name for name in known if request.domain in (None, store.facts(name)["domain"])]
            if not ids:
                raise AskError(f"none of the {len(known)} trajectories of the run is of domain {request.domain}")
        facts = [store.facts(name) for name in ids]
        domains = [str(fact["domain"]) for fact in facts]
        counts = {name: domains.count(name) for name in sorted(set(domains))}
        return Haystack(tuple(ids), sum(int(fact["state_count"]) for fact in facts), counts, tier)

    def _haystack_like(self, question_id: str) -> tuple[list[str], str]:
        found: dict[str, list[str]] = {}
        known = set()
        for row in read_rows(self._results / HAYSTACKS, HAYSTACK):
            known.add(row["question_id"])
            if row["question_id"] == question_id:
                found[row["tier"]] = row["trajectory_ids"]
        if not found:
            close = closest_ids(question_id, sorted(known))
            hint = f"; closest: {', '.join(close)}" if close else ""
            raise AskError(f"no question {question_id!r} among the {len(known)} of the run{hint}")
        order = [tier for tier in (*self._plan.config.run.tiers, *sorted(found)) if tier in found]
        tier = self._request.tier or order[0]
        if tier not in found:
            raise AskError(f"question {question_id} has no haystack of tier {tier} in the run, only {', '.join(found)}")
        return found[tier], tier

    def _memory(self) -> Memory:
        plan, method = self._plan, self._request.method
        tables = plan.method_tables(method)
        folder = self._results / "index"
        indexes = open_indexes(
            [folder / f"{table}.lance" for table in tables], [folder / f"{table}.json" for table in tables]
        )
        prompts = {name: load_prompt(self._prompt(name)) for name in plan.query_prompts(method)}
        tools = Tools(
            indexes,
            self._store,
            lambda: make_embedder(
                EmbedderSettings.model_validate(self._settings("embedder")), self._cache, self._threads
            ),
            lambda: open_controller(
                ControllerSettings.model_validate(self._settings("controller")),
                lambda settings: make_chat(settings, self._cache, self._threads),
                prompts,
            ),
            plan.path,
        )
        try:
            return open_memory(self._spec, tools)
        except ValueError as error:  # an index of another dimension than the embedder's
            raise AskError(str(error)) from error

    def _agent_memory(self, row: Mapping[str, Any], lists: Mapping[str, Sequence[str]]) -> Memory:
        from lmev2.agent.factory import open_agent
        from lmev2.agent.instruction import load_agent_prompts
        from lmev2.agent.runner import agent_identity
        from lmev2.agent.settings import AgentSettings
        from lmev2.memory import agent_job
        from lmev2.memory.agent import Files

        plan, spec = self._plan, self._spec
        pool = self._results / "agent" / "pool"
        files = Files.of_pool(
            [pool / shard for shard in plan.trajectory_shards],
            [pool / f"{shard}.jsonl" for shard in plan.trajectory_shards],
            load_agent_prompts(self._prompt("agent_instruction").parent),
        )
        settings = AgentSettings.model_validate(self._settings("agent"))
        agent = open_agent(settings, lambda: make_chat(settings, self._cache, self._threads), plan.pipeline)
        traces = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="lmev2-ask-")))
        recorder = agent_job.Recorder([row], lists, spec, traces / "traces", agent)
        identity = agent_identity(spec["agent"], plan.agent_code())
        manifest, goals = self._results / MANIFEST, self._results / GOALS
        private = [plan.data_root, manifest.parent, goals.parent]
        return agent_job.open_memory(
            agent, settings, spec, files, self._store, self._cache, identity, recorder, private
        )

    def _settings(self, role: str) -> dict[str, Any]:
        spec = self._spec[role] if role in self._spec else self._plan.role(role)
        return self._plan.role_settings(role, spec)

    def _prompt(self, name: str) -> Path:
        return self._plan.pipeline / "workflow" / "prompts" / f"{name}.md"

    def _domain(self, haystack: Haystack, evidence: Sequence[Evidence]) -> str:
        """Whose prompt the reader gets: the haystack's domain; of a mixed one, the domain of the best evidence."""
        if len(haystack.domains) > 1:
            for one in evidence:
                if one.trajectory_id is not None and one.trajectory_id in self._store:
                    return str(self._store.facts(one.trajectory_id)["domain"])
        return next(iter(haystack.domains))

    def _answer(self, row: Mapping[str, Any], context: MemoryContext, domain: str) -> Answer:
        settings = ReaderSettings.model_validate(self._settings("reader"))
        self._say(f"Reading with {settings.model}")
        chat = make_chat(settings, self._cache, self._threads)
        shown = {
            "question_id": _ASKED,
            "method": self._request.method,
            "tier": self._spec["tier"],
            "items": [item.as_row() for item in context.items],
            "error": None,
            "error_detail": None,
        }
        prompts = {domain: load_prompt(self._prompt(f"reader_{domain}"))}
        started, writes = time.perf_counter(), self._cache.writes
        asked = [dict(row) | {"domain": domain}]
        (answer,) = answer_rows(asked, {_ASKED: shown}, chat, settings, prompts, _silent)
        # A reply that was made now has been stored.
        replayed = answer["error"] is None and self._cache.writes == writes
        return Answer(answer, domain, time.perf_counter() - started, replayed)


def _silent(done: int, total: int) -> None:
    """One question needs no line of progress."""
