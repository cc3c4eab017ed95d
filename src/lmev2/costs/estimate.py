"""An estimate of a whole run."""

from __future__ import annotations

from dataclasses import dataclass

from lmev2.costs.asking import Asking, published_latency
from lmev2.costs.assumptions import Assumptions
from lmev2.costs.facts import DataFacts
from lmev2.costs.making import event_work, memory_stages, note_work
from lmev2.costs.setting import Setting
from lmev2.costs.stages import Stage, Work, hours, money
from lmev2.costs.tokens import Ratio
from lmev2.memory.settings import POOL_TABLES
from lmev2.pilots.settings import FILES
from lmev2.plan import Plan


@dataclass(frozen=True)
class Insertion:
    """Notes and events if every question of every tier had its haystack inserted anew, by one method.

    Attributes:
        work: calls and tokens of that.
        once: those of making them once per trajectory.
        hours, money: of ``work``.
    """

    work: Work
    once: Work
    hours: float | None
    money: float | None


@dataclass(frozen=True)
class Estimate:
    """What a run will ask of its models.

    Attributes:
        stages: in the order of the workflow.
        facts: what it knows of the data.
        assumed: what it assumes.
        ratios: characters per token by role.
        insertion: the comparison; None without a model that writes notes or events.
        agent_hours: hours of coding agents' work by the paper's latencies; 0 without such an agent.
    """

    stages: tuple[Stage, ...]
    facts: DataFacts
    assumed: Assumptions
    ratios: dict[str, Ratio]
    insertion: Insertion | None
    agent_hours: float


def estimate(plan: Plan, facts: DataFacts, assumed: Assumptions, pilots: bool = False) -> Estimate:
    """Estimate a run that starts with an empty call cache, without repairs, retries and errors.

    Args:
        pilots: count the target ``pilots``, too.
    """
    setting = Setting(plan, facts, assumed)
    figure4 = plan.config.pilots.figure4
    notes_for_pilots = pilots and "oracle_slices_notes" in figure4.contexts
    setting.role("reader")  # first: roles without a tokenizer may take the reader's
    stages = [*memory_stages(setting, notes_for_pilots), *Asking(setting).stages(pilots)]
    return Estimate(
        tuple(stages),
        facts,
        assumed,
        {name: ratio for name, ratio in setting.ratios.items() if name in {stage.role for stage in stages}},
        _insertion(setting, stages),
        _agent_hours(setting, pilots and FILES in figure4.contexts),
    )


def _insertion(setting: Setting, stages: list[Stage]) -> Insertion | None:
    made = {stage.name for stage in stages} & {"Notes", "Events"}
    if not made:
        return None
    pools = set(setting.plan.pools())
    by_name: dict[str, Work] = {}
    for name, trajectory in setting.facts.trajectories.items():
        work = note_work(setting, trajectory) if "Notes" in made else Work()
        by_name[name] = work + (event_work(setting, trajectory) if pools & set(POOL_TABLES["event"]) else Work())
    asked = [
        name
        for lists in setting.facts.haystacks.values()
        for question in setting.facts.questions
        for name in lists[question.question_id]
    ]
    total, once = Work(), Work()
    for name in asked:
        work = by_name[name]
        total.add(work.prompt, work.completion, work.calls)
    for work in by_name.values():
        once.add(work.prompt, work.completion, work.calls)
    settings = setting.controller().settings
    return Insertion(total, once, hours(total, settings), money(total, settings))


def _agent_hours(setting: Setting, files: bool) -> float:
    config = setting.plan.config
    if config.models.agent.backend == "rules":
        return 0.0
    seconds = sum(
        len(setting.facts.questions) * published_latency(setting, name, tier)
        for name in setting.plan.agent_methods()
        for tier in config.run.tiers
    )
    of_files = files * len(setting.unflawed) * published_latency(setting, "codex", "small")
    return (seconds + of_files) / 3600
