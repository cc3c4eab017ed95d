"""Plans of runs to estimate, and what estimates say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lmev2.config import load_config
from lmev2.costs.assumptions import Assumptions
from lmev2.costs.estimate import Estimate, estimate
from lmev2.costs.read import read_facts
from lmev2.costs.stages import Stage
from lmev2.plan import Plan

MODEL = {"backend": "openai", "file": None, "quantize": None}


def make_plan(project: Path, root: Path, **changes: Any) -> Plan:
    """The default run on a data root, with every role at an endpoint."""
    raw = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    raw |= {"data": {"root": str(root)}, "results": str(root / "results")}
    raw["models"]["controller"] = {**MODEL, "model": "writer", "images": True, "thinking": True}
    raw["models"]["controller"]["context_length"] = 262_144
    raw["models"]["judge"] |= {**MODEL, "model": "judge"}
    raw["models"]["embedder"] = {
        "backend": "sentence_transformers",
        "model": "embedder",
        "max_tokens": 4096,
        "max_chars": 40_000,
    }
    raw["run"] |= {"questions": None, "methods": ["no_retrieval", "rag_slice", "rag_slice_notes", "agentrunbook_r"]}
    for key, value in changes.items():
        raw[key] = merge(raw[key], value)
    return Plan(load_config(raw), project)


def merge(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: merge(base.get(key), value) for key, value in over.items()}}
    return over


def run(plan: Plan, pilots: bool = False, root: Path | None = None, **assumed: Any) -> Estimate:
    assumptions = Assumptions(**assumed)
    return estimate(plan, read_facts(plan, root, assumptions, lambda done, total: None), assumptions, pilots)


def calls(found: Estimate) -> dict[str, int]:
    return {stage.name: round(stage.work.calls) for stage in found.stages}


def stage(found: Estimate, name: str) -> Stage:
    (one,) = [one for one in found.stages if one.name == name]
    return one
