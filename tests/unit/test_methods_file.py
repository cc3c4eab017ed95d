"""methods.yaml: what a row does in the end, defaults and inherited keys included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter
from unit.test_plan import default

from lmev2.config import load_config
from lmev2.memory.settings import Method, RenderSettings, SearchSettings, TopK
from lmev2.plan import Plan
from lmev2.tables.methods import write_methods

PLUGIN = {"family": "plugin", "label": "Öwn one", "class": "mine.memory:Memory", "options": {"k": 3}}


@pytest.fixture
def plan(project: Path) -> Plan:
    """The default run and a plugin, which stands first and has no folder to look for."""
    raw = default(project)
    raw["methods"]["own"] = PLUGIN
    raw["run"]["methods"].insert(0, "own")
    return Plan(load_config(raw), project)


@pytest.fixture
def written(plan: Plan, tmp_path: Path) -> dict[str, Any]:
    """What a YAML reader finds in the file that the rule writes."""
    spec = _spec(plan)
    write_methods(tmp_path / "methods.yaml", dict(spec["methods"]), spec["render"])
    assert [path.name for path in tmp_path.iterdir()] == ["methods.yaml"]
    text = (tmp_path / "methods.yaml").read_text(encoding="utf-8")
    assert text.startswith("# Effective settings") and "Öwn one" in text
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def _spec(plan: Plan) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(plan.spec("export_methods"))  # JSON is YAML
    return read


def test_rows_stand_in_table_order_with_their_label(plan: Plan, written: dict[str, Any]) -> None:
    assert list(written) == ["methods", "render"]
    assert list(written["methods"]) == plan.config.run.methods
    assert {name: row["label"] for name, row in written["methods"].items()} == {
        name: plan.config.methods[name].label for name in plan.config.run.methods
    }


def test_inherited_keys_and_defaults_are_filled_in(written: dict[str, Any]) -> None:
    notes, hybrid = written["methods"]["rag_slice_notes"], written["methods"]["agentrunbook_r_hybrid"]
    assert "inherits" not in notes
    assert notes["pools"] == ["note", "raw_state"] and notes["queries"] == "question"
    assert notes["top_k"] == TopK().model_dump() == {"raw_state": 6, "event": 6, "note": 3}
    assert notes["search"] == SearchSettings().model_dump() and notes["rerank"] is None
    assert hybrid["queries"] == "generated" and hybrid["question_type"] is True
    assert hybrid["pools"] == ["note", "event", "raw_state"]
    assert hybrid["search"] == {
        "vectors": "chunk",
        "full_text": True,
        "strip": True,
        "distinct": "window",
        "candidates": 200,
        "rrf_k": 60,
    }
    assert written["methods"]["no_retrieval"] == {
        "label": "No retrieval",
        "compare_with": [],
        "family": "none",
    }


def test_a_plugins_row_keeps_the_keys_of_the_configuration(written: dict[str, Any]) -> None:
    assert written["methods"]["own"] == {**PLUGIN, "path": None, "compare_with": []}


def test_what_is_written_can_be_configured_again(plan: Plan, written: dict[str, Any]) -> None:
    rows = {name: TypeAdapter(Method).validate_python(row) for name, row in written["methods"].items()}
    assert rows == {name: plan.config.methods[name] for name in plan.config.run.methods}
    assert RenderSettings.model_validate(written["render"]) == plan.config.render
