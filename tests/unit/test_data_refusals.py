"""Every kind of bad input is refused, and the message names file, line and id, what was found and what is expected."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dataroot import DataRoot, make_data_root, make_id

from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset

Q, T, E = "questions.jsonl", "trajectories.jsonl", "evidence.jsonl"
SMALL = "haystacks/lme_v2_small.json"
QUESTION = f"question '{make_id('question', 2)}'"  # line 3: web, static-environment-abs
RUN = f"trajectory '{make_id('trajectory', 2)}'"  # line 3: web


def problems_of(root: DataRoot, tmp_path: Path, **options: Any) -> list[str]:
    with pytest.raises(DataError) as caught:
        ingest_dataset(root.path, tmp_path / "out", ("small", "medium"), **options)
    assert str(root.path) in str(caught.value)
    assert not any((tmp_path / "out").glob("*"))
    return list(caught.value.problems)


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return make_data_root(tmp_path / "root")


def edit(file: str, **changes: Any) -> Callable[[DataRoot], None]:
    return lambda root: root.edit_line(file, 3, lambda value: value.update(changes))


def drop(file: str, field: str) -> Callable[[DataRoot], None]:
    return lambda root: root.edit_line(file, 3, lambda value: value.pop(field))


def edit_state(index: int, **changes: Any) -> Callable[[DataRoot], None]:
    return lambda root: root.edit_line(T, 3, lambda run: run["states"][index].update(changes))


def drop_state_field(field: str) -> Callable[[DataRoot], None]:
    return lambda root: root.edit_line(T, 3, lambda run: run["states"][1].pop(field))


def replace(file: str, old: bytes, new: bytes) -> Callable[[DataRoot], None]:
    return lambda root: root.replace_line(file, 3, root.lines(file)[2].replace(old, new, 1))


def unlink(path: Callable[[DataRoot], str]) -> Callable[[DataRoot], None]:
    return lambda root: (root.path / path(root)).unlink()


CASES: dict[str, tuple[Callable[[DataRoot], None], str, str, list[str]]] = {
    "question: malformed JSON": (replace(Q, b'"domain"', b'"domain'), Q, QUESTION, ["malformed JSON", "expected one"]),
    "question: not UTF-8": (replace(Q, b"which", b"whi\xff"), Q, QUESTION, ["malformed JSON", "utf-8"]),
    "question: NaN": (replace(Q, b'"image": null', b'"image": NaN'), Q, QUESTION, ["NaN is not JSON"]),
    "question: missing field": (drop(Q, "answer"), Q, QUESTION, ["field 'answer' is missing"]),
    "question: missing image": (drop(Q, "image"), Q, QUESTION, ["field 'image' is missing"]),
    "question: missing id": (drop(Q, "id"), Q, "question without id", ["field 'id' is missing"]),
    "question: mistyped field": (edit(Q, answer=5), Q, QUESTION, ["field 'answer': found int 5", "valid string"]),
    "question: mistyped id": (edit(Q, id=7), Q, "question 7", ["field 'id': found int 7"]),
    "question: unsafe id": (edit(Q, id="../x"), Q, "question '../x'", ["field 'id': found str '../x'"]),
    "question: object as text": (edit(Q, question={"text": "x"}), Q, QUESTION, ["field 'question': found dict"]),
    "question: unknown domain": (edit(Q, domain="moon"), Q, QUESTION, ["found str 'moon'", "'web' or 'enterprise'"]),
    "question: unknown type": (edit(Q, question_type="x-abs"), Q, QUESTION, ["'x-abs'", "'errors-gotchas'"]),
    "question: unknown scorer": (edit(Q, eval_function="guess"), Q, QUESTION, ["'guess'", "mc_choice_match"]),
    "question: unknown option": (
        edit(Q, eval_function="mc_choice_match|fuzzy=true"), Q, QUESTION, ["'fuzzy'", "require_non_empty"],
    ),
    "question: abstention judge on another type": (
        edit(Q, question_type="procedure"), Q, QUESTION, ["llm_abstention_checker", "'procedure'", "'-abs'"],
    ),
    "question: missing image file": (
        edit(Q, image="question_screenshots/none.png"), Q, QUESTION, ["no file", "question_screenshots/none.png"],
    ),
    "question: image outside": (edit(Q, image="../x.png"), Q, QUESTION, ["'../x.png'", "below the data root"]),
    "question: absolute image": (edit(Q, image="/etc/hosts"), Q, QUESTION, ["'/etc/hosts'", "below the data root"]),
    "question: duplicate id": (
        edit(Q, id=make_id("question", 1)), Q, f"question '{make_id('question', 1)}'", ["on line 2 already"],
    ),
    "trajectory: malformed JSON": (replace(T, b'"states": [', b'"states": '), T, RUN, ["malformed JSON"]),
    "trajectory: not an object": (
        lambda root: root.append(T, b"[1]\n"), T, "line 7", ["found list [1]", "expected a JSON object"],
    ),
    "trajectory: missing field": (drop(T, "goal"), T, RUN, ["field 'goal' is missing"]),
    "trajectory: mistyped field": (edit(T, goal=None), T, RUN, ["field 'goal': found NoneType None"]),
    "trajectory: unknown domain": (edit(T, domain="moon"), T, RUN, ["found str 'moon'", "'web' or 'enterprise'"]),
    "trajectory: unknown outcome": (edit(T, outcome="maybe"), T, RUN, ["found str 'maybe'", "'success' or 'failure'"]),
    "trajectory: no states": (edit(T, states=[]), T, RUN, ["found no state", "at least one"]),
    "trajectory: duplicate id": (
        lambda root: root.append(T, root.lines(T)[2] + b"\n"), T, RUN, ["line 7", "on line 3 already"],
    ),
    "state: missing tree": (drop_state_field("accessibility_tree"), T, RUN, ["accessibility_tree' is missing"]),
    "state: missing action": (drop_state_field("action"), T, RUN, ["field 'states[1].action' is missing"]),
    "state: missing thought": (drop_state_field("thought"), T, RUN, ["field 'states[1].thought' is missing"]),
    "state: mistyped index": (edit_state(1, state_index="1"), T, RUN, ["'states[1].state_index': found str '1'"]),
    "state: boolean index": (edit_state(1, state_index=True), T, RUN, ["'states[1].state_index': found bool True"]),
    "state: mistyped step": (edit_state(1, step=1.5), T, RUN, ["'states[1].step': found float 1.5"]),
    "state: mistyped url": (edit_state(1, url=None), T, RUN, ["'states[1].url': found NoneType None"]),
    "state: wrong index": (edit_state(1, state_index=2), T, RUN, ["'states[1].state_index': found 2, expected 1"]),
    "state: actions one state early": (
        edit_state(0, action="click('a0')"), T, RUN, ["'states[0].action'", "click", "expected null"],
    ),
    "state: no screenshot": (drop_state_field("screenshot"), T, RUN, ["no screenshot path on state 1", "every state"]),
    "state: null screenshot": (edit_state(1, screenshot=None), T, RUN, ["no screenshot path on state 1"]),
    "state: screenshot outside": (
        edit_state(1, screenshot="screenshots/../../x.png"), T, RUN, ["'screenshots/../../x.png'", "screenshots/"],
    ),
    "state: screenshot of another run": (
        edit_state(1, screenshot=f"screenshots/{make_id('trajectory', 0)}/1.png"), T, RUN, ["state 1", "expected"],
    ),
    "state: missing screenshot file": (
        unlink(lambda root: str(root.trajectories[2]["states"][1]["screenshot"])), T, RUN, ["state 1", "3 files there"],
    ),
    "state: missing screenshot folder": (
        lambda root: shutil.rmtree(root.path / "screenshots" / root.trajectories[2]["id"]),
        T, RUN, ["states 0, 1, 2 and 1 more", "no such folder"],
    ),
    "evidence: malformed JSON": (replace(E, b"hops", b'ho"ps'), E, QUESTION, ["malformed JSON"]),
    "evidence: missing field": (drop(E, "hops"), E, QUESTION, ["field 'hops' is missing"]),
    "evidence: no hop": (edit(E, hops=[]), E, QUESTION, ["field 'hops': found list []", "at least 1"]),
    "evidence: empty hop": (edit(E, hops=[[]]), E, QUESTION, ["field 'hops[0]': found list []", "at least 1"]),
    "evidence: mistyped state": (edit(E, hops=[[["x", "1"]]]), E, QUESTION, ["field 'hops[0][0][1]': found str '1'"]),
    "evidence: triple": (edit(E, hops=[[["x", 1, 2]]]), E, QUESTION, ["field 'hops[0][0]"]),
    "evidence: unknown question": (edit(E, question_id="nobody"), E, "question 'nobody'", ["not in questions.jsonl"]),
    "evidence: unknown trajectory": (edit(E, hops=[[["ghost", 0]]]), E, QUESTION, ["hop 0", "'ghost'", "not in traj"]),
    "evidence: state out of range": (
        edit(E, hops=[[[make_id("trajectory", 2), 0]], [[make_id("trajectory", 2), 4]]]),
        E, QUESTION, ["hop 1", "state 4", "expected 0 to 3"],
    ),
    "evidence: other domain": (
        edit(E, hops=[[[make_id("trajectory", 1), 0]]]), E, QUESTION, ["'enterprise'", "expected 'web'"],
    ),
    "evidence: question twice": (
        lambda root: root.append(E, root.lines(E)[2] + b"\n"), E, QUESTION, ["line 15", "earlier line"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_lines_are_refused(root: DataRoot, tmp_path: Path, case: str) -> None:
    break_it, file, identity, texts = CASES[case]
    break_it(root)
    problems = [problem for problem in problems_of(root, tmp_path) if problem.startswith(file)]
    (problem,) = problems
    line = next((text for text in [identity, *texts] if text.startswith("line ")), "line 3")
    assert problem.startswith(f"{file}, {line}")
    assert identity in problem
    for text in texts:
        assert text in problem


def edit_list(change: Callable[[list[str], DataRoot], Any]) -> Callable[[DataRoot], None]:
    def apply(root: DataRoot) -> None:
        name = root.questions[2]["id"]
        root.edit_haystacks("small", lambda value: change(value[name], root))

    return apply


def put(entry: Any) -> Callable[[DataRoot], None]:
    return lambda root: root.edit_haystacks("small", lambda value: value.update({root.questions[2]["id"]: entry}))


HAYSTACK_CASES: dict[str, tuple[Callable[[DataRoot], None], list[str]]] = {
    "no entry": (
        lambda root: root.edit_haystacks("small", lambda value: value.pop(root.questions[2]["id"])), ["found no entry"],
    ),
    "not a list": (put("abc"), ["found str 'abc'", "expected a list", "line "]),
    "an object": (put({"a": 1}), ["found object", "expected a list", "line "]),
    "empty": (put([]), ["found an empty list", "at least one", "line "]),
    "not ids": (put([1]), ["found int 1 in the list", "line "]),
    "null in the list": (put([None]), ["found NoneType None in the list", "line "]),
    "unknown trajectory": (edit_list(lambda names, _: names.append("ghost")), ["'ghost'", "not in traj", "line "]),
    "cross-domain trajectory": (
        edit_list(lambda names, root: names.append(root.trajectories[1]["id"])),
        ["'enterprise'", "expected the question's domain 'web'", "line ", make_id("trajectory", 1)],
    ),
    "repeated trajectory": (edit_list(lambda names, _: names.append(names[0])), ["twice", "line "]),
}  # fmt: skip


@pytest.mark.parametrize("case", HAYSTACK_CASES)
def test_bad_haystacks_are_refused(root: DataRoot, tmp_path: Path, case: str) -> None:
    break_it, texts = HAYSTACK_CASES[case]
    break_it(root)
    (problem,) = problems_of(root, tmp_path)
    assert problem.startswith(SMALL)
    assert QUESTION in problem
    for text in texts:
        assert text in problem


def test_the_line_of_a_haystack_problem_is_the_trajectorys(root: DataRoot, tmp_path: Path) -> None:
    edit_list(lambda names, _: names.append("ghost"))(root)
    (problem,) = problems_of(root, tmp_path)
    lines = (root.path / SMALL).read_text(encoding="utf-8").split("\n")
    number = int(problem.split("line ")[1].split(",")[0])
    assert '"ghost"' in lines[number - 1]


def test_a_trajectory_that_many_lists_name_wrongly_is_one_problem(root: DataRoot, tmp_path: Path) -> None:
    root.edit_haystacks("small", lambda value: [names.append("ghost") for names in value.values()])
    (problem,) = problems_of(root, tmp_path)
    assert "in the lists of 13 more questions" in problem


@pytest.mark.parametrize(
    ("content", "text"), [(b"{", "malformed JSON"), (b"[]", "found list"), (b"\xff{}", "malformed JSON")]
)
def test_a_haystack_file_must_hold_an_object(root: DataRoot, tmp_path: Path, content: bytes, text: str) -> None:
    (root.path / SMALL).write_bytes(content)
    (problem,) = problems_of(root, tmp_path)
    assert problem.startswith(SMALL)
    assert text in problem


def test_a_question_with_two_haystack_entries_is_refused(root: DataRoot, tmp_path: Path) -> None:
    name = root.questions[2]["id"]
    pairs = [*root.haystacks("small").items(), (name, [make_id("trajectory", 0)])]
    text = "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs) + "\n}"
    (root.path / SMALL).write_text(text, encoding="utf-8")
    (problem,) = problems_of(root, tmp_path)
    assert problem == f"{SMALL}, line 4, {QUESTION}: the question has two entries, expected one"


def test_a_torn_last_line_is_named_as_such(root: DataRoot, tmp_path: Path) -> None:
    path = root.path / T
    path.write_bytes(path.read_bytes()[:-50])
    (problem,) = problems_of(root, tmp_path)
    assert problem.startswith(f"{T}, line 6, trajectory '{make_id('trajectory', 5)}': found malformed JSON")
    assert "the file ends inside this line" in problem


def test_a_broken_line_is_not_reported_again_by_what_refers_to_it(root: DataRoot, tmp_path: Path) -> None:
    root.edit_line(T, 3, lambda run: run.pop("goal"))
    root.edit_line(Q, 3, lambda row: row.pop("answer"))
    assert len(problems_of(root, tmp_path)) == 2


def test_several_problems_come_in_one_error(root: DataRoot, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        root.edit_line(Q, number, lambda row: row.update(eval_function="guess"))
    root.edit_line(T, 2, lambda run: run.update(states=[]))
    problems = problems_of(root, tmp_path)
    assert [problem.split(",")[0] for problem in problems].count(Q) == 3
    assert len(problems) >= 4


def test_at_most_twenty_problems_are_collected(tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", questions=60)
    for number in range(1, 61):
        root.edit_line(Q, number, lambda row: row.update(eval_function="guess"))
    with pytest.raises(DataError, match="the first 20 problems") as caught:
        ingest_dataset(root.path, tmp_path / "out", ["small"])
    assert len(caught.value.problems) == 20


def test_a_state_with_many_bad_fields_does_not_hide_the_rest(root: DataRoot, tmp_path: Path) -> None:
    root.edit_line(T, 3, lambda run: [state.pop("url") for state in run["states"]])
    root.edit_line(T, 3, lambda run: [state.pop("thought") for state in run["states"]])
    problems = problems_of(root, tmp_path)
    assert len(problems) == 4
    assert "and 5 more fields" in problems[-1]


def test_deeply_nested_json_is_malformed(root: DataRoot, tmp_path: Path) -> None:
    root.append(Q, b"[" * 200_000 + b"\n")
    (problem,) = problems_of(root, tmp_path)
    assert problem.startswith(f"{Q}, line 15: found malformed JSON")


def test_no_questions_at_all_is_an_error(root: DataRoot, tmp_path: Path) -> None:
    (root.path / Q).write_bytes(b"")
    (root.path / E).unlink()
    assert problems_of(root, tmp_path) == [f"{Q}: found no question, expected at least one"]


@pytest.mark.parametrize("file", [Q, T, SMALL])
def test_a_missing_file_is_an_error_that_says_what_a_data_root_holds(root: DataRoot, tmp_path: Path, file: str) -> None:
    (root.path / file).unlink()
    with pytest.raises(DataError) as caught:
        ingest_dataset(root.path, tmp_path / "out", ["small", "medium"])
    text = str(caught.value)
    assert f"{root.path} lacks {file}; found there:" in text
    assert "haystacks/lme_v2_medium.json" in text
    assert "A data root is a folder with questions.jsonl" in text


def test_a_missing_root_is_an_error_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found no folder .*/absent, which was given as the data root") as caught:
        ingest_dataset(tmp_path / "absent", tmp_path / "out", ["small"])
    assert "A data root is a folder with" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_bundles_that_were_not_unpacked_are_one_clear_error(root: DataRoot, tmp_path: Path) -> None:
    shutil.rmtree(root.path / "screenshots")
    with pytest.raises(DataError, match="or their bundles in"):
        ingest_dataset(root.path, tmp_path / "out", ["small"])


@pytest.mark.parametrize("depth", [340, 500, 700, 900])
def test_half_a_surrogate_pair_in_nested_lists_is_read_or_refused(root: DataRoot, tmp_path: Path, depth: int) -> None:
    value = root.objects(T)[2]
    raw = json.dumps({**value, "extra": "here"}).encode()
    root.replace_line(T, 3, raw.replace(b'"here"', b"[" * depth + b'"\\ud800"' + b"]" * depth))
    if depth < 400:
        assert ingest_dataset(root.path, tmp_path / "out", ("small", "medium")).replaced_surrogates == 1
    else:
        assert f"{T}, line 3, {RUN}: found malformed JSON" in problems_of(root, tmp_path)[0]


def test_keys_that_become_one_are_refused(root: DataRoot, tmp_path: Path) -> None:
    raw = json.dumps(root.objects(T)[2]).encode()
    root.replace_line(T, 3, raw[:-1] + b', "\\ud800": 1, "\\ud801": 2}')
    assert "stands twice in one object" in problems_of(root, tmp_path)[0]


def test_a_key_that_stands_twice_among_many_is_found_at_once(root: DataRoot, tmp_path: Path) -> None:
    many = ",".join(f'"k{number}":1' for number in range(40_000))
    root.replace_line(T, 3, b"{" + many.encode() + b',"k39999":2}')
    start = time.process_time()
    assert "'k39999' stands twice" in problems_of(root, tmp_path)[0]
    assert time.process_time() - start < 5


def test_a_long_list_with_a_name_twice_is_checked_at_once(root: DataRoot, tmp_path: Path) -> None:
    name = next(iter(root.haystacks("small")))
    root.edit_haystacks("small", lambda lists: lists.update({name: [f"t{number}" for number in range(40_000)] * 2}))
    start = time.process_time()
    problems_of(root, tmp_path)
    assert time.process_time() - start < 10


@pytest.mark.parametrize("name", ["a" * 300, "é" * 130, "x/" * 3_000])
def test_names_longer_than_files_have_are_refused(root: DataRoot, tmp_path: Path, name: str) -> None:
    root.edit_line(Q, 3, lambda question: question.update(image=name))
    root.edit_line(T, 3, lambda run: run.update(id=name))
    told = problems_of(root, tmp_path)
    assert any(text.startswith(f"{Q}, line 3, {QUESTION}: field 'image': found a path of") for text in told)
    assert any(text.startswith(f"{T}, line 3") and "field 'id'" in text for text in told)
