"""The run that a free question is asked of: its configuration, what it lacks, and what is out of date in it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from lmev2.config import ConfigError, load_config, read_config
from lmev2.memory.settings import AgentMethod, RagMethod
from lmev2.plan import Plan

PIPELINE = Path(__file__).resolve().parents[2]
STATES, TRAJECTORIES, HAYSTACKS = "goals/states.parquet", "goals/trajectories.parquet", "data/haystacks.parquet"
MANIFEST, GOALS = "data/manifest.json", "goals/summary.json"


class UnknownMethod(ValueError):
    """The configuration defines no such method."""


def open_plan(files: Sequence[Path], results: Path | None, pipeline: Path = PIPELINE) -> Plan:
    """The run of the shipped configuration with these files over it.

    Args:
        files: configuration files, the last one on top.
        results: folder of the run, in place of the configured one.
        pipeline: folder of the Snakefile.

    Raises:
        ConfigError: a file cannot be read, or the configuration has problems.
    """
    if not (pipeline / "config.yaml").is_file():
        raise ConfigError(f"found no {pipeline / 'config.yaml'}; this command needs the library of a checkout")
    raw = read_config([pipeline / "config.yaml", *files])
    return Plan(load_config(raw | ({} if results is None else {"results": str(results)})), pipeline)


def default_method(plan: Plan) -> str:
    """The first retrieval row of the run, or its first row."""
    rows = plan.config.run.methods
    return next((name for name in rows if isinstance(plan.config.methods[name], RagMethod)), rows[0])


def check_method(plan: Plan, method: str) -> None:
    """Refuse a method that the configuration does not know.

    Raises:
        UnknownMethod: names those that it does.
    """
    if method not in plan.config.methods:
        raise UnknownMethod(f"unknown method {method!r}; the configuration defines {', '.join(plan.config.methods)}")


def missing_files(plan: Plan, method: str) -> list[str]:
    """Files of the run that questions to a method need and that are not there."""
    wanted = [TRAJECTORIES, STATES, HAYSTACKS]
    for table in plan.method_tables(method):
        wanted += [f"index/{table}.lance", f"index/{table}.json"]
    if isinstance(plan.config.methods[method], AgentMethod):
        wanted += [MANIFEST, GOALS]
        for shard in plan.trajectory_shards:
            wanted += [f"agent/pool/{shard}", f"agent/pool/{shard}.jsonl"]
    return [f"{plan.results}/{name}" for name in wanted if not Path(plan.results, name).exists()]


def making_command(plan: Plan, method: str, targets: Sequence[str], files: Sequence[Path]) -> str:
    """The Snakemake command that makes files of a run.

    Args:
        plan: the run.
        method: that the files are for.
        targets: the files.
        files: the configuration files that the run was opened with.
    """
    words = ["snakemake", "--cores", "all", *targets]
    if Path.cwd() != plan.pipeline:
        words += ["--snakefile", str(plan.pipeline / "Snakefile")]
    configured = Plan(load_config(read_config([plan.pipeline / "config.yaml", *files])), plan.pipeline)
    changes = [] if configured.results == plan.results else [f"results={plan.results}"]
    if method not in plan.config.run.methods:
        changes.append(f"run={json.dumps({'methods': [method]})}")
    words += ["--config", *changes] if changes else []
    words += ["--configfile", *map(str, files)] if files else []
    return shlex.join(words)


def stale_settings(plan: Plan, method: str) -> list[str]:
    """In what the run was made otherwise than the configuration says now, as its ``methods.yaml`` and
    ``provenance.json`` tell; empty where nothing is known to differ."""
    found = []
    results = Path(plan.results)
    settings = plan.config.methods[method]
    told = _mapping(results / "methods.yaml", yaml.safe_load)
    if told:
        row = told.get("methods", {}).get(method)
        if row is None:
            found.append(f"The run has no row {method}; it is asked as the configuration defines it.")
        else:
            now = settings.model_dump(mode="json", exclude={"label", "compare_with"})
            found += _difference(f"row {method}", {name: row.get(name) for name in now}, now)
        if isinstance(settings, RagMethod | AgentMethod):
            found += _difference("rendering", told.get("render", {}), plan.config.render.model_dump(mode="json"))
    made = _mapping(results / "provenance.json", json.loads)
    if made and isinstance(settings, RagMethod):
        before = made.get("models", {}).get("embedder", {}).get("settings", {})
        now = {name: value for name, value in plan.role("embedder").items() if name != "stamps"}
        found += _difference("embedder", before, now)
        pools = plan.config.pools.model_dump(mode="json")
        found += _difference("pools", made.get("settings", {}).get("pools", {}), pools)
    return found


def _mapping(path: Path, read: Callable[[str], Any]) -> dict[str, Any]:
    """A file's mapping; empty where there is no such file or it holds something else."""
    try:
        value = read(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return value if isinstance(value, dict) else {}


def _difference(what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    names = [name for name in dict.fromkeys([*now, *before]) if before.get(name) != now.get(name)]
    if not names:
        return []
    return [f"The run was made with other settings of the {what} ({', '.join(names)}) than the configuration has now."]
