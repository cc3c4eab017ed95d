"""Goals by a model, goals of many trajectories as rows, the tables that hold them, and the report."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from dataroot import PIPELINE, DataRoot, make_data_root
from goalworld import CLEAN_UP, LOOK_UP, ORDER, REWRITTEN, UNCHANGED

from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.failures import TooManyErrors
from lmev2.goals.apply import Applied, apply_goals, summary
from lmev2.goals.model import sanitize_by_model
from lmev2.goals.sanitize import Sanitized, check_only, sanitize, sanitize_by_rules
from lmev2.goals.table import GOAL, REPORT_COLUMNS, goal_rows, write_report
from lmev2.models.scripted import ScriptedChat, last_user_text
from lmev2.models.settings import ControllerSettings
from lmev2.models.types import ChatReply, ChatRequest, ModelCallError
from lmev2.pools.controller import Controller
from lmev2.prompts import load_prompt
from lmev2.rows import read_rows, write_rows

PROMPT = load_prompt(PIPELINE / "workflow" / "prompts" / "goal.md")
GOOD = 'Clean up your duplicate problems: of those assigned to you where "Short description" contains "#SERIES-77aa01bc-4", mark problems with duplicated problem statements as such.'


def silent(done: int, total: int) -> None:
    pass


def controller(answer: Callable[[ChatRequest], str | ChatReply], allow: int = 0) -> Controller:
    settings = ControllerSettings(backend="scripted", concurrency=2)
    return Controller(ScriptedChat(answer), settings, PROMPT, allow, "sanitize_goals/0of1")


def by_model(answer: Callable[[ChatRequest], str | ChatReply], *goals: str, allow: int = 0) -> list[Sanitized]:
    return sanitize_by_model([(goal, "enterprise") for goal in goals], controller(answer, allow), silent)


def reply(text: str) -> str:
    return json.dumps({"goal": text})


# By a model


def test_a_reply_that_passes_the_checker_is_taken() -> None:
    (result,) = by_model(lambda _: reply(GOOD), CLEAN_UP)
    assert (result.text, result.origin, result.flags, result.detail) == (GOOD, "model", (), None)
    assert result.removed_routes == ('the "Assigned to me" module of the "Problem" application',)


def test_the_prompt_shows_the_goal_and_every_value_and_asks_for_json() -> None:
    made = controller(lambda _: reply(GOOD))
    sanitize_by_model([(CLEAN_UP, "enterprise")], made, silent)
    (request,) = made.chat.calls  # type: ignore[attr-defined]
    text = last_user_text(request)
    assert CLEAN_UP in text and "- #SERIES-77aa01bc-4\n" in text + "\n" and "- Assigned to me" not in text
    assert request.schema is not None and request.schema["required"] == ["goal"]


def test_goals_without_a_route_cost_no_call() -> None:
    made = controller(lambda _: reply(GOOD))
    goals = [(goal, "web") for goal in UNCHANGED]
    results = sanitize_by_model(goals, made, silent)
    assert [one.text for one in results] == list(UNCHANGED)
    assert {one.origin for one in results} == {"unchanged"}
    assert made.chat.calls == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "objection"),
    [
        (GOOD.replace("#SERIES-77aa01bc-4", "the tag"), "value_lost: #SERIES-77aa01bc-4"),
        (GOOD + " Use the 12 newest.", "value_invented: 12"),
        (GOOD + ' Open the "Assigned to me" module.', "route_left"),
        (CLEAN_UP, "route_left"),
        ('"Short description" #SERIES-77aa01bc-4', "intent_lost"),
    ],
)
def test_a_reply_that_fails_the_checker_gives_way_to_the_rules(text: str, objection: str) -> None:
    (result,) = by_model(lambda _: reply(text), CLEAN_UP)
    assert (result.text, result.origin) == (sanitize(CLEAN_UP).text, "fallback")
    assert objection in str(result.detail)
    assert result.flags == ()


def test_a_useless_reply_is_repaired_once_and_then_given_up() -> None:
    replies = iter(["no json", reply(GOOD)])
    (result,) = by_model(lambda _: next(replies), CLEAN_UP)
    assert (result.text, result.origin) == (GOOD, "repaired")
    for useless in ("no json", reply(" … "), '{"goal": 3}', '{"goal": "a", "more": 1}'):
        (result,) = by_model(lambda _, useless=useless: useless, CLEAN_UP)  # type: ignore[misc]
        assert (result.text, result.origin) == (sanitize(CLEAN_UP).text, "fallback"), useless


def test_a_call_without_a_reply_fails_the_job_unless_allowed() -> None:
    def answer(request: ChatRequest) -> str:
        if LOOK_UP in last_user_text(request):
            raise ModelCallError("api_error", "the endpoint is down")
        return reply(GOOD)

    with pytest.raises(TooManyErrors, match=r"goal 1: .Find the lease end"):
        by_model(answer, CLEAN_UP, LOOK_UP)
    results = by_model(answer, CLEAN_UP, LOOK_UP, allow=1)
    assert [one.origin for one in results] == ["model", "fallback"]
    assert "the endpoint is down" in str(results[1].detail)


# Trajectories


GOALS = (ORDER, CLEAN_UP, LOOK_UP)


def task_page(tree: str, goal: str) -> str:
    return tree + f"\n\t[d9] textbox 'Description' value={goal!r}, visible"


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Ingested tables: three enterprise runs whose second page shows the goal, and then a click on it."""
    root = make_data_root(tmp_path / "root")
    put_goals(root)
    ingest_dataset(root.path, tmp_path / "data", ["small", "medium"])
    yield tmp_path / "data" / "trajectories.parquet", tmp_path / "data" / "states.parquet"


