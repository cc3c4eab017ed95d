"""The ``spec`` param of every rule: all settings that can change what a job writes, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmev2.config import JUDGE_ROLE, OWN_JUDGE
from lmev2.memory.plugin_source import source_stamp
from lmev2.memory.settings import PluginMethod, RagMethod
from lmev2.pilots.specs import PILOT_SPECS

if TYPE_CHECKING:
    from lmev2.plan import Plan

ROLES = ("reader", "judge", "controller", "embedder", "agent")
# What a coding agent is told: when it is started, and in its sandbox.
AGENT_PROMPTS = ("agent_invocation", "agent_instruction")


def judge_role(name: str) -> str:
    """Role of a further judge."""
    return JUDGE_ROLE + name


def _ingest_spec(plan: Plan, _: dict[str, str]) -> dict[str, Any]:
    return {"root": str(plan.data_root.absolute()), "tiers": sorted(plan.config.run.tiers)}


def _select_spec(plan: Plan, _: dict[str, str]) -> dict[str, Any]:
    return {"questions": plan.config.run.questions, "seed": plan.config.run.seed}


def _goals_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"shard": wildcards["shard"], "mode": plan.config.goals.mode}
    if plan.config.goals.mode == "model":
        # Lowered, it must repeat the calls that were let through before.
        spec |= {"controller": plan.role("controller"), "allow": plan.config.errors.allow}
    return spec


def _raw_state_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    return {"shard": wildcards["shard"], "radius": plan.config.pools.slice_radius}


def _chunk_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    return _raw_state_spec(plan, wildcards) | {"chunk": plan.config.pools.chunk.model_dump(mode="json")}


def _note_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    return _controlled(plan, wildcards, "note", "literal_chars", "title_chars", "procedure_chars", "hint_chars")


def _event_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    return _controlled(plan, wildcards, "event", "literal_chars", "change_chars")


def _controlled(plan: Plan, wildcards: dict[str, str], pool: str, *of_rules: str) -> dict[str, Any]:
    """Settings of a pool that the controller writes. A model's fallback entries are written by rules, with their
    settings; rules alone take no others than theirs (``of_rules``)."""
    settings = getattr(plan.config.pools, pool).model_dump(mode="json")
    kept = {name: value for name, value in settings.items() if name in of_rules or plan.has_controller()}
    spec = {"shard": wildcards["shard"], pool: kept, "controller": plan.role("controller")}
    # Lowered, it must repeat the calls that were let through before.
    return spec | ({"allow": plan.config.errors.allow} if plan.has_controller() else {})


def _embed_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    settings = plan.role("embedder")
    del settings["query_instruction"]  # documents have no prefix
    return {"pool": wildcards["pool"], "shard": wildcards["shard"], "embedder": settings}


def _index_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    return {"pool": wildcards["pool"], "dimension": plan.config.models.embedder.dimension}


def _query_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    method = plan.config.methods[wildcards["method"]].model_dump(mode="json", exclude={"label", "compare_with"})
    spec: dict[str, Any] = {
        "name": wildcards["method"],
        "tier": wildcards["tier"],
        "shard": wildcards["qshard"],
        "method": method,
    }
    # Lowered, it must repeat the calls that were let through before.
    spec["allow"] = plan.config.errors.allow
    settings = plan.config.methods[wildcards["method"]]
    if isinstance(settings, RagMethod):
        spec["render"] = plan.config.render.model_dump(mode="json")
        spec["embedder"] = plan.role("embedder")
        if settings.uses_controller():
            spec["controller"] = plan.role("controller")
    if isinstance(settings, PluginMethod):
        spec["source"] = source_stamp(settings.class_, plan.plugin_folder(settings))
    return spec


def _query_agent_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    settings = plan.config.methods[wildcards["method"]]
    effort = getattr(settings, "reasoning_effort", None)
    agent = plan.role("agent")
    return {
        "name": wildcards["method"],
        "tier": wildcards["tier"],
        "shard": wildcards["qshard"],
        # The effort is the model's, so it stands there only.
        "method": settings.model_dump(mode="json", include={"family", "parts"}),
        "allow": plan.config.errors.allow,
        "render": plan.config.render.model_dump(mode="json"),
        "agent": agent | ({"reasoning_effort": effort} if effort else {}),
    }


def _models(plan: Plan) -> dict[str, dict[str, Any]]:
    """The models of the run, as tables and provenance tell of them."""
    models = {role: plan.role(role) for role in plan.used_roles()}
    if "agent" in models:
        models["agent"] |= plan.config.models.agent.model_dump(mode="json", include={"isolation", "price"})
    return models


def _asking(plan: Plan, wildcards: dict[str, str], role: str) -> dict[str, Any]:
    """A job that asks a role's model about the rows of one method and tier."""
    names = {"name": wildcards["method"], "tier": wildcards["tier"]}
    return {**names, role: plan.role(role), "allow": plan.config.errors.allow}


def _judge_again_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    role = judge_role(wildcards["judge"])
    names = {"name": wildcards["method"], "tier": wildcards["tier"]}
    return {**names, "role": role, "judge": plan.role(role), "allow": plan.config.errors.allow}


def _agreement_spec(plan: Plan, _: dict[str, str]) -> dict[str, Any]:
    judges = {OWN_JUDGE: plan.config.models.judge, **plan.config.judges}
    return {
        "judges": [
            {"judge": name, "model": settings.model, "repeats": settings.repeats} for name, settings in judges.items()
        ],
    }


