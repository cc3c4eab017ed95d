"""One job of every main rule, run by Snakemake: its outputs keep their row contracts and say what they should."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import yaml
from PIL import Image
from rules.conftest import METHOD, OTHER_POOLS, SHARD, TIER, Run

from lmev2 import rows as contracts
from lmev2.goals.table import GOAL
from lmev2.index import PoolIndex
from lmev2.rows import read_rows, write_rows

NOTES = ("procedure_note", "hint_note")
POOLS = ("raw_state", *NOTES, "event")
SHARDED = f"{METHOD}/{TIER}/{SHARD}"
OUTPUTS: dict[str, pa.Schema] = {
    "data/questions": contracts.QUESTION,
    "data/trajectories": contracts.TRAJECTORY,
    "data/states": contracts.STATE,
    "data/haystacks": contracts.HAYSTACK,
    "data/evidence": contracts.EVIDENCE,
    "data/selected": contracts.QUESTION,
    f"goals/{SHARD}": GOAL,
    "goals/trajectories": contracts.TRAJECTORY,
    "goals/states": contracts.STATE,
    **{f"pools/{pool}/{SHARD}": contracts.POOL_ENTRY for pool in (*POOLS, *OTHER_POOLS)},
    **{f"embeddings/{pool}/{SHARD}": contracts.EMBEDDING for pool in POOLS},
    f"contexts/{SHARDED}": contracts.CONTEXT,
    f"answers/{SHARDED}": contracts.ANSWER,
    f"scores/{SHARDED}": contracts.SCORE,
    f"tokens/{SHARD}": contracts.TRAJECTORY_TOKENS,
}
LOGS = {
    "prepare_screenshots": "",
    "ingest_dataset": "",
    "select_questions": "",
    "sanitize_goals": SHARD,
    "apply_goals": "",
    "build_raw_state": SHARD,
    "build_center_state": SHARD,
    "build_state_chunk": SHARD,
    "generate_note": SHARD,
    "generate_event": SHARD,
    "embed_pool": f"raw_state/{SHARD}",
    "index_pool": "hint_note",
    "query_memory": SHARDED,
    "read_answers": SHARDED,
    "score_answers": SHARDED,
    "collect_scores": "",
    "export_table2": "",
    "export_evidence": "",
    "export_origins": "",
    "export_methods": "",
    "export_comparisons": "",
    "export_shares": "",
    "export_latencies": "",
    "export_lafs": "",
    "export_paper_check": "",
    "count_tokens": SHARD,
    "export_table1": "",
    "export_statistics": "",
    "export_table6": "",
    "plot_table2": "",
    "plot_frontier": "",
    "plot_latency": "",
    "plot_evidence": "",
    "plot_tokens": "",
    "plot_errors": "",
    "plot_statistics": "",
    "build_report": "",
    "write_provenance": "",
}
TIMED = (
    "ingest_dataset", "generate_note", "generate_event", "embed_pool", "index_pool", "query_memory", "read_answers",
    "score_answers", "count_tokens", "build_report", "sanitize_goals", "apply_goals",
)  # fmt: skip


def rows_of(run: Run, name: str) -> list[dict[str, Any]]:
    return list(read_rows(run.path(f"{name}.parquet"), OUTPUTS[name]))


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_keep_their_contracts(allowed: Run, tmp_path: Path, name: str) -> None:
    rows = rows_of(allowed, name)
    assert rows
    assert write_rows(tmp_path / "again.parquet", OUTPUTS[name], rows) == len(rows)


def test_no_other_row_files_and_nothing_half_made_is_left(allowed: Run) -> None:
    assert {name for name in allowed.results if name.endswith(".parquet")} == {f"{name}.parquet" for name in OUTPUTS}
    hidden = {Path(name).name for name in allowed.results if "/." in name}
    assert hidden == {".snakemake_timestamp"}  # Snakemake's own, in the folders of the indexes


@pytest.mark.parametrize("rule", LOGS)
def test_every_job_has_a_log_and_long_ones_their_measurements(allowed: Run, rule: str) -> None:
    log = allowed.log(rule, *filter(None, [LOGS[rule]]))
    # All tables are written by one script, whose log names the rule that ran it.
    assert f"INFO {rule} {{" in log and "ERROR" not in log
    measured = "/".join(filter(None, ["benchmarks", rule, LOGS[rule]])) + ".tsv"
    assert (measured in allowed.results) == (rule in TIMED)


def test_the_data_root_became_tables(allowed: Run) -> None:
    root = allowed.root
    questions = {row["question_id"]: row for row in rows_of(allowed, "data/questions")}
    assert {name: (row["question"], row["answer"], row["eval_function"]) for name, row in questions.items()} == {
        row["id"]: (row["question"], row["answer"], row["eval_function"]) for row in root.questions
    }
    assert all(Path(row["image"]).is_file() for row in questions.values() if row["image"])
    trees = {
        (row["id"], state["state_index"]): state["accessibility_tree"]
        for row in root.trajectories
        for state in row["states"]
    }
    states = rows_of(allowed, "data/states")
    assert {(row["trajectory_id"], row["state_index"]): row["tree"] for row in states} == trees
    haystacks = rows_of(allowed, "data/haystacks")
    assert {row["tier"] for row in haystacks} == {TIER}
    assert {row["question_id"]: row["trajectory_ids"] for row in haystacks} == root.haystacks(TIER)
    assert len(rows_of(allowed, "data/evidence")) == len(root.questions)
    manifest = json.loads(allowed.path("data/manifest.json").read_text(encoding="utf-8"))
    assert (manifest["trajectories_used"], manifest["states"], manifest["evidence"]) == (4, 12, True)
    assert rows_of(allowed, "data/selected") == rows_of(allowed, "data/questions")  # run.questions: null is all


def test_goals_without_a_route_leave_the_tables_as_they_are(allowed: Run) -> None:
    for table in ("trajectories", "states"):
        copied, ingested = (allowed.path(folder, f"{table}.parquet") for folder in ("goals", "data"))
        assert copied.read_bytes() == ingested.read_bytes()
        assert copied.stat().st_mtime > allowed.path("goals", f"{SHARD}.parquet").stat().st_mtime
    goals = rows_of(allowed, f"goals/{SHARD}")
    assert [(row["goal"], row["origin"]) for row in goals] == (
        [(row["goal"], "unchanged") for row in sorted(allowed.root.trajectories, key=lambda row: row["id"])]
    )
    assert json.loads(allowed.path("goals/summary.json").read_text(encoding="utf-8"))["digest"] is None
    assert "oals" not in allowed.path("table2.md").read_text(encoding="utf-8")


def test_pools_hold_an_entry_per_state_and_transition_and_a_note_of_each_kind_per_run(allowed: Run) -> None:
    names = sorted(row["id"] for row in allowed.root.trajectories)
    raw = rows_of(allowed, f"pools/raw_state/{SHARD}")
    spans = [(row["trajectory_id"], row["first_state"], row["center_state"], row["last_state"]) for row in raw]
    expected = [(name, *span) for name in names for span in ((0, 0, 1), (0, 1, 2), (1, 2, 2))]
    assert spans == expected
    center = rows_of(allowed, f"pools/center_state/{SHARD}")
    assert [
        (row["trajectory_id"], row["first_state"], row["center_state"], row["last_state"]) for row in center
    ] == spans
    events = rows_of(allowed, f"pools/event/{SHARD}")
    assert [(row["trajectory_id"], row["first_state"], row["last_state"], row["origin"]) for row in events] == (
        [(name, *span, "rules") for name in names for span in ((0, 1), (1, 2))]
    )
    for row in events:
        payload = json.loads(row["payload"])
        assert set(payload) == {"event_id", "overview", "state_transition", "action"}
        assert row["text"] == f"{payload['overview']}\n\n{payload['state_transition']}"
    for pool in NOTES:
        notes = rows_of(allowed, f"pools/{pool}/{SHARD}")
        assert [(note["trajectory_id"], note["pool"], note["origin"]) for note in notes] == (
            [(name, pool, "rules") for name in names]
        )
        assert all(set(json.loads(note["payload"])) == {"title", "description", "content"} for note in notes)


@pytest.mark.parametrize("pool", POOLS)
def test_every_entry_has_a_vector_and_stands_in_the_index(allowed: Run, pool: str) -> None:
    entries, vectors = (rows_of(allowed, f"{stage}/{pool}/{SHARD}") for stage in ("pools", "embeddings"))
    assert [row["entry_id"] for row in vectors] == [row["entry_id"] for row in entries]
    matrix = np.array([row["vector"] for row in vectors], dtype=np.float32)
    assert matrix.shape == (len(entries), 64)
    assert np.linalg.norm(matrix, axis=1) == pytest.approx(1)
    index = PoolIndex(allowed.path(f"index/{pool}.lance"), allowed.path(f"index/{pool}.json"))
    assert (index.manifest["pool"], index.manifest["entries"]) == (pool, len(entries))
    found = index.search(matrix[1], sorted({row["trajectory_id"] for row in entries}), 1)
    assert found[0].score == pytest.approx(1) and found[0].payload == json.loads(entries[1]["payload"])


def test_state_chunks_hold_every_element_of_their_state(allowed: Run) -> None:
    trees: dict[tuple[str, int], str] = {}
    for row in rows_of(allowed, f"pools/state_chunk/{SHARD}"):
        key = (row["trajectory_id"], row["center_state"])
        trees[key] = trees.get(key, "") + row["text"]
    states = {(row["trajectory_id"], row["state_index"]): row["tree"] for row in rows_of(allowed, "data/states")}
    assert list(trees) == sorted(states)
    for key, tree in states.items():
        elements = re.findall(r"\w+ '[^']+'", tree)  # role and name
        assert len(elements) == 6 and all(element in trees[key] for element in elements)


def test_contexts_come_from_the_haystack_notes_then_events_first(allowed: Run) -> None:
    haystacks = allowed.root.haystacks(TIER)
    rows = rows_of(allowed, f"contexts/{SHARDED}")
    assert [row["question_id"] for row in rows] == sorted(haystacks)
    for row in rows:
        pools = [item["pool"] for item in row["items"]]
        queries = json.loads(row["queries"])
        assert row["query_origin"] == "rules" and queries["note"] and queries["raw_state"]
        # Events are searched where the question speaks of what happens; every other pool always.
        assert set(pools) == (set(POOLS) if queries["event"] else {*NOTES, "raw_state"})
        assert pools == sorted(pools, key=[*NOTES, "event", "raw_state"].index)
        assert {item["trajectory_id"] for item in row["items"]} <= set(haystacks[row["question_id"]])
        assert (row["method"], row["tier"], row["error"]) == (METHOD, TIER, None)
        assert row["latency_s"] > 0
        assert row["replayed"]  # measured by the run before, which stopped at the reader


def test_answers_hold_replies_and_error_kinds(allowed: Run) -> None:
    rows = {row["question_id"]: row for row in rows_of(allowed, f"answers/{SHARDED}")}
    by_kind = {
        kind: sorted(name for name, row in rows.items() if row["error"] == kind) for kind in ("api_error", "length")
    }
    assert by_kind == {"api_error": allowed.ids(1), "length": allowed.ids(3)}
    answered = {name: row for name, row in rows.items() if row["error"] is None}
    assert sorted(answered) == allowed.ids(0, 2)
    for row in answered.values():
        assert (row["parsed"], row["unknown"], row["model"]) == ("K-0-2", False, "scripted-reader")
        assert 0 < row["context_tokens"] <= row["context_tokens_before"]
        assert row["items_before"] > 0 and row["images_left_out"] > 0
    assert all("503 the endpoint is down" in rows[name]["error_detail"] for name in by_kind["api_error"])


def test_scores_follow_rules_judge_and_error_kinds(allowed: Run) -> None:
    questions = {row["question_id"]: row for row in rows_of(allowed, "data/questions")}
    for row in rows_of(allowed, f"scores/{SHARDED}"):
        name, judged = row["question_id"], row["scorer"].startswith("llm_")
        assert (row["correct"] is None) == (row["error"] is not None)
        assert row["category"] == questions[name]["category"]
        if name in allowed.ids(1, 3):
            assert row["error"] == ("api_error" if name in allowed.ids(1) else "length")
        elif judged and name in allowed.ids(2):
            assert row["error"] == "judge_error" and row["judge_label"] is None
            assert "found 0 in 'I cannot say.'" in row["error_detail"]
        elif judged:
            assert (row["correct"], row["judge_label"], row["judge_reason"]) == (True, 1, "it says so")
        else:
            assert row["correct"] == (questions[name]["answer"] == "K-0-2")
            assert row["judge_label"] is None


def test_a_judge_without_labels_gives_errors_and_no_zeros(allowed: Run) -> None:
    scores = rows_of(allowed, f"scores/{SHARDED}")
    failed = [row["question_id"] for row in scores if row["error"] == "judge_error"]
    assert failed and set(failed) <= set(allowed.ids(2))
    # Replies without a label are not kept: a repeated run asks again.
    kept = list(allowed.chat_replies.values())
    assert "I cannot say." not in kept and any("it says so" in text for text in kept)


def test_the_table_counts_what_failed(allowed: Run) -> None:
    with allowed.path("table2.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    scores = rows_of(allowed, f"scores/{SHARDED}")
    scored = [one["correct"] for one in scores if one["error"] is None]
    assert (row["method"], row["tier"], row["questions"]) == (METHOD, TIER, str(len(scores)))
    assert row["errors"] == str(len(scores) - len(scored))
    assert row["overall"] == f"{sum(scored) / len(scored):.3f}"
    kinds = [one["error"] for one in scores]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("api_error", "judge_error", "length"))
    for name in ("table2", "evidence", "origins"):
        text = allowed.path(f"{name}.md").read_text(encoding="utf-8")
        assert f"INCOMPLETE: {counts};" in text
        roles = "reader: scripted-reader, judge: scripted-judge, embedder: scripted-embedder, controller: rules"
        assert f"- {roles}.\n" in text and "first reply" not in text


def test_the_origins_table_counts_entries_and_queries(allowed: Run) -> None:
    with allowed.path("origins.csv").open(newline="", encoding="utf-8") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    entries = {"event": 8, "hint_note": 4, "procedure_note": 4, "raw_state": 12}
    assert rows == [
        *(("pool", pool, "", "rules", str(count), "0", "0") for pool, count in entries.items()),
        ("queries", METHOD, TIER, "rules", "14", "0", "0"),
    ]


def test_the_methods_file_shows_what_the_row_does(allowed: Run) -> None:
    written = yaml.safe_load(allowed.path("methods.yaml").read_text(encoding="utf-8"))
    (row,) = written["methods"].items()
    assert row[0] == METHOD and row[1]["queries"] == "generated"
    assert row[1]["search"]["vectors"] == "slice" and row[1]["rerank"] is None
    assert written["render"]["mode"] == "focused"


def test_one_database_and_the_figure_stand_beside_the_tables(allowed: Run) -> None:
    with duckdb.connect(str(allowed.path("metrics.duckdb")), read_only=True) as database:
        for table in ("questions", "contexts", "answers", "scores", "outcomes"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchall() == [(14,)]
    for name in ("table2", "frontier", "latency", "evidence", "tokens", "errors"):
        with Image.open(allowed.path(f"{name}.png")) as image:
            assert image.width >= 1200
        assert allowed.path(f"{name}.pdf").read_bytes().startswith(b"%PDF-")


def test_the_report_tells_failed_rows_and_has_a_page_for_every_question(allowed: Run) -> None:
    first = allowed.path("report", "index.html").read_text(encoding="utf-8")
    failed = sum(row["error"] is not None for row in rows_of(allowed, f"scores/{SHARDED}"))
    assert failed > 0 and "INCOMPLETE" in first
    ids = {row["question_id"] for row in rows_of(allowed, "data/selected")}
    assert {path.stem for path in allowed.path("report", "pages", "question").iterdir()} == ids
    figures = {path.name for path in allowed.path("report", "pages", "figures").iterdir()}
    drawn = ("table2", "frontier", "latency", "evidence", "tokens", "errors", "statistics")
    assert figures == {f"{name}.png" for name in drawn}
