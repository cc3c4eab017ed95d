"""Run folders that hold what later stages could not use, that contradict themselves, or that reach for foreign files."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.dataroot import write_png
from unit.harnessworld import World, edit_json, edit_record, make_world, records, total_anew

from lmev2.cli import main
from lmev2.data.errors import DataError
from lmev2.interchange import layout
from lmev2.interchange.export import imported_args
from lmev2.interchange.images import NO_PICTURE
from lmev2.interchange.importing import import_runs
from lmev2.interchange.jsonfiles import load_json
from lmev2.interchange.manifest import load_manifest
from lmev2.interchange.select import select_import
from lmev2.rows import ANSWER, CONTEXT, SCORE, read_rows

Row = dict[str, Any]
Change = Callable[[Path], object]
FREE = {"text": "tab\tand\nline", "list": [1, 2.5, None, True, {"deep": [[["x"]]]}], "big": 10**30, "small": -1e-300}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path / "data", 31)


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    (web,) = world.export(tmp_path / "runs", "web")
    return web


def refusal(folder: Path, tmp_path: Path, label: str = "X") -> str:
    """What the import says; asserts that it wrote nothing."""
    with pytest.raises(DataError) as refused:
        import_runs([folder], "x", label, None, tmp_path / "in" / "x")
    assert not (tmp_path / "in").exists() or not list((tmp_path / "in").iterdir())
    return str(refused.value)


def first(folder: Path, wanted: Callable[[Row], bool]) -> int:
    return next(number for number, row in enumerate(records(folder), start=1) if wanted(row))


def ours(**changes: Any) -> Change:
    return lambda folder: edit_record(folder, 1, lambda record: record[layout.OURS].update(changes))


def item(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        number = first(folder, lambda row: bool(row["memory_context"]))
        edit_record(folder, number, lambda record: record[layout.OURS]["items"][0].update(changes))

    return change


def replaced(name: str, old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="ascii")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="ascii")

    return change


def edited(name: str, change: Callable[[Any], object]) -> Change:
    return lambda folder: edit_json(folder / name, change)


def where(wanted: Callable[[Row], bool], change: Callable[[Row], object]) -> Change:
    return lambda folder: edit_record(folder, first(folder, wanted), change)


def is_right(row: Row) -> bool:
    return bool(row["score"] == 1)


def is_judged(row: Row) -> bool:
    return row["score"] is not None and row[layout.OURS]["judge_label"] is not None


def flip(name: str) -> Callable[[Row], None]:
    return lambda row: row.update({name: not row[name]})


def flip_label(row: Row) -> None:
    row[layout.OURS]["judge_label"] = 1 - row[layout.OURS]["judge_label"]


def cut(row: Row) -> None:
    row.update(memory_context_original_token_count=row["memory_context_token_count"] + 1)
    row.update(memory_context_was_truncated=False)


RECORDS, ARGS, TOTALS = layout.RECORDS, layout.RUN_ARGS, layout.AGGREGATED
DURATION = '"memory_query_duration_seconds": '
REFUSED: list[tuple[Change, str]] = [
    # Queries that are no JSON object of lists of texts.
    *(
        (ours(queries=queries), "field 'lmev2.queries': found str")
        for queries in (
            "",
            "broken",
            "[1]",
            "null",
            "1e400",
            '"x"',
            '{"note": "abc"}',
            '{"note": [null]}',
            '{"note": 3}',
        )
    ),
    *(
        (ours(queries=queries), "field 'lmev2.queries': found str")
        for queries in ('{"note": ["\\ud800"]}', '{"note": [], "note": ["x"]}', '{"note": [1e400]}', "[" * 100_000)
    ),
    # Numbers that are none, or too large for one.
    (replaced(RECORDS, DURATION, DURATION + '1e400, "x": '), "the number 1e400 is too large"),
    (replaced(RECORDS, DURATION, DURATION + '1e308, "x": '), "'memory_query_duration_seconds': found float 1e+308"),
    (replaced(RECORDS, DURATION, DURATION + f'1{"0" * 400}, "x": '), "'memory_query_duration_seconds'"),
    (replaced(RECORDS, '"waited_s": ', '"waited_s": 1e400, "x": '), "the number 1e400 is too large"),
    (replaced(RECORDS, '"waited_s": ', '"waited_s": -Infinity, "x": '), "-Infinity is not JSON"),
    (replaced(RECORDS, '"wall_s": ', '"wall_s": 1e999, "x": '), "the number 1e999 is too large"),
    (replaced(RECORDS, '"score": ', '"score": -1e400, "x": '), "the number -1e400 is too large"),
    (ours(wall_s=1e300), "'lmev2.wall_s': found float 1e+300"),
    (ours(waited_s=-1.0), "'lmev2.waited_s'"),
    (item(score=10**400), "field 'lmev2.items[0].score'"),
    (edited(TOTALS, lambda value: value["overall"].update(overall_full_set=float("nan"))), "NaN is not JSON"),
    (edited(TOTALS, lambda value: value.update(anything=float("inf"))), "Infinity is not JSON"),
    (edited(ARGS, lambda value: value.update(temperature=float("nan"))), "run_args.json: not readable as JSON (NaN is"),
    (edited(ARGS, lambda value: value.update(deep=[{"x": float("-inf")}])), "-Infinity is not JSON"),
    (replaced(ARGS, "{", '{"t": 1e400,'), "the number 1e400 is too large"),
    # Texts that are none.
    (
        edited(ARGS, lambda value: value.update(free="\ud800")),
        "run_args.json: not readable as JSON (half of a surrogate",
    ),
    (edited(ARGS, lambda value: value.update({"\udc00": 1})), "half of a surrogate pair"),
    (edited(ARGS, lambda value: value.update(deep=[{"x": ["a\ud83d"]}])), "half of a surrogate pair"),
    (edited(TOTALS, lambda value: value.update(completed_at_utc="\ud800")), "half of a surrogate pair"),
    (
        edited(TOTALS, lambda value: value.update(completed_at_utc="../..; rm")),
        "'completed_at_utc': found str '../..; rm'",
    ),
    (edited(layout.QUESTIONS, lambda rows: rows[0].update(answer="\ud800")), "half of a surrogate pair"),
    (edited(layout.HAYSTACK, lambda value: value["00000000"].append("\ud800")), "half of a surrogate pair"),
    # Equal keys.
    (replaced(ARGS, "{", '{"model": "another",'), "run_args.json: not readable as JSON (the key 'model' stands twice"),
    (replaced(TOTALS, "{", '{"overall": {},'), "the key 'overall' stands twice in one object"),
    (replaced(layout.HAYSTACK, "{", '{"00000000": [],'), "the key '00000000' stands twice in one object"),
    (replaced(layout.QUESTIONS, "{", '{"id": "x",'), "the key 'id' stands twice in one object"),
    (replaced(RECORDS, '"score": ', '"score": 0.0, "score": '), "the key 'score' stands twice in one object"),
    (
        replaced(RECORDS, '"prompt_messages": ', '"a": {"b": 1, "b": 1}, "prompt_messages": '),
        "the key 'b' stands twice",
    ),
    # Nested so deeply that a reader of our files gives up.
    (replaced(ARGS, "{", f'{{"deep": {"[" * 300}{"]" * 300},'), "more than 64 lists and objects stand in each other"),
    (replaced(ARGS, "{", f'{{"deep": {"[" * 100_000}{"]" * 100_000},'), "run_args.json: not readable as JSON"),
    # UNKNOWN, by the scorer's own rule.
    (
        where(is_right, lambda row: row.update(response_parsed_boxed="UNKNOWN")),
        "is_unknown is False, but response_parsed_boxed is 'UNKNOWN'",
    ),
    (where(is_right, lambda row: row.update(response_parsed_boxed=" unknown\n")), "is_unknown is False, but"),
    (
        where(is_right, lambda row: row.update(response_parsed_boxed="unKnown", is_unknown=True)),
        "score is 1, but the answer is UNKNOWN, which is always wrong",
    ),
    (
        where(is_right, lambda row: row.update(response_raw="\\boxed{A} or \\boxed{ unknown }")),
        "score is 1, but the answer is UNKNOWN, which is always wrong",
    ),
    (where(lambda row: row["is_unknown"], flip("is_unknown")), "is_unknown is False, but response_parsed_boxed is"),
    (where(lambda row: not row["is_unknown"], flip("is_unknown")), "is_unknown is True, but response_parsed_boxed is"),
    # The other facts that a record tells twice.
    (
        where(lambda row: row["memory_context_was_truncated"], flip("memory_context_was_truncated")),
        "found False, but of",
    ),
    (
        where(lambda row: not row["memory_context_was_truncated"], flip("memory_context_was_truncated")),
        "found True, but",
    ),
    (where(lambda row: True, cut), "field 'memory_context_was_truncated': found False, but of"),
    (where(is_judged, flip_label), "field 'lmev2.judge_label': found"),
    (where(is_judged, lambda row: row[layout.OURS].update(judge_label=2)), "'lmev2.judge_label': found int 2"),
    (where(is_judged, lambda row: row[layout.OURS].update(judge_label=-1)), "'lmev2.judge_label': found int -1"),
    (where(is_judged, lambda row: row[layout.OURS].update(judge_label=True)), "'lmev2.judge_label': found bool True"),
    (
        where(lambda row: not is_judged(row), lambda row: row[layout.OURS].update(judge_label=int(row["score"]))),
        "expected null, since no judge scores this question",
    ),
    # Marks of an incomplete run, names within a line.
    (edited(ARGS, lambda value: value.update(incomplete=True)), "marked as incomplete, but all of its 14 records have"),
    (
        edited(TOTALS, lambda value: value.update(incomplete=True)),
        "aggregated_metrics.json: the run is marked as incom",
    ),
    (
        edited(TOTALS, lambda value: value.update(errors={"api_error": 1})),
        "errors is {'api_error': 1}, but the records",
    ),
    (edited(ARGS, lambda value: value.update(errors={"api_error": -1})), "'errors.api_error': found int -1"),
    (
        edited(ARGS, lambda value: value.update(model="a\nb")),
        "must be one line without control characters, found '\\n'",
    ),
    (edited(ARGS, lambda value: value.update(evaluator_model="a\u202eb")), "control characters, found '\\u202e'"),
    (edited(ARGS, lambda value: value.update(model=" ")), "must not be empty"),
    (edited(ARGS, lambda value: value.update(model="x" * 3000)), "must have at most 200 characters"),
]


@pytest.mark.parametrize(("damage", "part"), REFUSED)
def test_nothing_is_written_of_what_cannot_be_used(folder: Path, tmp_path: Path, damage: Change, part: str) -> None:
    damage(folder)
    assert part in refusal(folder, tmp_path)


@pytest.mark.parametrize("kind", ["api_error\nrow 2", " ", "x" * 3000])
def test_error_kinds_are_names(folder: Path, tmp_path: Path, kind: str) -> None:
    edit_record(folder, 1, lambda row: row.update(score=None, score_bool=None, error=kind))
    assert "field 'error': found str" in refusal(folder, tmp_path)


def test_a_judges_error_comes_after_a_query(folder: Path, tmp_path: Path) -> None:
    change = {"score": None, "score_bool": None, "error": "judge_error", "memory_query_duration_seconds": None}
    edit_record(folder, 1, lambda row: [row.update(change), row[layout.OURS].update(judge_label=None)])
    total_anew(folder)
    assert "expected seconds in a record whose query ended well" in refusal(folder, tmp_path)


def test_errors_are_counted_as_told(tmp_path: Path) -> None:
    (folder,) = make_world(tmp_path / "data", 32, errors=0.4).export(tmp_path / "runs", "web")
    assert import_runs([folder], "x", "X", None, tmp_path / "fine").runs[0].errors
    edit_json(folder / layout.RUN_ARGS, lambda args: args.update(errors={"api_error": 99}))
    assert "run_args.json: errors is {'api_error': 99}, but the records give" in refusal(folder, tmp_path)


def test_facts_beyond_ours_are_left_out(folder: Path, tmp_path: Path) -> None:
    """Later versions may tell more of an item."""
    item(rank=3, note={"x": 1})(folder)
    import_runs([folder], "x", "X", None, tmp_path / "x")
    rows = list(read_rows(tmp_path / "x" / "contexts.parquet", CONTEXT))
    assert any(row["items"] for row in rows)


def test_half_surrogates_of_a_reply_are_replaced(folder: Path, tmp_path: Path) -> None:
    edit_record(folder, 1, lambda row: row.update(response_raw="\ud800 and \\boxed{x}"))
    import_runs([folder], "x", "X", None, tmp_path / "x")
    replies = [row["reply"] for row in read_rows(tmp_path / "x" / "answers.parquet", ANSWER)]
    assert "\ufffd and \\boxed{x}" in replies


def test_free_settings_come_back_as_they_were(folder: Path, tmp_path: Path) -> None:
    edit_json(folder / layout.RUN_ARGS, lambda args: args.update(FREE))
    manifest = import_runs([folder], "x", "X", None, tmp_path / "x")
    args, _ = imported_args(load_manifest(tmp_path / "x"), "web")
    assert {name: args[name] for name in FREE} == FREE
    assert load_manifest(tmp_path / "x") == manifest


@pytest.mark.parametrize(
    "text", ["[1, 2.5, -0.0, 1e-400]", '{"a": {"b": 1}, "b": [{"b": 2}, {"b": 2}]}', '"\\ud83d\\ude00"']
)
def test_sound_json_is_read_like_any(text: str) -> None:
    assert load_json(text) == json.loads(text)


@pytest.mark.parametrize("label", ["a\nb", "a\r", "a\u2028b", "\x1b[31m", "a\x00b", "\u202eb", " ", "", "x" * 201])
def test_labels_are_one_line(folder: Path, tmp_path: Path, label: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the import cannot be written: the label" in refusal(folder, tmp_path, label)
    command = ["import-run", str(folder), "--name", "x", "--out", str(tmp_path / "x"), "--label", label]
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 2 and "argument --label" in capsys.readouterr().err
    import_runs([folder], "x", "Thé “label” | 測試 <b>", None, tmp_path / "x")
    edit_json(tmp_path / "x" / "import.json", lambda value: value.update(label=label))
    with pytest.raises(DataError, match="label: "):
        load_manifest(tmp_path / "x")


def test_a_link_to_nowhere_is_not_written_over(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match="exists already"):
        import_runs([folder], "x", "X", None, tmp_path / "x")


def show(folder: Path, names: list[str]) -> None:
    """Let the first record's context hold images of these names, and nothing else."""
    blank: Row = {"trajectory_id": None, "states": [], "pool": None, "score": None}

    def change(row: Row) -> None:
        row["memory_context"] = [{"type": "image", "value": name} for name in names]
        row[layout.OURS].update(items=[blank] * len(names), dropped_items=[])

    edit_record(folder, 1, change)


