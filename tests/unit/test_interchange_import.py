"""Run folders that we read: the round trip, and everything that is refused with file, line and question."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from unit.harnessworld import HASHES, PROMPT, World, edit_json, edit_record, make_world, records
from unit.tableworld import PAPER, SOURCES, VIEWS, make_database, make_run

from lmev2.data.errors import DataError
from lmev2.interchange import layout
from lmev2.interchange.export import ExportError, imported_args, prompts_are_ours
from lmev2.interchange.importing import import_runs
from lmev2.interchange.imports import load_imports
from lmev2.interchange.manifest import load_manifest
from lmev2.interchange.select import select_import
from lmev2.rows import ANSWER, CONTEXT, SCORE, read_rows
from lmev2.tables.database import collect
from lmev2.tables.notes import run_notes

STAGES = {"contexts": CONTEXT, "answers": ANSWER, "scores": SCORE}


def take_in(
    world: World, folder: Path, out: Path, sample: list[dict[str, Any]] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Take an import folder into a run; its rows by stage and question, and the summary."""
    targets = {stage: out / f"{stage}.parquet" for stage in STAGES}
    chosen = world.questions if sample is None else sample
    summary = select_import(folder, world.questions, chosen, world.haystacks, world.evidence, world.root, targets)
    found = {
        stage: {row["question_id"]: row for row in read_rows(targets[stage], schema)}
        for stage, schema in STAGES.items()
    }
    return found, summary


def test_the_rows_come_back_and_export_to_the_same_bytes(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 11, errors=0.3)
    folders = world.export(tmp_path / "runs")
    manifest = import_runs(folders, "rag", "Theirs", None, tmp_path / "imports" / "rag")
    assert (manifest.tier, manifest.reader, manifest.judge) == ("small", world.reader, world.judge)
    found, summary = take_in(world, tmp_path / "imports" / "rag", tmp_path / "taken")
    assert (summary["questions"], summary["taken"], summary["left_out"]) == (28, 28, 0)
    for stage in ("contexts", "answers"):
        expected = {row["question_id"]: row for row in getattr(world, stage)}
        assert {name: dict(row) for name, row in found[stage].items()} == expected
    facts = ("evidence_covered", "evidence_covered_before", "gold_supported")
    for row in world.scores:
        imported = found["scores"][row["question_id"]]
        # A record tells the label that counts, not those of all repeats.
        assert {**imported, **dict.fromkeys(facts)} == {**row, "judge_labels": None}
    again = World(world.root, "rag", "small", world.questions, world.haystacks)
    again.contexts, again.answers, again.scores = (list(found[stage].values()) for stage in STAGES)
    for folder in folders:
        domain = str(layout.parse_folder_name(folder.name)[1])  # type: ignore[index]
        args, completed_at = imported_args(manifest, domain)
        assert prompts_are_ours(args, HASHES)
        (second,) = again.export(tmp_path / "again", domain, args=args, completed_at=completed_at, prompt=PROMPT)
        for name in layout.RUN_FILES:
            assert (folder / name).read_bytes() == (second / name).read_bytes(), name


def test_coverage_is_computed_where_states_are_told_and_unknown_where_not(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 12)
    folders = world.export(tmp_path / "runs")
    import_runs(folders, "ours", "Ours", None, tmp_path / "ours")
    for number in range(1, 15):
        edit_record(folders[0], number, lambda record: record.pop(layout.OURS))
    import_runs(folders, "theirs", "Theirs", None, tmp_path / "theirs")
    ours, told = take_in(world, tmp_path / "ours", tmp_path / "a")
    theirs, untold = take_in(world, tmp_path / "theirs", tmp_path / "b")
    assert (told["states_told"], untold["states_told"]) == (True, False)
    labelled = {row["question_id"] for row in world.evidence}
    contexts = {row["question_id"]: row for row in world.contexts}
    images = {row["question_id"]: row["images_shown"] for row in world.answers}
    values = set()
    for name, row in ours["scores"].items():
        assert (row["evidence_covered_before"] is not None) == (name in labelled)
        if name in labelled:
            visible = [item for item in contexts[name]["items"] if item["type"] == "text" or images[name]]
            shown = {(item["trajectory_id"], state) for item in visible for state in item["states"]}
            hops: dict[int, bool] = {}
            for label in (one for one in world.evidence if one["question_id"] == name):
                hit = (label["trajectory_id"], label["state_index"]) in shown
                hops[label["hop"]] = hops.get(label["hop"], False) or hit
            assert row["evidence_covered_before"] == all(hops.values())
            values.add(row["evidence_covered_before"])
    assert values == {True, False}
    for name, row in theirs["scores"].items():
        assert (row["evidence_covered"], row["evidence_covered_before"]) == (None, None)
        assert row["gold_supported"] == ours["scores"][name]["gold_supported"]
        assert row["correct"] == ours["scores"][name]["correct"]
        assert theirs["contexts"][name]["latency_s"] == contexts[name]["latency_s"]
    plain = theirs["answers"][records(folders[0])[0]["question_id"]]
    assert (plain["model"], plain["items_dropped"], plain["images_shown"]) == (world.reader, 0, True)


