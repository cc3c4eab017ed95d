"""The same commit with the same cache gives the same tables, and says the same of what they were made from."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from pipeline import METHODS, Pipeline, make_pipeline

from lmev2.files import file_sha256

MARKER = "marker-4f1d9c"
COMPARED = (".csv", ".md", ".tex", ".json", ".yaml")


@pytest.fixture(scope="module")
def repeated(finished: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The finished run once more, in another folder, with the first one's data and cache and a key in the environment."""
    overlay = yaml.safe_load(finished.overlay.read_text(encoding="utf-8"))
    pipeline = make_pipeline(finished.folder, tmp_path_factory.mktemp("repeated"), overlay)
    pipeline.env.update(
        {"LMEV2_API_KEY": MARKER, "LMEV2_BASE_URL": f"http://{MARKER}.invalid/v1", "LMEV2_OTHER": MARKER}
    )
    pipeline.run()
    return pipeline


def published(pipeline: Pipeline) -> dict[str, bytes]:
    """Files of a run that are text, by path."""
    files = [path for path in pipeline.results.rglob("*") if path.suffix in COMPARED and path.is_file()]
    return {path.relative_to(pipeline.results).as_posix(): path.read_bytes() for path in files}


def test_a_second_run_in_another_folder_gives_every_table_byte_for_byte(finished: Pipeline, repeated: Pipeline) -> None:
    first, second = published(finished), published(repeated)
    assert {"table2.csv", "table2.md", "evidence.csv", "origins.csv", "methods.yaml", "provenance.json"} <= set(first)
    assert set(first) == set(second)
    assert [name for name in first if first[name] != second[name]] == []


def test_provenance_names_every_table_of_the_run_with_its_hash(repeated: Pipeline) -> None:
    facts = json.loads((repeated.results / "provenance.json").read_text(encoding="utf-8"))
    tables = {path.name: file_sha256(path) for path in repeated.results.glob("*.csv")}
    goals = repeated.results / "goals" / "report.csv"
    assert facts["tables"] == tables | {"goals/report.csv": file_sha256(goals)}
    manifest = json.loads((repeated.results / "data" / "manifest.json").read_text(encoding="utf-8"))
    assert facts["data"]["fingerprint"] == manifest["fingerprint"]
    assert list(facts["settings"]["methods"]) == sorted(METHODS)
    assert set(facts["code"]["query_memory"]) == set(METHODS)
    assert facts["models"]["reader"]["files"]["script"]["name"] == "reader.jsonl"
    assert facts["git"]["commit"] is None  # the copy is no checkout
    prompts = {"reader_web", "reader_enterprise", "judge_abstention", "judge_gotchas", "note", "event", "query"}
    assert set(facts["prompts"]) == prompts


def test_provenance_says_nothing_of_the_machine(project: Path, repeated: Pipeline) -> None:
    text = (repeated.results / "provenance.json").read_text(encoding="utf-8")
    folders = {project, Path.home(), repeated.folder, repeated.folder.parent, Path(sys.prefix), Path.cwd()}
    assert [str(folder) for folder in folders if len(folder.parts) > 1 and str(folder) in text] == []
    assert not re.search(r'"[/~]', text) and "://" not in text
    words = set(re.findall(r"[\w.-]+", text))
    assert socket.gethostname() not in words and getpass.getuser() not in words


def test_no_file_of_a_run_holds_what_stands_in_the_environment(repeated: Pipeline) -> None:
    everything = [*repeated.folder.rglob("*"), *(repeated.folder / "cache").rglob("*")]
    found = [path for path in everything if path.is_file() and MARKER.encode() in path.read_bytes()]
    assert found == []


@pytest.fixture
def committed(repeated: Pipeline) -> Iterator[Pipeline]:
    """The second run's pipeline as a git checkout for the time of a test."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    (repeated.folder / ".gitignore").write_text("run/\n__pycache__/\n", encoding="utf-8")
    git(repeated, "init", "--quiet")
    git(repeated, "add", ".")
    git(repeated, "commit", "--quiet", "-m", "first")
    yield repeated
    shutil.rmtree(repeated.folder / ".git")


def git(pipeline: Pipeline, *arguments: str) -> str:
    who = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=pipeline.folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_commit_writes_provenance_again_and_nothing_else(committed: Pipeline) -> None:
    only = {"write_provenance": 1, "all": 1}
    assert committed.planned() == only
    committed.run()
    assert committed.planned() == {}
    facts = json.loads((committed.results / "provenance.json").read_text(encoding="utf-8"))
    assert facts["git"] == {"commit": git(committed, "rev-parse", "HEAD"), "changed": []}
    git(committed, "commit", "--quiet", "--allow-empty", "-m", "second")
    assert committed.planned() == only


def test_snakemakes_report_has_captions_tables_and_the_rule_graph(finished: Pipeline) -> None:
    finished.run("--report", "report.html")
    text = (finished.directory / "report.html").read_text(encoding="utf-8")
    assert "each asked the same questions about a" in text  # the description of the workflow
    for name in ("table2.csv", "evidence.csv", "origins.csv", "table2.png", "methods.yaml", "provenance.json"):
        assert f'"results/{name}"' in text
    assert "Mean accuracy of every method and tier" in text and "What reached the reader" in text
    assert '"rule": "read_answers"' in text and "AgentRunbook-R" in text
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=.?https?:", text)  # opens without a network
    finished.run("--report", "report.zip")
    with ZipFile(finished.directory / "report.zip") as packed:
        names = packed.namelist()
    assert "report/report.html" in names and sum(name.startswith("report/data/") for name in names) >= 6
