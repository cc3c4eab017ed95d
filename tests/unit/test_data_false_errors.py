"""What a data root must not hold and was let in, and what must not be reported because something else is wrong."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dataroot import PHRASES, DataRoot, make_data_root, make_id
from test_data_refusals import QUESTION, RUN, problems_of

from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset
from lmev2.data.validate import validate_root

Q, T, E = "questions.jsonl", "trajectories.jsonl", "evidence.jsonl"
SMALL = "haystacks/lme_v2_small.json"
TIERS = ("small", "medium")


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return make_data_root(tmp_path / "root")


def by_validation(root: DataRoot) -> list[str]:
    return [str(problem) for problem in validate_root(root.path, TIERS).problems]


INSTEAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "folder": (Path.mkdir, "a folder"),
    "pipe": (os.mkfifo, "something that is no regular file"),
    "dangling link": (lambda path: path.symlink_to("gone"), "a link that leads to no file"),
    "looping link": (lambda path: path.symlink_to(path.name), "a link that leads to no file"),
}


@pytest.mark.parametrize("kind", INSTEAD)
def test_labels_that_are_no_file_do_not_pass_as_none(root: DataRoot, tmp_path: Path, kind: str) -> None:
    make, text = INSTEAD[kind]
    (root.path / E).unlink()
    make(root.path / E)
    expected = [f"{E}: found {text}, expected a file of labels, or nothing"]
    assert problems_of(root, tmp_path) == expected
    assert by_validation(root) == expected


@pytest.mark.parametrize("kind", INSTEAD)
@pytest.mark.parametrize("file", [Q, T, SMALL])
def test_what_stands_in_place_of_a_needed_file_is_told(root: DataRoot, tmp_path: Path, file: str, kind: str) -> None:
    make, text = INSTEAD[kind]
    (root.path / file).unlink()
    make(root.path / file)
    with pytest.raises(DataError) as caught:
        ingest_dataset(root.path, tmp_path / "out", TIERS)
    assert f"lacks {file} ({text} stands there); found there:" in str(caught.value)
    validation = validate_root(root.path, TIERS)
    (problem,) = validation.problems
    assert str(problem).startswith(f"{file}: found {text}, expected ")
    assert validation.missing[0].text.startswith(f"{text} stands there; expected ")


def test_sums_that_are_no_file_are_a_note(root: DataRoot) -> None:
    (root.path / "checksums.sha256").mkdir()
    validation = validate_root(root.path, TIERS)
    assert validation.valid
    assert validation.notes == ("checksums.sha256 is a folder, so that no sums were compared",)


@pytest.mark.parametrize(
    ("file", "identity", "key"),
    [(Q, QUESTION, b"answer"), (T, RUN, b"goal"), (T, RUN, b"id"), (E, QUESTION, b"hops")],
)
def test_a_key_that_stands_twice_is_refused(
    root: DataRoot, tmp_path: Path, file: str, identity: str, key: bytes
) -> None:
    raw = root.lines(file)[2]
    root.replace_line(file, 3, raw[:-1] + b', "' + key + b'": "x"}')
    (problem,) = problems_of(root, tmp_path)
    assert problem.startswith(f"{file}, line 3, {identity}: found malformed JSON (the key {key.decode()!r} stands ")
    assert by_validation(root) == [problem]


def test_a_key_that_stands_twice_in_a_state_is_refused(root: DataRoot, tmp_path: Path) -> None:
    raw = root.lines(T)[2]
    root.replace_line(T, 3, raw.replace(b'"step": 1', b'"step": 1, "step": 2'))
    (problem,) = problems_of(root, tmp_path)
    assert problem.startswith(f"{T}, line 3, {RUN}: ") and "'step' stands twice in one object" in problem


BROKEN_LINES: dict[str, tuple[str, Callable[[DataRoot], Any]]] = {
    "question without fields": (Q, lambda root: root.edit_line(Q, 3, lambda row: row.pop("answer"))),
    "question without id": (Q, lambda root: root.edit_line(Q, 3, lambda row: row.pop("id"))),
    "question with a bad id": (Q, lambda root: root.edit_line(Q, 3, lambda row: row.update(id="../x"))),
    "question that is no object": (Q, lambda root: root.replace_line(Q, 3, b"[1]")),
    "question twice": (Q, lambda root: root.append(Q, root.lines(Q)[2].replace(b'"web"', b'"enterprise"') + b"\n")),
    "trajectory without fields": (T, lambda root: root.edit_line(T, 3, lambda run: run.pop("goal"))),
    "trajectory without id": (T, lambda root: root.edit_line(T, 3, lambda run: run.pop("id"))),
    "trajectory with a bad id": (T, lambda root: root.edit_line(T, 3, lambda run: run.update(id="a/b"))),
    "trajectory that is no object": (T, lambda root: root.replace_line(T, 3, b"null")),
    "trajectory without states": (T, lambda root: root.edit_line(T, 3, lambda run: run.update(states=[]))),
    "trajectory twice": (
        T,
        lambda root: root.append(T, json.dumps({**root.trajectories[2], "states": []}).encode() + b"\n"),
    ),
    "no trajectory": (T, lambda root: (root.path / T).write_bytes(b"")),
    "no question": (Q, lambda root: (root.path / Q).write_bytes(b"")),
}


@pytest.mark.parametrize("case", BROKEN_LINES)
def test_one_broken_line_is_one_problem(root: DataRoot, tmp_path: Path, case: str) -> None:
    file, break_it = BROKEN_LINES[case]
    break_it(root)
    found = by_validation(root)
    assert [problem.split(",")[0].split(":")[0] for problem in found] == [file]
    assert problems_of(root, tmp_path) == found


@pytest.mark.parametrize("field", ["answer", "id"])
def test_entries_of_broken_questions_are_not_said_to_be_of_others(root: DataRoot, field: str) -> None:
    root.edit_line(Q, 3, lambda row: row.pop(field))
    assert validate_root(root.path, TIERS).notes == ()


def test_other_errors_of_labels_are_told_beside_a_broken_line(root: DataRoot) -> None:
    root.edit_line(T, 3, lambda run: run.update(states=[]))
    name = next(run["id"] for run in root.trajectories if run["domain"] == "enterprise")
    root.edit_line(E, 1, lambda row: row.update(hops=[[[make_id("trajectory", 2), 3], [name, 0], ["ghost", 0]]]))
    problems = [problem for problem in by_validation(root) if problem.startswith(E)]
    assert len(problems) == 2
    assert f"'{name}' of domain 'enterprise'" in problems[0] and "'ghost'" in problems[1]


@pytest.mark.parametrize(
    ("scorer", "answer"),
    [
        ("mc_choice_match", ""),
        ("mc_choice_match|require_non_empty=true", " \n"),
        ("mc_choice_set_match", "1, and option"),
        (f"norm_phrase_set_match|{PHRASES}", ""),
        (f"norm_phrase_set_match|{PHRASES}", " ;, ...; -"),
        (f"norm_phrase_set_match_ordered|{PHRASES}", "!"),
        ("llm_abstention_checker|require_non_empty=true", " "),
        ("llm_gotchas_checker", ""),
    ],
)
def test_an_answer_that_no_reply_can_match_is_refused(root: DataRoot, tmp_path: Path, scorer: str, answer: str) -> None:
    root.edit_line(Q, 3, lambda row: row.update(answer=answer, eval_function=scorer))
    (problem,) = problems_of(root, tmp_path)
    assert problem.startswith(f"{Q}, line 3, {QUESTION}: field 'answer': found {answer!r}, in which scorer ")
    assert by_validation(root) == [problem]


@pytest.mark.parametrize(
    ("scorer", "answer"),
    [
        ("llm_abstention_checker|require_non_empty=false", ""),
        ("mc_choice_match|require_non_empty=false", ""),
        ("norm_phrase_set_match|require_non_empty=false", ""),
        ("norm_phrase_set_match|strip_punct=false", "..."),
        ("mc_choice_set_match", "b"),
    ],
)
def test_an_answer_that_a_reply_can_match_is_accepted(root: DataRoot, tmp_path: Path, scorer: str, answer: str) -> None:
    root.edit_line(Q, 3, lambda row: row.update(answer=answer, eval_function=scorer))
    ingest_dataset(root.path, tmp_path / "out", TIERS)


def test_an_empty_goal_is_a_note(root: DataRoot, tmp_path: Path) -> None:
    root.edit_line(T, 3, lambda run: run.update(goal=" "))
    ingest_dataset(root.path, tmp_path / "out", TIERS)
    validation = validate_root(root.path, TIERS)
    assert validation.valid
    assert validation.notes == (f"{T}: 1 trajectories have an empty goal, such as {make_id('trajectory', 2)}",)


def test_a_root_without_trajectories_of_haystacks_is_checked_in_full(root: DataRoot) -> None:
    """Empty files do not hide what is wrong with the files beside them."""
    (root.path / T).write_bytes(b"")
    root.edit_line(Q, 3, lambda row: row.update(eval_function="guess"))
    shutil.rmtree(root.path / "screenshots")
    assert [problem.split(":")[0].split(",")[0] for problem in by_validation(root)] == [Q, T, "screenshots"]