def test_questions_outside_the_sample_are_left_out_and_counted(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 13)
    web, _ = world.export(tmp_path / "runs")
    import_runs([web], "rag", "Web only", None, tmp_path / "web")
    sample = sorted(world.questions, key=lambda row: row["question_id"])[:9]
    found, summary = take_in(world, tmp_path / "web", tmp_path / "taken", sample)
    own = {row["question_id"] for row in sample if row["domain"] == "web"}
    assert set(found["scores"]) == set(found["contexts"]) == set(found["answers"]) == own
    assert (summary["questions"], summary["taken"], summary["left_out"]) == (9, len(own), 14 - len(own))


def test_a_run_on_other_data_is_refused(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 14)
    import_runs(world.export(tmp_path / "runs"), "rag", "L", None, tmp_path / "rag")
    other = make_world(tmp_path / "data", 14)
    other.questions = [row for row in other.questions if row["question_id"] not in ("00000001", "00000004")]
    with pytest.raises(DataError, match=r"2 of the 28 questions are not in this run's data root.*00000001, 00000004"):
        take_in(other, tmp_path / "rag", tmp_path / "x")
    gold = make_world(tmp_path / "data", 14)
    gold.questions[3]["answer"] = "another"
    gold.haystacks[0]["trajectory_ids"] = list(reversed(gold.haystacks[0]["trajectory_ids"]))
    with pytest.raises(DataError) as refused:
        take_in(gold, tmp_path / "rag", tmp_path / "x")
    assert "2 of the 28 questions were asked otherwise" in str(refused.value)
    assert f"question {gold.questions[3]['question_id']!r}: another answer than" in str(refused.value)
    assert "question '00000000': another haystack than" in str(refused.value)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return make_world(tmp_path / "data", 15, errors=0.2).export(tmp_path / "runs")


def refusal(folders: list[Path], tmp_path: Path, tier: str | None = None) -> str:
    """What the import says; asserts that it wrote nothing."""
    out = tmp_path / "imports" / "x"
    with pytest.raises(DataError) as refused:
        import_runs(folders, "x", "X", tier, out)
    assert not out.exists() and not list((tmp_path / "imports").glob(".*") if out.parent.exists() else [])
    return str(refused.value)


