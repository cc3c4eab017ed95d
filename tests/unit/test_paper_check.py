"""The paper's own numbers through the database, and which of them do not add up."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.paperworld import PaperRun, paper_run, published, sql
from unit.tableworld import Row, files_in, make_database, make_run

from lmev2.metrics import OFFICIAL_COUNTS, TABLE_CATEGORIES
from lmev2.tables.export import read_table
from lmev2.tables.paper import UNFLAWED_COUNTS, row_flags
from lmev2.tables.paper_check import export_paper_check
from lmev2.tables.table2 import export_table2

Key = tuple[str, str, str]

# Where the whole table, made again from counts of correct answers, differs from the printed one: ours, the flag's kind.
EXCEPTIONS: dict[Key, tuple[str, str]] = {
    ("no_retrieval", "small", "overall"): ("0.033", "inconsistent"),
    ("no_retrieval", "medium", "overall"): ("0.033", "inconsistent"),
    ("rag_slice", "medium", "overall"): ("0.379", "depends"),
    ("rag_slice", "medium", "dynamic"): ("0.402", "inconsistent"),
    ("rag_slice", "medium", "workflow"): ("0.292", "last digit"),
    ("rag_slice", "medium", "gotchas"): ("0.241", "last digit"),
    ("agentrunbook_r", "small", "overall"): ("0.585", "last digit"),
    ("agentrunbook_r_no_raw", "small", "overall"): ("0.424", "last digit"),
    ("agentrunbook_r_no_raw", "medium", "gotchas"): ("0.414", "last digit"),
    ("agentrunbook_r_no_event", "small", "overall"): ("0.557", "last digit"),
    ("agentrunbook_r_no_event", "medium", "overall"): ("0.483", "last digit"),
    ("codex", "small", "overall"): ("0.698", "last digit"),
    ("codex", "small", "dynamic"): ("0.669", "last digit"),
    ("agentrunbook_c", "medium", "gotchas"): ("0.448", "last digit"),
    ("agentrunbook_c_no_manifest", "medium", "workflow"): ("0.575", "last digit"),
    ("agentrunbook_c_no_helper", "medium", "gotchas"): ("0.379", "last digit"),
}


def check(database: Path, folder: Path) -> tuple[list[dict[str, str]], str]:
    files = files_in(folder, "check")
    export_paper_check(
        database, sql("paper_check"), published("table2"), published("table6"), files, "Beside the paper"
    )
    return read_table(files.csv), files.markdown.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Database of the run that answered as the paper's methods did."""
    return make_database(tmp_path_factory.mktemp("paper"), paper_run())


def test_the_whole_table_reproduces_to_the_last_digit_but_for_the_flagged_cells(paper: Path, tmp_path: Path) -> None:
    files = files_in(tmp_path, "table2")
    export_table2(paper, sql("table2"), files, "Accuracy")
    found = read_table(files.csv)
    flagged = {(row["method"], row["tier"], row["column"]): row["flag"] for row in check(paper, tmp_path)[0]}
    assert len(found) == 24 and [(row["method"], row["tier"]) for row in found] == (
        [(row["method"], row["tier"]) for row in published("table2")]
    )
    differing = {}
    for ours, printed in zip(found, published("table2"), strict=True):
        assert ours["label"] == printed["label"] and float(ours["latency_s"]) == float(printed["latency_s"])
        for column in ("overall", *TABLE_CATEGORIES):
            if ours[column] != printed[column]:
                key = (ours["method"], ours["tier"], column)
                differing[key] = (ours[column], flagged[key].partition(":")[0].split(" on ")[0])
    assert differing == EXCEPTIONS


def test_nothing_is_flagged_that_reproduces_except_the_cell_that_would_reconcile_its_row(
    paper: Path, tmp_path: Path
) -> None:
    rows = [row for row in check(paper, tmp_path)[0] if row["table"] == "Table 2"]
    assert len(rows) == 24 * 6
    more = {}
    for row in rows:
        key = (row["method"], row["tier"], row["column"])
        assert float(row["difference"]) == pytest.approx(float(row["ours"]) - float(row["paper"]), abs=1e-9)
        if row["flag"] and key not in EXCEPTIONS:
            more[key] = row["flag"]
        assert (row["difference"] not in ("+0.000", "+0.0")) == (key in EXCEPTIONS)
    suspect = "suspect: 1/106 = 0.009 would fit the overall"
    assert more == {("no_retrieval", tier, "workflow"): suspect for tier in ("small", "medium")}
    counts = {row["column"]: row["questions"] for row in rows[:6]}
    assert counts == {"overall": "451", "latency_s": "451", **{name: str(n) for name, n in OFFICIAL_COUNTS.items()}}


