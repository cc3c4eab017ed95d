"""A memory of the user's own in the whole pipeline: the page that explains it, its instances, its reruns, its failures."""

from __future__ import annotations

import csv
import dataclasses
import re
import shutil
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from pipeline import Pipeline, merged
from unit.dataroot import DataRoot
from workflow.test_reruns import NEW_METHOD, ONE_METHOD, edited

from lmev2.rows import CONTEXT, read_rows
from lmev2.shards import shard_names

TIER, SHARDS = "medium", 5
RECORDING = '''
import sys
import uuid
from pathlib import Path


class Recording:
    """Writes down which instance got which trajectory."""

    def __init__(self, log, leave_at=None):
        self.log, self.leave_at = Path(log), leave_at
        self.name = uuid.uuid4().hex
        self.note("made")

    def note(self, what):
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{self.name} {what}\\n")

    def insert(self, trajectory):
        self.note(trajectory["id"])

    def query(self, query, query_image=None):
        if self.leave_at and self.leave_at in query:
            sys.exit(0)
        return [{"type": "text", "value": f"asked of {self.name}"}]
'''


@dataclasses.dataclass(frozen=True)
class Page:
    """What the page tells to save: file names and contents, the class first."""

    class_file: str
    class_text: str
    overlay: dict[str, Any]


@pytest.fixture(scope="module")
def page(project: Path) -> Page:
    text = (project / "docs" / "add_your_memory.md").read_text(encoding="utf-8")
    (class_file, overlay_file), (code,), (overlay,) = (
        re.findall(pattern, text, re.DOTALL)
        for pattern in (r"Save this as `([\w./]+)`", r"```python\n(.*?)```", r"```yaml\n(.*?)```")
    )
    commands = re.findall(r"^    (snakemake .*)$", text, re.MULTILINE)
    assert commands and all(f"--configfile {overlay_file}" in command for command in commands)
    return Page(class_file, code, yaml.safe_load(overlay))


