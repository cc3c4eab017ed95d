"""A copy of the pipeline that tests may edit, a synthetic data root, and scripted models in place of real ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from unit.dataroot import make_data_root

METHODS = ["no_retrieval", "rag_slice", "rag_slice_notes", "agentrunbook_r", "rag_hybrid"]
_COPIED = ("Snakefile", "config.yaml", "rules", "workflow", "profiles", "src", "envs", "resources/paper")
_STAT = re.compile(r"^(\w+) +(\d+)$", re.MULTILINE)
_JOB = re.compile(r"^Job \d+: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Pipeline:
    """The pipeline in ``folder``, run in ``directory`` with the configuration file ``overlay``."""

    folder: Path
    directory: Path
    overlay: Path
    env: dict[str, str]

    @property
    def results(self) -> Path:
        return self.directory / "results"

    def configure(self, overlay: dict[str, Any]) -> None:
        """Write the configuration file."""
        self.overlay.write_text(yaml.safe_dump(overlay), encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        """The Snakemake command line."""
        head = [sys.executable, "-m", "snakemake", "-s", str(self.folder / "Snakefile"), "--cores", "2"]
        return [*head, "--directory", str(self.directory), *arguments, "--configfile", str(self.overlay)]

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Snakemake; with ``check`` a failure fails the test and shows the output."""
        done = subprocess.run(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.env,
            timeout=600,
        )
        assert not check or done.returncode == 0, done.stdout[-6000:]
        return done

    def planned(self, *targets: str) -> dict[str, int]:
        """Jobs by rule that a dry run plans; empty when there is nothing to do."""
        return self.plan(*targets)[0]

    def plan(self, *targets: str) -> tuple[dict[str, int], list[str]]:
        """Jobs by rule that a dry run plans, and their messages in the order of the alphabet."""
        output = self.run("-n", *targets).stdout
        if "Nothing to be done" in output:
            return {}, []
        return job_counts(output), sorted(_JOB.findall(output))


def job_counts(output: str) -> dict[str, int]:
    """Jobs by rule, from what Snakemake prints of a run before it starts."""
    stats = output[output.index("Job stats:") :]
    return {rule: int(count) for rule, count in _STAT.findall(stats) if rule != "total"}


def make_pipeline(project: Path, folder: Path, overlay: dict[str, Any]) -> Pipeline:
    """Copy the pipeline into ``folder`` and write ``overlay`` as its configuration file."""
    for name in _COPIED:
        source = project / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    return open_pipeline(folder, folder, overlay)


def open_pipeline(pipeline: Path, folder: Path, overlay: dict[str, Any]) -> Pipeline:
    """The pipeline in ``pipeline`` itself, to be run in ``folder/run`` with ``overlay`` as its configuration file."""
    (folder / "run").mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("SNAKEMAKE")}
    opened = Pipeline(pipeline, folder / "run", folder / "overlay.yaml", env)
    opened.configure(overlay)
    return opened


def merged(base: Any, over: Any) -> Any:
    """Mappings merged as Snakemake merges configuration files; everything else is replaced."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {key: merged(base.get(key), over.get(key, base.get(key))) for key in {**base, **over}}
    return over


def write_script(path: Path, rules: Sequence[dict[str, Any]]) -> str:
    """A script of replies for the backend ``scripted``."""
    path.write_text("".join(json.dumps(rule) + "\n" for rule in rules), encoding="utf-8")
    return str(path)


def scripted_models(folder: Path, reader: Sequence[dict[str, Any]], judge: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Models section with scripted roles in place of the real ones; the controller stays rules."""
    plain: dict[str, Any] = {"backend": "scripted", "file": None, "quantize": None, "concurrency": 2}
    return {
        "reader": {
            **plain,
            "model": "scripted-reader",
            "reply_format": "free",
            "script": write_script(folder / "reader.jsonl", reader),
        },
        "judge": {**plain, "model": "scripted-judge", "script": write_script(folder / "judge.jsonl", judge)},
        "embedder": {"backend": "scripted", "model": "scripted-embedder", "dimension": 64},
    }


def overlay_for(folder: Path, reader: Sequence[dict[str, Any]], judge: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Configuration of a small scripted run over a synthetic data root in ``folder/data``."""
    make_data_root(folder / "data", trajectories=4, states=3, questions=14)
    return {
        "data": {"root": str(folder / "data")},
        "cache": str(folder / "cache"),
        "run": {"questions": None, "methods": METHODS},
        "shards": {"trajectories": 1, "questions": 1},
        "models": scripted_models(folder, reader, judge),
    }
