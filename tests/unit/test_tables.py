"""Tables: what SQL says about random rows equals the arithmetic in Python."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.tableworld import (
    EVIDENCE,
    GOALS,
    KINDS,
    ORIGINS,
    PAPER,
    POOLS,
    SCHEMAS,
    SOURCES,
    SQL,
    TABLE2,
    export,
    files_in,
    make_database,
    make_run,
)

from lmev2.metrics import TABLE_CATEGORIES, Accuracy, table_row
from lmev2.tables.database import collect
from lmev2.tables.export import export_table
from lmev2.tables.layout import Block, Cell, Column, Layout, layout_markdown, markdown_table, markdown_text
from lmev2.tables.notes import run_notes


def fixed(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def mean(values: Iterable[Any]) -> float | None:
    """Mean of the values that are not null."""
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else None


def assert_close(cell: str, value: float | None, digits: int) -> None:
    """The cell shows the value to so many digits; a sum in another order may turn the last one at a tie."""
    assert (cell == "") == (value is None)
    if value is not None:
        assert len(cell.partition(".")[2]) == digits
        assert float(cell) == pytest.approx(value, abs=0.5 * 10**-digits + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_table_2_equals_the_arithmetic_in_python(tmp_path: Path, seed: int) -> None:
    run = make_run(seed, questions=(1, 5, 20, 40, 60, 97)[seed], errors=(0, 0.5, 0.1)[seed % 3])
    rows, _ = export(tmp_path, run, TABLE2)
    assert [(row["method"], row["tier"]) for row in rows] == list(itertools.product(run.methods, run.tiers))
    for row in rows:
        scores = run.of("scores", row["method"], row["tier"])
        expected: Mapping[str, Accuracy] = table_row(scores)
        assert row["label"] == f"Label of {row['method']}"
        assert {name: row[name] for name in expected} == {name: fixed(one.value) for name, one in expected.items()}
        assert row["questions"] == str(len(scores)) == str(len(run.questions))
        assert row["errors"] == str(sum(expected["overall"].errors.values()))
        assert_close(
            row["latency_s"],
            mean(one["latency_s"] for one in run.of("contexts", row["method"], row["tier"]) if not one.get("error")),
            3,
        )


@pytest.mark.parametrize("seed", range(4))
def test_the_evidence_table_equals_the_arithmetic_in_python(tmp_path: Path, seed: int) -> None:
    run = make_run(seed, questions=(1, 7, 40, 83)[seed])
    rows, _ = export(tmp_path, run, EVIDENCE)
    assert [(row["method"], row["tier"]) for row in rows] == list(itertools.product(run.methods, run.tiers))
    for row in rows:
        scores, answers = (run.of(stage, row["method"], row["tier"]) for stage in ("scores", "answers"))
        failed = {one["question_id"] for one in scores if one["error"] is not None}
        for column, name in (
            ("covered_before", "evidence_covered_before"),
            ("covered", "evidence_covered"),
            ("gold_support", "gold_supported"),
        ):
            assert row[column] == fixed(mean(one[name] for one in scores))
        assert row["labelled"] == str(sum(one["evidence_covered"] is not None for one in scores))
        assert row["support_questions"] == str(sum(one["gold_supported"] is not None for one in scores))
        for column, name, digits in (
            ("tokens_before", "context_tokens_before", 0),
            ("tokens", "context_tokens", 0),
            ("items_dropped", "items_dropped", 1),
            ("images_left_out", "images_left_out", 1),
        ):
            kept = (one[name] for one in answers if one["question_id"] not in failed)
            assert_close(row[column], mean(kept), digits)
        contexts = run.of("contexts", row["method"], row["tier"])
        spent = [one["latency_s"] for one in contexts if not one.get("error")]
        assert_close(row["latency_s"], mean(spent), 3)
        assert_close(row["latency_p95_s"], float(np.percentile(spent, 95)) if spent else None, 3)


def test_a_category_without_questions_stays_empty(tmp_path: Path) -> None:
    run = make_run(3, questions=9, errors=0, kinds=["procedure", "procedure-abs"], methods=1)
    rows, text = export(tmp_path, run, TABLE2)
    for row in rows:
        assert [row[name] for name in ("static", "dynamic", "gotchas")] == ["", "", ""]
        assert row["workflow"] == row["overall"] != ""
    cells = [cell.strip() for cell in text.split("\n")[4].strip("|").split("|")]
    header = [cell.strip() for cell in text.split("\n")[2].strip("|").split("|")]
    shown = dict(zip(header, cells, strict=True))
    assert [shown[name] for name in ("static", "dynamic", "gotchas")] == ["-", "-", "-"]


def test_a_method_whose_every_row_failed_has_no_accuracy(tmp_path: Path) -> None:
    run = make_run(4, questions=6, errors=1, methods=1)
    rows, _ = export(tmp_path, run, TABLE2)
    for row in rows:
        assert {row[name] for name in ("overall", *TABLE_CATEGORIES)} == {""}
        assert (row["questions"], row["errors"]) == ("6", "6")


def test_the_markdown_says_which_rows_failed(tmp_path: Path) -> None:
    run = make_run(5, questions=30, errors=0.3)
    _, text = export(tmp_path, run, TABLE2)
    counts = Counter(row["error"] for row in run.scores if row["error"] is not None)
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts))
    assert set(counts) == set(KINDS)
    assert f"\n- INCOMPLETE: {kinds}; rows with an error have no score and are not in the means.\n" in text


def test_the_markdown_of_a_complete_run(tmp_path: Path) -> None:
    run = make_run(6, questions=30, errors=0)
    rows, text = export(tmp_path, run, TABLE2)
    shown = [name for name in rows[0] if name != "method"]  # the label says the same
    table = markdown_table(shown, [[row[name] for name in shown] for row in rows])
    head, _, notes = text.partition(f"{table}\n\n")
    assert head == "# A title\n\n"
    assert notes.startswith("- reader: R1, judge: J1, embedder: E1.\n") and notes.endswith("\n")
    assert all(line.startswith("- ") for line in notes.rstrip("\n").split("\n"))
    assert "- 30 questions per method and tier.\n" in notes and SOURCES["data"] in notes
    assert "INCOMPLETE" not in notes
    run.remarks = {"R1": "A remark on this run.", "J1": "Not on a judge."}
    assert export(tmp_path, run, TABLE2)[1] == text.replace("E1.\n", "E1.\n- A remark on this run.\n")


@pytest.mark.parametrize("query", [TABLE2, EVIDENCE, ORIGINS], ids=["table2", "evidence", "origins"])
def test_equal_rows_give_equal_bytes_whatever_their_order_and_shards(tmp_path: Path, query: str) -> None:
    run = make_run(7, questions=50)
    export(tmp_path / "one", run, query, shards=1)
    for stage in ("questions", "entries", *SCHEMAS):
        random.Random(stage).shuffle(getattr(run, stage))
    export(tmp_path / "other", run, query, shards=5)
    for name in ("t.csv", "t.md", "t.tex"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert b"\r" not in (tmp_path / "one" / "t.csv").read_bytes()


def test_the_database_holds_every_row_and_no_context_text(tmp_path: Path) -> None:
    run = make_run(8, questions=12)
    path = make_database(tmp_path, run, shards=3)
    with duckdb.connect(str(path), read_only=True) as database:
        for stage in ("questions", *SCHEMAS):
            assert database.execute(f"SELECT count(*) FROM {stage}").fetchall() == [(len(getattr(run, stage)),)]
        found = database.execute("SELECT question_id, method, tier, items, images, text_chars FROM contexts").fetchall()
        kept = database.execute("SELECT question_id, method, tier, waited_s, query_origin FROM contexts").fetchall()
        pools = database.execute("SELECT pool, CAST(sum(entries) AS BIGINT) FROM pools GROUP BY pool").fetchall()
        methods = database.execute("SELECT position, method, label, family FROM methods ORDER BY position").fetchall()
        tiers = database.execute("SELECT tier FROM tiers ORDER BY position").fetchall()
        models = database.execute("SELECT role, model, settings FROM models").fetchall()
        facts = dict(database.execute("SELECT name, value FROM run").fetchall())
    expected = {
        (row["question_id"], row["method"], row["tier"]): (
            len(row["items"]),
            sum(item["type"] == "image" for item in row["items"]),
            sum(len(item["value"]) for item in row["items"] if item["type"] == "text"),
        )
        for row in run.contexts
    }
    assert {row[:3]: row[3:] for row in found} == expected
    assert {row[:3]: row[3:] for row in kept} == {
        (row["question_id"], row["method"], row["tier"]): (row["waited_s"], row["query_origin"]) for row in run.contexts
    }
    assert dict(pools) == dict.fromkeys(POOLS, 12)
    assert () in [tuple(row["items"]) for row in run.contexts]  # an empty context has 0 characters, not null
    assert methods == [(number, name, f"Label of {name}", "rag") for number, name in enumerate(run.methods)]
    assert tiers == [(tier,) for tier in run.tiers]
    assert {role: (model, json.loads(settings)) for role, model, settings in models} == {
        role: (settings["model"], settings) for role, settings in run.spec["models"].items()
    }
    settings = {**run.settings, "statistics": run.spec["statistics"]}
    assert {name: json.loads(facts.pop(name)) for name in settings} == settings
    assert facts == SOURCES


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    run = make_run(9, questions=3, methods=1)
    path = make_database(tmp_path, run)
    before = path.read_bytes()
    stages = {stage: sorted((tmp_path / stage).glob("*.parquet")) for stage in SCHEMAS}
    with pytest.raises(duckdb.Error):
        collect(
            path,
            run.spec,
            tmp_path / "questions.parquet",
            stages,
            sorted((tmp_path / "pools").glob("*.parquet")),
            PAPER,
            "CREATE VIEW broken AS SELECT * FROM nowhere",
            SOURCES,
        )
    assert path.read_bytes() == before
    with pytest.raises(duckdb.Error):
        export_table(path, "SELECT * FROM nowhere", files_in(tmp_path), "A title")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == (
        ["answers", "contexts", "metrics.duckdb", "pools", "questions.parquet", "scores"]
    )


def test_markdown_aligns_numbers_and_marks_what_is_missing() -> None:
    rows: list[list[Any]] = [["a", 0.5, None, "x|y"], ["long name", 12, "", "two\nlines"]]
    assert markdown_table(["name", "n", "gap", "text"], rows) == (
        "| name      |   n | gap | text      |\n"
        "| --------- | --: | --: | --------- |\n"
        "| a         | 0.5 |   - | x\\|y      |\n"
        "| long name |  12 |   - | two lines |"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("<b>x</b> & y &amp; p < 0.05", r"\<b>x\</b> & y \&amp; p < 0.05"),
        ("*x* [a](b) `c` $d$", r"\*x\* \[a\](b) \`c\` \$d\$"),
        ("_x_ a_b __c", r"\_x\_ a_b \_\_c"),
        ("~16k ~~b~~", r"\~16k \~\~b\~~"),
        ("~16k -> x", "~16k -> x"),
        ("C:\\x\\", "C:\\\\x\\\\"),
        ("two\n\nlines\r\n", "two lines"),
    ],
)
def test_markdown_shows_texts_as_they_stand(text: str, written: str) -> None:
    assert markdown_text(text) == written
    layout = Layout(f"# {text}", (Column(text),), (Block(text, ((Cell(f"{text}|"),),)),), (f"- {text}", f"1. {text} #"))
    lines = layout_markdown(layout).splitlines()
    cells = [line.removeprefix("| ").removesuffix(" |").rstrip() for line in lines if line.startswith("| ")]
    assert lines[0] == rf"# \# {written}" and lines[-2:] == [rf"- \- {written}", rf"- 1\. {written} \#"]
    assert [cells[0], *cells[2:]] == [written, f"**{written}**", markdown_text(f"{text}|").replace("|", r"\|")]


def test_markdown_keeps_the_tables_own_signs() -> None:
    layout = Layout("T", (Column("a", "G"),), (Block("H", ((Cell("0.5", bold=True, mark=True),),)),))
    assert "| **H** " in layout_markdown(layout) and r"| **0.5**\* |" in layout_markdown(layout)


def test_printed_tables_name_methods_by_their_labels(tmp_path: Path) -> None:
    run = make_run(11, questions=30, methods=3)
    run.labels = {name: f"*{name}*" for name in run.methods}
    run.partners = {run.methods[1]: [run.methods[0]]}
    path = make_database(tmp_path, run)
    export_table(path, (SQL / "comparisons.sql").read_text(encoding="utf-8"), files_in(tmp_path), "A title")
    rows = list(csv.DictReader((tmp_path / "t.csv").open(encoding="utf-8", newline="")))
    assert {(row["method"], row["label"], row["partner"]) for row in rows} == {("m8", "*m8*", "m9")}
    text = (tmp_path / "t.md").read_text(encoding="utf-8")
    header = next(line for line in text.splitlines() if line.startswith("| "))
    assert [cell.strip() for cell in header.strip("|").split("|")][:4] == ["label", "tier", "category", "partner"]
    assert text.count(r"| \*m8\* |") == text.count(r"| \*m9\* ") == len(rows) == 10


@pytest.mark.parametrize("errors", [0, 0.3])
def test_lafs_counts_failed_rows(tmp_path: Path, errors: float) -> None:
    run = make_run(12, questions=20, errors=errors)
    rows, text = export(tmp_path, run, (SQL / "lafs.sql").read_text(encoding="utf-8"))
    failed = Counter((row["method"], row["tier"]) for row in run.scores if row["error"] is not None)
    for method, tier in failed.copy():
        failed["all", tier] += failed[method, tier]
    assert len(rows) == (len(run.methods) + 1) * len(run.tiers)
    assert [row["errors"] for row in rows] == [str(failed[row["method"], row["tier"]]) for row in rows]
    assert ("INCOMPLETE" in text) == bool(errors) == any(row["errors"] != "0" for row in rows)


def test_markdown_without_rows_is_a_header() -> None:
    assert markdown_table(["a", "label"], []) == "| a | label |\n| - | ----- |"


CELLS = st.one_of(
    st.none(), st.integers(-99, 99), st.floats(allow_nan=False), st.text("ab|-\n é", max_size=6), st.just("|")
)


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=5)))
def test_cells_survive_markdown(rows: list[list[Any]]) -> None:
    lines = markdown_table([f"c{number}" for number in range(len(rows[0]))], rows).split("\n")
    assert len(lines) == len(rows) + 2
    assert len({len(line) for line in lines}) == 1
    for line, row in zip(lines[2:], rows, strict=True):
        cells = line.replace("\\|", "\0").strip("|").split("|")
        found = [cell.replace("\0", "|").strip() for cell in cells]
        expected = ["-" if value is None or value == "" else str(value).replace("\n", " ").strip() for value in row]
        assert found == expected


def test_the_csv_keeps_what_markdown_must_escape(tmp_path: Path) -> None:
    path = make_database(tmp_path, make_run(10, questions=2, methods=1))
    query = """SELECT 'x|y, "z"' AS a, NULL AS b, 'two' || chr(10) || 'lines' AS c"""
    export_table(path, query, files_in(tmp_path / "sub"), "A title")
    content = (tmp_path / "sub" / "t.csv").read_bytes().decode()
    assert content == 'a,b,c\n"x|y, ""z""",,"two\nlines"\n'
    assert list(csv.reader(io.StringIO(content)))[1] == ['x|y, "z"', "", "two\nlines"]
    assert 'x\\|y, "z" |   - | two lines |' in (tmp_path / "sub" / "t.md").read_text(encoding="utf-8")
    assert {entry.name for entry in (tmp_path / "sub").iterdir()} == {"t.csv", "t.md", "t.tex"}


