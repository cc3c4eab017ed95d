"""The pilots' configuration: what it refuses, whom it asks, and the paper's overlay."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pipeline import merged
from unit.dataroot import make_data_root

from lmev2.config import ConfigError, load_config
from lmev2.models.settings import ReaderSettings
from lmev2.pilots.settings import model_name, published_name
from lmev2.pilots.specs import check_reader_labels
from lmev2.plan import Plan
from lmev2.tables.export import read_table

LOOP = {"agent": {"agent": "loop", "backend": "openai", "model": "m"}}


def load(project: Path, *files: str) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for name in ("config.yaml", *files):
        raw = merged(raw, yaml.safe_load((project / name).read_text(encoding="utf-8")))
    return raw


def reader(**values: Any) -> dict[str, Any]:
    return {"backend": "openai", "model": "other-1", "context_tokens": 0, **values}


@pytest.mark.parametrize(
    ("pilots", "message"),
    [
        ({"readers": {"reader": reader()}}, r"\['reader'\] are names of roles"),
        ({"readers": {"agent": reader()}}, r"\['agent'\] are names of roles"),
        ({"readers": {"../x": reader()}}, r"pilots\.readers.*match pattern"),
        ({"readers": {"other": reader(temperature=1)}}, r"pilots\.readers\.other\.temperature: Extra inputs"),
        ({"readers": {"other": reader(price={"input": 1.0})}}, "a price needs input, cached_input and output"),
        ({"readers": {"other": reader(context_tokens=100)}}, "needs `tokenizer` to count context tokens"),
        ({"figure4": {"readers": ["other"]}}, r"figure4\.readers names \['other'\], but there are only \['reader'\]"),
        ({"table6": {"readers": ["other"]}}, r"table6\.readers names \['other'\]"),
        ({"table6": {"readers": ["reader", "reader"]}}, "names something twice"),
        ({"figure4": {"contexts": ["oracle"]}}, r"pilots\.figure4\.contexts\.0: Input should be"),
        ({"figure4": {"contexts": []}}, r"pilots\.figure4\.contexts"),
        ({"figure4": {"readers": []}}, "one without the other has no effect"),
        ({"figure4": {"contexts": ["oracle_trajectory_files"]}}, "one without the other has no effect"),
        ({"figure4": {"beside": ["rag_slyce"]}}, r"pilots\.figure4\.beside names \['rag_slyce'\]"),
        (
            {"readers": {"other": reader()}, "figure4": {"readers": ["reader", "other"]}},
            r"\['other'\] have context_tokens 0",
        ),
        (
            {"figure4": {"contexts": ["no_context", "oracle_trajectory_files"]}},
            r"models\.agent is 'search', works without a model and cannot answer",
        ),
    ],
)
def test_impossible_studies_are_refused(project: Path, pilots: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(merged(load(project), {"pilots": pilots}))


def test_the_default_asks_the_runs_reader_about_what_needs_no_agent(project: Path) -> None:
    config = load_config(load(project))
    contexts = ("no_context", "oracle_trajectories", "oracle_slices_notes")
    assert config.pilots.figure4.cells() == [("reader", context) for context in contexts]
    assert config.pilots.table6.cells() == [] and config.pilots.asked() == ["reader"]


def test_files_are_the_agents_and_asked_once(project: Path) -> None:
    contexts = ["oracle_trajectory_files", "no_context"]
    pilots = {"readers": {"other": reader()}, "figure4": {"readers": ["reader", "other"], "contexts": contexts}}
    config = load_config(merged(load(project), {"pilots": pilots, "models": LOOP}))
    assert config.pilots.figure4.cells() == (
        [("reader", "no_context"), ("other", "no_context"), ("agent", "oracle_trajectory_files")]
    )
    only = {"figure4": {"readers": [], "contexts": ["oracle_trajectory_files"]}}
    alone = load_config(merged(load(project), {"pilots": only, "models": LOOP}))
    assert alone.pilots.figure4.cells() == [("agent", "oracle_trajectory_files")]


def test_the_papers_overlay_has_the_readers_of_figure_4_and_table_6(project: Path) -> None:
    raw = load(project, "config/paper.yaml", "config/pilots.yaml")
    config = load_config({**raw, "data": {"root": "elsewhere", "hub": None}})
    plan = Plan(config, project)
    cells = json.loads(plan.spec("export_figure4"))["cells"]
    figure4 = read_table(project / "resources/paper/figure4.csv")
    names = list(dict.fromkeys(row["reader"] for row in figure4))
    ours = [(published_name(cell["name"], names), cell["context"]) for cell in cells]
    assert ours == [(row["reader"], row["context"]) for row in figure4]  # every published row has one of ours
    table6 = read_table(project / "resources/paper/table6.csv")
    assert [cell["label"] for cell in json.loads(plan.spec("export_table6"))["cells"]] == (
        [row["model"] for row in table6]
    )
    mini = config.pilots.readers["gpt_5_4_mini"]
    assert (mini.context_tokens, mini.reasoning_effort, mini.images) == (200_000, "medium", True)


def test_a_model_is_called_what_its_settings_are() -> None:
    settings = ReaderSettings(backend="openai", model="qwen3.5-9b", context_tokens=0, context_length=30_000)
    assert model_name(settings) == "qwen3.5-9b"
    thinking = settings.model_copy(update={"thinking": True})
    assert model_name(thinking) == "qwen3.5-9b (thinking)"
    assert (
        model_name(settings.model_copy(update={"reasoning_effort": "xhigh"}), "codex") == "Codex + qwen3.5-9b (xhigh)"
    )
    published = ["Qwen3.5-9B (thinking)", "GPT-5.4-mini (medium)"]
    assert published_name(model_name(thinking), published) == "Qwen3.5-9B (thinking)"
    assert published_name(model_name(settings), published) is None  # another way of asking is another reader


@pytest.mark.parametrize(
    ("readers", "study", "message"),
    [
        ({"a": {}, "b": {}}, {"figure4": ["a", "b"]}, r"pilots\.figure4: .*'other-1' of a, b\. Set `label`"),
        ({"a": {}, "b": {"label": "other-1"}}, {"table6": ["b", "a"]}, r"pilots\.table6: .*'other-1' of b, a"),
        ({"a": {"label": "OWN"}}, {"figure4": ["reader", "a"]}, "'OWN' of reader, a"),
        ({"a": {"label": "OWN"}}, {"figure4": ["a"]}, "'OWN' of a, reader"),  # whose methods stand beside it
        ({"a": {}, "b": {"label": "B"}}, {"figure4": ["a", "b"], "table6": ["a", "b", "reader"]}, None),
        ({"a": {}, "b": {"reasoning_effort": "low"}}, {"figure4": ["a", "b"]}, None),
        ({"a": {}, "b": {}}, {"figure4": ["a"], "table6": ["b"]}, None),  # two tables
    ],
)
def test_readers_of_a_study_have_labels_of_their_own(
    project: Path, readers: dict[str, Any], study: dict[str, list[str]], message: str | None
) -> None:
    raw = load(project)
    own = model_name(load_config(raw).models.reader)
    values = {name: {**more, "label": own} if more.get("label") == "OWN" else more for name, more in readers.items()}
    pilots = {"readers": {name: reader(**more) for name, more in values.items()}}
    pilots |= {name: {"readers": chosen} for name, chosen in study.items()}
    pilots["figure4"] = {"contexts": ["no_context"], **pilots.get("figure4", {})}
    plan = Plan(load_config(merged(raw, {"pilots": pilots})), project)
    if message is None:
        check_reader_labels(plan)
    else:
        with pytest.raises(ConfigError, match=message.replace("OWN", re.escape(own))):
            check_reader_labels(plan)


def test_settings_of_a_reader_reach_its_own_jobs_only(project: Path) -> None:
    def plan(**values: Any) -> Plan:
        local = {**load(project)["models"]["reader"], "model": "other", **values}
        pilots = {
            "readers": {"other": local},
            "figure4": {"readers": ["reader", "other"]},
            "table6": {"readers": ["other"]},
        }
        return Plan(load_config(merged(load(project), {"pilots": pilots})), project)

    def specs(one: Plan, who: str) -> dict[str, str]:
        wildcards = {"reader": who, "context": "oracle_slices_notes", "qshard": "0of1"}
        rules = (
            "build_oracle_contexts",
            "read_pilot_answers",
            "score_pilot_answers",
            "export_figure4",
            "export_table6",
        )
        return {rule: one.spec(rule, wildcards) for rule in rules}

    def changed(who: str = "other", **values: Any) -> set[str]:
        before, after = specs(plan(), who), specs(plan(**values), who)
        return {rule for rule in before if before[rule] != after[rule]}

    assert changed(context_tokens=900) == {"build_oracle_contexts", "read_pilot_answers"}
    assert changed(reply_format="free") == {"read_pilot_answers"}
    assert changed(price={"input": 1.0, "cached_input": 1.0, "output": 2.0}) == {"export_table6"}
    assert changed(label="Named") == {"export_figure4", "export_table6"}
    assert changed(concurrency=3, retries=1, endpoint="OTHER", timeout_s=5) == set()
    assert changed("reader", context_tokens=900, reply_format="free") == set()
    spec = json.loads(plan(label="Named").spec("read_pilot_answers", {"reader": "other", "context": "no_context"}))
    settings = ReaderSettings.model_validate(plan(concurrency=3).role_settings(spec["pilot"], spec["reader"]))
    assert (settings.model, settings.concurrency) == ("other", 3)


def test_missing_labels_are_told_of_where_the_data_are_there(project: Path, tmp_path: Path) -> None:
    def plan(root: Path) -> Plan:
        return Plan(load_config(merged(load(project), {"data": {"root": str(root)}})), project)

    make_data_root(tmp_path / "bare", evidence=False)
    with pytest.raises(ConfigError, match=r"bare has no evidence\.jsonl.*docs/pilots\.md"):
        plan(tmp_path / "bare").check_evidence()
    plan(tmp_path / "not_fetched_yet").check_evidence()
    make_data_root(tmp_path / "whole")
    plan(tmp_path / "whole").check_evidence()
