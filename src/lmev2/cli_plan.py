"""The command ``plan``: what a run will ask of its models, by stage, before any job has run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmev2.config import JUDGE_ROLE, ConfigError, load_config, read_config
from lmev2.data.errors import DataError
from lmev2.progress import Progress, in_megabytes
from lmev2.terminal import fields, plain, table, terminal_width, wrap

if TYPE_CHECKING:  # takes a second to import, which other commands need not spend
    from lmev2.costs.estimate import Estimate
    from lmev2.costs.stages import Stage, Work
    from lmev2.plan import Plan

_PIPELINE = Path(__file__).resolve().parents[2]
_PROGRESS_FROM_MB = 50
_HEADER = ("Stage", "Model", "Calls", "Prompt", "Reply", "GPU h", "Money")
_UNITS = (("B", 1e9), ("M", 1e6), ("K", 1e3))
_UNKNOWN = "?"
_WITHOUT = "without trajectories"


def add_commands(commands: Any) -> None:
    """Add the command to the parser's (what ``add_subparsers`` returned)."""
    parser = commands.add_parser(
        "plan",
        help="estimate calls, tokens, GPU hours and money of a run",
        description="Estimate what a run will ask of its models, stage by stage, before it starts: calls, tokens, GPU "
        "hours and money. Nothing is called, fetched or written. It starts from an empty call cache; repairs, retries "
        "and errors are left out (docs/cost.md). Exit status: 0; 1 for bad or missing data; 2 for a wrong command or "
        "configuration.",
    )
    parser.add_argument(
        "--configfile",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a configuration file over config.yaml, as for snakemake; more than one: the last wins",
    )
    parser.add_argument("--data-root", type=Path, metavar="DIR", help="a data root in place of the configuration's")
    parser.add_argument("--states-per-trajectory", metavar="N", help="where trajectories are missing (default: 27)")
    parser.add_argument("--tree-chars", metavar="N", help="characters of a tree, likewise (default: 21000)")
    parser.add_argument(
        "--assume",
        type=_pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value for an assumption, by its name in the output; can be repeated",
    )
    parser.add_argument("--pilots", action="store_true", help="count the target `pilots`, too")
    parser.add_argument("--details", action="store_true", help="show each stage by method, pool or context")
    parser.add_argument("--json", action="store_true", help="print an object instead of text")
    parser.set_defaults(run=lambda options: _plan(options, parser))


def _pair(value: str) -> tuple[str, str]:
    name, sign, text = value.partition("=")
    if not sign or not name or not text:
        raise argparse.ArgumentTypeError(f"{value!r} is not NAME=VALUE")
    return name, text


def _plan(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from lmev2.costs.assumptions import AssumptionError, parse_assumptions
    from lmev2.costs.estimate import estimate
    from lmev2.costs.read import read_facts

    named = (("states_per_trajectory", options.states_per_trajectory), ("tree_chars", options.tree_chars))
    try:
        assumed = parse_assumptions([*[(name, value) for name, value in named if value is not None], *options.assume])
        plan = _open(options.configfile, options.data_root)
    except (ConfigError, AssumptionError) as error:
        parser.error(str(error))
    try:
        progress = in_megabytes(Progress("Reading", "MB"), _PROGRESS_FROM_MB)
        facts = read_facts(plan, options.data_root, assumed, progress)
    except DataError as error:
        print(f"No estimate: {plain(str(error))}", file=sys.stderr)
        return 1
    found = estimate(plan, facts, assumed, options.pilots)
    print(_as_json(plan, found) if options.json else _as_text(plan, found, options.details))
    return 0


def _open(files: Sequence[Path], root: Path | None) -> Plan:
    """The run of the shipped configuration with these files over it, on another data root if one is given, which is
    then not to be fetched.

    Raises:
        ConfigError: a file cannot be read, or the configuration has problems.
    """
    from lmev2.plan import Plan

    raw = read_config([_PIPELINE / "config.yaml", *files])
    return Plan(load_config(raw if root is None else raw | {"data": {"root": str(root)}}), _PIPELINE)


def _as_json(plan: Plan, found: Estimate) -> str:
    from lmev2.costs.assumptions import told_by

    facts = found.facts
    inserted = found.insertion
    value = {
        "run": plan.config.run.model_dump(mode="json", include={"methods", "tiers", "questions", "seed"}),
        "data": {
            "source": facts.source,
            "trajectories_known": facts.known,
            "questions": len(facts.questions),
            "judged_questions": sum(question.judged for question in facts.questions),
            "trajectories": len(facts.trajectories),
            "states": facts.states,
        },
        "stages": [_stage_value(stage) for stage in found.stages],
        "total": {
            **_work_value(_total(found.stages)),
            "gpu_hours": sum(stage.hours() or 0 for stage in found.stages),
            "gpu_hours_unknown_for": _unknown(found.stages, "hours"),
            "money": _sums(found.stages),
            "money_unknown_for": _unknown(found.stages, "money"),
        },
        "insertion_per_question": None
        if inserted is None
        else {
            **_work_value(inserted.work),
            "gpu_hours": inserted.hours,
            "money": inserted.money,
            "times": inserted.work.calls / inserted.once.calls if inserted.once.calls else None,
        },
        "agent_hours_by_published_latency": found.agent_hours,
        "chars_per_token": {
            name: {
                "prose": ratio.prose,
                "tree": ratio.tree,
                "measured": list(ratio.measured),
                "fault": ratio.fault or None,
            }
            for name, ratio in found.ratios.items()
        },
        "assumptions": {
            name: {"value": number, "source": told_by(name), "used": name in _used(found)}
            for name, number in found.assumed.model_dump().items()
        },
    }
    return json.dumps(value, indent=1)


def _stage_value(stage: Stage) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "role": stage.role,
        "model": stage.settings.model,
        **_work_value(stage.work),
        "gpu_hours": stage.hours(),
        "money": stage.money(),
        "currency": stage.settings.price.currency,
        "parts": {name: _work_value(work) for name, work in stage.parts.items() if work.calls},
    }


