"""What questions ask of models: queries, their vectors, the reader, the judge and coding agents.

Calls that are certain to be equal are counted once, since the call cache answers all but the first: those of a method
for a question whose haystack is the same in two tiers, and those of answers without any context.
"""

from __future__ import annotations

import csv
from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any

from lmev2.costs.facts import QuestionFacts
from lmev2.costs.setting import Setting
from lmev2.costs.stages import Stage, Work
from lmev2.job_specs import judge_role
from lmev2.memory.base import MemoryQuery
from lmev2.memory.focus_query import statements
from lmev2.memory.merge import share_per_query
from lmev2.memory.query_rules import RuleQueries
from lmev2.memory.settings import AgentMethod, NoneMethod, RagMethod
from lmev2.models.embedding_text import with_instruction
from lmev2.models.settings import ChatSettings, JudgeSettings
from lmev2.pilots.settings import AGENT, NO_CONTEXT, READER, ContextKind

_EXAMPLE_CHARS = 1_440  # of the examples in the prompt for queries
_TITLE_CHARS, _NOTE_CHARS = 45, 70  # of lines in a summary of a haystack's memory
_CANDIDATE_CHARS = 900
_EMBEDDED_QUERY_CHARS = 60
_NOTHING = "nothing"
JUDGE = "judge"


