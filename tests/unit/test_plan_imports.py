"""What imported runs and run folders ask of the plan."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.dataroot import make_data_root
from unit.harnessworld import make_world

from lmev2.config import ConfigError, load_config
from lmev2.interchange.domains import sampled_domains
from lmev2.interchange.importing import import_runs
from lmev2.plan import Plan


def make_plan(project: Path, root: Path | None = None, **run: Any) -> Plan:
    raw = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    raw["run"] |= {"methods": ["no_retrieval", "rag_slice"], **run}
    if root is not None:
        raw["data"]["root"] = str(root)
    return Plan(load_config(raw), project)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """An import folder of the domain web."""
    (web,) = make_world(tmp_path / "world", 31).export(tmp_path / "runs", "web")
    import_runs([web], "theirs", "Their memory", None, tmp_path / "imports" / "theirs")
    return tmp_path / "imports" / "theirs"


def test_imports_are_rows_after_those_of_the_run(project: Path, theirs: Path) -> None:
    plan = make_plan(project, imports=[str(theirs)], tiers=["medium", "small"])
    own = [(method, tier) for method in ("no_retrieval", "rag_slice") for tier in ("medium", "small")]
    assert plan.cells() == [*own, ("theirs", "small")]
    assert plan.import_of("theirs", "medium") is None and plan.import_of("rag_slice", "small") is None
    spec = json.loads(plan.spec("collect_scores"))
    assert spec["methods"][-1] == {"method": "theirs", "label": "Their memory", "family": "imported"}
    assert [row["method"] for row in spec["methods"]] == ["no_retrieval", "rag_slice", "theirs"]


def test_an_import_that_does_not_fit_is_a_configuration_error(project: Path, theirs: Path) -> None:
    with pytest.raises(ConfigError, match=r"is of tier 'small', but run\.tiers is \['medium'\]"):
        assert make_plan(project, imports=[str(theirs)], tiers=["medium"]).imports
    with pytest.raises(ConfigError, match=r"is no import folder: it lacks import\.json"):
        assert make_plan(project, imports=["imports/nowhere"]).imports


def test_an_exports_settings_are_those_of_its_method(project: Path, theirs: Path) -> None:
    plan = make_plan(project, imports=[str(theirs)])

    def spec(method: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(plan.spec("export_harness_run", {"method": method, "tier": "small"}))
        return value

    assert set(spec("no_retrieval")["models"]) == {"reader", "judge"}
    assert set(spec("rag_slice")["models"]) == {"reader", "judge", "embedder"}
    assert "models" not in spec("theirs") and "method" not in spec("theirs")
    raw = copy.deepcopy(plan.config.model_dump(mode="json", by_alias=True))
    raw["interchange"]["prompt_messages"] = False
    short = Plan(load_config(raw), project)
    wildcards = {"method": "rag_slice", "tier": "small"}
    assert json.loads(short.spec("export_harness_run", wildcards))["prompt_messages"] is False


def test_only_domains_with_questions_have_run_folders(project: Path, theirs: Path, tmp_path: Path) -> None:
    make_data_root(tmp_path / "data", questions=14)
    path = tmp_path / "data" / "questions.jsonl"
    plan = make_plan(project, tmp_path / "data", imports=[str(theirs)], questions=None)
    assert plan.domains("rag_slice", "small") == ["enterprise", "web"]
    assert plan.domains("theirs", "small") == ["web"]  # nothing else was imported
    one = sampled_domains(path, 1, 0)
    assert len(one) == 1 and {tuple(sampled_domains(path, 1, seed)) for seed in range(9)} == {("enterprise",), ("web",)}
    lines = [line for line in path.read_text().splitlines() if json.loads(line)["domain"] == "web"]
    path.write_text("\n".join(lines) + "\n")
    assert sampled_domains(path, None, 0) == ["web"]
    # What is not there yet, or not readable, is the ingestion's to judge.
    assert sampled_domains(tmp_path / "nothing.jsonl", None, 0) == ["enterprise", "web"]
    path.write_text("{\n")
    assert sampled_domains(path, None, 0) == ["enterprise", "web"]