@pytest.fixture(scope="module")
def extended(finished: Pipeline, page: Page, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A copy of a finished run, to which the page's class and row are added."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(finished.directory, folder / "run", symlinks=True)
    target = folder / "run" / page.class_file
    target.parent.mkdir()
    target.write_text(page.class_text, encoding="utf-8")
    pipeline = dataclasses.replace(finished, directory=folder / "run", overlay=folder / "overlay.yaml")
    pipeline.configure(merged(yaml.safe_load(finished.overlay.read_text(encoding="utf-8")), page.overlay))
    assert pipeline.planned() == NEW_METHOD  # what was finished is not asked again
    pipeline.run()
    return pipeline


def table(pipeline: Pipeline, name: str) -> dict[str, dict[str, str]]:
    with (pipeline.results / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def test_the_pages_example_has_a_row_in_every_table(extended: Pipeline, page: Page) -> None:
    rows = table(extended, "table2")
    assert list(rows) == page.overlay["run"]["methods"]
    row = rows["keyword"]
    assert (row["label"], row["questions"], row["errors"]) == (page.overlay["methods"]["keyword"]["label"], "14", "0")
    assert float(row["latency_s"]) >= 0 and row["gotchas"] == "1.000"
    # Goal and address of the page with the answer stand in the question, so that counting words finds it.
    evidence = table(extended, "evidence")["keyword"]
    assert float(evidence["covered_before"]) == 1 and float(evidence["tokens_before"]) > 0


def test_the_pages_example_returned_states(extended: Pipeline, page: Page) -> None:
    rows = list(read_rows(extended.results / "contexts" / "keyword" / "small" / "0of1.parquet", CONTEXT))
    haystacks = DataRoot(extended.folder / "data").haystacks("small")
    for row in rows:
        assert len(row["items"]) == page.overlay["methods"]["keyword"]["options"]["states"]
        assert {item["trajectory_id"] for item in row["items"]} <= set(haystacks[row["question_id"]])
        assert all(len(item["states"]) == 1 and item["type"] == "text" for item in row["items"])
        assert (row["error"], row["query_origin"], row["queries"]) == (None, None, "{}")


def test_an_edited_plugin_is_asked_again_and_nothing_else(extended: Pipeline, page: Page) -> None:
    assert extended.planned() == {}
    with edited(extended.directory / page.class_file, "reverse=True", "reverse=False"):
        assert extended.planned() == ONE_METHOD
    assert extended.planned() == {}


def test_other_options_ask_it_again_and_nothing_else(extended: Pipeline) -> None:
    with edited(extended.overlay, "states: 3", "states: 4"):
        assert extended.planned() == NEW_METHOD


def test_a_class_that_is_not_there_is_refused_before_any_job(extended: Pipeline) -> None:
    with edited(extended.overlay, "keyword_memory:KeywordMemory", "keyword_memories:KeywordMemory"):
        failed = extended.run("-n", check=False)
    assert failed.returncode != 0
    assert "found no module 'keyword_memories'; tried" in failed.stdout


@pytest.fixture(scope="module")
def recorded(finished: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A run over many haystacks and several question shards, whose plugin writes down what it gets."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "run" / "mine").mkdir(parents=True)
    (folder / "run" / "mine" / "recording.py").write_text(textwrap.dedent(RECORDING), encoding="utf-8")
    row = {"family": "plugin", "class": "mine.recording:Recording", "path": "."}
    methods = {
        "recorded": {**row, "label": "Recorded", "options": {"log": str(folder / "log.txt")}},
        "leaving": {**row, "label": "Leaving", "options": {"log": str(folder / "other.txt"), "leave_at": "record 3:"}},
    }
    pipeline = dataclasses.replace(finished, directory=folder / "run", overlay=folder / "overlay.yaml")
    more = {
        "run": {"methods": ["recorded"], "tiers": [TIER]},
        "shards": {"questions": SHARDS},
        "methods": methods,
        "cache": str(folder / "cache"),
    }
    pipeline.configure(merged(yaml.safe_load(finished.overlay.read_text(encoding="utf-8")), more))
    return pipeline


def contexts(method: str) -> list[str]:
    return [f"results/contexts/{method}/{TIER}/{shard}.parquet" for shard in shard_names(SHARDS)]


def test_each_haystack_is_inserted_once_and_in_order(recorded: Pipeline) -> None:
    recorded.run("results/table2.csv")
    haystacks = DataRoot(recorded.folder / "data").haystacks(TIER)
    inserted: dict[str, list[str]] = defaultdict(list)
    for line in (recorded.directory.parent / "log.txt").read_text(encoding="utf-8").splitlines():
        instance, what = line.split()
        assert (what == "made") == (instance not in inserted)
        inserted[instance] += [] if what == "made" else [what]
    distinct = {tuple(names) for names in haystacks.values()}
    assert 1 < len(distinct) < SHARDS  # so that a shard has no question
    assert sorted(map(tuple, inserted.values())) == sorted(distinct)

    rows = [row for path in contexts("recorded") for row in read_rows(recorded.directory / path, CONTEXT)]
    assert sorted(row["question_id"] for row in rows) == sorted(haystacks)
    for row in rows:
        (item,) = row["items"]
        assert inserted[item["value"].removeprefix("asked of ")] == haystacks[row["question_id"]]
    assert table(recorded, "table2")["recorded"]["questions"] == str(len(haystacks))


def test_a_plugin_that_leaves_does_not_pass_for_success(recorded: Pipeline) -> None:
    text = recorded.overlay.read_text(encoding="utf-8")
    questions = DataRoot(recorded.folder / "data").questions
    leaving = {row["id"] for row in questions if "record 3:" in row["question"]}
    overlay = merged(yaml.safe_load(text), {"run": {"methods": ["leaving"]}, "shards": {"questions": 1}})
    target = f"results/contexts/leaving/{TIER}/0of1.parquet"
    with edited(recorded.overlay, text, yaml.safe_dump(overlay)):
        failed = recorded.run(target, check=False)
    assert failed.returncode != 0 and not (recorded.directory / target).exists()
    told = re.findall(r"(\w+): memory_error: (?:memory_error: )?Recording\.query: SystemExit: 0", failed.stdout)
    assert set(told) == leaving

    # Let through, they are rows with an error kind beside what the other questions got.
    with edited(recorded.overlay, text, yaml.safe_dump({**overlay, "errors": {"allow": len(leaving)}})):
        recorded.run(target)
    rows = list(read_rows(recorded.directory / target, CONTEXT))
    assert {row["question_id"]: row["error"] for row in rows} == {
        row["id"]: "memory_error" if row["id"] in leaving else None for row in questions
    }
    assert all((row["items"] == []) == (row["error"] is not None) for row in rows)