def taken(world: World, folder: Path, out: Path) -> list[str]:
    """Values of the first record's items in a run that takes the import in."""
    targets = {stage: out / f"{stage}.parquet" for stage in ("contexts", "answers", "scores")}
    select_import(folder, world.questions, world.questions, world.haystacks, world.evidence, world.root, targets)
    assert len(list(read_rows(targets["scores"], SCORE))) == 14
    rows = {row["question_id"]: row for row in read_rows(targets["contexts"], CONTEXT)}
    return [item["value"] for item in rows["00000000"]["items"]]


def test_only_files_inside_the_data_root_are_pictures(
    world: World, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret.png"
    write_png(secret, 1)
    write_png(world.root / "shots" / "good.png", 2)
    (world.root / "inside.png").symlink_to("shots/good.png")
    (world.root / "outside.png").symlink_to(secret)
    (world.root / "parent").symlink_to(tmp_path)
    (world.root / "circle.png").symlink_to("circle.png")
    os.mkfifo(world.root / "pipe.png")
    good = ["shots/good.png", "inside.png"]
    elsewhere = [str(secret), "../secret.png", "shots/../../secret.png", "/dev/zero", "/etc/passwd", "http://x/y.png"]
    elsewhere += ["data:image/png;base64,AAAA", f"file://{secret}"]
    missing = [
        "outside.png",
        "parent/secret.png",
        "circle.png",
        "pipe.png",
        "shots",
        "none.png",
        "x" * 5000,
        "a/" * 900,
    ]
    missing += ["secret.png", "~/secret.png"]
    show(folder, [*good, *elsewhere, *missing])
    command = ["import-run", str(folder), "--name", "x", "--label", "X", "--out", str(tmp_path / "x")]
    assert main(command) == 0
    assert f"  {len(elsewhere)} images are not named relative to a data root" in capsys.readouterr().out
    assert load_manifest(tmp_path / "x").runs[0].images_elsewhere == len(elsewhere)
    with caplog.at_level(logging.WARNING, "lmev2"):
        values = taken(world, tmp_path / "x", tmp_path / "run")
    assert values[: len(good)] == [str(world.root / name) for name in good]
    assert values[len(good) :] == [NO_PICTURE + name for name in [*elsewhere, *missing]]
    images = sum(item["type"] == "image" for row in records(folder) for item in row["memory_context"])
    images += sum(item["type"] == "image" for row in records(folder) for item in row[layout.OURS]["dropped_items"])
    assert f"{len(elsewhere) + len(missing)} of {images} images name no file inside the data root" in caplog.text


def test_a_data_root_behind_a_link_has_its_pictures(world: World, folder: Path, tmp_path: Path) -> None:
    write_png(world.root / "good.png", 2)
    show(folder, ["good.png"])
    import_runs([folder], "x", "X", None, tmp_path / "x")
    shutil.move(world.root, tmp_path / "moved")
    world.root.symlink_to(tmp_path / "moved")
    assert taken(world, tmp_path / "x", tmp_path / "run") == [str(world.root / "good.png")]


def test_images_without_a_picture_are_exported_as_they_came(world: World, folder: Path, tmp_path: Path) -> None:
    names = ["/etc/passwd", "../x.png", "http://x//y.png", "none.png"]
    show(folder, names)
    import_runs([folder], "rag", "X", None, tmp_path / "x")
    targets = {stage: tmp_path / "run" / f"{stage}.parquet" for stage in ("contexts", "answers", "scores")}
    select_import(tmp_path / "x", world.questions, world.questions, world.haystacks, [], world.root, targets)
    again = World(world.root, "rag", "small", world.questions, world.haystacks)
    schemas = {"contexts": CONTEXT, "answers": ANSWER, "scores": SCORE}
    again.contexts, again.answers, again.scores = (list(read_rows(targets[name], schemas[name])) for name in schemas)
    (second,) = again.export(tmp_path / "again", "web", prompt=None)
    assert [item["value"] for item in records(second)[0]["memory_context"]] == names
    import_runs([second], "rag", "X", None, tmp_path / "y")


@pytest.mark.parametrize("name", [layout.RUN_ARGS, layout.AGGREGATED])
def test_null_is_no_object(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).write_text("null", encoding="utf-8")
    assert f"{name}: found NoneType None, expected an object" in refusal(folder, tmp_path)
