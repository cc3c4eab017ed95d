"""``lmev2 validate``: it says all that an ingestion refuses, and what is missing, and it writes nothing."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from dataroot import SHARED_DATA, DataRoot, make_data_root, make_id, write_png
from test_data_refusals import CASES, HAYSTACK_CASES, QUESTION, SMALL

from lmev2.cli import main
from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset
from lmev2.data.validate import validate_root

OFFICIAL = SHARED_DATA / "lme_v2_official"
TIERS = ("small", "medium")


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return make_data_root(tmp_path / "root")


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    status = main(["validate", *map(str, arguments), "--json"])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, value


def run_text(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    status = main(["validate", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert err == ""
    return status, out


def refused_by_ingestion(root: DataRoot, out: Path) -> list[str]:
    with pytest.raises(DataError) as caught:
        ingest_dataset(root.path, out, TIERS)
    return list(caught.value.problems)


def as_line(problem: dict[str, Any]) -> str:
    line = f"line {problem['line']}" if problem["line"] else None
    return f"{', '.join(filter(None, [problem['file'], line, problem['id']]))}: {problem['text']}"


@pytest.mark.parametrize("case", CASES)
def test_every_broken_line_is_named_with_file_line_and_id(
    root: DataRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    break_it, file, identity, texts = CASES[case]
    break_it(root)
    status, value = run_json(capsys, root.path)
    (problem,) = [problem for problem in value["problems"] if problem["file"] == file]
    number = int(next((text for text in [identity, *texts] if text.startswith("line ")), "line 3").split()[1])
    assert (status, value["valid"], problem["line"]) == (1, False, number)
    if not identity.startswith("line "):
        assert problem["id"] == identity
    for text in texts:
        assert text in as_line(problem)
    assert [as_line(problem) for problem in value["problems"]] == refused_by_ingestion(root, tmp_path / "out")
    monkeypatch.setenv("COLUMNS", "2000")
    assert run_text(capsys, root.path)[0] == 1


@pytest.mark.parametrize("case", HAYSTACK_CASES)
def test_every_broken_haystack_is_named(
    root: DataRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    break_it, texts = HAYSTACK_CASES[case]
    break_it(root)
    status, value = run_json(capsys, root.path)
    (problem,) = value["problems"]
    assert (status, problem["file"]) == (1, SMALL)
    assert QUESTION in problem["id"]
    assert [as_line(problem)] == refused_by_ingestion(root, tmp_path / "out")
    monkeypatch.setenv("COLUMNS", "2000")
    status, text = run_text(capsys, root.path)
    assert status == 1
    assert f"\n{SMALL}: 1 problem\n  " in text
    for expected in [QUESTION, *texts]:
        assert expected in text


@pytest.mark.parametrize(
    "break_it",
    [
        lambda root: (root.path / SMALL).write_bytes(b"{"),
        lambda root: (root.path / SMALL).write_bytes(b"[]"),
        lambda root: (root.path / "trajectories.jsonl").write_bytes(b'{"id": "cut", "dom'),
        lambda root: root.append("questions.jsonl", b"[" * 200_000 + b"\n"),
        lambda root: (root.path / "questions.jsonl").write_bytes(b""),
        lambda root: [root.edit_line("trajectories.jsonl", 3, lambda run: [s.pop("url") for s in run["states"]])],
    ],
)
def test_whole_files_that_are_broken_give_the_problems_of_an_ingestion(
    root: DataRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str], break_it: Any
) -> None:
    break_it(root)
    (root.path / "evidence.jsonl").unlink()
    status, value = run_json(capsys, root.path)
    assert status == 1
    assert [as_line(problem) for problem in value["problems"]] == refused_by_ingestion(root, tmp_path / "out")


def test_all_problems_are_counted_and_the_first_of_each_file_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_data_root(tmp_path / "root", questions=60)
    for number in range(1, 61):
        root.edit_line("questions.jsonl", number, lambda row: row.update(eval_function="guess"))
    root.edit_line("trajectories.jsonl", 3, lambda run: run.update(states=[]))
    assert len(refused_by_ingestion(root, tmp_path / "out")) == 20
    status, value = run_json(capsys, root.path)
    assert status == 1
    counts = value["problems_by_file"]
    assert (counts["questions.jsonl"], counts["trajectories.jsonl"]) == (60, 1)
    # The evidence that names states of the empty trajectory is not told beside it.
    assert value["problem_count"] == sum(counts.values()) == 61
    kept = [problem["file"] for problem in value["problems"]]
    assert (kept.count("questions.jsonl"), kept.count("trajectories.jsonl")) == (20, 1)
    assert "  and 40 more (--limit 0 shows all)\n" in run_text(capsys, root.path)[1]
    assert "  and 57 more (--limit 0 shows all)\n" in run_text(capsys, root.path, "--limit", 3)[1]
    everything = run_json(capsys, root.path, "--limit", 0)[1]
    assert [problem["line"] for problem in everything["problems"] if problem["file"] == "questions.jsonl"] == [
        *range(1, 61)
    ]


def test_a_valid_root_is_summed_up(root: DataRoot, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(root.path.rglob("*"))
    status, text = run_text(capsys, root.path)
    assert status == 0
    lines = {line.split("  ")[0].strip(): line.split("  ", 1)[-1].strip() for line in text.split("\n")}
    assert lines[f"{root.path}: valid"]
    assert lines["Questions"] == "14 (enterprise 7, web 7), 2 with an image"
    assert lines["Trajectories"] == "6 (enterprise 3, web 3)"
    assert lines["States"] == "24, 24 with a screenshot"
    assert lines["Haystacks medium"] == "6 different lists of 3 trajectories, 6 in all"
    assert lines["Evidence"] == "labels of 14 questions; 0 labelled states lie in no haystack"
    assert all(len(line) <= 80 for line in text.split("\n") if str(root.path) not in line)
    status, value = run_json(capsys, root.path)
    assert (status, value["valid"], value["problems"], value["missing"], value["notes"]) == (0, True, [], [], [])
    assert value["manifest"] == ingest_dataset(root.path, tmp_path / "out", TIERS).model_dump()
    assert sorted(root.path.rglob("*")) == before


def test_tiers_that_were_not_asked_for_may_be_missing(root: DataRoot, capsys: pytest.CaptureFixture[str]) -> None:
    (root.path / SMALL).unlink()
    assert run_text(capsys, root.path, "--tiers", "medium")[0] == 0
    status, value = run_json(capsys, root.path)
    assert (status, [problem["file"] for problem in value["problems"]]) == (1, [SMALL])
    assert [missing["what"] for missing in value["missing"]] == [SMALL]


@pytest.mark.parametrize("file", ["questions.jsonl", "trajectories.jsonl", SMALL])
def test_a_missing_file_is_named_and_the_rest_is_checked(
    root: DataRoot, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    other = next(name for name in ("trajectories.jsonl", "questions.jsonl") if name != file)
    root.edit_line(other, 3, lambda value: value.update(domain="moon"))
    (root.path / file).unlink()
    status, value = run_json(capsys, root.path)
    assert status == 1
    assert file in [missing["what"] for missing in value["missing"]]
    # Nothing is said to be unknown only because the file that holds it is missing.
    assert {(problem["file"], problem["line"]) for problem in value["problems"]} == {(file, None), (other, 3)}


def test_without_trajectories_the_ids_that_haystacks_name_are_counted(
    root: DataRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    (root.path / "trajectories.jsonl").unlink()
    shutil.rmtree(root.path / "screenshots")
    (root.path / str(root.questions[-1]["image"] or root.questions[-2]["image"])).unlink()
    status, value = run_json(capsys, root.path)
    missing = {item["what"]: item for item in value["missing"]}
    assert status == 1
    assert set(missing) == {"trajectories.jsonl", "question images", "screenshots/"}
    assert "the 6 trajectories that the haystacks name (enterprise 3, web 3)" in missing["trajectories.jsonl"]["text"]
    ids = sorted(make_id("trajectory", number) for number in range(6))
    assert missing["trajectories.jsonl"]["examples"] == ids[:3]
    assert missing["question images"]["text"] == "1 of the 2 that the questions name"
    assert "bundles in trajectory_screenshots/" in missing["screenshots/"]["text"]
    assert value["problem_count"] == 3


def test_repeated_ids_in_a_haystack_are_found_without_trajectories(
    root: DataRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    name = root.questions[2]["id"]
    root.edit_haystacks("small", lambda value: value[name].append(value[name][0]))
    (root.path / "trajectories.jsonl").unlink()
    value = run_json(capsys, root.path)[1]
    assert [problem["file"] for problem in value["problems"]] == [SMALL, "trajectories.jsonl"]


def test_missing_screenshots_are_counted_over_all_trajectories(
    root: DataRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = [root.trajectories[number]["states"][1]["screenshot"] for number in (1, 4)]
    for path in gone:
        (root.path / path).unlink()
    value = run_json(capsys, root.path)[1]
    assert value["problems_by_file"] == {"trajectories.jsonl": 2}
    (missing,) = value["missing"]
    assert missing["text"] == "2 of the files that the trajectories name"
    assert missing["examples"] == gone


def test_bundles_that_were_not_unpacked_are_told(root: DataRoot, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(root.path / "screenshots")
    write_png(root.path / "trajectory_screenshots" / "web_screenshots.tar.gz", 1)
    (missing,) = run_json(capsys, root.path)[1]["missing"]
    assert "trajectory_screenshots/ holds 1 bundle(s) of them that were not unpacked" in missing["text"]


def test_a_file_that_differs_from_the_published_sums_is_a_note(
    root: DataRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    (root.path / "checksums.sha256").write_text(f"{'0' * 64}  questions.jsonl\n", encoding="utf-8")
    root.edit_line("questions.jsonl", 1, lambda row: row.update(remark="x"))
    status, value = run_json(capsys, root.path)
    assert (status, value["valid"]) == (0, True)
    assert value["notes"] == [
        "questions.jsonl is not the file whose sum stands in checksums.sha256",
        "fields beyond the format on objects of kind question: remark 1",
    ]


def test_what_a_message_quotes_cannot_command_the_terminal(root: DataRoot, capsys: pytest.CaptureFixture[str]) -> None:
    root.edit_line("trajectories.jsonl", 3, lambda run: run.update(id="x\x1b[2Jy\u202e"))
    out = run_text(capsys, root.path)[1]
    assert "\x1b" not in out and "\u202e" not in out


def test_a_root_that_is_not_there_is_bad_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run_text(capsys, tmp_path / "absent")
    assert status == 1
    words = " ".join(text.split())
    assert "found no such folder, which was given as the data root" in words
    assert "A data root is a folder with questions.jsonl" in words
    assert run_json(capsys, tmp_path / "absent")[1]["valid"] is False
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["root", "more"],
        ["root", "--tiers", "huge"],
        ["root", "--tiers", ""],
        ["root", "--tiers", "small,small"],
        ["root", "--limit", "-1"],
        ["root", "--limit", "many"],
        ["root", "--fast"],
    ],
)
def test_wrong_commands_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["validate", *arguments])
    assert stopped.value.code == 2
    assert "usage: lmev2" in capsys.readouterr().err


def test_memory_holds_one_trajectory_at_a_time(tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "root", trajectories=2)
    run = root.trajectories[0]
    filler = "\n".join(["\t[x] cell 'filler'"] * 20_000)
    with (root.path / "trajectories.jsonl").open("ab") as stream:
        for number in range(50):
            state = {**run["states"][0], "accessibility_tree": filler, "screenshot": None}
            big = {**run, "id": f"large{number}", "states": [{**state, "state_index": index} for index in range(3)]}
            stream.write(json.dumps(big).encode() + b"\n")
    size = (root.path / "trajectories.jsonl").stat().st_size
    assert size > 50_000_000
    told: list[tuple[int, int]] = []
    tracemalloc.start()
    try:
        validation = validate_root(root.path, TIERS, progress=lambda done, total: told.append((done, total)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert validation.valid
    assert peak < 15_000_000
    assert told[-1][0] == told[-1][1] > size
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_long_work_tells_its_progress_and_its_end_once(
    root: DataRoot, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmev2.progress._MB", 1000)
    total = sum((root.path / name).stat().st_size for name in (SMALL, SMALL.replace("small", "medium"))) + sum(
        path.stat().st_size for path in root.path.glob("*.jsonl")
    )
    monkeypatch.setattr("lmev2.cli_validate._PROGRESS_FROM_MB", 2 * total)
    assert main(["validate", str(root.path)]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("lmev2.cli_validate._PROGRESS_FROM_MB", 1)
    assert main(["validate", str(root.path)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"Checking: {total // 1000}/{total // 1000} MB (in 0 s)"]


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason=f"no official questions at {OFFICIAL}")
def test_official_questions_without_trajectories(capsys: pytest.CaptureFixture[str]) -> None:
    status, value = run_json(capsys, OFFICIAL, "--limit", 0)
    assert status == 1
    assert value["problems_by_file"] == {"questions.jsonl": 29, "trajectories.jsonl": 1, "screenshots": 1}
    missing = {item["what"]: item for item in value["missing"]}
    assert (
        "the 1473 trajectories that the haystacks name (enterprise 874, web 599)"
        in (missing["trajectories.jsonl"]["text"])
    )
    assert missing["question images"]["text"] == "29 of the 29 that the questions name"
    assert missing["question images"]["examples"][0] == "question_screenshots/0574c69a.png"
    images = [problem for problem in value["problems"] if problem["file"] == "questions.jsonl"]
    assert all(problem["line"] and problem["id"] and "field 'image'" in problem["text"] for problem in images)
    status, text = run_text(capsys, OFFICIAL)
    assert status == 1
    assert all(len(line) <= 80 for line in text.split("\n") if str(OFFICIAL) not in line)
    for expected in ("451 questions (enterprise 211, web 240)", "451 lists of 387 to 500 trajectories"):
        assert expected in text
    assert "xiaowu0162/longmemeval-v2" in text


def test_the_shipped_data_are_valid(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, value = run_json(capsys, project / "resources" / "minibench")
    assert (status, value["notes"]) == (0, [])


def test_real_runs_are_valid(realruns: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_text(capsys, realruns)[0] == 0