class Asking:
    """Counts the calls about the run's questions."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self._judged: set[Hashable] = set()
        self._read: set[Hashable] = set()

    def stages(self, pilots: bool) -> Iterator[Stage]:
        """Stages in the order of the workflow.

        Args:
            pilots: count answers from oracle contexts (the target ``pilots``), too.
        """
        yield from self._queries()
        yield from self._agents()
        reader = self._reader()
        judge = Stage("Judge", JUDGE, self.setting.role(JUDGE).settings)
        if reader.work.calls:
            yield reader
        self._judge_methods(judge)
        yield from self._pilots(judge, pilots)
        further = [self._further_judge(name) for name in self.setting.plan.config.judges]
        yield from (stage for stage in (judge, *further) if stage.work.calls)

    def _further_judge(self, name: str) -> Stage:
        """Verdicts of another judge on the answers of the run's methods."""
        role = judge_role(name)
        stage = Stage(f"Judge {name}", role, self.setting.role(role).settings)
        self._judge_methods(stage)
        return stage

    def _cells(self, *families: type[Any]) -> Iterator[tuple[str, Any, str]]:
        config = self.setting.plan.config
        for name in config.run.methods:
            if isinstance(config.methods[name], families):
                for tier in config.run.tiers:
                    yield name, config.methods[name], tier

    def _haystack(self, tier: str, question: QuestionFacts) -> tuple[str, ...]:
        return self.setting.facts.haystacks[tier][question.question_id]

    def _queries(self) -> Iterator[Stage]:
        setting = self.setting
        written: dict[Hashable, str] = {}
        texts: set[str] = set()
        by_model: dict[Hashable, tuple[float, float]] = {}
        for name, method, tier in self._cells(RagMethod):
            for question in setting.facts.questions:
                haystack = self._haystack(tier, question)
                if method.queries == "question":
                    texts.add(_searched(question.text, method))
                elif not setting.plan.has_controller():
                    texts |= {_searched(text, method) for text in _by_rules(question, method)}
                else:
                    shown = question.question_type if method.question_type else None
                    # The summary in the prompt tells of the haystack's trajectories and of the pools.
                    key = question.question_id, frozenset(haystack), frozenset(method.pools), shown
                    written.setdefault(key, name)
                    by_model[(key, method.search.strip)] = self._by_model(method)
        if written:
            yield self._query_writing(written)
        yield from self._reranking()
        if any(True for _ in self._cells(RagMethod)):
            yield self._query_vectors(texts - {""}, by_model)

    def _query_writing(self, written: dict[Hashable, str]) -> Stage:
        setting = self.setting
        role = setting.controller()
        stage = Stage("Query generation", "controller", role.settings)
        reply = role.reply(setting.assumed.query_tokens, setting.assumed.thinking_tokens)
        fixed = setting.template("query") + _EXAMPLE_CHARS
        goals = [one.goal for one in setting.facts.trajectories.values()]
        goal = min(sum(goals) / max(len(goals), 1), 160)
        lengths = {one.question_id: len(one.text) for one in setting.facts.questions}
        for key, name in written.items():
            assert isinstance(key, tuple)
            size = len(key[1])
            summary = 250 + min(size, 12) * goal + 20 * _TITLE_CHARS + 2 * min(size, 8) * _NOTE_CHARS
            stage.part(name).add(role.prompt(role.tokens(fixed + lengths[key[0]] + summary)), reply)
        return stage

    def _by_model(self, method: RagMethod) -> tuple[float, float]:
        """Texts, and their characters, that are embedded of a model's queries."""
        raw = self.setting.assumed.raw_queries if "raw_state" in method.pools else 0.0
        count = raw + ("event" in method.pools) + ("note" in method.pools)
        return count, count * _EMBEDDED_QUERY_CHARS

    def _reranking(self) -> Iterator[Stage]:
        setting = self.setting
        role = setting.controller()
        stage = Stage("Reranking", "controller", role.settings)
        seen: set[Hashable] = set()
        for name, method, tier in self._cells(RagMethod):
            if method.rerank is None:
                continue
            reply = role.reply(setting.assumed.rerank_tokens, setting.assumed.thinking_tokens)
            blocks = [min(size, method.rerank.candidates) for size in self._blocks(method)]
            for question in setting.facts.questions:
                key = name, question.question_id, self._haystack(tier, question)
                if key in seen:
                    continue
                seen.add(key)
                for shown in blocks:
                    if shown > 1:  # there is nothing to choose from one
                        chars = setting.template("rerank") + len(question.text) + shown * _CANDIDATE_CHARS
                        stage.part(name).add(role.prompt(role.tokens(chars)), reply)
        if stage.parts:
            yield stage

    def _blocks(self, method: RagMethod) -> list[int]:
        """Results in each block of a context, at most; of raw states, those of all queries together."""
        queries = round(self.setting.assumed.raw_queries) if method.queries == "generated" else 1
        blocks = [method.top_k.note] * 2 if "note" in method.pools else []
        blocks += [method.top_k.event] if "event" in method.pools else []
        if "raw_state" in method.pools:
            blocks.append(queries * share_per_query(queries, method.top_k.raw_state))
        return blocks

    def _query_vectors(self, texts: set[str], by_model: dict[Hashable, tuple[float, float]]) -> Stage:
        setting = self.setting
        stage = Stage("Query embedding", "embedder", setting.embedder)
        ratio = setting.embedder_ratio.prose
        prefix = len(with_instruction(setting.embedder.query_instruction, ""))
        work = stage.part("queries")
        for text in texts:
            work.add(setting.embedded((prefix + len(text)) / ratio))
        for count, chars in by_model.values():
            work.add((count * prefix + chars) / ratio, calls=count)
        work.add((prefix + 7) / ratio)  # one text that warms up
        return stage

    def _reader(self) -> Stage:
        setting = self.setting
        role = setting.role(READER)
        stage = Stage("Reader", READER, role.settings)
        for name, method, tier in self._cells(object):
            context = setting.contexts(READER).of_method(method)
            for question in setting.facts.questions:
                key = READER, question.question_id, *self._context_key(name, method, tier, question)
                self._ask(stage.part(name), key, READER, question, f"reader_{question.domain}", context)
        return stage

    def _context_key(self, name: str, method: Any, tier: str, question: QuestionFacts) -> tuple[Hashable, ...]:
        if isinstance(method, NoneMethod):
            return (_NOTHING,)
        return name, self._haystack(tier, question)

    def _ask(
        self, work: Work, key: Hashable, reader: str, question: QuestionFacts, prompt: str, context: float
    ) -> None:
        """Count a reader's answer, unless an equal one was counted."""
        if key in self._read:
            return
        self._read.add(key)
        role, assumed = self.setting.role(reader), self.setting.assumed
        tokens = role.tokens(self.setting.template(prompt) + len(question.text)) + role.image(question.image)
        work.add(role.prompt(tokens + context), role.reply(assumed.answer_tokens, assumed.thinking_tokens))

    def _judge_methods(self, stage: Stage) -> None:
        for name, method, tier in self._cells(object):
            for question in self.setting.facts.questions:
                key = READER, question.question_id, *self._context_key(name, method, tier, question)
                self._judge(stage, name, key, question)

    def _judge(self, stage: Stage, part: str, key: Hashable, question: QuestionFacts) -> None:
        """Count the verdicts on an answer, if its scorer is a judge; an UNKNOWN would need none."""
        if not question.judged or (stage.role, key) in self._judged:
            return
        self._judged.add((stage.role, key))
        setting = self.setting
        role = setting.role(stage.role)
        assert isinstance(role.settings, JudgeSettings)
        kind = "judge_abstention" if question.scorer == "llm_abstention_checker" else "judge_gotchas"
        answer = 1.3 * setting.assumed.answer_tokens  # the whole reply, and what was read from it
        prompt = role.tokens(setting.template(kind) + len(question.text) + question.answer_chars) + answer
        reply = role.reply(setting.assumed.verdict_tokens, setting.assumed.judge_thinking_tokens)
        repeats = role.settings.repeats
        stage.part(part).add(repeats * role.prompt(prompt), repeats * reply, repeats)

    def _agents(self) -> Iterator[Stage]:
        setting = self.setting
        role = setting.plan.config.models.agent
        if role.backend == "rules":
            return
        stage = Stage("Coding agents", AGENT, role)
        seen: set[Hashable] = set()
        for name, _, tier in self._cells(AgentMethod):
            latency = published_latency(setting, name, tier)
            for question in setting.facts.questions:
                key = name, question.question_id, self._haystack(tier, question)
                if key not in seen:
                    seen.add(key)
                    self._run_agent(stage.part(name), latency)
        if stage.parts:
            yield stage

    def _run_agent(self, work: Work, latency_s: float) -> None:
        assumed = self.setting.assumed
        prompt = assumed.agent_requests * assumed.agent_prompt_tokens
        work.add(
            prompt,
            latency_s * assumed.agent_tokens_per_s,
            assumed.agent_requests,
            prompt * assumed.agent_cached_share,
        )

    def _pilots(self, judge: Stage, figure4: bool) -> Iterator[Stage]:
        """Answers of the pilot studies. Those of table 6 belong to every run that names readers for it."""
        pilots = self.setting.plan.config.pilots
        cells = [*(pilots.figure4.cells() if figure4 else []), *pilots.table6.cells()]
        for reader in dict.fromkeys(reader for reader, _ in cells):
            settings = self.setting.plan.model_settings(reader)
            assert isinstance(settings, ChatSettings)
            stage = Stage(f"Pilots: {reader}", reader, settings)
            for context in dict.fromkeys(context for name, context in cells if name == reader):
                for question in self.setting.unflawed:
                    key = (reader, question.question_id, _NOTHING if context == NO_CONTEXT else context)
                    if reader == AGENT:
                        self._run_agent(stage.part(context), published_latency(self.setting, "codex", "small"))
                    else:
                        self._answer_pilot(stage.part(context), key, reader, question, context)
                    self._judge(judge, f"pilots, {reader}", key, question)
            if stage.work.calls:
                yield stage

    def _answer_pilot(
        self, work: Work, key: Hashable, reader: str, question: QuestionFacts, context: ContextKind
    ) -> None:
        shown = 0.0
        if context != NO_CONTEXT:
            sizes = self.setting.contexts(reader)
            shown = sizes.of_trajectories() if context == "oracle_trajectories" else sizes.of_slices_and_notes()
        kind = "reader" if context == NO_CONTEXT else "oracle"
        self._ask(work, key, reader, question, f"{kind}_{question.domain}", shown)


def _searched(text: str, method: RagMethod) -> str:
    """What is embedded of a query."""
    return "\n".join(one.text for one in statements(text)) if method.search.strip else text


def _by_rules(question: QuestionFacts, method: RagMethod) -> set[str]:
    """Queries that rules write for a question, of the method's pools."""
    kind = question.question_type if method.question_type else None
    bundle = RuleQueries().write(MemoryQuery(question.text, None, (), kind))
    return {text for pool in method.pools for text in bundle.of_pool(pool)}


def published_latency(setting: Setting, method: str, tier: str) -> float:
    """Seconds of a coding agent's query in the paper's Table 2: of the method, else the mean of its coding agents."""
    found = _latencies(setting.plan.pipeline / "resources" / "paper" / "table2.csv")
    of_tier = [value for (_, other), value in found.items() if other == tier]
    return found.get((method, tier), sum(of_tier) / len(of_tier))


@cache
def _latencies(path: Any) -> dict[tuple[str, str], float]:
    with path.open(newline="", encoding="utf-8") as file:
        return {
            (row["method"], row["tier"]): float(row["latency_s"])
            for row in csv.DictReader(file)
            if row["family"] == "coding_agent"
        }
