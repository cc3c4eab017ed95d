"""Estimated calls about questions: queries, reranking, answers, verdicts, coding agents."""

from __future__ import annotations

from pathlib import Path

import pytest
from costworld import MODEL, calls, make_plan, run, stage
from dataroot import make_data_root

from lmev2.config import load_config
from lmev2.costs.stages import Work
from lmev2.plan import Plan


def test_counts_follow_methods_tiers_and_questions(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", trajectories=6, states=4, questions=14)
    plan = make_plan(project, root.path, run={"tiers": ["small", "medium"]})
    found = run(plan)
    judged = sum("llm_" in one["eval_function"] for one in root.questions)
    # Of 14 questions, those whose small haystack is the medium one, in its order, are asked of a method once.
    small, medium = root.haystacks("small"), root.haystacks("medium")
    same = [name for name in small if small[name] == medium[name]]
    alike = [name for name in small if set(small[name]) == set(medium[name])]
    assert calls(found) == {
        "Notes": 6,
        "Events": 6 * 3,
        "Embedding of pools": 6 * 2 + 6 * 3 + 6 * 4,
        "Query generation": 2 * 14 - len(alike),
        "Query embedding": len({one["question"] for one in root.questions}) + 5 * (2 * 14 - len(alike)) + 1,
        "Reader": 14 + 3 * (2 * 14 - len(same)),
        "Judge": judged + 3 * sum(2 - (one["id"] in same) for one in root.questions if "llm_" in one["eval_function"]),
    }
    assert len(alike) < 14


def test_rows_that_differ_in_search_alone_share_their_generated_queries(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    rows = ["agentrunbook_r", "agentrunbook_r_hybrid", "agentrunbook_r_no_event"]
    found = run(make_plan(project, root.path, run={"methods": rows}))
    assert calls(found)["Query generation"] == 2 * 14
    # Queries of the hybrid row are searched without what its `strip` takes away.
    assert calls(found)["Query embedding"] == 14 * (5 + 5 + 4) + 1


def test_rules_call_no_model_and_their_queries_are_known(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    plan = make_plan(project, root.path)
    raw = plan.config.model_dump(mode="json")
    raw["models"]["controller"] = {"backend": "rules"}
    found = run(Plan(load_config(raw), project))
    assert not {"Notes", "Events", "Query generation"} & calls(found).keys()
    assert found.insertion is None and 14 < calls(found)["Query embedding"] < 14 * 8


def test_reranking_asks_at_most_about_every_block(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    plan = make_plan(
        project, root.path, methods={"agentrunbook_r": {"rerank": {}}}, run={"methods": ["agentrunbook_r"]}
    )
    assert calls(run(plan))["Reranking"] == 14 * 4


def test_reranking_asks_about_blocks_of_more_than_one(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root").path

    def parts(**rerank: int) -> dict[str, Work]:
        one = {"top_k": {"note": 1, "event": 1, "raw_state": 1}, "rerank": rerank}
        rows = {"agentrunbook_r": one, "rag_slice_notes": one}
        found = run(make_plan(project, root, methods=rows, run={"methods": list(rows)}))
        return {name: work for one in found.stages if one.name == "Reranking" for name, work in one.parts.items()}

    # Each of three queries adds one state of its own; the question as the only query has no second one.
    three, two = parts(), parts(candidates=2)
    assert list(three) == list(two) == ["agentrunbook_r"]
    assert three["agentrunbook_r"].calls == two["agentrunbook_r"].calls == 14
    assert three["agentrunbook_r"].prompt > two["agentrunbook_r"].prompt
    assert parts(candidates=1) == {}


def test_repeats_and_further_judges_ask_for_more_verdicts(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    judge = {**MODEL, "model": "other", "sampling": {"max_tokens": 100}}
    plan = make_plan(project, root.path, models={"judge": {"repeats": 3}}, judges={"second": judge})
    found = calls(run(plan))
    judged = sum("llm_" in one["eval_function"] for one in root.questions)
    assert (found["Judge"], found["Judge second"]) == (4 * 3 * judged, 4 * judged)


def test_coding_agents_take_published_latencies(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    agent = {"agent": "loop", "backend": "openai", "model": "agent"}
    plan = make_plan(project, root.path, models={"agent": agent}, run={"methods": ["codex", "agentrunbook_c"]})
    found = run(plan, agent_requests=10, agent_prompt_tokens=1000, agent_cached_share=0.5, agent_tokens_per_s=2)
    parts = stage(found, "Coding agents").parts
    assert parts["codex"].calls == 140 and parts["codex"].prompt == 14 * 10 * 1000 == 2 * parts["codex"].cached
    assert parts["codex"].completion == pytest.approx(14 * 177.2 * 2)
    assert parts["agentrunbook_c"].completion == pytest.approx(14 * 108.3 * 2)
    assert found.agent_hours == pytest.approx(14 * (177.2 + 108.3) / 3600)


def test_coding_agents_are_asked_about_files_for_unflawed_questions(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    agent = {"agent": "loop", "backend": "openai", "model": "agent"}
    pilots = {"figure4": {"readers": [], "contexts": ["oracle_trajectory_files"]}}
    found = run(make_plan(project, root.path, models={"agent": agent}, pilots=pilots), pilots=True)
    unflawed = sum(not one["question_type"].endswith("-abs") for one in root.questions)
    assert 0 < unflawed < 14 and found.agent_hours == pytest.approx(unflawed * 177.2 / 3600)
    assert stage(found, "Pilots: agent").work.calls == 20 * unflawed


def test_pilots_are_counted_when_they_are_asked_for(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    plan = make_plan(project, root.path)
    plain, more = calls(run(plan)), calls(run(plan, pilots=True))
    unflawed = [one for one in root.questions if not one["question_type"].endswith("-abs")]
    # Answers without context are those of the row without memory.
    assert more["Pilots: reader"] == 2 * len(unflawed) and "Pilots: reader" not in plain
    judged = sum("llm_" in one["eval_function"] for one in unflawed)
    assert more["Judge"] - plain["Judge"] == 2 * judged


def test_contexts_keep_to_the_readers_budget(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    (root.path / "trajectories.jsonl").unlink()
    sizes = {}
    for budget in (100, 5000, 200_000):
        models = {"reader": {"context_tokens": budget, "context_length": 262_144, "images": False}}
        plan = make_plan(project, root.path, render={"mode": "full"}, models=models)
        sizes[budget] = stage(run(plan), "Reader").parts["rag_slice"].prompt / 14
    assert sizes[100] < 500 and 4500 < sizes[5000] < 5600
    # Six slices of three states.
    assert 6 * 3 * 7_000 * 0.9 < sizes[200_000] < 200_000
