"""Estimates against what the workflow's own functions ask, and what they say of data that is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from dataroot import make_data_root

from lmev2.config import load_config
from lmev2.costs.assumptions import NAMES, AssumptionError, Assumptions, parse_assumptions, told_by
from lmev2.costs.estimate import Estimate, estimate
from lmev2.costs.read import read_facts
from lmev2.costs.stages import Stage, Work, hours, money
from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.goals.model import sanitize_by_model
from lmev2.models.settings import ControllerSettings, EmbedderSettings, ReaderSettings
from lmev2.models.types import ChatReply, ChatRequest, ImagePart, TextPart
from lmev2.plan import Plan
from lmev2.pools.controller import Controller
from lmev2.pools.embed import embedding_rows
from lmev2.pools.event_jobs import event_entries
from lmev2.pools.note_jobs import note_entries
from lmev2.pools.raw_state import raw_state_entries
from lmev2.pools.settings import EventSettings, NoteSettings
from lmev2.pools.state_chunk import state_chunk_entries
from lmev2.prompts import load_prompt

MODEL = {"backend": "openai", "file": None, "quantize": None}
FACTOR = 1.1  # between estimated and real tokens


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


@pytest.fixture(scope="module")
def minibench(project: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The shipped data root, and its tables."""
    root, out = project / "resources" / "minibench", tmp_path_factory.mktemp("tables")
    ingest_dataset(root, out, ("small",))
    return root, out


@pytest.fixture(scope="module")
def store(minibench: tuple[Path, Path]) -> Iterator[StateStore]:
    _, tables = minibench
    with StateStore(tables / "states.parquet", tables / "trajectories.parquet") as store:
        yield store


@dataclass
class Counting:
    """A chat model that replies well and remembers the requests."""

    reply: str
    model: str = "writer"
    supports_images: bool = True
    requests: list[ChatRequest] = field(default_factory=list)

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        return ChatReply(self.reply, 1, 1, 0.0, self.model, "stop")

    def sizes(self) -> tuple[int, int]:
        """Characters and images of all prompts."""
        parts = [part for one in self.requests for message in one.messages for part in message.parts]
        return sum(len(part.text) for part in parts if isinstance(part, TextPart)), sum(
            isinstance(part, ImagePart) for part in parts
        )


def controller(project: Path, name: str, chat: Counting) -> Controller:
    settings = ControllerSettings(backend="openai", model="writer", images=True)
    prompt = load_prompt(project / "workflow" / "prompts" / f"{name}.md")
    return Controller(chat, settings, prompt)  # type: ignore[arg-type]


NOTE = {"title": "a", "description": "b", "content": "c"}
NOTES = json.dumps({"procedure_note": NOTE, "hint_note": NOTE})
EVENT = json.dumps({"overview": "a", "state_transition": "b"})


def as_real(found: Stage, chat: Counting, ratio: float) -> float:
    """Estimated tokens of text over real ones, images apart."""
    chars, images = chat.sizes()
    return (found.work.prompt - 882 * images) / (chars / ratio)  # of 1280 x 720 pixels


def test_notes_and_events_are_as_many_and_as_long_as_the_jobs_requests(
    project: Path, minibench: tuple[Path, Path], store: StateStore
) -> None:
    # One ratio for all texts, so that estimated and real tokens differ by characters alone.
    found = run(make_plan(project, minibench[0]), chars_per_token=4, tree_chars_per_token=4)
    notes, events = Counting(NOTES), Counting(EVENT)
    quiet = lambda done, total: None  # noqa: E731
    note_entries(store.trajectory_ids, store, controller(project, "note", notes), NoteSettings(), quiet)
    event_entries(store.trajectory_ids, store, controller(project, "event", events), EventSettings(), quiet)
    for name, chat in (("Notes", notes), ("Events", events)):
        assert stage(found, name).work.calls == len(chat.requests) > 10
        assert 1 / FACTOR < as_real(stage(found, name), chat, 4) < FACTOR


def test_embedded_texts_are_the_distinct_ones_of_the_jobs(
    project: Path, minibench: tuple[Path, Path], store: StateStore
) -> None:
    plan = make_plan(project, minibench[0], run={"methods": ["rag_slice", "rag_hybrid"]})
    found = stage(run(plan, tree_chars_per_token=4, chars_per_token=4), "Embedding of pools")
    trajectories = [store.trajectory(name) for name in store.trajectory_ids]
    pools = plan.config.pools
    entries = {
        "raw_state": [row for one in trajectories for row in raw_state_entries(one, pools.slice_radius)],
        "state_chunk": [row for one in trajectories for row in state_chunk_entries(one, 1, pools.chunk)],
    }
    assert sorted(found.parts) == sorted(entries)
    for pool, rows in entries.items():
        texts = embedded_texts(rows, store)
        assert found.parts[pool].calls == len(texts)
        real = sum(min(len(text) / 4, 4096) for text in texts)
        assert 1 / 1.05 < found.parts[pool].prompt / real < 1.05


def embedded_texts(rows: list[dict[str, Any]], store: StateStore) -> set[str]:
    class Embedder:
        def __init__(self) -> None:
            self.texts: set[str] = set()

        def embed_documents(self, texts: list[str]) -> Any:
            import numpy as np

            self.texts.update(texts)
            return np.zeros((len(texts), 1), np.float32)

    embedder = Embedder()
    list(embedding_rows(rows, store, embedder, lambda done, total: None))  # type: ignore[arg-type]
    return embedder.texts


def test_goals_are_asked_about_where_they_name_a_route(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", trajectories=4, states=2)
    root.edit_line(
        "trajectories.jsonl", 2, lambda one: one.update(goal="Go to Reports > View / Run and read the total")
    )
    plan = make_plan(project, root.path, goals={"mode": "model"}, run={"tiers": ["medium"]})
    chat = Counting(json.dumps({"goal": "Read the total of the report"}))
    goals = [(one["goal"], one["domain"]) for one in root.trajectories]
    sanitize_by_model(goals, controller(project, "goal", chat), lambda done, total: None)
    assert calls(run(plan))["Goals"] == len(chat.requests) == 1


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


def test_pilots_are_counted_when_they_are_asked_for(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    plan = make_plan(project, root.path)
    plain, more = calls(run(plan)), calls(run(plan, pilots=True))
    unflawed = [one for one in root.questions if not one["question_type"].endswith("-abs")]
    # Answers without context are those of the row without memory.
    assert more["Pilots: reader"] == 2 * len(unflawed) and "Pilots: reader" not in plain
    judged = sum("llm_" in one["eval_function"] for one in unflawed)
    assert more["Judge"] - plain["Judge"] == 2 * judged


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


def test_insertion_for_every_question_counts_each_haystack(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", states=4)
    found = run(make_plan(project, root.path))
    inserted = sum(map(len, root.haystacks("small").values()))
    assert found.insertion is not None and found.insertion.work.calls == inserted * (1 + 3)
    assert found.insertion.once.calls == 6 * 4


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


def test_events_whose_trees_do_not_fit_are_counted_with_cut_ones(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    (root.path / "trajectories.jsonl").unlink()
    controller = {"context_length": 12_000}
    plan = make_plan(project, root.path, models={"controller": controller})
    found = stage(run(plan), "Events").work
    assert 2 * 12_000 / 2.8 < found.prompt / found.calls < 12_000


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
