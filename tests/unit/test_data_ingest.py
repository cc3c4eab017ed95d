"""Ingestion of valid data: what comes out equals what went in, streaming, and all or nothing."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from dataroot import SHARED_DATA, DataRoot, make_data_root, make_trajectory

from lmev2.data.errors import DataError
from lmev2.data.ingest import MANIFEST_FILE, TABLES, ingest_dataset
from lmev2.data.manifest import Manifest
from lmev2.data.tables import Evidence, read_evidence, read_haystacks, read_questions
from lmev2.rows import STATE, TRAJECTORY, read_rows

TIERS = ("small", "medium")


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return make_data_root(tmp_path / "root", unused=2)


def test_tables_hold_what_the_data_root_holds(root: DataRoot, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = ingest_dataset(root.path, out, TIERS)
    assert sorted(os.listdir(out)) == sorted([*TABLES, MANIFEST_FILE])
    questions = {question.question_id: question for question in read_questions(out / "questions.parquet")}
    for row in root.questions:
        question = questions.pop(row["id"])
        for field in ("domain", "environment", "question_type", "question", "answer", "eval_function"):
            assert getattr(question, field) == row[field]
        assert question.image == (root.path / row["image"] if row["image"] else None)
    assert not questions
    for tier in TIERS:
        found = read_haystacks(out / "haystacks.parquet", tier)
        assert found == {name: tuple(ids) for name, ids in root.haystacks(tier).items()}
    states = list(read_rows(out / "states.parquet", STATE))
    expected = [(run["id"], state) for run in root.trajectories[:6] for state in run["states"]]
    assert [(row["trajectory_id"], row["state_index"]) for row in states] == [
        (n, s["state_index"]) for n, s in expected
    ]
    for row, (_, state) in zip(states, expected, strict=True):
        assert row["tree"] == state["accessibility_tree"]
        assert (row["step"], row["url"], row["action"], row["thought"]) == tuple(
            state[key] for key in ("step", "url", "action", "thought")
        )
        assert row["screenshot"] == str(root.path / state["screenshot"])
    assert [row["action_annotated"] for row in states[:4]] == [
        None,
        "click('a0') -> [a0] link 'Next page 0', clickable, visible",
        "fill('b1', 'note 1') -> [b1] textbox 'Note 1' value='', clickable, visible",
        "goto('http://example.test/run0/page3')",
    ]
    labels = root.objects("evidence.jsonl")
    assert read_evidence(out / "evidence.parquet") == {
        row["question_id"]: Evidence(row["question_id"], ((tuple(row["hops"][0][0]),),)) for row in labels
    }
    assert manifest == Manifest.read(out / MANIFEST_FILE)


def test_manifest_counts_and_hashes(root: DataRoot, tmp_path: Path) -> None:
    manifest = ingest_dataset(root.path, tmp_path / "out", TIERS)
    assert (manifest.trajectories_used, manifest.trajectories_unused, manifest.states) == (6, 2, 24)
    assert (manifest.screenshots_checked, manifest.screenshots_missing) == (24, 0)
    assert manifest.questions.by_category == {"dynamic": 4, "gotchas": 2, "static": 4, "workflow": 4}
    assert manifest.questions.by_scorer["llm_abstention_checker"] == 6
    assert (manifest.questions.total, manifest.questions.with_image) == (14, 2)
    assert manifest.tiers["medium"].longest == 3
    assert (manifest.evidence, manifest.evidence_questions) == (True, 14)
    for name, file in manifest.files.items():
        content = (root.path / name).read_bytes()
        assert (file.sha256, file.bytes) == (hashlib.sha256(content).hexdigest(), len(content))
    assert len(manifest.files) == 5


def test_one_row_group_per_trajectory(root: DataRoot, tmp_path: Path) -> None:
    ingest_dataset(root.path, tmp_path / "out", TIERS)
    with pq.ParquetFile(tmp_path / "out/states.parquet") as file:
        groups = [
            set(file.read_row_group(group, columns=["trajectory_id"]).column(0).to_pylist())
            for group in range(file.num_row_groups)
        ]
    assert [len(group) for group in groups] == [1] * 6


def test_only_trajectories_of_the_given_tiers_are_written(tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", trajectories=12)
    only = next(iter(root.haystacks("small").values()))[0]
    domain = {run["id"]: run["domain"] for run in root.trajectories}[only]
    kept = [number for number, row in enumerate(root.questions, start=1) if row["domain"] == domain]
    lines = root.lines("questions.jsonl")
    (root.path / "questions.jsonl").write_bytes(b"".join(lines[number - 1] + b"\n" for number in kept))
    (root.path / "evidence.jsonl").unlink()
    root.edit_haystacks("small", lambda value: value.update({name: [only] for name in value}))
    manifest = ingest_dataset(root.path, tmp_path / "out", ["small"])
    assert (manifest.trajectories_used, manifest.trajectories_unused) == (1, 11)
    assert manifest.tiers["small"].entries_of_other_questions == 14 - len(kept)
    assert [row["trajectory_id"] for row in read_rows(tmp_path / "out/trajectories.parquet", TRAJECTORY)] == [only]
    assert ingest_dataset(root.path, tmp_path / "out", TIERS).trajectories_used == 6


def test_without_labels_evidence_is_empty_and_said_to_be(tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", evidence=False)
    manifest = ingest_dataset(root.path, tmp_path / "out", TIERS)
    assert (manifest.evidence, manifest.evidence_questions) == (False, 0)
    assert read_evidence(tmp_path / "out/evidence.parquet") == {}


def test_labels_of_trajectories_outside_the_haystacks_are_kept_and_counted(tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", unused=2)
    outside = next(run for run in root.trajectories[6:] if run["domain"] == root.questions[0]["domain"])
    root.edit_line("evidence.jsonl", 1, lambda row: row["hops"][0].append([outside["id"], 1]))
    manifest = ingest_dataset(root.path, tmp_path / "out", TIERS)
    assert manifest.evidence_states_outside_haystacks == 1
    hop = read_evidence(tmp_path / "out/evidence.parquet")[root.questions[0]["id"]].hops[0]
    assert hop[1] == (outside["id"], 1)


def test_the_order_of_lines_does_not_matter(root: DataRoot, tmp_path: Path) -> None:
    ingest_dataset(root.path, tmp_path / "a", TIERS)
    for file in ("questions.jsonl", "trajectories.jsonl", "evidence.jsonl"):
        root.shuffle_lines(file)
    ingest_dataset(root.path, tmp_path / "b", TIERS)
    for table in TABLES:
        first, second = (pq.read_table(tmp_path / side / table) for side in "ab")
        if table == "states.parquet":
            order = [("trajectory_id", "ascending"), ("state_index", "ascending")]
            first, second = first.sort_by(order), second.sort_by(order)
        assert first.equals(second), table


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_newline_ends_a_line(root: DataRoot, tmp_path: Path, separator: str) -> None:
    text = f"before{separator}after"
    raw = json.dumps(root.questions[0] | {"question": text}, ensure_ascii=ord(separator) < 0x20)
    assert separator in raw or "\\" in raw
    root.replace_line("questions.jsonl", 1, raw.encode())
    run = root.trajectories[0]
    run["states"][1]["accessibility_tree"] += text
    raw = json.dumps(run, ensure_ascii=ord(separator) < 0x20)
    root.replace_line("trajectories.jsonl", 1, raw.encode())
    manifest = ingest_dataset(root.path, tmp_path / "out", TIERS)
    assert manifest.questions.total == 14
    assert text in {question.question for question in read_questions(tmp_path / "out/questions.parquet")}
    assert next(r for r in read_rows(tmp_path / "out/states.parquet", STATE) if text in r["tree"])["state_index"] == 1


def test_half_a_surrogate_pair_is_replaced_and_counted(root: DataRoot, tmp_path: Path) -> None:
    root.edit_line("trajectories.jsonl", 1, lambda run: run["states"][2].update(thought="MARK"))
    raw = root.lines("trajectories.jsonl")[0].replace(b"MARK", b"lone \\ud83d, whole \\ud83d\\ude00")
    root.replace_line("trajectories.jsonl", 1, raw)
    assert ingest_dataset(root.path, tmp_path / "out", TIERS).replaced_surrogates == 1
    thoughts = [row["thought"] for row in read_rows(tmp_path / "out/states.parquet", STATE)]
    assert "lone \ufffd, whole \U0001f600" in thoughts


def test_blank_lines_and_a_missing_last_newline_are_accepted(root: DataRoot, tmp_path: Path) -> None:
    path = root.path / "questions.jsonl"
    path.write_bytes(b"\n" + path.read_bytes().replace(b"\n", b"\r\n\n").rstrip())
    assert ingest_dataset(root.path, tmp_path / "out", TIERS).questions.total == 14


def test_missing_step_is_null_and_fields_beyond_the_format_are_counted(root: DataRoot, tmp_path: Path) -> None:
    root.edit_line("trajectories.jsonl", 1, lambda run: run["states"][1].pop("step"))
    root.edit_line("trajectories.jsonl", 1, lambda run: [state.update(extra=1) for state in run["states"]])
    root.edit_line("questions.jsonl", 2, lambda row: row.update(note=None))
    manifest = ingest_dataset(root.path, tmp_path / "out", TIERS)
    assert manifest.extra_fields == {"question": {"note": 1}, "state": {"extra": 4}}
    assert [row["step"] for row in read_rows(tmp_path / "out/states.parquet", STATE)][:3] == [0, None, 2]


def test_screenshots_may_be_missing_where_that_is_allowed(root: DataRoot, tmp_path: Path) -> None:
    root.edit_line("trajectories.jsonl", 1, lambda run: run["states"][1].pop("screenshot"))
    root.edit_line("trajectories.jsonl", 1, lambda run: run["states"][2].update(screenshot=None))
    (root.path / root.trajectories[0]["states"][3]["screenshot"]).unlink()
    manifest = ingest_dataset(root.path, tmp_path / "out", TIERS, require_screenshots=False)
    assert (manifest.screenshots_checked, manifest.screenshots_missing) == (21, 3)
    shots = [row["screenshot"] for row in read_rows(tmp_path / "out/states.parquet", STATE)]
    assert [shot is None for shot in shots[:5]] == [False, True, True, True, False]


def test_screenshots_may_lie_elsewhere(root: DataRoot, tmp_path: Path) -> None:
    (root.path / "screenshots").rename(tmp_path / "shots")
    ingest_dataset(root.path, tmp_path / "out", TIERS, screenshots=tmp_path / "shots")
    row = next(iter(read_rows(tmp_path / "out/states.parquet", STATE)))
    assert row["screenshot"] == str(tmp_path / "shots" / row["trajectory_id"] / "0.png")


def test_screenshots_are_looked_up_with_one_listing_per_trajectory(
    root: DataRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []
    scandir = os.scandir

    def listing(path: Path | int) -> object:
        listed.append(Path(os.fsdecode(path)) if not isinstance(path, int) else Path())
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listing)
    ingest_dataset(root.path, tmp_path / "out", TIERS)
    below = [path for path in listed if path.is_relative_to(root.path)]
    assert sorted(below) == sorted(root.path / "screenshots" / run["id"] for run in root.trajectories[:6])


def test_relative_roots_give_absolute_paths(root: DataRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ingest_dataset(Path("root"), Path("out"), TIERS)
    assert all(Path(row["screenshot"]).is_file() for row in read_rows(tmp_path / "out/states.parquet", STATE))
    assert all(q.image is None or q.image.is_absolute() for q in read_questions(tmp_path / "out/questions.parquet"))


def test_progress_reaches_the_total(root: DataRoot, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    ingest_dataset(root.path, tmp_path / "out", TIERS, progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert {total for _, total in calls} == {calls[-1][0]}


def test_nothing_appears_and_nothing_is_lost_when_the_data_are_invalid(root: DataRoot, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ingest_dataset(root.path, out, TIERS)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    root.append("trajectories.jsonl", b'{"id": "torn')
    with pytest.raises(DataError):
        ingest_dataset(root.path, out, TIERS)
    with pytest.raises(DataError):
        ingest_dataset(root.path, tmp_path / "other", TIERS)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert list((tmp_path / "other").iterdir()) == []


def test_tiers_must_be_given_once(root: DataRoot, tmp_path: Path) -> None:
    for tiers in ([], ["small", "small"]):
        with pytest.raises(ValueError, match="expected one or more different tiers"):
            ingest_dataset(root.path, tmp_path / "out", tiers)


def test_memory_holds_one_trajectory_not_the_file(tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", trajectories=2, states=2, questions=2)
    run = make_trajectory(99, 5)
    with (root.path / "trajectories.jsonl").open("ab") as stream:
        for number in range(50):
            run["id"] = f"large{number}"
            for state in run["states"]:
                state["screenshot"] = None
                state["accessibility_tree"] = f"[a0] {number} " + "x" * 200_000
            stream.write(json.dumps(run).encode() + b"\n")
    domain = run["domain"]
    names = [f"large{number}" for number in range(50)]
    question = next(row["id"] for row in root.questions if row["domain"] == domain)
    root.edit_haystacks("small", lambda value: value[question].extend(names))
    assert (root.path / "trajectories.jsonl").stat().st_size > 50_000_000
    tracemalloc.start()
    try:
        manifest = ingest_dataset(root.path, tmp_path / "out", ["small"], require_screenshots=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert manifest.trajectories_used == 52
    assert peak < 15_000_000


def test_real_runs(tmp_path: Path) -> None:
    source = SHARED_DATA / "realruns"
    if not source.is_dir():
        pytest.skip(f"no real runs at {source}")
    manifest = ingest_dataset(source, tmp_path / "out", TIERS)
    assert (manifest.trajectories_used, manifest.states, manifest.questions.total) == (11, 77, 21)
    assert (manifest.screenshots_checked, manifest.evidence_questions) == (77, 21)
    assert manifest.extra_fields == {}
    rows = {
        (row["trajectory_id"], row["state_index"]): row
        for row in read_rows(tmp_path / "out/states.parquet", STATE)
    }  # fmt: skip
    raw = {run["id"]: run for run in DataRoot(source).trajectories}
    assert rows["86cc5b7b", 11]["action_annotated"] == "click('a296') -> [a296] button 'Order Now'"
    annotated = 0
    for (name, index), row in rows.items():
        state = raw[name]["states"][index]
        assert (row["action"], row["tree"]) == (state["action"], state["accessibility_tree"])
        line = (row["action_annotated"] or "").removeprefix(row["action"] or "").removeprefix(" -> ")
        before = [tree["accessibility_tree"] for tree in raw[name]["states"][:index]]
        assert not line or any(line in {text.strip() for text in tree.split("\n")} for tree in before)
        annotated += bool(line)
    assert annotated > 40