def put_goals(root: DataRoot) -> None:
    goals = iter(GOALS)
    for number, run in enumerate(root.trajectories, start=1):
        if run["domain"] == "enterprise":
            goal = next(goals)

            def change(value: dict[str, Any], goal: str = goal) -> None:
                value["goal"] = goal
                value["states"][1]["accessibility_tree"] = task_page(value["states"][1]["accessibility_tree"], goal)
                value["states"][2]["action"] = "click('d9')"

            root.edit_line("trajectories.jsonl", number, change)


def rows_of(tables: tuple[Path, Path], rewrite: bool = True) -> list[dict[str, Any]]:
    trajectories, states = tables
    with StateStore(states, trajectories) as store:
        return goal_rows(store.trajectory_ids, store, sanitize_by_rules if rewrite else check_only)


def test_rows_of_goals(tables: tuple[Path, Path], tmp_path: Path) -> None:
    rows = rows_of(tables)
    assert write_rows(tmp_path / "goals.parquet", GOAL, rows) == 6
    found = {row["goal"]: row for row in read_rows(tmp_path / "goals.parquet", GOAL)}
    for goal in GOALS:
        row = found[goal]
        assert row["sanitized"] == sanitize(goal).text
        assert (row["origin"], row["copies"], row["flags"]) == ("rules", 1, "[]")
        assert json.loads(row["removed_routes"]) == list(sanitize(goal).removed_routes)
    assert {row["origin"] for row in rows if row["domain"] == "web"} == {"unchanged"}


def test_pages_that_still_show_a_route_are_flagged(tables: tuple[Path, Path]) -> None:
    trajectories, states = tables
    with StateStore(states, trajectories) as store:
        name = next(name for name in store.trajectory_ids if store.facts(name)["goal"] == CLEAN_UP)
        run = store.trajectory(name)
        shown = [
            replace(run.states[0], tree=run.states[0].tree + f"\n\tStaticText {CLEAN_UP.upper()!r}"),
            *run.states[1:],
        ]
        changed = replace(run, states=tuple(shown))
        with patch.object(store, "trajectory", lambda _: changed):
            (row,) = goal_rows([name], store, sanitize_by_rules)
    assert json.loads(row["flags"]) == ["copy_left: states 0"] and row["copies"] == 1
    assert summary("rules", [row], Applied(1, "d"))["flagged"] == 1


def test_domains_reach_the_checker(tables: tuple[Path, Path]) -> None:
    goal = "Compare Oak > Pine prices"
    (web, enterprise) = check_only([(goal, "web"), (goal, "enterprise")])
    assert web.flags == () and [flag.kind for flag in enterprise.flags] == ["route_left"]
    made = controller(lambda _: reply(goal))
    assert sanitize_by_model([(goal, "web")], made, silent)[0].origin == "unchanged"
    assert made.chat.calls == []  # type: ignore[attr-defined]


def test_checked_rows_change_nothing_and_flag_routes(tables: tuple[Path, Path]) -> None:
    rows = rows_of(tables, rewrite=False)
    assert all(row["goal"] == row["sanitized"] and row["origin"] == "unchanged" for row in rows)
    assert {row["domain"] for row in rows if "route_left" in row["flags"]} == {"enterprise"}
    assert sum("route_left" in row["flags"] for row in rows) == 3


