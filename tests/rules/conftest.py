"""One scripted run whose reader and judge fail at chosen questions: first refused, then let through."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from pipeline import Pipeline, make_pipeline, overlay_for
from unit.dataroot import DataRoot

from lmev2.shards import shard_names

METHOD, TIER = "agentrunbook_r", "small"
(SHARD,) = shard_names(1)
# Questions name the run that they ask about; there are four runs.
READER = [
    {"match": "record 1: which code", "error": "api_error", "text": "503 the endpoint is down"},
    {"match": "record 3: which code", "text": "and so on and", "finish_reason": "length"},
    {"match": "### Question", "text": r"\boxed{K-0-2}"},
]
JUDGE = [
    {"match": "record 2: which code", "text": "I cannot say."},
    {"regex": ".", "text": '{"label": 1, "reason": "it says so"}'},
]


@dataclass(frozen=True)
class Run:
    """A finished call of Snakemake, and what it left: files below the results and in the call cache."""

    pipeline: Pipeline
    status: int
    output: str
    results: frozenset[str]
    chat_files: dict[str, int] = field(repr=False)  # nanoseconds of the last change, by path
    chat_replies: dict[str, str] = field(repr=False)  # text of the reply, by path

    @property
    def root(self) -> DataRoot:
        return DataRoot(self.pipeline.folder / "data")

    def log(self, rule: str, *wildcards: str) -> str:
        """The log of a job."""
        return self.path("logs", rule, *wildcards).with_suffix(".log").read_text(encoding="utf-8")

    def path(self, *parts: str) -> Path:
        return self.pipeline.results.joinpath(*parts)

    def ids(self, *runs: int) -> list[str]:
        """Ids of the questions about these runs."""
        return sorted(
            row["id"] for row in self.root.questions for run in runs if f"record {run}: which code" in row["question"]
        )


# Pools that other searches than the method's read.
OTHER_POOLS = ("center_state", "state_chunk")


def run_all(pipeline: Pipeline) -> Run:
    """Make everything, the other pools included, and look at what there is then."""
    done = pipeline.run("all", *(f"results/pools/{pool}/{SHARD}.parquet" for pool in OTHER_POOLS), check=False)
    found = frozenset(
        path.relative_to(pipeline.results).as_posix() for path in pipeline.results.rglob("*") if path.is_file()
    )
    chat = sorted((pipeline.folder / "cache" / "chat").rglob("*.json"))
    changed = {str(path): path.stat().st_mtime_ns for path in chat}
    replies = {str(path): json.loads(path.read_text(encoding="utf-8"))["value"]["text"] for path in chat}
    return Run(pipeline, done.returncode, done.stdout, found, changed, replies)


def overlay_of(folder: Path) -> dict[str, Any]:
    overlay = overlay_for(folder, READER, JUDGE)
    overlay["run"]["methods"] = [METHOD]
    return overlay


@pytest.fixture(scope="session")
def refused(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run with ``errors.allow: 0``; it stops at the reader."""
    folder = tmp_path_factory.mktemp("rules")
    return run_all(make_pipeline(project, folder, overlay_of(folder)))


@pytest.fixture(scope="session")
def allowed(refused: Run) -> Run:
    """The same run once more, with as many errors allowed as there are."""
    pipeline = refused.pipeline
    overlay = yaml.safe_load(pipeline.overlay.read_text(encoding="utf-8"))
    pipeline.configure({**overlay, "errors": {"allow": len(refused.ids(1, 3))}})
    return run_all(pipeline)
