"""Goals that spell out their route: what the memory sees of them, what is told of them, and what is run again."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
import yaml
from pipeline import Pipeline, make_pipeline, merged, overlay_for, write_script
from unit.dataroot import DataRoot
from unit.goalworld import CLEAN_UP, ORDER, REWRITTEN
from workflow.conftest import JUDGE, READER
from workflow.test_reruns import TABLES, configured, edited, library, prompt

from lmev2.goals.table import GOAL
from lmev2.rows import CONTEXT, STATE, TRAJECTORY, read_rows

METHOD = "rag_slice_notes"
SHARD = "0of1"
CONTEXTS = f"contexts/{METHOD}/small/{SHARD}.parquet"
MORE = (f"agent/pool/{SHARD}.jsonl", *(f"pools/{pool}/{SHARD}.parquet" for pool in ("event", "state_chunk")))
GOALS = {2: ORDER, 4: CLEAN_UP}  # by line; the runs of the domain enterprise
SANITIZED = {before: after for before, after, _ in REWRITTEN.values()}
# Names of places that stand in the routes only.
ROUTES = ("Self-Service", "Service Catalog", "Assigned to me")
WHOLE_GOALS = ("data/", f"goals/{SHARD}.parquet", "goals/report.csv")
BY_MODEL = SANITIZED[ORDER].replace("Order a trail camera\n", "Order a trail camera:\n")
CONTROLLER = [
    {"match": "Order a trail camera", "text": json.dumps({"goal": BY_MODEL})},
    {"match": "Clean-up your duplicate", "text": json.dumps({"goal": "Clean-up your duplicate problems as such."})},
]


def put_goals(root: DataRoot) -> None:
    """Runs whose second page shows the goal in a field, which is then clicked on."""
    for line, goal in GOALS.items():

        def change(run: dict[str, Any], goal: str = goal) -> None:
            run["goal"] = goal
            run["states"][1]["accessibility_tree"] += f"\n\t[d9] textbox 'Description' value={goal!r}, visible"
            run["states"][2]["action"] = "click('d9')"

        root.edit_line("trajectories.jsonl", line, change)


def goal_overlay(folder: Path) -> dict[str, Any]:
    overlay = overlay_for(folder, READER, JUDGE)
    put_goals(DataRoot(folder / "data"))
    return merged(overlay, {"run": {"methods": [METHOD]}})


@pytest.fixture(scope="module")
def sanitized(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A finished run in which rules rewrite two of four goals."""
    folder = tmp_path_factory.mktemp("goals")
    pipeline = make_pipeline(project, folder, goal_overlay(folder))
    pipeline.run("all", *(f"results/{target}" for target in MORE))
    return pipeline


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file below a folder as text: tables row by row, others as their bytes."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            rows = path.suffix == ".parquet"
            text = str(pq.read_table(path).to_pylist()) if rows else path.read_bytes().decode("latin-1")
            yield path.relative_to(folder).as_posix(), text


