"""What a run says it was made from, and that it says nothing of the machine."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lmev2 import provenance
from lmev2.files import file_sha256
from lmev2.models.cache import CallCache
from lmev2.models.types import ModelSetupError
from lmev2.provenance import file_hashes, git_state, library_versions, model_facts, without_folders, write_provenance

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A committed pipeline with a folder of results beside it."""
    folder = tmp_path / "checkout"
    (folder / "rules").mkdir(parents=True)
    (folder / "Snakefile").write_text("rule all:\n    pass\n")
    (folder / "rules" / "data.smk").write_text("# rules\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


@needs_git
def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    assert git_state(checkout) == {"commit": git(checkout, "rev-parse", "HEAD"), "changed": []}


@needs_git
def test_results_and_notes_of_ones_own_do_not_change_a_checkout(checkout: Path) -> None:
    (checkout / "run1" / "results").mkdir(parents=True)
    (checkout / "run1" / "results" / "table2.csv").write_text("method\n")
    (checkout / "notes.txt").write_text("mine\n")
    assert git_state(checkout)["changed"] == []


@needs_git
def test_changed_and_new_files_of_the_pipeline_are_named(checkout: Path) -> None:
    (checkout / "Snakefile").write_text("rule all:\n    input: []\n")
    (checkout / "rules" / "an own ü.smk").write_text("# mine\n")
    assert git_state(checkout)["changed"] == ["Snakefile", "rules/an own ü.smk"]
    git(checkout, "add", ".")
    git(checkout, "mv", "rules/data.smk", "rules/other.smk")
    assert git_state(checkout)["changed"] == ["Snakefile", "rules/an own ü.smk", "rules/data.smk", "rules/other.smk"]


@needs_git
def test_a_pipeline_in_a_folder_of_a_larger_checkout_belongs_to_it(tmp_path: Path) -> None:
    inner = tmp_path / "papers" / "bench"
    inner.mkdir(parents=True)
    (inner / "Snakefile").write_text("# all\n")
    (tmp_path / "papers" / "rules").write_text("of another program\n")
    git(tmp_path / "papers", "init", "--quiet")
    assert git_state(inner) == {"commit": None, "note": "the pipeline's folder is no git checkout"}  # not added to it
    git(tmp_path / "papers", "add", ".")
    assert git_state(inner) == {"commit": None, "note": "the checkout has no commit yet"}
    git(tmp_path / "papers", "commit", "--quiet", "-m", "first")
    (tmp_path / "papers" / "rules").write_text("changed\n")
    assert git_state(inner) == {"commit": git(inner, "rev-parse", "HEAD"), "changed": []}


@needs_git
def test_variables_of_gits_hooks_lead_nowhere_else(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(checkout.parent / "elsewhere.git"))
    assert git_state(checkout)["commit"] == commit


def test_a_copy_without_git_and_a_machine_without_git_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) == {"commit": None, "note": "git could not be asked (FileNotFoundError)"}


@needs_git
def test_a_folder_that_git_refuses_is_no_missing_checkout(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(arguments, 128, "", "fatal: detected dubious ownership (safe.directory)")

    monkeypatch.setattr(provenance, "_git", refuse)
    state = git_state(checkout)
    assert state == {"commit": None, "note": "git refuses the pipeline's folder, which belongs to another user"}


def test_absolute_paths_keep_their_last_part_only() -> None:
    value = {
        "file": "/home/somebody/models/x.gguf",
        "path": "{pipeline}/plugins",
        "served_name": "Qwen/Qwen3",
        "options": {"index": ["~/mine/index", r"C:\Users\somebody\x.bin", "rel/y"], "k": 3, "none": None},
        "/home/somebody/key": True,
    }
    assert without_folders(value) == {
        "file": "x.gguf",
        "path": "{pipeline}/plugins",
        "served_name": "Qwen/Qwen3",
        "options": {"index": ["index", "x.bin", "rel/y"], "k": 3, "none": None},
        "key": True,
    }


def test_a_model_is_its_settings_its_identity_and_its_files(tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    settings = {
        "backend": "openai",
        "model": "m",
        "tokenizer": str(tokenizer),
        "file": None,
        "stamps": {"tokenizer": [2, 7]},
    }
    found = model_facts(settings, {"served_name": "s"}, CallCache(tmp_path / "cache"))
    assert found["identity"] == {"served_name": "s"}
    assert found["files"] == {"tokenizer": {"name": "tokenizer.json", "sha256": file_sha256(tokenizer)}}
    assert "stamps" not in found["settings"]  # they hold the time of a file's change
    hub = model_facts({**settings, "tokenizer": "Qwen/Qwen3.5-9B"}, {}, CallCache(tmp_path / "cache"))
    assert "files" not in hub
    assert model_facts({"backend": "rules", "model": "rules"}, None, CallCache(tmp_path / "cache")) == (
        {"settings": {"backend": "rules", "model": "rules"}}
    )


def test_a_model_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    settings = {"backend": "llama_cpp", "file": str(tmp_path / "gone.gguf")}
    with pytest.raises(ModelSetupError, match=r"no GGUF file at .*gone\.gguf"):
        model_facts(settings, {}, CallCache(tmp_path / "cache"))


def test_libraries_are_those_that_can_change_a_number() -> None:
    found = library_versions(["llama_cpp", "wordllama"])
    assert set(found) == set(provenance.LIBRARIES)
    assert found["numpy"] == importlib.metadata.version("numpy")


def test_the_libraries_of_a_backend_are_named_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"{name} 1")
    found = library_versions(["openai", "sentence_transformers"])
    assert set(found) - set(provenance.LIBRARIES) == {"sentence-transformers", "torch", "transformers"}


def test_the_file_is_the_same_for_the_same_facts_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "table2.csv").write_text("method\n")
    roles: dict[str, Any] = {
        "reader": {"settings": {"backend": "openai", "script": "/a/b/c.jsonl"}},
        "judge": {"settings": {"backend": "rules"}},
    }
    spec = {
        "settings": {"run": {"tiers": ["small"]}},
        "hub": None,
        "imports": [],
        "code": {"b": "1", "a": "2"},
        "reader": "/not/there",
    }
    manifest = {"fingerprint": "f", "files": {"q": {"sha256": "1", "bytes": 2}}, "states": 3}
    goals = {"mode": "rules", "digest": "d", "changed": 3}
    hashes = {
        "tables": file_hashes([tmp_path / "table2.csv"], tmp_path),
        "prompts": file_hashes([tmp_path / "table2.csv"]),
    }
    paths = [tmp_path / "here.json", tmp_path / "there.json"]
    for path, names in zip(paths, (list(roles), list(roles)[::-1]), strict=True):
        write_provenance(path, {"commit": "c"}, manifest, goals, spec, {name: roles[name] for name in names}, hashes)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    found = json.loads(paths[0].read_text(encoding="utf-8"))
    of_goals = {"mode": "rules", "digest": "d"}
    assert found["data"] == {"fingerprint": "f", "files": manifest["files"], "hub": None, "goals": of_goals}
    assert found["models"]["reader"]["settings"]["script"] == "c.jsonl"
    assert found["tables"] == {"table2.csv": file_sha256(tmp_path / "table2.csv")}
    assert set(found["prompts"]) == {"table2"}
    assert set(found["git"]) == {"commit"} and found["code"] == spec["code"]