def _work_value(work: Work) -> dict[str, int]:
    return {
        "calls": round(work.calls),
        "prompt_tokens": round(work.prompt),
        "cached_prompt_tokens": round(work.cached),
        "completion_tokens": round(work.completion),
    }


def _total(stages: Sequence[Stage]) -> Work:
    from lmev2.costs.stages import Work

    return sum((stage.work for stage in stages), Work())


def _unknown(stages: Sequence[Stage], what: str) -> list[str]:
    """Stages of which hours or money are not known."""
    return [stage.name for stage in stages if getattr(stage, what)() is None]


def _sums(stages: Sequence[Stage]) -> dict[str, float]:
    """Money by currency, of the stages that have a price."""
    sums: dict[str, float] = {}
    for stage in stages:
        if stage.settings.price.known():
            currency = stage.settings.price.currency
            sums[currency] = sums.get(currency, 0.0) + (stage.money() or 0.0)
    return sums


def _as_text(plan: Plan, found: Estimate, details: bool) -> str:
    width = terminal_width()
    run, facts = plan.config.run, found.facts
    judged = sum(question.judged for question in facts.questions)
    states = f"{len(facts.trajectories):,} trajectories with {facts.states:,} states"
    head = [
        ("Run", f"{len(run.methods)} methods, tiers {', '.join(run.tiers)}"),
        ("Questions", f"{len(facts.questions):,}, of which {judged:,} are scored by the judge"),
        ("Haystacks", states if facts.known else f"{states} (assumed)"),
        ("Data", plain(facts.source)),
    ]
    parts = [fields(head, width), _table(found.stages, details, width), *_remarks(found, width)]
    parts += [_title("Roles", fields(_roles(found), width, "  "))]
    parts += [_title("Assumed (--assume NAME=VALUE)", fields(_assumptions(found), width, "  "))]
    return "\n\n".join(parts)


def _title(title: str, text: str) -> str:
    return f"{title}\n{text}"


def _table(stages: Sequence[Stage], details: bool, width: int) -> str:
    rows: list[tuple[str, ...]] = []
    for stage in stages:
        rows.append(
            (plain(stage.name), plain(stage.settings.model), *_numbers(stage.work), _hours(stage), _money(stage))
        )
        named = [(name, work) for name, work in stage.parts.items() if work.calls]
        if details and len(named) > 1:
            rows += [(f"  {plain(name)}", "", *_numbers(work), "", "") for name, work in named]
    sums = _sums(stages)
    money = " + ".join(f"{_amount(value)} {currency}" for currency, value in sums.items()) or _nothing(stages, "money")
    known = [stage for stage in stages if stage.hours() is not None and stage.settings.throughput.known()]
    hours = _amount(sum(stage.hours() or 0.0 for stage in known)) if known else _nothing(stages, "hours")
    rows.append(
        ("Total", "", *_numbers(_total(stages)), hours or _nothing(stages, "hours"), money or _nothing(stages, "money"))
    )
    return table(_HEADER, rows, width, (2, 1, 0, 0, 0, 0, 0))


def _numbers(work: Work) -> tuple[str, str, str]:
    return f"{round(work.calls):,}", compact(work.prompt), compact(work.completion)


def _nothing(stages: Sequence[Stage], what: str) -> str:
    """Where no stage has a number: unknown if that of any is."""
    return _UNKNOWN if _unknown(stages, what) else "-"


def _hours(stage: Stage) -> str:
    value = stage.hours()
    return _UNKNOWN if value is None else "-" if not value else _amount(value)


def _money(stage: Stage) -> str:
    value = stage.money()
    if value is None:
        return _UNKNOWN
    return f"{_amount(value)} {stage.settings.price.currency}" if stage.settings.price.known() else "-"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 0.1 or not value else f"{value:.2g}"


def compact(number: float) -> str:
    """A number with three digits and a unit: 1.23B, 45.6M, 789."""
    for unit, size in _UNITS:
        if number >= size:
            scaled = number / size
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{unit}"
    return f"{number:.0f}"


