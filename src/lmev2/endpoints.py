"""Which model roles a run calls over a network: those of its planned jobs, or all that the configuration names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lmev2.config import Config
from lmev2.files import replacing
from lmev2.job_specs import judge_role
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.plan import Plan

Roles = dict[str, ChatSettings | EmbedderSettings]


def planned_roles(plan: Plan, jobs: Iterable[tuple[str, Mapping[str, str]]]) -> Roles:
    """The roles at endpoints that jobs call; the coding agent has a check of its own.

    Args:
        jobs: rule and wildcards of each.
    """
    names: dict[str, None] = {}
    for rule, wildcards in jobs:
        reader = wildcards.get("reader", "reader")
        if "judge" in wildcards:
            reader = judge_role(wildcards["judge"])
        names |= dict.fromkeys(plan.roles(rule, wildcards.get("method"), reader))
    return _at_endpoints({name: plan.model_settings(name) for name in names if name != "agent"})


def configured_roles(config: Config) -> Roles:
    """All roles at endpoints: the run's own, further judges, and the readers that the pilot studies ask."""
    models, pilots = config.models, config.pilots
    roles: Roles = {
        "reader": models.reader,
        "judge": models.judge,
        "controller": models.controller,
        "embedder": models.embedder,
    }
    roles |= {judge_role(name): settings for name, settings in config.judges.items()}
    return _at_endpoints(roles | {name: pilots.readers[name] for name in pilots.asked() if name in pilots.readers})


def check_planned(roles: Roles, cache: Path) -> None:
    """Look at the roles' endpoints and print what was found to stderr.

    Raises:
        ModelSetupError: one cannot do what its role asks, or is not there and the cache holds nothing of its model.
    """
    if not roles:
        return
    # Here, since most runs call no endpoint and the client's library takes a second to import.
    from lmev2.models.preflight import look_at, require, table

    checked = look_at(roles)
    print(f"Endpoints that this run calls:\n{table(checked)}", file=sys.stderr)
    for remark in require(checked, cache):
        print(f"Warning: {remark}", file=sys.stderr)


def check_configured(roles: Roles, file: Path) -> None:
    """Look at the roles' endpoints, write what was found as JSON, and print it to stderr.

    Raises:
        ModelSetupError: one is not there or cannot do what its role asks; the file is written first.
    """
    from lmev2.models.preflight import look_at, require, table

    checked = look_at(roles)
    with replacing(file) as path:
        path.write_text(json.dumps(record(checked), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(checked) if checked else "No role of this configuration calls an endpoint.", file=sys.stderr)
    for remark in require(checked, None):
        print(f"Warning: {remark}", file=sys.stderr)


def record(checked: Iterable[Any]) -> dict[str, Any]:
    """What was found by role, without addresses and keys."""
    return {one.role: one.record() for one in checked}


def _at_endpoints(roles: Roles) -> Roles:
    return {name: settings for name, settings in roles.items() if settings.backend == "openai"}
