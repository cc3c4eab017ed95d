"""The official questions and haystacks: the loader reads all of them and finds the published numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from dataroot import SHARED_DATA, write_png

from lmev2.data.checksums import read_checksums, verify_checksums
from lmev2.data.errors import DataError, Problems
from lmev2.data.haystacks import TrajectoryFacts, check_haystacks, count_haystacks, read_haystacks
from lmev2.data.ingest import ingest_dataset
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.questions import count_questions, load_questions
from lmev2.data.schema import QuestionRecord

ROOT = SHARED_DATA / "lme_v2_official"

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=f"no official questions at {ROOT}")


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, QuestionRecord]:
    """Read from a copy with question images made up, since they are not among the official files at hand."""
    root = tmp_path_factory.mktemp("official")
    (root / "questions.jsonl").write_bytes((ROOT / "questions.jsonl").read_bytes())
    for path in read_checksums(ROOT):
        if path.startswith("question_screenshots/"):
            write_png(root / path, 1)
    problems = Problems(root)
    file = JsonLinesFile(root, "questions.jsonl", "question", "id", problems, lambda count: None)
    found = load_questions(file, root, problems)
    problems.raise_if_any()
    assert file.sha256 == read_checksums(ROOT)["questions.jsonl"]
    return found


def test_numbers_of_questions(questions: dict[str, QuestionRecord]) -> None:
    counts = count_questions(questions)
    assert counts.total == 451
    assert counts.by_domain == {"enterprise": 211, "web": 240}
    assert counts.by_question_type == {
        "dynamic-environment": 86,
        "dynamic-environment-abs": 41,
        "errors-gotchas": 29,
        "procedure": 74,
        "procedure-abs": 32,
        "static-environment": 134,
        "static-environment-abs": 55,
    }
    assert counts.by_category == {"dynamic": 127, "gotchas": 29, "static": 189, "workflow": 106}
    assert counts.by_scorer == {
        "llm_abstention_checker": 128,
        "llm_gotchas_checker": 28,
        "mc_choice_match": 68,
        "mc_choice_set_match": 1,
        "norm_phrase_set_match": 200,
        "norm_phrase_set_match_ordered": 26,
    }


def test_images_are_on_the_gotchas(questions: dict[str, QuestionRecord]) -> None:
    with_image = {name for name, question in questions.items() if question.image is not None}
    assert with_image == {name for name, q in questions.items() if q.question_type == "errors-gotchas"}
    assert len(with_image) == 29


def test_shapes_of_the_haystacks(questions: dict[str, QuestionRecord]) -> None:
    problems = Problems(ROOT)
    small, facts = read_haystacks(ROOT, "small", questions, problems)
    assert facts.sha256 == read_checksums(ROOT)["haystacks/lme_v2_small.json"]
    medium, _ = read_haystacks(ROOT, "medium", questions, problems)
    domains = {
        name: questions[question_id].domain
        for tier in (small, medium)
        for question_id, names in tier.lists.items()
        for name in names
    }
    assert Counter(domains.values()) == {"web": 599, "enterprise": 874}
    trajectories = {name: TrajectoryFacts(domain, 1) for name, domain in domains.items()}
    for tier in (small, medium):
        check_haystacks(tier, questions, trajectories, (), problems)
    problems.raise_if_any()
    counts = count_haystacks(small)
    assert (counts.questions, counts.distinct_lists, counts.shortest, counts.longest) == (451, 2, 100, 100)
    counts = count_haystacks(medium)
    assert (counts.questions, counts.shortest, counts.longest) == (451, 387, 500)
    assert counts.distinct_lists > 200
    lengths = Counter(len(names) for names in medium.lists.values())
    assert lengths[500] == 428
    shorter = [name for name, names in medium.lists.items() if len(names) < 500]
    assert {questions[name].domain for name in shorter} == {"web"}


def test_sums_of_the_files_at_hand_match() -> None:
    problems = verify_checksums(ROOT)
    assert {problem.kind for problem in problems} == {"missing"}
    missing = {problem.path for problem in problems}
    here = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()}
    assert missing == read_checksums(ROOT).keys() - here
    assert {"questions.jsonl", "haystacks/lme_v2_small.json", "haystacks/lme_v2_medium.json"} <= here
    assert "trajectories.jsonl" in missing


def test_a_missing_trajectory_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks trajectories\.jsonl"):
        ingest_dataset(ROOT, tmp_path / "out", ["small", "medium"])
