"""What estimates know of data, prices and tokenizers, what they assume, and what they say of data that is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from costworld import MODEL, calls, make_plan, run, stage
from dataroot import make_data_root

from lmev2.costs.assumptions import NAMES, AssumptionError, Assumptions, parse_assumptions, told_by
from lmev2.costs.stages import Work, hours, money
from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset
from lmev2.job_specs import SPECS
from lmev2.models.settings import EmbedderSettings, ReaderSettings


def test_an_ingested_run_and_its_data_root_give_the_same(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", unused=2)
    plan = make_plan(project, root.path)
    before = run(plan)
    ingest_dataset(root.path, Path(plan.results, "data"), ("small",))
    after = run(plan)
    assert "tables" in after.facts.source and "tables" not in before.facts.source
    assert {one.name: one.work for one in after.stages} == {one.name: one.work for one in before.stages}
    root.edit_line("questions.jsonl", 1, lambda one: one.update(question=one["question"] + " Now."))
    assert "tables" not in run(plan).facts.source  # another file than was ingested


def test_without_trajectories_they_are_made_up(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", trajectories=6)
    (root.path / "trajectories.jsonl").unlink()
    plan = make_plan(project, root.path)
    found = run(plan, states_per_trajectory=11)
    used = {name for names in root.haystacks("small").values() for name in names}
    assert not found.facts.known and calls(found)["Notes"] == len(used)
    assert calls(found)["Events"] == 10 * len(used)
    twice = run(plan, states_per_trajectory=11, tree_chars=42_000)
    assert 1.5 < stage(twice, "Events").work.prompt / stage(found, "Events").work.prompt < 2


@pytest.mark.parametrize(
    ("settings", "expected_hours", "expected_money"),
    [
        ({}, None, None),
        ({"throughput": {"prompt": 1000, "completion": 100, "gpus": 2}}, 2 * (3600 + 7200) / 3600, 0.0),
        ({"price": {"input": 1, "cached_input": 0.1, "output": 10}}, 0.0, 2.6 + 0.1 + 7.2),
    ],
)
def test_hours_and_money(settings: dict[str, Any], expected_hours: float | None, expected_money: float | None) -> None:
    work = Work(10, 3_600_000, 1_000_000, 720_000)
    reader = ReaderSettings(backend="openai", model="m", tokenizer="t", context_length=300_000, **settings)
    found = hours(work, reader), money(work, reader)
    assert found == (pytest.approx(expected_hours), pytest.approx(expected_money))


def test_a_local_embedder_costs_nothing() -> None:
    assert hours(Work(1, 1), EmbedderSettings(backend="wordllama", model="m")) == 0.0
    assert money(Work(1, 1), EmbedderSettings(backend="wordllama", model="m")) == 0.0


def test_estimating_settings_change_no_params(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root").path
    rate = {"throughput": {"prompt": 1, "completion": 1}, "price": {"input": 1, "cached_input": 1, "output": 1}}
    plain = make_plan(project, root)
    priced = make_plan(project, root, models=dict.fromkeys(("reader", "judge", "controller", "embedder"), rate))
    for role in ("reader", "judge", "controller", "embedder"):
        assert plain.role(role) == priced.role(role)
        assert priced.model_settings(role).price.known()
        assert priced.model_settings(role).throughput.known()


def test_what_a_price_writes_anew(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root").path
    price = {"price": {"input": 1, "cached_input": 1, "output": 1}}
    other = {**MODEL, "model": "other", "tokenizer": "t/t", "context_tokens": 1000}

    def changed(roles: tuple[str, ...], reader: dict[str, Any], method: str) -> set[str]:
        pilots = {"readers": {"other": other}, "table6": {"readers": ["other"]}}
        priced = {"readers": {"other": other | reader}, "table6": {"readers": ["other"]}}
        rows = {"methods": [method]}
        plain = make_plan(project, root, pilots=pilots, run=rows)
        more = make_plan(project, root, pilots=priced, run=rows, models=dict.fromkeys(roles, price))
        wildcards = {"method": method, "tier": "small", "reader": "other", "context": "no_context", "judge": "second"}
        wildcards |= {"shard": "0of1", "qshard": "0of1", "pool": "event"}
        skipped = {"judge_again", "query_agent_memory" if method == "rag_slice" else "query_memory"}
        return {rule for rule in set(SPECS) - skipped if plain.spec(rule, wildcards) != more.spec(rule, wildcards)}

    assert changed(("reader", "judge", "controller", "embedder"), {}, "rag_slice") == set()
    assert changed((), price, "rag_slice") == {"export_table6"}
    assert changed(("agent",), {}, "rag_slice") == set()
    assert changed(("agent",), {}, "codex") == {"collect_scores", "write_provenance"}
    told = " ".join((project / "docs" / "cost.md").read_text(encoding="utf-8").split())
    assert (
        "with coding agents, writes `metrics.duckdb` and all tables anew; one of a pilot reader writes table 6" in told
    )


def test_half_a_throughput_is_refused() -> None:
    with pytest.raises(ValueError, match="a throughput needs prompt and completion"):
        ReaderSettings(backend="scripted", model="m", throughput={"prompt": 5})  # type: ignore[arg-type]


def test_assumptions_are_named_explained_and_checked() -> None:
    assert all(len(told_by(name)) > 10 for name in NAMES)
    assert parse_assumptions([("tree_chars", "5"), ("tree_chars", "7")]).tree_chars == 7
    for pair, text in ((("nothing", "1"), "there is no assumption nothing"), (("raw_queries", "9"), "raw_queries=9")):
        with pytest.raises(AssumptionError, match=text):
            parse_assumptions([pair])


def test_the_official_tokens_of_table_1_come_out_of_the_assumptions(project: Path, tmp_path: Path) -> None:
    from lmev2.costs.facts import made_up
    from lmev2.models.settings import ImageTokenSettings
    from lmev2.models.tokens import image_tokens

    assumed = Assumptions()
    one = made_up("x", assumed)
    tokens = sum(
        state.tree / assumed.tree_chars_per_token
        + (state.url + state.action + state.thought) / assumed.chars_per_token
        + image_tokens(*(state.image or (1, 1)), ImageTokenSettings())
        for state in one.states
    )
    assert 498 * tokens == pytest.approx(115e6, rel=0.05)
    assert 100 * tokens == pytest.approx(25e6, rel=0.1)


@pytest.mark.parametrize("gone", ["questions.jsonl", "haystacks/lme_v2_small.json"])
def test_a_root_without_what_is_needed_is_refused(project: Path, tmp_path: Path, gone: str) -> None:
    root = make_data_root(tmp_path / "root").path
    (root / gone).unlink()
    with pytest.raises(DataError, match=f"lacks {gone}"):
        run(make_plan(project, root))


def test_bad_lines_and_lost_trajectories_are_named(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    lines = root.lines("trajectories.jsonl")
    (root.path / "trajectories.jsonl").write_bytes(b"\n".join(lines[:-1]))
    with pytest.raises(DataError, match="found no line for 1 trajectories"):
        run(make_plan(project, root.path))
    root.replace_line("questions.jsonl", 3, b'{"id": 7}\n')
    with pytest.raises(DataError, match=r"questions\.jsonl, line 3"):
        run(make_plan(project, root.path))
