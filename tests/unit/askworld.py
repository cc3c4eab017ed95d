"""A small finished run made by library calls: what ``lmev2 ask`` needs of one, and a configuration that names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from unit.dataroot import DataRoot, make_data_root

from lmev2.agent.pool import trajectory_entry, write_entries, write_trajectory_folder
from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.index import build_index
from lmev2.models.scripted import ScriptedEmbedder
from lmev2.models.settings import EmbedderSettings
from lmev2.pools.embed import embedding_rows
from lmev2.pools.event import build_events
from lmev2.pools.note import NOTE_POOLS, build_notes
from lmev2.pools.raw_state import raw_state_entries
from lmev2.pools.settings import EventSettings, NoteSettings
from lmev2.rows import EMBEDDING, POOL_ENTRY, write_rows

SHARD = "0of1"
ANSWER = r"\boxed{the reader's answer}"
METHODS = ("none", "rag", "runbook", "coding", "own")
Row = dict[str, Any]


@dataclass(frozen=True)
class AskWorld:
    """A run in ``folder/results`` of the data root, and its configuration file."""

    folder: Path
    root: DataRoot

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def overlay(self) -> Path:
        return self.folder / "overlay.yaml"

    def configure(self, **models: Any) -> Path:
        """Write the configuration file; ``models`` replace settings of roles."""
        value = self._configuration()
        for role, settings in models.items():
            value["models"][role] = value["models"].get(role, {}) | settings
        self.overlay.write_text(yaml.safe_dump(value), encoding="utf-8")
        return self.overlay

    def arguments(self, *more: str) -> list[str]:
        """The command's arguments behind the question."""
        return ["--configfile", str(self.overlay), *more]

    def _configuration(self) -> Row:
        script = self.folder / "reader.jsonl"
        if not script.exists():
            script.write_text(json.dumps({"match": "### Question", "text": ANSWER}) + "\n", encoding="utf-8")
        plain: Row = {"backend": "scripted", "file": None, "quantize": None, "script": str(script)}
        return {
            "data": {"root": str(self.root.path)},
            "results": str(self.results),
            "cache": str(self.folder / "cache"),
            "run": {"methods": list(METHODS), "tiers": ["small", "medium"]},
            "shards": {"trajectories": 1, "questions": 1},
            "methods": {
                "none": {"family": "none", "label": "Nothing"},
                "rag": {"inherits": "rag_slice_notes", "label": "Slices and notes"},
                "runbook": {"inherits": "agentrunbook_r", "label": "Runbook", "compare_with": []},
                "coding": {"inherits": "codex", "label": "Coding"},
                "own": {
                    "family": "plugin",
                    "label": "Own",
                    "class": f"own_{self.folder.name}:Own",
                    "path": str(self.folder),
                },
            },
            "models": {
                "reader": {**plain, "model": "scripted-reader", "reply_format": "free"},
                "judge": {**plain, "model": "scripted-judge"},
                "embedder": {"backend": "scripted", "model": "scripted-embedder", "dimension": 64},
                "agent": {"isolation": "none"},
            },
        }


OWN = '''"""A memory that shows the first page, prints, and puts what it is given where a test can see it."""

class Own:
    def __init__(self):
        self.runs = []

    def insert(self, trajectory):
        self.runs.append(trajectory)

    def query(self, query, query_image=None):
        print("chatter of a plugin")
        tree = self.runs[0]["states"][0]["accessibility_tree"]
        return [{"type": "text", "value": f"{len(self.runs)} runs\\n{tree}"}]
'''


def make_world(folder: Path, change: Any = None) -> AskWorld:
    """A run over eight trajectories of four states.

    Args:
        change: may edit the data root before it is ingested.
    """
    root = make_data_root(folder / "root", trajectories=8, states=4, questions=14)
    if change is not None:
        change(root)
    world = AskWorld(folder, root)
    world.configure()
    (folder / f"own_{folder.name}.py").write_text(OWN, encoding="utf-8")
    data, goals = world.results / "data", world.results / "goals"
    ingest_dataset(root.path, data, ["small", "medium"])
    goals.mkdir()
    for name in ("states.parquet", "trajectories.parquet"):
        shutil.copy(data / name, goals / name)
    (goals / "summary.json").write_text('{"digest": null}', encoding="utf-8")
    with StateStore(goals / "states.parquet", goals / "trajectories.parquet") as store:
        runs = [store.trajectory(name) for name in store.trajectory_ids]
        notes = [entry for run in runs for entry in build_notes(run, NoteSettings())]
        pools = {pool: [entry for entry in notes if entry["pool"] == pool] for pool in NOTE_POOLS}
        pools["event"] = [entry for run in runs for entry in build_events(run, EventSettings())]
        pools["raw_state"] = [entry for run in runs for entry in raw_state_entries(run, 1)]
        for table, rows in pools.items():
            _write_index(world.results, table, rows, store)
        pool = world.results / "agent" / "pool"
        for run in runs:
            write_trajectory_folder(run, pool / SHARD)
        write_entries([trajectory_entry(run) for run in runs], pool / f"{SHARD}.jsonl")
    return world


def _write_index(results: Path, table: str, rows: Sequence[Row], store: StateStore) -> None:
    embedder = ScriptedEmbedder(EmbedderSettings(backend="scripted", model="scripted-embedder", dimension=64))
    entries, vectors = (results / kind / f"{table}.parquet" for kind in ("pools", "embeddings"))
    write_rows(entries, POOL_ENTRY, rows)
    write_rows(vectors, EMBEDDING, embedding_rows(rows, store, embedder, lambda done, total: None))
    index = results / "index"
    build_index(table, [entries], [vectors], index / f"{table}.lance", index / f"{table}.json", 64)