def _collect_spec(plan: Plan, _: dict[str, str]) -> dict[str, Any]:
    run = plan.config.run
    imported = {one.manifest.name: one.manifest.label for one in plan.imports}
    return {
        "methods": [
            {"method": name, "label": plan.config.methods[name].label, "family": plan.config.methods[name].family}
            for name in run.methods
        ]
        + [{"method": name, "label": label, "family": "imported"} for name, label in imported.items()],
        "partners": {name: list(plan.config.methods[name].compare_with) for name in run.methods},
        "statistics": plan.config.statistics.model_dump(mode="json"),
        "tiers": list(run.tiers),
        # Not those of further judges, which no row of the database is made by.
        "models": {role: settings for role, settings in _models(plan).items() if role in ROLES},
        "settings": plan.config.model_dump(mode="json", include={"run", "pools", "methods", "render", "errors"}),
        "data_root": plan.config.data.root,
    }


def _tokens_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    return {"shard": wildcards["shard"], "reader": plan.counter("reader")}


def _table1_spec(plan: Plan, _: dict[str, str]) -> dict[str, Any]:
    return {"name": Path(plan.config.data.root).name, "tokenizer": plan.config.models.reader.model}


def _methods_spec(plan: Plan, _: dict[str, str]) -> dict[str, Any]:
    return {
        # A list, because the canonical JSON of an object forgets the order of its keys.
        "methods": [[name, plan.config.methods[name].model_dump(mode="json")] for name in plan.config.run.methods],
        "render": plan.config.render.model_dump(mode="json"),
    }


def _provenance_spec(plan: Plan, _: dict[str, str]) -> dict[str, Any]:
    sections = {"run", "shards", "goals", "pools", "render", "statistics", "errors"}
    settings = plan.config.model_dump(mode="json", include=sections)
    rows = {name: plan.config.methods[name].model_dump(mode="json") for name in plan.config.run.methods}
    hub = plan.config.data.hub
    # Not the arguments that the imported run was started with: they may name folders and addresses.
    told = {"domain", "method", "questions", "errors", "empty_replies", "sources"}
    return {
        "imports": [
            one.manifest.model_dump(mode="json", exclude={"runs"})
            | {"runs": [run.model_dump(mode="json", include=told) for run in one.manifest.runs]}
            for one in plan.imports
        ],
        "settings": settings | {"methods": rows},
        "hub": None if hub is None else hub.model_dump(mode="json"),
        "code": plan.codes(),
        # Readers of table 6 other than the run's own, by their names, which are no roles'.
        "pilots": {name: plan.role(name) for name in plan.config.pilots.table6.readers if name != "reader"},
        **_models(plan),
    }


def _harness_run_spec(plan: Plan, wildcards: dict[str, str]) -> dict[str, Any]:
    name, tier = wildcards["method"], wildcards["tier"]
    spec: dict[str, Any] = {
        "name": name,
        "tier": tier,
        "data_root": str(plan.data_root.absolute()),
        "prompt_messages": plan.config.interchange.prompt_messages,
    }
    if plan.import_of(name, tier) is not None:
        return spec  # its settings are those that it came with
    roles = ["reader", "judge", *plan.roles(plan.query_rule(name), name)]
    return spec | {
        "models": {role: plan.role(role) for role in roles},
        "method": plan.config.methods[name].model_dump(mode="json", exclude={"label", "compare_with"}),
        "render": plan.config.render.model_dump(mode="json"),
    }


def _nothing(_: Plan, __: dict[str, str]) -> dict[str, Any]:
    return {}


SPECS: dict[str, Callable[[Plan, dict[str, str]], dict[str, Any]]] = {
    "check_endpoints": _nothing,  # it keeps no output that a setting could make old
    "fetch_dataset": lambda plan, _: plan.config.data.model_dump(mode="json"),
    "prepare_screenshots": lambda plan, _: {"root": str(plan.data_root.absolute())},
    "ingest_dataset": _ingest_spec,
    "select_questions": _select_spec,
    "sanitize_goals": _goals_spec,
    "apply_goals": lambda plan, _: {"mode": plan.config.goals.mode},
    "build_raw_state": _raw_state_spec,
    "build_center_state": _raw_state_spec,
    "build_state_chunk": _chunk_spec,
    "generate_note": _note_spec,
    "generate_event": _event_spec,
    "embed_pool": _embed_spec,
    "index_pool": _index_spec,
    "query_memory": _query_spec,
    "build_agent_pool": lambda _, wildcards: {"shard": wildcards["shard"]},
    "query_agent_memory": _query_agent_spec,
    "read_answers": lambda plan, wildcards: _asking(plan, wildcards, "reader"),
    "score_answers": lambda plan, wildcards: _asking(plan, wildcards, "judge"),
    "judge_again": _judge_again_spec,
    **PILOT_SPECS,
    "collect_scores": _collect_spec,
    "export_table": _nothing,
    "export_table2": _nothing,
    "export_paper_check": _nothing,
    "count_tokens": _tokens_spec,
    "export_table1": _table1_spec,
    "export_statistics": _nothing,
    "export_judge_agreement": _agreement_spec,
    "export_methods": _methods_spec,
    "plot_table2": _nothing,
    "plot_frontier": _nothing,
    "plot_latency": _nothing,
    "plot_evidence": _nothing,
    "plot_tokens": _nothing,
    "plot_errors": _nothing,
    "plot_statistics": _nothing,
    "build_report": _nothing,
    "write_provenance": _provenance_spec,
    "select_import": _nothing,
    "export_harness_run": _harness_run_spec,
}