def test_tables_hold_sanitised_goals_pages_and_annotations(tables: tuple[Path, Path], tmp_path: Path) -> None:
    trajectories, states = tables
    new = tmp_path / "new" / "trajectories.parquet", tmp_path / "new" / "states.parquet"
    applied = apply_goals(trajectories, states, rows_of(tables), *new)
    assert applied.copies == 3 and applied.digest is not None
    with StateStore(states, trajectories) as old, StateStore(new[1], new[0]) as store:
        for name in old.trajectory_ids:
            before, after = old.trajectory(name), store.trajectory(name)
            text = sanitize(before.goal).text if before.domain == "enterprise" else before.goal
            assert after.goal == text
            for one, other in zip(before.states, after.states, strict=True):
                shows = before.domain == "enterprise" and one.state_index == 1
                assert (one.tree != other.tree) == shows
                if shows:
                    assert other.tree == task_page(one.tree.rpartition("\n")[0], text)
                if one.action == "click('d9')":
                    assert other.action_annotated is not None and repr(text) in other.action_annotated
                else:
                    assert one.action_annotated == other.action_annotated
                assert (one.url, one.thought, one.screenshot) == (other.url, other.thought, other.screenshot)
    # What is sanitised already is copied as it is.
    again = tmp_path / "again" / "trajectories.parquet", tmp_path / "again" / "states.parquet"
    assert apply_goals(*new, rows_of(new), *again) == Applied(0, None)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in new]


def test_the_digest_is_that_of_what_differs(tables: tuple[Path, Path], tmp_path: Path) -> None:
    rows = rows_of(tables)
    new = tmp_path / "trajectories.parquet", tmp_path / "states.parquet"
    first = apply_goals(*tables, rows, *new)
    assert apply_goals(*tables, rows[::-1], *new) == first
    (changed, *_) = (row for row in rows if row["goal"] != row["sanitized"])
    fewer = [row if row is not changed else {**row, "sanitized": row["goal"]} for row in rows]
    other = [row if row is not changed else {**row, "sanitized": row["sanitized"] + " Now."} for row in rows]
    digests = [apply_goals(*tables, goals, *new).digest for goals in (fewer, other)]
    assert len({first.digest, *digests}) == 3
    # Judged otherwise, but with the same texts, it is the same data.
    assert apply_goals(*tables, [{**row, "flags": '["x"]', "origin": "model"} for row in rows], *new) == first
    assert apply_goals(*tables, rows_of(tables, rewrite=False), *new) == Applied(0, None)


def test_the_summary_counts_goals_flags_and_origins(tables: tuple[Path, Path]) -> None:
    rows = rows_of(tables)
    flagged = [{**rows[0], "flags": '["value_lost: 7"]', "origin": "fallback"}, *rows[1:]]
    counts = summary("model", flagged, Applied(3, "d"))
    changed = sum(row["goal"] != row["sanitized"] for row in rows)
    assert counts == {
        "mode": "model",
        "goals": 6,
        "changed": changed,
        "unchanged": 6 - changed,
        "flagged": 1,
        "origins": counts["origins"],
        "copies": 3,
        "digest": "d",
    }
    assert counts["origins"]["fallback"] == 1 and sum(counts["origins"].values()) == 6


def test_goals_of_other_trajectories_are_refused(tables: tuple[Path, Path], tmp_path: Path) -> None:
    rows = rows_of(tables)
    for wrong in (rows[1:], [{**rows[0], "goal": "another"}, *rows[1:]]):
        with pytest.raises(DataError, match="no sanitised goal of trajectory"):
            apply_goals(*tables, wrong, tmp_path / "t.parquet", tmp_path / "s.parquet")
    assert not (tmp_path / "t.parquet").exists()


def test_the_report_shows_flags_first(tables: tuple[Path, Path], tmp_path: Path) -> None:
    rows = rows_of(tables)
    flagged = {**rows[0], "trajectory_id": "zz", "flags": '["value_lost: 7", "route_left: A > B"]'}
    assert write_report(tmp_path / "goals" / "report.csv", [*rows, flagged]) == 1
    with (tmp_path / "goals" / "report.csv").open(encoding="utf-8", newline="") as stream:
        read = list(csv.DictReader(stream))
    assert tuple(read[0]) == REPORT_COLUMNS
    assert (read[0]["trajectory_id"], read[0]["flags"]) == ("zz", "value_lost: 7 | route_left: A > B")
    assert [row["origin"] for row in read[1:]] == ["rules"] * 3 + ["unchanged"] * 3
    order = next(row for row in read if row["goal_before"] == ORDER)
    assert order["goal_after"] == REWRITTEN["order"][1]
    assert order["route_removed"] == 'the "Service Catalog" module of the "Self-Service" application'
    assert "Choose the lens | Wide" in order["values_kept"] and order["copies_in_states"] == "1"