def change_first(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edit_record(folder, 1, lambda record: record.update(changes))


def first_scored(folder: Path) -> int:
    return next(number for number, row in enumerate(records(folder), start=1) if row["score"] is not None)


def edit_scored(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edit_record(folder, first_scored(folder), lambda record: record.update(changes))


def lines_of(folder: Path) -> list[str]:
    return (folder / layout.RECORDS).read_text(encoding="utf-8").split("\n")


def repeat_line(folder: Path) -> None:
    lines = lines_of(folder)
    (folder / layout.RECORDS).write_text("\n".join([*lines[:-1], lines[1], ""]), encoding="utf-8")


def drop_line(folder: Path) -> None:
    (folder / layout.RECORDS).write_text("\n".join(lines_of(folder)[1:]), encoding="utf-8")


def tear(folder: Path) -> None:
    raw = (folder / layout.RECORDS).read_bytes()
    (folder / layout.RECORDS).write_bytes(raw[: len(raw) - 700])


def rename_question(folder: Path) -> None:
    edit_json(folder / layout.QUESTIONS, lambda rows: rows[0].update(id="elsewhere"))


def count_one_more(folder: Path) -> None:
    edit_json(folder / layout.AGGREGATED, lambda value: value["overall"].update(count_all_questions=99))


def another_mean(folder: Path) -> None:
    edit_json(folder / layout.AGGREGATED, lambda value: value["overall"].update(overall_full_set=0.999))


def another_category_count(folder: Path) -> None:
    edit_json(folder / layout.AGGREGATED, lambda value: value["non_abstention_by_category"]["gotchas"].update(count=77))


def another_latency(folder: Path) -> None:
    edit_json(folder / layout.AGGREGATED, lambda value: value["memory_query"].update(avg_seconds=77.0))


def no_usage(folder: Path) -> None:
    edit_record(folder, 2, lambda record: record.pop("usage"))


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (lambda folder: (folder / layout.HAYSTACK).unlink(), ["runtime_inputs/haystack.json: no such file"]),
        (lambda folder: (folder / layout.RUN_ARGS).write_text("{"), ["run_args.json: not readable as JSON"]),
        (lambda folder: (folder / layout.QUESTIONS).write_text("{}"), ["questions.json: found {}, expected a list"]),
        (lambda folder: edit_json(folder / layout.RUN_ARGS, lambda args: args.pop("model")), ["'model' is missing"]),
        (
            lambda folder: edit_json(folder / layout.RUN_ARGS, lambda args: args.update(tier="medium")),
            ["run_args.json: tier is 'medium', but the folder's name says 'small'"],
        ),
        (
            lambda folder: edit_json(folder / layout.QUESTIONS, lambda rows: rows[2].update(domain="enterprise")),
            ["found domain 'enterprise' in a run of domain 'web'"],
        ),
        (
            lambda folder: edit_json(folder / layout.QUESTIONS, lambda rows: rows.append(rows[0])),
            ["questions.json, question '00000000' (number 14): the id stands there twice"],
        ),
        (
            lambda folder: edit_json(folder / layout.HAYSTACK, lambda value: value.pop("00000002")),
            ["haystack.json: 1 questions have no haystack and 0 haystacks no question (first: '00000002')"],
        ),
        (tear, ["per_question.jsonl, line 14, question", "it was cut"]),
        (repeat_line, ["per_question.jsonl, line 15, question '00000002': the question stands on line 2 already"]),
        (drop_line, ["per_question.jsonl: no record of 1 of the 14 questions (first: '00000000')"]),
        (no_usage, ["per_question.jsonl, line 2, question '00000002': field 'usage' is missing"]),
        (change_first(question_id="strange"), ["line 1, question 'strange': the question is not in runtime_inputs"]),
        (change_first(category="statics"), ["line 1, question '00000000': field 'category': found 'statics'"]),
        (change_first(question_type="procedures"), ["line 1, question '00000000': field 'question_type'"]),
        (change_first(eval_function="mc_choice_match"), ["field 'eval_function': found 'mc_choice_match'"]),
        (change_first(haystack_ids=["t1"]), ["field 'haystack_ids': found ['t1']"]),
        (edit_scored(score=0.5), ["field 'score': found 0.5, expected 0 or 1"]),
        (edit_scored(score=None, score_bool=None), ["found score None and error None, expected a score"]),
        (edit_scored(error="api_error"), ["and error 'api_error', expected a score, or else an error"]),
        (edit_scored(score=1.0, score_bool=False), ["score is 1.0, but score_bool is False"]),
        (
            edit_scored(score=1.0, score_bool=True, is_unknown=True, response_parsed_boxed="unknown "),
            ["the answer is UNKNOWN, which is always wrong"],
        ),
        (edit_scored(memory_query_duration_seconds=-1), ["'memory_query_duration_seconds'"]),
        (edit_scored(memory_query_duration_seconds=None), ["found null, expected seconds"]),
        (edit_scored(memory_context=[{"type": "video", "value": "x"}]), ["'memory_context[0].type'"]),
        (edit_scored(memory_context_token_count=9999), ["more tokens after truncation than before"]),
        (edit_scored(memory_context=[{"type": "text", "value": "x"}] * 9), ["'lmev2.items': describes"]),
        (count_one_more, ["aggregated_metrics.json: overall.count_all_questions is 99, but the records give"]),
        (another_mean, ["overall.overall_full_set is 0.999, but the records give"]),
        (another_category_count, ["non_abstention_by_category.gotchas.count is 77, but the records give"]),
        (another_latency, ["memory_query.avg_seconds is 77.0, but the records give"]),
        (rename_question, ["haystack.json: 1 questions have no haystack and 1 haystacks no question"]),
    ],
)
def test_damage_is_named_with_its_place(
    folders: list[Path], tmp_path: Path, damage: Callable[[Path], Any], parts: list[str]
) -> None:
    assert len(records(folders[0])) == 14
    damage(folders[0])
    text = refusal(folders, tmp_path)
    for part in parts:
        assert part in text
    assert str(folders[0]) in text


def test_all_problems_are_listed_together(folders: list[Path], tmp_path: Path) -> None:
    for folder in folders:
        edit_record(folder, 1, lambda record: record.update(category="x"))
        edit_record(folder, 3, lambda record: record.update(category="y"))
    text = refusal(folders, tmp_path)
    assert text.startswith("2 run folders cannot be used:") and text.count("field 'category'") == 4
    assert str(folders[0]) in text and str(folders[1]) in text