def test_no_overall_of_table_6_is_the_mean_of_its_cells(paper: Path, tmp_path: Path) -> None:
    rows = [row for row in check(paper, tmp_path)[0] if row["table"] == "Table 6"]
    assert len(rows) == 7 * 5
    overalls = {row["method"]: row["flag"] for row in rows if row["column"] == "overall"}
    assert len(overalls) == 7 and all(flag.startswith("inconsistent: the cells give") for flag in overalls.values())
    assert overalls["Kimi-K2.5"] == "inconsistent: the cells give 0.170"
    assert {(row["ours"], row["difference"], row["tier"]) for row in rows} == {("", "", "")}


def test_the_papers_protocol_goes_without_remark_and_another_run_says_what_differs(paper: Path, tmp_path: Path) -> None:
    assert "PROTOCOL" not in check(paper, tmp_path)[1]
    run = make_run(1, questions=20)
    run.methods = ["m9", "m8", "m7"]
    _, text = check(make_database(tmp_path, run), tmp_path)
    (note,) = [line for line in text.splitlines() if "PROTOCOL" in line]
    for reason in (
        "reader R1 instead of Qwen3.5-9B",
        "judge J1 instead of GPT-5.2",
        "controller None instead of Qwen3.5-9B",
        "embedder E1 instead of Qwen3-Embedding-8B",
        "other questions: 20, the paper has 451",
        "Data: D1, fingerprint f00.",
    ):
        assert reason in note
    assert "Not in the paper's Table 2: m9, m8, m7." in text


def test_a_sample_and_another_rendering_are_said(paper: Path, tmp_path: Path) -> None:
    copy = shutil.copy(paper, tmp_path / "copy.duckdb")
    with duckdb.connect(str(copy)) as database:
        database.execute("DELETE FROM questions WHERE category = 'gotchas'")
        database.execute("""UPDATE run SET value = '{"notes": {}, "questions": 422}' WHERE name = 'run'""")
        database.execute("""UPDATE run SET value = '{"mode": "focused"}' WHERE name = 'render'""")
    text = check(Path(copy), tmp_path)[1]
    assert (
        "implementation: a sample of questions: 422, the paper has 451; contexts rendered focused instead of full."
        in text
    )


def test_a_method_in_one_tier_is_compared_there(tmp_path: Path) -> None:
    run = paper_run()
    run.methods, run.tiers = ["codex"], ["medium"]
    for stage in ("contexts", "answers", "scores"):
        setattr(run, stage, run.of(stage, "codex", "medium"))
    rows = [row for row in check(make_database(tmp_path, run), tmp_path)[0] if row["table"] == "Table 2"]
    assert {(row["method"], row["tier"]) for row in rows} == {("codex", "medium")} and len(rows) == 6


def test_failed_rows_are_left_out_of_our_number(tmp_path: Path) -> None:
    run = PaperRun(["codex"], ["small"])
    whole = paper_run()
    run.questions = whole.questions
    for stage in ("contexts", "answers", "scores"):
        setattr(run, stage, whole.of(stage, "codex", "small"))
    failed = [row for row in run.scores if row["category"] == "gotchas"][:9]  # right ones
    for row in failed:
        row |= {"correct": None, "unknown": None, "error": "length"}
    rows = {row["column"]: row for row in check(make_database(tmp_path, run), tmp_path)[0] if row["table"] == "Table 2"}
    assert (rows["gotchas"]["ours"], rows["gotchas"]["questions"]) == (f"{8 / 20:.3f}", "20")
    assert rows["overall"]["questions"] == "442" and rows["latency_s"]["questions"] == "451"


COUNTS = st.fixed_dictionaries({name: st.integers(0, count) for name, count in OFFICIAL_COUNTS.items()})


@given(COUNTS, st.sampled_from([OFFICIAL_COUNTS, UNFLAWED_COUNTS]))
def test_numbers_that_counts_give_are_never_flagged(correct: dict[str, int], counts: dict[str, int]) -> None:
    right = {name: min(correct[name], counts[name]) for name in counts}  # type: ignore[index]
    assert row_flags(printed(right, counts), counts) == {}  # type: ignore[arg-type]


@given(COUNTS, st.sampled_from(["overall", *TABLE_CATEGORIES]), st.integers(3, 60).map(lambda n: n / 1000))
def test_a_number_off_by_more_than_rounding_is_flagged_in_its_row(
    correct: dict[str, int], name: str, by: float
) -> None:
    row = printed(correct, OFFICIAL_COUNTS)  # type: ignore[arg-type]
    row[name] = f"{float(row[name]) + by:.3f}"
    flags = row_flags(row, OFFICIAL_COUNTS)
    if name == "overall":
        assert flags["overall"].startswith("inconsistent: the cells give")
    elif by * OFFICIAL_COUNTS[name] > 2:  # type: ignore[index]
        assert flags  # two answers more than there were: the cell, or the overall that does not follow
        assert flags.keys() & {name, "overall"}


def printed(correct: dict[str, int], counts: dict[str, int]) -> Row:
    row = {name: f"{correct[name] / counts[name]:.3f}" for name in counts}
    return {**row, "overall": f"{sum(correct.values()) / sum(counts.values()):.3f}"}