def _remarks(found: Estimate, width: int) -> list[str]:
    lines = []
    for what, name in (("hours", "GPU hours"), ("money", "Money")):
        roles = dict.fromkeys(stage.role for stage in found.stages if getattr(stage, what)() is None)
        if roles:
            key = "throughput" if what == "hours" else "price"
            keys = ", ".join(f"{_section(role)}.{key}" for role in roles)
            lines.append(f"{name}: unknown (?) without {plain(keys)}; not in the total.")
    for role, ratio in found.ratios.items():
        if ratio.fault:
            fault = plain(" ".join(ratio.fault.split()).rstrip("."))
            lines.append(
                f"{plain(_section(role))}: characters per token are assumed, for lack of a tokenizer: {fault}."
            )
    shares = sorted(found.stages, key=lambda stage: -stage.work.prompt)[:2]
    total = _total(found.stages).prompt
    if total:
        named = " and ".join(f"{stage.name.lower()} {stage.work.prompt / total:.0%}" for stage in shares)
        lines.append(f"Most of the prompt tokens: {named}.")
    inserted = found.insertion
    if inserted is not None and inserted.once.calls:
        times = inserted.work.calls / inserted.once.calls
        lines.append(
            "Memory is made once per trajectory. With each haystack inserted anew for every question of every tier, "
            f"notes and events alone would take {times:,.0f} times as many calls: {round(inserted.work.calls):,}, with "
            f"{compact(inserted.work.prompt)} prompt tokens"
            + (f" and {_amount(inserted.hours)} GPU hours" if inserted.hours else "")
            + ", for each method that uses them."
        )
    if found.agent_hours:
        lines.append(
            f"Coding agents work {_amount(found.agent_hours)} hours by the latencies in the paper's Table 2, if one "
            "question is asked at a time."
        )
    return ["\n".join(line for text in lines for line in wrap(text, width))] if lines else []


def _section(role: str) -> str:
    """Where the configuration has a role's settings."""
    from lmev2.job_specs import ROLES

    if role in ROLES:
        return f"models.{role}"
    return role if role.startswith(JUDGE_ROLE) else f"pilots.readers.{role}"


def _roles(found: Estimate) -> list[tuple[str, str]]:
    rows = []
    for stage in {stage.role: stage for stage in found.stages}.values():
        settings = stage.settings
        rate, price = settings.throughput, settings.price
        told = [plain(f"{settings.model} ({settings.backend})")]
        if stage.role in found.ratios:
            ratio = found.ratios[stage.role]
            source = {kind: "measured" if kind in ratio.measured else "assumed" for kind in ("prose", "tree")}
            told.append(
                f"characters per token: {ratio.prose:.2f} of prose ({source['prose']}), {ratio.tree:.2f} of trees "
                f"({source['tree']})"
            )
        if rate.prompt is not None and rate.completion is not None:
            gpus = f"{rate.gpus} GPU{'s' if rate.gpus > 1 else ''}"
            told.append(
                f"{rate.prompt:,.0f} tokens/s read and {rate.completion:,.0f} written by {gpus} (as configured)"
            )
        if price.known():
            told.append(
                f"{price.input} in, {price.cached_input} cached, {price.output} out per million tokens, "
                f"{price.currency} (as configured)"
            )
        rows.append((stage.role, "; ".join(told)))
    return rows


def _assumptions(found: Estimate) -> list[tuple[str, str]]:
    from lmev2.costs.assumptions import Assumptions, told_by

    rows = []
    for name in _used(found):
        value, default = getattr(found.assumed, name), Assumptions.model_fields[name].default
        source = told_by(name) if value == default else f"as given (default {default:g}: {told_by(name)})"
        rows.append((name, f"{value:g}: {source}"))
    return rows


def _used(found: Estimate) -> list[str]:
    """Assumptions that can have changed this estimate."""
    from lmev2.costs.assumptions import NAMES, told_by

    stages = {stage.name for stage in found.stages}
    ratios = found.ratios.values()
    unused = {name for name in NAMES if told_by(name).startswith(_WITHOUT) and found.facts.known}
    needs = {
        "goals_with_route": "Goals" in stages and not found.facts.known,
        "goal_tokens": "Goals" in stages,
        "query_tokens": "Query generation" in stages,
        "raw_queries": "Query generation" in stages,
        "rerank_tokens": "Reranking" in stages,
        "verdict_tokens": "Judge" in stages,
        "judge_thinking_tokens": "Judge" in stages,
        "chars_per_token": any("prose" not in ratio.measured for ratio in ratios),
        "tree_chars_per_token": any("tree" not in ratio.measured for ratio in ratios),
    }
    unused |= {name for name, needed in needs.items() if not needed}
    if not any(stage.role == "agent" for stage in found.stages):
        unused |= {"agent_requests", "agent_prompt_tokens", "agent_cached_share", "agent_tokens_per_s"}
    if not any(stage.name.startswith("Pilots") for stage in found.stages):
        unused |= {"oracle_trajectories", "oracle_states"}
    return [name for name in NAMES if name not in unused]