def test_folders_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 16)
    web, enterprise = world.export(tmp_path / "runs")
    assert "each domain may come from one folder only" in refusal([web, web], tmp_path)
    other = make_world(tmp_path / "data", 16, method="other")
    other.reader = "another reader"
    (stranger,) = other.export(tmp_path / "runs", "enterprise")
    text = refusal([web, stranger], tmp_path)
    assert "different methods: ['rag', 'other']" in text and "different readers" in text
    assert "--tier is 'medium', but the run is of tier 'small'" in refusal([web, enterprise], tmp_path, "medium")
    assert "no such folder" in refusal([tmp_path / "nowhere"], tmp_path)
    nameless = tmp_path / "nameless"
    shutil.copytree(web, nameless)
    edit_json(nameless / layout.RUN_ARGS, lambda args: [args.pop("tier"), args.pop("method")])
    assert "neither run_args.json nor the folder's name tells the tier" in refusal([nameless], tmp_path)
    assert import_runs([nameless], "x", "X", "small", tmp_path / "y").runs[0].method is None
    with pytest.raises(DataError, match="exists already"):
        import_runs([web], "x", "X", None, tmp_path / "y")


def test_what_others_leave_out_is_not_asked_for(tmp_path: Path) -> None:
    (web,) = make_world(tmp_path / "data", 17).export(tmp_path / "runs", "web")
    unused = ("prompt_messages", "timestamp_utc", "index", "stream_index", "memory_post_query_metadata", layout.OURS)
    for number in range(1, 15):
        edit_record(web, number, lambda record: [record.pop(name) for name in unused])
    edit_record(web, 1, lambda record: record.update(response_raw="", response_parsed_boxed="", something_new=1))
    manifest = import_runs([web], "x", "X", None, tmp_path / "x")
    assert not manifest.states_told and manifest.runs[0].empty_replies == 1
    assert manifest.runs[0].sources.keys() == set(layout.RUN_FILES)
    with pytest.raises(ExportError, match="imported without a enterprise run"):
        imported_args(manifest, "enterprise")


def test_import_folders_must_fit_the_run(tmp_path: Path) -> None:
    (web,) = make_world(tmp_path / "data", 18).export(tmp_path / "runs", "web")
    one, same, two = tmp_path / "one", tmp_path / "same", tmp_path / "two"
    import_runs([web], "one", "One", None, one)
    import_runs([web], "one", "Another", None, same)
    import_runs([web], "two", "One", None, two)
    assert [found.manifest.name for found in load_imports([one], {"rag": "RAG"}, ["small"])] == ["one"]
    for folders, own, tiers, message in (
        ([one], {}, ["medium"], "is of tier 'small', but run.tiers is"),
        ([one], {"one": "RAG"}, ["small"], "is named 'one' like a method of the run"),
        ([one], {"rag": "One"}, ["small"], "a method has one label and no other has it"),
        ([one, one], {}, ["small"], "is imported twice"),
        ([one, same], {}, ["small"], "a method has one label"),
        ([one, two], {}, ["small"], "a method has one label"),
        ([tmp_path], {}, ["small"], "is no import folder: it lacks import.json"),
    ):
        with pytest.raises(DataError, match=message):
            load_imports(folders, own, tiers)
    (one / "import.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(DataError, match=r"import\.json: label: Field required; import the run again"):
        load_manifest(one)


def test_the_database_and_the_notes_tell_of_imports(tmp_path: Path) -> None:
    run = make_run(4, questions=6, methods=1)
    summary = {
        "method": "theirs",
        "label": "Their memory",
        "tier": "small",
        "reader": "R",
        "judge": "J",
        "questions": 6,
        "taken": 4,
        "left_out": 3,
        "empty_replies": 2,
        "states_told": False,
    }
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(summary), encoding="utf-8")
    make_database(tmp_path, run)
    stages = {stage: sorted((tmp_path / stage).glob("*.parquet")) for stage in STAGES}
    target = tmp_path / "with.duckdb"
    collect(target, run.spec, tmp_path / "questions.parquet", stages, [], PAPER, VIEWS, SOURCES, [path])
    with duckdb.connect(str(target), read_only=True) as database:
        (row,) = database.execute("SELECT * FROM imports").fetchall()
        notes = run_notes(database)
    assert row == tuple(summary.values())
    assert (
        "Their memory on small is imported (reader: R, judge: J): 4 of 6 questions; PARTIAL: 2 questions of this run are "
        "not in it, so its means are over fewer; 3 of its questions are not in this run and left out; 2 scored rows have "
        "an empty reply, which may stand for a failed call; its items do not tell their states, so evidence is unknown."
    ) in notes
    with duckdb.connect(str(tmp_path / "metrics.duckdb"), read_only=True) as database:
        assert database.execute("SELECT count(*) FROM imports").fetchall() == [(0,)]
        assert not [note for note in run_notes(database) if "imported" in note]
