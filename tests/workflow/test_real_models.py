"""The shipped configuration with its real models: two questions, one method; and the small model as a controller.

Takes about 40 s on two cores, most of it spent by the small model on reading and judging; requantising the model for the
new cache is part of it. The controller's tests take about as long again.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import yaml
from pipeline import Pipeline, open_pipeline

from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.models.cache import CallCache
from lmev2.models.factory import make_chat
from lmev2.models.settings import ControllerSettings
from lmev2.pools.controller import Controller
from lmev2.pools.event import EVENT_FIELDS
from lmev2.pools.event_jobs import event_entries
from lmev2.pools.note import NOTE_FIELDS
from lmev2.pools.note_jobs import note_entries
from lmev2.pools.settings import EventSettings, NoteSettings
from lmev2.prompts import load_prompt
from lmev2.trajectory import Trajectory

pytestmark = pytest.mark.alone

METHOD = "rag_slice_notes"
SHORT_RUNS = ("desk-13", "shop-10")
STATES = 3  # of each, from its start
REPLY_CHARS = 80


@pytest.fixture(scope="module")
def real(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The run, done. Nothing but its size and its folders differs from the default."""
    folder = tmp_path_factory.mktemp("real")
    overlay = {"cache": str(folder / "cache"), "run": {"questions": 2, "methods": [METHOD]}}
    pipeline = open_pipeline(project, folder, overlay)
    pipeline.run()
    return pipeline


def test_real_models_fill_a_row_without_errors(real: Pipeline) -> None:
    with (real.results / "table2.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["method"], row["tier"], row["questions"], row["errors"]) == (METHOD, "small", "2", "0")
    assert float(row["overall"]) in (0, 0.5, 1)
    assert float(row["latency_s"]) > 0
    with (real.results / "evidence.csv").open(newline="", encoding="utf-8") as file:
        (evidence,) = csv.DictReader(file)
    assert 0 < float(evidence["tokens"]) <= 2000
    assert "SmolLM2-135M-Instruct" in (real.results / "table2.md").read_text(encoding="utf-8")
    assert (real.results / "table2.png").is_file()
    assert sorted(path.name for path in real.directory.iterdir()) == [".snakemake", "results"]


def test_a_second_run_does_nothing(real: Pipeline) -> None:
    assert "Nothing to be done" in real.run().stdout


# The small model as a controller. What it writes is no use, but it keeps the form.


class FirstStates:
    """The beginnings of the shipped trajectories."""

    def __init__(self, store: StateStore) -> None:
        self.store = store

    def trajectory(self, name: str) -> Trajectory:
        whole = self.store.trajectory(name)
        return replace(whole, states=whole.states[:STATES])


@pytest.fixture(scope="module")
def runs(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateStore]:
    data = tmp_path_factory.mktemp("data")
    ingest_dataset(project / "resources" / "minibench", data, ["small", "medium"])
    with closing(StateStore(data / "states.parquet", data / "trajectories.parquet")) as store:
        yield cast(StateStore, FirstStates(store))


@pytest.fixture(scope="module")
def controller(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Controller]:
    """A controller by pool: the default judge's model. A window that two whole trees never fit keeps prompts short."""
    default = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))["models"]["judge"]
    changed = {"context_length": 2560, "sampling": {"temperature": 0.0, "max_tokens": 640, "seed": 0}}
    settings = ControllerSettings.model_validate(
        {name: value for name, value in default.items() if name in ControllerSettings.model_fields} | changed
    )
    chat = make_chat(settings, CallCache(tmp_path_factory.mktemp("cache")), threads=2)
    prompts = project / "workflow" / "prompts"
    return lambda pool: Controller(chat, settings, load_prompt(prompts / f"{pool}.md"))


def test_the_small_model_writes_events_under_its_grammar(
    controller: Callable[[str], Controller], runs: StateStore
) -> None:
    sizes = EventSettings(retry_tree_chars=1000, reply_chars=REPLY_CHARS)
    rows = event_entries(SHORT_RUNS, runs, controller("event"), sizes, lambda done, total: None)
    assert len(rows) == len(SHORT_RUNS) * (STATES - 1)
    written = [row for row in rows if row["origin"] in {"model", "repaired"}]
    print(f"{len(written)} of {len(rows)} events by the small model")
    assert len(written) >= len(rows) - 1
    for row in written:
        event = json.loads(row["payload"])
        assert all(0 < len(event[part]) <= REPLY_CHARS for part in EVENT_FIELDS)
        assert row["images_left_out"] == 2


def test_the_small_model_writes_notes_under_its_grammar(
    controller: Callable[[str], Controller], runs: StateStore
) -> None:
    sizes = NoteSettings(reply_chars=REPLY_CHARS)
    rows = note_entries(SHORT_RUNS, runs, controller("note"), sizes, lambda done, total: None)
    assert [row["origin"] for row in rows] == ["model"] * 4
    for row in rows:
        note = json.loads(row["payload"])
        assert all(0 < len(note[part]) <= REPLY_CHARS for part in NOTE_FIELDS)
        assert row["images_left_out"] == STATES