def report(pipeline: Pipeline) -> list[dict[str, str]]:
    with (pipeline.results / "goals" / "report.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def summary(pipeline: Pipeline) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((pipeline.results / "goals" / "summary.json").read_text(encoding="utf-8"))
    return value


def test_no_route_reaches_anything_but_the_ingested_data_and_the_report(sanitized: Pipeline) -> None:
    found = dict(texts(sanitized.results))
    holding = {name for name, text in found.items() for route in ROUTES if route in text}
    assert {name for name in holding if not name.startswith(WHOLE_GOALS)} == set()
    assert {"data/trajectories.parquet", "data/states.parquet", "goals/report.csv"} <= holding
    # The rest of the goals is there.
    pools = [f"pools/{pool}/{SHARD}.parquet" for pool in ("procedure_note", "hint_note", "state_chunk")]
    for name in (*pools, CONTEXTS, f"agent/pool/{SHARD}.jsonl", "goals/trajectories.parquet", "goals/states.parquet"):
        assert "trail camera" in found[name] and "duplicate" in found[name], name
    runs = [text for name, text in found.items() if name.endswith("/trajectory.json")]
    assert len(runs) == 4 and sum("#SERIES-77aa01bc-4" in text for text in runs) == 1


def test_tables_differ_from_the_ingested_ones_in_goals_and_their_copies_only(sanitized: Pipeline) -> None:
    rows = {
        (folder, name): list(read_rows(sanitized.results / folder / f"{name}.parquet", contract))
        for folder in ("data", "goals")
        for name, contract in (("trajectories", TRAJECTORY), ("states", STATE))
    }
    for before, after in zip(rows["data", "trajectories"], rows["goals", "trajectories"], strict=True):
        assert after == before | {"goal": SANITIZED.get(before["goal"], before["goal"])}
    differing = 0
    for before, after in zip(rows["data", "states"], rows["goals", "states"], strict=True):
        parts = {name for name in before if before[name] != after[name]}
        differing += bool(parts)
        assert parts <= ({1: {"tree"}, 2: {"action_annotated"}}.get(before["state_index"], set()))
    assert differing == 4


def test_the_report_the_summary_and_every_table_tell_of_it(sanitized: Pipeline) -> None:
    rows = report(sanitized)
    assert [row["origin"] for row in rows] == ["rules", "rules", "unchanged", "unchanged"]
    for row in rows[:2]:
        assert row["goal_after"] == SANITIZED[row["goal_before"]] and row["copies_in_states"] == "1"
        assert row["route_removed"] and row["values_kept"] and row["flags"] == ""
    told = summary(sanitized)
    assert len(told.pop("digest")) == 64
    assert told == {
        "mode": "rules",
        "goals": 4,
        "changed": 2,
        "unchanged": 2,
        "flagged": 0,
        "origins": {"rules": 2, "unchanged": 2},
        "copies": 2,
    }
    note = "Goals: 2 of 4 goals rewritten without their routes (goals/report.csv)."
    for name in ("table2", "evidence", "origins"):
        assert note in (sanitized.results / f"{name}.md").read_text(encoding="utf-8")
    facts = json.loads((sanitized.results / "provenance.json").read_text(encoding="utf-8"))
    assert facts["data"]["goals"] == {"mode": "rules", "digest": summary(sanitized)["digest"]}
    assert facts["settings"]["goals"] == {"mode": "rules"} and "goals/report.csv" in facts["tables"]
    with duckdb.connect(str(sanitized.results / "metrics.duckdb"), read_only=True) as database:
        (value,) = database.execute("SELECT value FROM run WHERE name = 'goals'").fetchall()
    assert json.loads(value[0]) == summary(sanitized)


EVERYTHING = {
    "apply_goals": 1,
    "build_raw_state": 1,
    "generate_note": 1,
    **dict.fromkeys(("embed_pool", "index_pool"), 3),
    **dict.fromkeys(("query_memory", "read_answers", "score_answers", "count_tokens", "export_table1"), 1),
    **dict.fromkeys(("export_statistics", "plot_statistics"), 1),
    **TABLES,
}


def test_a_changed_rule_of_goals_plans_all_that_reads_them(sanitized: Pipeline) -> None:
    assert sanitized.planned() == {}
    with edited(library(sanitized, "goals/values.py"), '_TRAILING = ".,:;', '_TRAILING = ".,;:'):
        assert sanitized.planned() == {"sanitize_goals": 1, **EVERYTHING}
    with edited(library(sanitized, "goals/apply.py"), "copies = 0", "copies = 0 + 0"):
        assert sanitized.planned() == EVERYTHING


def test_rules_depend_neither_on_the_goals_prompt_nor_on_a_models_code(sanitized: Pipeline) -> None:
    with edited(prompt(sanitized, "goal"), "Add nothing:", "Do not add anything:"):
        assert sanitized.planned() == {}
    with edited(library(sanitized, "goals/model.py"), 'NO_VALUES = "(none)"', 'NO_VALUES = "none"'):
        assert sanitized.planned() == {}
    with edited(library(sanitized, "pools/controller.py"), "[image left out]", "[no image]"):
        assert not {"sanitize_goals", "apply_goals"} & set(sanitized.planned())


def test_another_mode_plans_the_goals_and_all_that_reads_them(sanitized: Pipeline) -> None:
    with configured(sanitized, {"goals": {"mode": "check"}}):
        assert sanitized.planned() == {"sanitize_goals": 1, **EVERYTHING}


def test_where_no_goal_names_a_route_every_mode_gives_the_same_contexts(finished: Pipeline, tmp_path: Path) -> None:
    overlay = yaml.safe_load(finished.overlay.read_text(encoding="utf-8"))
    checked = make_pipeline(finished.folder, tmp_path, merged(overlay, {"goals": {"mode": "check"}}))
    checked.run(f"results/{CONTEXTS}", "results/goals/report.csv")
    assert (summary(finished)["mode"], summary(checked)["mode"]) == ("rules", "check")
    assert {**summary(finished), "mode": "check"} == summary(checked)
    assert summary(checked)["digest"] is None and summary(checked)["flagged"] == 0
    assert report(checked) == report(finished)
    for name in ("goals/states.parquet", f"pools/raw_state/{SHARD}.parquet", f"pools/hint_note/{SHARD}.parquet"):
        assert (checked.results / name).read_bytes() == (finished.results / name).read_bytes()
    first, again = (list(read_rows(one.results / CONTEXTS, CONTEXT)) for one in (finished, checked))
    assert all(row["replayed"] for row in again)  # nothing was asked and measured anew
    assert [{**row, "replayed": True} for row in first] == again


def test_data_that_should_be_sanitised_is_flagged_and_left_alone(project: Path, tmp_path: Path) -> None:
    pipeline = make_pipeline(project, tmp_path, merged(goal_overlay(tmp_path), {"goals": {"mode": "check"}}))
    pipeline.run("results/goals/report.csv")
    rows = report(pipeline)
    assert ["route_left: " in row["flags"] for row in rows] == [True, True, False, False]
    assert all(row["goal_before"] == row["goal_after"] and row["copies_in_states"] == "0" for row in rows)
    told = summary(pipeline)
    assert (told["changed"], told["flagged"], told["digest"]) == (0, 2, None)
    assert (pipeline.results / "goals/states.parquet").read_bytes() == (
        (pipeline.results / "data/states.parquet").read_bytes()
    )


def test_a_model_rewrites_goals_and_rules_stand_in_where_its_reply_is_no_use(project: Path, tmp_path: Path) -> None:
    model = {"backend": "scripted", "model": "scripted-controller", "concurrency": 2}
    controller = {**model, "script": write_script(tmp_path / "controller.jsonl", CONTROLLER)}
    over = {"goals": {"mode": "model"}, "models": {"controller": controller}}
    pipeline = make_pipeline(project, tmp_path, merged(goal_overlay(tmp_path), over))
    target = "results/goals/report.csv"
    pipeline.run(target)
    rows = {row["goal_before"]: row for row in report(pipeline)}
    assert (rows[ORDER]["origin"], rows[ORDER]["goal_after"]) == ("model", BY_MODEL)
    assert (rows[CLEAN_UP]["origin"], rows[CLEAN_UP]["goal_after"]) == ("fallback", SANITIZED[CLEAN_UP])
    assert "the checker objects to the reply: value_lost" in rows[CLEAN_UP]["origin_detail"]
    assert summary(pipeline)["origins"] == {"fallback": 1, "model": 1, "unchanged": 2}
    stored = {row["goal"]: row for row in read_rows(pipeline.results / "goals" / f"{SHARD}.parquet", GOAL)}
    assert (stored[ORDER]["sanitized"], stored[CLEAN_UP]["copies"]) == (BY_MODEL, 1)
    assert pipeline.planned(target) == {}
    again = {"sanitize_goals": 1, "apply_goals": 1}
    with edited(prompt(pipeline, "goal"), "Add nothing:", "Do not add anything:"):
        assert pipeline.planned(target) == again
    with edited(library(pipeline, "goals/model.py"), 'NO_VALUES = "(none)"', 'NO_VALUES = "none"'):
        assert pipeline.planned(target) == again
    with configured(pipeline, {"models": {"controller": {"timeout_s": 5}}}):
        assert pipeline.planned(target) == {}
