"""Estimates of making memories against what the workflow's own functions ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from costworld import calls, make_plan, run, stage
from dataroot import make_data_root

from lmev2.costs.stages import Stage
from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.goals.model import sanitize_by_model
from lmev2.models.settings import ControllerSettings
from lmev2.models.types import ChatReply, ChatRequest, ImagePart, TextPart
from lmev2.pools.controller import Controller
from lmev2.pools.embed import embedding_rows
from lmev2.pools.event_jobs import event_entries
from lmev2.pools.note_jobs import note_entries
from lmev2.pools.raw_state import raw_state_entries
from lmev2.pools.settings import EventSettings, NoteSettings
from lmev2.pools.state_chunk import state_chunk_entries
from lmev2.prompts import load_prompt

FACTOR = 1.1  # between estimated and real tokens


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


def test_insertion_for_every_question_counts_each_haystack(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", states=4)
    found = run(make_plan(project, root.path))
    inserted = sum(map(len, root.haystacks("small").values()))
    assert found.insertion is not None and found.insertion.work.calls == inserted * (1 + 3)
    assert found.insertion.once.calls == 6 * 4


def test_events_whose_trees_do_not_fit_are_counted_with_cut_ones(project: Path, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root")
    (root.path / "trajectories.jsonl").unlink()
    controller = {"context_length": 12_000}
    plan = make_plan(project, root.path, models={"controller": controller})
    found = stage(run(plan), "Events").work
    assert 2 * 12_000 / 2.8 < found.prompt / found.calls < 12_000


@pytest.mark.parametrize(
    ("settings", "thought"), [({"thinking": True}, 0), ({"thinking": None, "reasoning_effort": "low"}, 300)]
)
def test_an_effort_of_reasoning_is_spent_on_events_too(
    project: Path, tmp_path: Path, settings: dict[str, Any], thought: int
) -> None:
    root = make_data_root(tmp_path / "root")
    plan = make_plan(project, root.path, models={"controller": settings})
    found = stage(run(plan, event_tokens=100, thinking_tokens=300), "Events").work
    assert found.completion == found.calls * (100 + thought) > 0