@pytest.mark.parametrize(
    ("told", "note"),
    [
        ({"changed": 0, "flagged": 0}, None),
        ({"changed": 3, "flagged": 0}, "Goals: 3 of 9 goals rewritten without their routes (goals/report.csv)."),
        (
            {"mode": "model", "changed": 3, "flagged": 1, "origins": {"fallback": 2, "model": 1}},
            "Goals: 3 of 9 goals rewritten without their routes, 2 by rules because the model's reply was no use; "
            "1 FLAGGED by the checker (goals/report.csv).",
        ),
        (
            {"mode": "check", "changed": 0, "flagged": 2},
            "Goals: 9 goals checked for routes, none rewritten; 2 FLAGGED by the checker (goals/report.csv).",
        ),
        ({"mode": "check", "changed": 0, "flagged": 0}, None),
    ],
)
def test_notes_tell_how_many_goals_were_changed_or_flagged(
    tmp_path: Path, told: dict[str, Any], note: str | None
) -> None:
    path = make_database(tmp_path, make_run(13, questions=3, methods=1))
    with duckdb.connect(str(path)) as database:
        database.execute("UPDATE run SET value = ? WHERE name = 'goals'", [json.dumps({**GOALS, **told})])
        notes = [text for text in run_notes(database) if "oals" in text]
    assert notes == ([] if note is None else [note])
