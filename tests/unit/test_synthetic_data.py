"""The made-up data root of the benchmarks: valid, the same for the same seed, with its facts where the labels say."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import Failed, measure, read_records, record
from benchmarks.synthetic import TYPES, Written, write_data_root
from benchmarks.tables import make_table
from lmev2.data.validate import validate_root

QUESTIONS = 20


def _write(folder: Path, seed: int = 3) -> Written:
    return write_data_root(
        folder, trajectories=12, states_per_trajectory=6, questions=QUESTIONS, tree_chars=3000, seed=seed
    )


def _objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _digests(root: Path) -> dict[str, str]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic") / "root"
    _write(folder)
    return folder


@pytest.fixture(scope="module")
def states(root: Path) -> dict[tuple[str, int], str]:
    """Trees by trajectory and state."""
    runs = _objects(root / "trajectories.jsonl")
    return {(run["id"], state["state_index"]): state["accessibility_tree"] for run in runs for state in run["states"]}


def test_the_root_is_valid_and_holds_what_was_asked_for(root: Path) -> None:
    found = validate_root(root, ("small", "medium"))
    assert found.valid, found.problems
    assert found.manifest is not None
    assert found.manifest.questions.total == QUESTIONS
    assert found.manifest.questions.by_question_type.keys() == TYPES.keys()
    assert found.manifest.trajectories_used == 12
    assert found.manifest.screenshots_checked == found.manifest.states
    assert found.manifest.tiers["small"].distinct_lists == 2


def test_equal_seeds_give_equal_files_and_other_seeds_do_not(root: Path, tmp_path: Path) -> None:
    written = _write(tmp_path / "again")
    assert _digests(tmp_path / "again") == _digests(root)
    assert written.bytes == (root / "trajectories.jsonl").stat().st_size
    _write(tmp_path / "other", seed=4)
    assert _digests(tmp_path / "other")["trajectories.jsonl"] != _digests(root)["trajectories.jsonl"]


def test_every_fact_stands_in_the_state_that_evidence_names_and_nowhere_else(
    root: Path, states: dict[tuple[str, int], str]
) -> None:
    hops = {line["question_id"]: line["hops"] for line in _objects(root / "evidence.jsonl")}
    small = json.loads((root / "haystacks/lme_v2_small.json").read_text(encoding="utf-8"))
    medium = json.loads((root / "haystacks/lme_v2_medium.json").read_text(encoding="utf-8"))
    questions = _objects(root / "questions.jsonl")
    for question in questions:
        asked = question["question"].split(" of ", 1)[1].split("?", 1)[0]
        for subject, hop in zip(asked.split(" and then of "), hops[question["id"]], strict=True):
            ((trajectory, state),) = hop
            assert [place for place, tree in states.items() if subject in tree] == [(trajectory, state)]
            assert trajectory in small[question["id"]]
            assert trajectory in medium[question["id"]]
        if question["question_type"] == "procedure":
            codes = question["answer"].split(", ")
            assert all(code in states[tuple(hop[0])] for code, hop in zip(codes, hops[question["id"]], strict=True))
    assert sum(tree.count("Release code of ") for tree in states.values()) == sum(map(len, hops.values()))


def test_actions_name_elements_of_the_state_before(root: Path) -> None:
    clicked = 0
    for run in _objects(root / "trajectories.jsonl"):
        for before, after in zip(run["states"], run["states"][1:], strict=False):
            if after["action"].startswith(("click(", "fill(")):
                element = after["action"].split("'")[1]
                assert f"[{element}] " in before["accessibility_tree"]
                clicked += 1
    assert clicked > 20


def test_pages_change_little_while_a_run_stays_on_them(root: Path) -> None:
    for run in _objects(root / "trajectories.jsonl"):
        for before, after in zip(run["states"], run["states"][1:], strict=False):
            if after["action"].startswith("fill("):
                old, new = (set(state["accessibility_tree"].split("\n")) for state in (before, after))
                assert len(old & new) > len(new) / 2


def test_a_folder_that_holds_something_is_refused(root: Path) -> None:
    with pytest.raises(FileExistsError, match="holds something"):
        _write(root)


def test_costs_of_a_process_are_measured_with_its_children(tmp_path: Path) -> None:
    work = "import time; b = b'x' * 80_000_000\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    cost = measure([sys.executable, "-c", child])
    assert cost.cpu_s >= 0.3
    assert cost.wall_s >= 0.3
    assert 80 < cost.peak_mb < 400
    with pytest.raises(Failed, match=r"(?s)ended with 3.*no luck"):
        measure([sys.executable, "-c", "import sys; print('no luck', file=sys.stderr); sys.exit(3)"])
    record(tmp_path, "ingest", "small", cost)
    record(tmp_path, "ingest", "medium", cost)
    assert read_records(tmp_path) == {("ingest", "small"): cost, ("ingest", "medium"): cost}
    assert "× 1.0 (data × 4.0)" in make_table(read_records(tmp_path))
