"""The paper's protocol (config/paper.yaml): its settings to the last number, and the jobs of its whole run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pipeline import Pipeline, job_counts, make_pipeline, merged
from unit.dataroot import make_data_root

from lmev2.config import Config, ConfigError, load_config
from lmev2.memory.settings import AgentMethod, NoneMethod, RagMethod, RenderSettings, SearchSettings, TopK

ROWS = [
    "no_retrieval",
    "rag_slice",
    "rag_slice_notes",
    "agentrunbook_r",
    "agentrunbook_r_no_raw",
    "agentrunbook_r_no_event",
    "agentrunbook_r_no_note",
]
AGENT_ROWS = {
    "codex": (),
    "agentrunbook_c": ("workflow", "manifest", "helper"),
    "agentrunbook_c_no_workflow": ("manifest", "helper"),
    "agentrunbook_c_no_manifest": ("workflow", "helper"),
    "agentrunbook_c_no_helper": ("workflow", "manifest"),
}


def layers(project: Path) -> list[dict[str, Any]]:
    """The default, and the paper's settings to be laid over it."""
    files = (project / "config.yaml", project / "config" / "paper.yaml")
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]


@pytest.fixture(scope="module")
def paper(project: Path) -> Config:
    """The checked settings. A data root stands in for the release, whose commit everybody names for themselves."""
    default, over = layers(project)
    return load_config({**merged(default, over), "data": {"root": "elsewhere", "hub": None}})


def test_the_release_must_be_pinned(project: Path) -> None:
    default, over = layers(project)
    with pytest.raises(ConfigError, match="full commit id"):
        load_config(merged(default, over))
    pinned = load_config(merged(default, merged(over, {"data": {"hub": {"revision": "0" * 40}}})))
    assert pinned.data.hub is not None and pinned.data.hub.repo == "xiaowu0162/longmemeval-v2"


def test_the_run_is_table_2_over_all_questions_of_both_tiers(paper: Config) -> None:
    assert (paper.run.methods, paper.run.tiers, paper.run.questions) == (
        [*ROWS, *AGENT_ROWS],
        ["small", "medium"],
        None,
    )
    assert (paper.shards.trajectories, paper.shards.questions, paper.errors.allow) == (64, 16, 0)


def test_the_reader_is_the_papers(paper: Config) -> None:
    reader = paper.models.reader
    assert (reader.backend, reader.model, reader.served_name) == ("openai", "Qwen3.5-9B", "Qwen/Qwen3.5-9B")
    assert reader.sampling.model_dump() == (
        {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 20_000, "seed": None}
    )
    assert (reader.context_tokens, reader.context_length) == (200_000, 262_144)
    assert (reader.thinking, reader.images, reader.reply_format) == (True, True, "free")
    assert reader.tokenizer == "Qwen/Qwen3.5-9B"  # tokens are counted with the reader's own
    assert (reader.file, reader.quantize, reader.script, reader.reasoning_effort) == (None,) * 4


def test_the_controller_is_the_papers(paper: Config, project: Path) -> None:
    controller = paper.models.controller
    assert (controller.backend, controller.model, controller.served_name) == (
        ("openai", "Qwen3.5-9B", "Qwen/Qwen3.5-9B")
    )
    assert controller.sampling.model_dump() == (
        {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 8192, "seed": None}
    )
    profile = yaml.safe_load((project / "profiles" / "default" / "profile.yaml").read_text(encoding="utf-8"))
    jobs = next(int(entry.removeprefix("llm=")) for entry in profile["resources"] if entry.startswith("llm="))
    at_once = jobs * controller.concurrency
    assert (controller.timeout_s, controller.retries, at_once) == (600, 3, 16)
    # Events and repair calls switch thinking off, which takes a role that has it.
    assert (controller.thinking, controller.images, controller.context_length) == (True, True, 262_144)


def test_the_judge_is_the_papers(paper: Config) -> None:
    judge = paper.models.judge
    assert (judge.backend, judge.model, judge.reasoning_effort) == ("openai", "gpt-5.2", "medium")
    assert judge.sampling.model_dump() == (
        {"temperature": None, "top_p": None, "top_k": None, "max_tokens": 4096, "seed": None}
    )
    assert (judge.label_attempts, judge.json_mode, judge.thinking) == (3, "object", None)
    assert (judge.file, judge.quantize, judge.script) == (None,) * 3


def test_the_embedder_is_the_papers(paper: Config) -> None:
    embedder = paper.models.embedder
    assert (embedder.backend, embedder.model, embedder.served_name, embedder.tokenizer) == (
        "openai",
        "Qwen3-Embedding-8B",
        "Qwen/Qwen3-Embedding-8B",
        "Qwen/Qwen3-Embedding-8B",
    )
    assert (embedder.max_tokens, embedder.max_chars, embedder.dimension) == (4096, 40_000, 4096)
    assert embedder.query_instruction.strip().endswith(".") and "\n" not in embedder.query_instruction
    assert not embedder.matryoshka


