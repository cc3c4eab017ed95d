"""Leaderboard packages that look right and are not: mixed, cut, forged, or not writable."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.harnessworld import edit_json, edit_record, make_world, official_kinds, point_runs, total_anew

from lmev2.cli import main
from lmev2.data.errors import DataError
from lmev2.data.schema import CATEGORIES
from lmev2.interchange import layout
from lmev2.interchange.leaderboard import PAPER_TABLE2, Submission, build_package
from lmev2.metrics import OFFICIAL_COUNTS

DOMAINS = ("web", "enterprise")
Folders = tuple[Path, Path]
Point = dict[str, Folders]


def submit(tmp_path: Path, points: Point, private: bool = True, method: str | None = None) -> Submission:
    (tmp_path / "about.md").write_text("# What it is\n", encoding="utf-8")
    (tmp_path / "memory.py").write_text("class Memory: ...\n", encoding="utf-8")
    return Submission("mine", tmp_path / "about.md", tmp_path / "memory.py", points, method, private)


def reasons(submission: Submission, out: Path, table2: Path = PAPER_TABLE2) -> str:
    """Why there is no package; asserts that nothing was written."""
    before = sorted(out.parent.rglob("*"))
    with pytest.raises(DataError) as refused:
        build_package(submission, out, table2)
    assert sorted(out.parent.rglob("*")) == before
    return str(refused.value)


def copied(tmp_path: Path, name: str, folders: Folders) -> Folders:
    web, enterprise = (Path(shutil.copytree(one, tmp_path / name / one.name)) for one in folders)
    return web, enterprise


def test_one_point_is_never_of_two_methods(tmp_path: Path) -> None:
    rag = point_runs(tmp_path, "a", 1)
    other = point_runs(tmp_path, "b", 2, method="other")
    mixed = (rag[0], other[1])
    for method in (None, "mine"):
        text = reasons(submit(tmp_path, {"good": rag, "mixed": mixed}, method=method), tmp_path / "out")
        assert "for 1 reason(s)" in text
        assert f"point 'mixed': different methods: rag ({mixed[0]}), other ({mixed[1]})" in text
    build_package(submit(tmp_path, {"good": rag, "other": other}, method="mine"), tmp_path / "out")
    nameless = tmp_path / "nameless"
    shutil.copytree(rag[1], nameless)
    edit_json(nameless / layout.RUN_ARGS, lambda args: args.pop("method"))
    text = reasons(submit(tmp_path, {"mixed": (rag[0], nameless)}, method="mine"), tmp_path / "again")
    assert f"tells one of the methods: {nameless}" in text


def test_tiers_are_never_mixed(tmp_path: Path) -> None:
    small = point_runs(tmp_path, "small", 3)
    medium: list[Path] = []
    for folder in small:
        copy = Path(shutil.copytree(folder, tmp_path / "medium" / folder.name.replace("small", "medium")))
        edit_json(copy / layout.RUN_ARGS, lambda args: args.update(tier="medium"))
        medium.append(copy)
    for points in (
        {"one": (small[0], medium[1])},
        {"one": small, "other": (medium[0], medium[1])},
    ):
        for method in (None, "mine"):
            for private in (True, False):
                text = reasons(submit(tmp_path, points, private, method), tmp_path / "out")
                assert "different tiers: small (" in text and "medium (" in text
    folder, _, _ = build_package(submit(tmp_path, {"one": (medium[0], medium[1])}), tmp_path / "out")
    assert json.loads((folder / "submission_overview.json").read_text())["tier"] == "medium"


def test_a_public_package_holds_the_whole_benchmark(tmp_path: Path) -> None:
    kinds = official_kinds()
    assert Counter(CATEGORIES[kind] for kind, _ in kinds) == OFFICIAL_COUNTS
    whole = point_runs(tmp_path, "whole", 4, questions=451, kinds=kinds)
    folder, _, warnings = build_package(submit(tmp_path, {"p": whole}, private=False), tmp_path / "out")
    content = json.loads((folder / "submission_overview.json").read_text())
    assert (content["private"], content["rules_not_met"], warnings) == (False, [], [])
    assert content["questions"] == {
        "web": {"count": 240, "official": 240},
        "enterprise": {"count": 211, "official": 211},
    }
    cut = point_runs(tmp_path, "cut", 5, questions=450, kinds=kinds)
    text = reasons(submit(tmp_path, {"p": cut}, private=False), tmp_path / "other")
    assert "for 1 reason(s)" in text
    assert (
        "questions by domain are 240 web, 210 enterprise (450), the official ones 240 web, 211 enterprise (451)" in text
    )
    assert "only a --private package may be so" in text
    others = [(kind if number else "errors-gotchas", domain) for number, (kind, domain) in enumerate(kinds)]
    exchanged = point_runs(tmp_path, "exchanged", 6, questions=451, kinds=others)
    text = reasons(submit(tmp_path, {"p": exchanged}, private=False), tmp_path / "other")
    assert "questions by category are 188 static, 127 dynamic, 106 workflow, 30 gotchas (451), the official" in text
    folder, _, warnings = build_package(submit(tmp_path, {"p": cut}), tmp_path / "other")
    content = json.loads((folder / "submission_overview.json").read_text())
    assert content["private"] is True and "questions by domain" in content["rules_not_met"][0]
    assert content["questions"]["enterprise"] == {"count": 210, "official": 211}
    assert warnings == [f"private package: {fault}" for fault in content["rules_not_met"]]


def test_each_run_needs_a_latency(tmp_path: Path) -> None:
    """The mean of both domains would hide one without."""
    folders = point_runs(tmp_path, "a", 7)
    for number in range(1, 15):
        edit_record(folders[0], number, lambda record: record.update(memory_query_duration_seconds=0.0))
    total_anew(folders[0])
    text = reasons(submit(tmp_path, {"p": folders}), tmp_path / "out")
    assert "for 1 reason(s)" in text and "point 'p', web run: the latency must be above 0 s, found 0.0" in text


@pytest.mark.parametrize(
    ("in_record", "in_question"),
    [
        ({"question_text": "Easy?"}, {"question": "Easy?"}),
        ({"answer_gold": "K"}, {"answer": "K"}),
        ({"eval_function": "mc_choice_match"}, {"eval_function": "mc_choice_match"}),
    ],
)
def test_points_answer_the_same_questions(
    tmp_path: Path, in_record: dict[str, Any], in_question: dict[str, Any]
) -> None:
    first, other = point_runs(tmp_path, "a", 8), point_runs(tmp_path, "b", 9)
    edit_record(other[0], 1, lambda record: record.update(in_record))
    edit_json(other[0] / layout.QUESTIONS, lambda rows: rows[0].update(in_question))
    text = reasons(submit(tmp_path, {"a": first, "b": other}), tmp_path / "out")
    assert "for 1 reason(s)" in text
    assert (
        "points 'a' and 'b' have different web texts, golds, scorers or images of 1 questions (first: '00000000')"
        in text
    )
    build_package(submit(tmp_path, {"b": other}), tmp_path / "out")


def test_a_question_image_may_lie_elsewhere_but_is_the_same(tmp_path: Path) -> None:
    first, other = point_runs(tmp_path, "a", 10), point_runs(tmp_path, "b", 11)

    def rename(image: str) -> Callable[[list[dict[str, Any]]], None]:
        def change(rows: list[dict[str, Any]]) -> None:
            row = next(row for row in rows if isinstance(row["question"], dict))
            row["question"]["image"] = image.format(id=row["id"])

        return change

    edit_json(other[0] / layout.QUESTIONS, rename("/elsewhere/{id}.png"))
    build_package(submit(tmp_path, {"a": first, "b": other}), tmp_path / "out")
    edit_json(other[0] / layout.QUESTIONS, rename("/elsewhere/another.png"))
    assert "images of 1 questions" in reasons(submit(tmp_path, {"a": first, "b": other}), tmp_path / "again")


def test_a_method_named_by_the_folder_alone_is_a_name(tmp_path: Path) -> None:
    folders = point_runs(tmp_path, "a", 12)
    moved = []
    for folder in folders:
        moved.append(folder.rename(folder.with_name(folder.name.replace("rag", "ev il&"))))
        edit_json(moved[-1] / layout.RUN_ARGS, lambda args: args.pop("method"))
    text = reasons(submit(tmp_path, {"p": (moved[0], moved[1])}), tmp_path / "out")
    assert "the folder's name gives the method 'ev il&', which may hold only" in text
    assert "gives the method 'ev il&'" in reasons(
        submit(tmp_path, {"p": (moved[0], moved[1])}, method="x"), tmp_path / "out"
    )


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda value: value["memory_query"].update(p95_seconds=-5), "'memory_query.p95_seconds': found int -5"),
        (lambda value: value["memory_query"].update(p95_seconds=1e6), "memory_query.p95_seconds is 1000000.0, but"),
        (lambda value: value["memory_query"].update(p50_seconds=99.0), "memory_query.p50_seconds is 99.0, but"),
        (lambda value: value["memory_query"].update(max_seconds=1.0), "memory_query.max_seconds is 1.0, but"),
        (lambda value: value["memory_query"].update(total_seconds=1.0), "memory_query.total_seconds is 1.0, but"),
        (lambda value: value["memory_post_query"].update(max_seconds=-1), "'memory_post_query.max_seconds'"),
        (lambda value: value["tokens"].update(prompt_tokens=-1), "'tokens.prompt_tokens': found int -1"),
        (lambda value: value["tokens"].update(completion_tokens=7), "tokens.completion_tokens is 7, but"),
        (lambda value: value["tokens"].update(avg_total_tokens=-0.5), "'tokens.avg_total_tokens': found float -0.5"),
        (lambda value: value["tokens"].update(total_tokens=10**400), "'tokens.total_tokens'"),
        (lambda value: value["memory_context"].update(num_truncated_sequences=77), "num_truncated_sequences is 77"),
        (lambda value: value["memory_context"].update(avg_final_tokens=-3), "'memory_context.avg_final_tokens'"),
        (lambda value: value.update(completed_at_utc="zzz"), "'completed_at_utc': found str 'zzz'"),
        (lambda value: value.update(completed_at_utc="2026-13-01T00:00:00"), "'completed_at_utc'"),
    ],
)
def test_totals_are_checked(tmp_path: Path, change: Callable[[Any], object], part: str) -> None:
    web, enterprise = point_runs(tmp_path, "a", 13)
    edit_json(web / layout.AGGREGATED, change)
    text = reasons(submit(tmp_path, {"p": (web, enterprise)}), tmp_path / "out")
    assert "for 1 reason(s)" in text and part in text


def test_totals_may_leave_out_what_nothing_depends_on(tmp_path: Path) -> None:
    web, enterprise = point_runs(tmp_path, "a", 14)

    def thin(value: dict[str, Any]) -> None:
        for name in ("tokens", "memory_context", "memory_post_query", "completed_at_utc", "shared_haystack"):
            value.pop(name)
        value["memory_query"] = {"avg_seconds": value["memory_query"]["avg_seconds"]}

    edit_json(web / layout.AGGREGATED, thin)
    build_package(submit(tmp_path, {"p": (web, enterprise)}), tmp_path / "out")


def test_the_package_is_as_old_as_its_newest_run(tmp_path: Path) -> None:
    web, enterprise = point_runs(tmp_path, "a", 15)
    edit_json(web / layout.AGGREGATED, lambda value: value.update(completed_at_utc="2026-05-01T01:00:00+09:00"))
    edit_json(enterprise / layout.AGGREGATED, lambda value: value.update(completed_at_utc="2026-04-30T20:00:00Z"))
    folder, _, _ = build_package(submit(tmp_path, {"p": (web, enterprise)}), tmp_path / "out")
    content = json.loads((folder / "submission_overview.json").read_text())
    assert content["generated_at_utc"] == "2026-04-30T20:00:00Z"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda text: "", "lacks the column(s) method, label, tier, overall, latency_s"),
        (lambda text: text.replace("tier", "size", 1), "lacks the column(s) tier"),
        (lambda text: text.split("\n")[0] + "\n", "has, for tier 'small', rows of no method; expected one of each of"),
        (lambda text: text.replace(",small,", ",tiny,"), "rows of no method"),
        (lambda text: text.replace("rag,agentrunbook_r,", "rag,renamed,"), "rows of agentrunbook_c, codex, rag_slice"),
        (
            lambda text: text.replace("0.699", "69.9"),
            "codex on small: found overall '69.9', expected a number from 0 to 1",
        ),
        (
            lambda text: text.replace("177.2", "fast"),
            "codex on small: found latency_s 'fast', expected a number from 0",
        ),
        (lambda text: text.replace("177.2", "inf"), "codex on small: found latency_s 'inf'"),
        (lambda text: text.replace("177.2", "-1"), "codex on small: found latency_s '-1'"),
        (lambda text: text.replace("Codex,small", "AgentRunbook-C,small"), "has a label twice on tier 'small'"),
        (lambda text: '"' + text, "cannot be read as CSV"),
    ],
)
def test_reference_points_are_checked(tmp_path: Path, change: Callable[[str], str], part: str) -> None:
    table = tmp_path / "table.csv"
    table.write_text(change(PAPER_TABLE2.read_text(encoding="utf-8")), encoding="utf-8")
    text = reasons(submit(tmp_path, {"p": point_runs(tmp_path, "a", 16)}), tmp_path / "out", table)
    assert "for 1 reason(s)" in text and f"reference points: {table}" in text and part in text


def test_a_binary_reference_is_no_table(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_bytes(b"\xff\xfe\x00")
    text = reasons(submit(tmp_path, {"p": point_runs(tmp_path, "a", 16)}), tmp_path / "out", table)
    assert "cannot be read as CSV" in text


@pytest.mark.parametrize("below", ["", "/deeper", "/deeper/still"])
def test_a_place_that_is_no_folder_is_named(tmp_path: Path, below: str, capsys: pytest.CaptureFixture[str]) -> None:
    web, enterprise = point_runs(tmp_path, "a", 17)
    submission = submit(tmp_path, {"p": (web, enterprise)})
    (tmp_path / "file").write_text("x")
    out = f"{tmp_path}/file{below}"
    text = reasons(submission, Path(out))
    assert f"cannot make the folder {out}: {tmp_path}/file is not a folder" in text
    files = ["--description", str(submission.description), "--code", str(submission.code)]
    pack = ["leaderboard", "--name", "m", *files, f"--point=p={web},{enterprise}", "--private", "--out", out]
    assert main(pack) == 1
    assert "is not a folder" in capsys.readouterr().err
    take = ["import-run", str(web), "--name", "m", "--label", "M", "--out", out + "/x"]
    assert main(take) == 1
    assert f"{tmp_path}/file is not a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "x"


def test_what_the_system_refuses_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (web, enterprise) = make_world(tmp_path / "data", 18).export(tmp_path / "a")
    submission = submit(tmp_path, {})

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    files = ["--description", str(submission.description), "--code", str(submission.code), "--private"]
    pack = ["leaderboard", "--name", "m", *files, f"--point=p={web},{enterprise}", "--out", str(tmp_path / "out")]
    with monkeypatch.context() as patched:
        patched.setattr("lmev2.interchange.leaderboard.write_tarball", refuse)
        assert main(pack) == 1
    assert "no package of 'm': [Errno 28] No space left" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())
    assert main(pack) == 0
    with monkeypatch.context() as patched:
        patched.setattr("lmev2.interchange.importing.write_rows", refuse)
        assert main(["import-run", str(web), "--name", "m", "--label", "M", "--out", str(tmp_path / "in")]) == 1
    assert "No space left" in capsys.readouterr().err
    assert not (tmp_path / "in").exists()


def test_a_mark_without_an_error_is_no_package(tmp_path: Path) -> None:
    folders = point_runs(tmp_path, "a", 19)
    edit_json(folders[1] / layout.RUN_ARGS, lambda args: args.update(incomplete=True))
    submission = submit(tmp_path, {"p": folders})
    assert "marked as incomplete, but all of its 14 records have a score" in reasons(submission, tmp_path / "out")
    edit_json(folders[1] / layout.RUN_ARGS, lambda args: args.update(incomplete=False))
    build_package(replace(submission, points={"p": copied(tmp_path, "b", folders)}), tmp_path / "out")
