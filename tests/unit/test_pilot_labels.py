"""Whether evidence labels are enough, told from a data root's own files: the same as ingested data tell."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from unit.dataroot import DataRoot, make_data_root

from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset
from lmev2.metrics import is_abstention
from lmev2.pilots.labels import check_labels
from lmev2.pilots.oracle import oracles, unflawed
from lmev2.rows import EVIDENCE, QUESTION, TRAJECTORY, read_rows

TIERS = ("small", "medium")


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return make_data_root(tmp_path / "data", trajectories=6, states=3, questions=20)


def said(root: DataRoot, count: int | None = None, seed: int = 0, tiers: tuple[str, ...] = TIERS) -> str:
    """What is wrong; empty where nothing is."""
    try:
        check_labels(root.path, tiers, count, seed)
    except DataError as error:
        return str(error)
    return ""


def said_of_tables(root: DataRoot, folder: Path, tiers: tuple[str, ...] = TIERS) -> str:
    """The same, from the ingested data."""
    ingest_dataset(root.path, folder, tiers)
    questions = unflawed(read_rows(folder / "questions.parquet", QUESTION))
    known = {row["trajectory_id"] for row in read_rows(folder / "trajectories.parquet", TRAJECTORY)}
    try:
        oracles(questions, list(read_rows(folder / "evidence.parquet", EVIDENCE)), known)
    except DataError as error:
        return str(error)
    return ""


def keep_labels(root: DataRoot, kept: Any) -> None:
    lines = [line for line in root.lines("evidence.jsonl") if kept(json.loads(line)["question_id"])]
    (root.path / "evidence.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.mark.parametrize("seed", range(6))
def test_files_tell_the_same_as_ingested_tables(root: DataRoot, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    dropped = draw.sample([row["question_id"] for row in root.objects("evidence.jsonl")], seed)
    keep_labels(root, lambda name: name not in dropped)
    if seed % 2:  # no haystack of the tier holds this trajectory any more
        gone = root.trajectories[seed]["id"]
        shorter = {key: [one for one in ids if one != gone] for key, ids in root.haystacks("small").items()}
        root.edit_haystacks("small", lambda lists: lists.update(shorter))
    for tiers in (("small",), TIERS):
        assert said(root, tiers=tiers) == said_of_tables(root, tmp_path / "out", tiers)


def test_only_questions_that_the_study_asks_need_labels(root: DataRoot) -> None:
    assert said(root) == ""
    kinds = {row["id"]: row["question_type"] for row in root.questions}
    keep_labels(root, lambda name: not is_abstention(kinds[name]))
    assert said(root) == ""
    asked = sorted(name for name, kind in kinds.items() if not is_abstention(kind))
    keep_labels(root, lambda name: name != asked[0])
    told = f"1 of {len(asked)} questions without a flawed premise have none in evidence.jsonl ({asked[0]})"
    assert told in said(root)
    verdicts = {said(root, count=4, seed=seed) for seed in range(20)}  # samples with and without that question
    assert "" in verdicts and any(asked[0] in verdict for verdict in verdicts)
    (root.path / "evidence.jsonl").write_bytes(b"")
    assert f"{len(asked)} of {len(asked)} questions" in said(root)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("questions.jsonl", b'{"id": 1}\n'),
        ("questions.jsonl", b"[]\n"),
        ("evidence.jsonl", b"{\n"),
        ("evidence.jsonl", b'{"question_id": [], "hops": 3}\n'),
        ("evidence.jsonl", b'{"question_id": "q", "hops": [[["only-a-name"]]]}\n'),
        ("haystacks/lme_v2_small.json", b"[1]"),
        ("haystacks/lme_v2_small.json", b"\xff"),
    ],
)
def test_what_cannot_be_read_is_left_to_ingestion(root: DataRoot, file: str, content: bytes) -> None:
    (root.path / file).write_bytes(content)
    assert said(root) == ""


def test_a_data_root_that_is_not_there_yet_is_passed(tmp_path: Path) -> None:
    assert said(DataRoot(tmp_path / "later")) == ""