def test_the_coding_agent_is_the_papers(paper: Config, project: Path) -> None:
    agent = paper.models.agent
    assert (agent.agent, agent.version, agent.model, agent.reasoning_effort) == (
        ("codex", "0.117.0", "gpt-5.4-mini", "xhigh")
    )
    assert (agent.attempt_s, agent.attempts, agent.max_states, agent.isolation) == (1800, 3, 20, "bubblewrap")
    assert agent.endpoint == "LMEV2_AGENT"
    rows = {name: paper.methods[name] for name in AGENT_ROWS}
    assert all(isinstance(row, AgentMethod) and row.reasoning_effort is None for row in rows.values())
    assert {name: getattr(row, "parts", None) for name, row in rows.items()} == AGENT_ROWS
    assert [row.label for row in rows.values()] == (
        ["Codex", "AgentRunbook-C", "- workflow", "- manifest artifacts", "- helper functions"]
    )
    profile = yaml.safe_load((project / "profiles" / "default" / "profile.yaml").read_text(encoding="utf-8"))
    assert "codex=3" in profile["resources"]


def test_roles_have_addresses_of_their_own(paper: Config) -> None:
    models = paper.models
    assert [models.reader.endpoint, models.controller.endpoint, models.judge.endpoint, models.embedder.endpoint] == (
        ["LMEV2_READER", "LMEV2_CONTROLLER", "LMEV2_JUDGE", "LMEV2_EMBEDDER"]
    )


def test_pools_and_contexts_are_the_papers(paper: Config) -> None:
    assert (paper.pools.slice_radius, paper.pools.event.retry_tree_chars) == (1, 12_000)
    assert paper.pools.note.reply_chars is paper.pools.event.reply_chars is None
    assert paper.render.mode == RenderSettings().mode == "full"


def test_goals_of_the_release_are_only_checked(paper: Config) -> None:
    assert paper.goals.mode == "check"


def test_every_row_searches_as_the_paper_does(paper: Config) -> None:
    rows = {name: paper.methods[name] for name in ROWS}
    assert rows.pop("no_retrieval") == NoneMethod(family="none", label="No retrieval")
    pools: dict[str, Sequence[str]] = {}
    for name, row in rows.items():
        assert isinstance(row, RagMethod)
        assert row.search == SearchSettings() and row.rerank is None
        assert row.top_k == TopK(raw_state=6, event=6, note=3)
        assert row.queries == ("generated" if name.startswith("agentrunbook") else "question")
        assert row.question_type is True
        pools[name] = row.pools
    assert pools == {
        "rag_slice": ("raw_state",),
        "rag_slice_notes": ("note", "raw_state"),
        "agentrunbook_r": ("note", "event", "raw_state"),
        "agentrunbook_r_no_raw": ("note", "event"),
        "agentrunbook_r_no_event": ("note", "raw_state"),
        "agentrunbook_r_no_note": ("event", "raw_state"),
    }
    assert [paper.methods[name].label for name in ROWS] == [
        "No retrieval",
        "RAG: query -> slice",
        "RAG: query -> slice + notes",
        "AgentRunbook-R",
        "- raw slice pool",
        "- event pool",
        "- note pool",
    ]


def test_the_papers_search_is_the_slices_beginning_and_nothing_else() -> None:
    assert SearchSettings().model_dump(exclude={"candidates", "rrf_k"}) == (
        {"vectors": "slice", "full_text": False, "strip": False, "distinct": "none"}
    )


def dry_run(pipeline: Pipeline, *files: Path) -> str:
    """What a dry run prints with several configuration files, the last of which wins; no endpoint is known."""
    env = {name: value for name, value in pipeline.env.items() if not name.startswith("LMEV2")}
    command = [*pipeline.command("-n", "-q", "rules")[:-1], *map(str, files)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.mark.parametrize("tiers", [["small"], ["small", "medium"]], ids="+".join)
def test_the_jobs_of_the_papers_run(project: Path, tmp_path: Path, tiers: list[str]) -> None:
    make_data_root(tmp_path / "data")
    here = {"data": {"root": str(tmp_path / "data"), "hub": None}, "cache": str(tmp_path / "cache")}
    pipeline = make_pipeline(project, tmp_path, {**here, "run": {"tiers": tiers}})
    output = dry_run(pipeline, project / "config" / "paper.yaml", pipeline.overlay)
    shards, pools, asked, agents = 64, 4, len(ROWS) * len(tiers) * 16, len(AGENT_ROWS) * len(tiers) * 16
    once = (
        "prepare_screenshots",
        "ingest_dataset",
        "apply_goals",
        "select_questions",
        "collect_scores",
        "export_table2",
        "export_evidence",
        "export_origins",
        "export_methods",
        "export_agents",
        "export_comparisons",
        "export_shares",
        "export_latencies",
        "export_lafs",
        "export_paper_check",
        "export_table1",
        "export_statistics",
        "export_table6",
        "plot_table2",
        "plot_frontier",
        "plot_latency",
        "plot_evidence",
        "plot_tokens",
        "plot_errors",
        "plot_statistics",
        "build_report",
        "write_provenance",
        "all",
    )
    assert job_counts(output) == {
        **dict.fromkeys(once, 1),
        "sanitize_goals": shards,
        "count_tokens": shards,
        "build_raw_state": shards,
        "generate_note": shards,
        "generate_event": shards,
        "embed_pool": pools * shards,
        "index_pool": pools,
        "build_agent_pool": shards,
        "query_memory": asked,
        "query_agent_memory": agents,
        "read_answers": asked + agents,
        "score_answers": asked + agents,
    }
