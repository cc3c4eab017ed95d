"""AgentRunbook-R with every role a model behind an endpoint: what is asked, and what is made of each kind of reply.

One pipeline over a made-up data root in five runs: with an endpoint that fails for some notes and one event, then for
some queries, then whole, then again, and at last from the call cache alone. The tests look at what these left. Takes
about a minute and a half on two cores.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chatserver import Call
from llm_runs import (
    API_KEY,
    BROKEN_QUERIES,
    CONTROLLER,
    FULL,
    METHODS,
    NO_EVENT,
    POOLS,
    QUESTIONS,
    RERANK,
    RUNS,
    SHARD,
    STATES,
    TRANSITIONS,
    TREE_CHARS,
    Runs,
    by_question,
    finished_runs,
    kind_of,
    number_of,
    screenshot,
)
from llm_script import (
    EVENTS,
    NO_REPLY,
    QUERIES,
    QUERY_DELAY_S,
    RETRY_AFTER_S,
    SLOW_DOWN,
    behaviour_of,
    sees_events,
    stage_of,
    subject_of,
    trees_of,
    value_of,
)
from pydantic import BaseModel
from unit.dataroot import SCORERS, make_id

from lmev2.cli import main
from lmev2.memory.query_model import QueryReply
from lmev2.memory.rerank import RerankReply
from lmev2.models.openai_backend import data_url
from lmev2.pools.event_model import event_schema
from lmev2.pools.note_model import note_schema


@pytest.fixture(scope="module")
def runs(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with finished_runs(project, tmp_path_factory.mktemp("llm")) as runs:
        yield runs


def firsts(calls: list[Call]) -> dict[Any, Call]:
    """The first request about each subject; all others at that stage must be equal to it."""
    found: dict[Any, Call] = {}
    for call in calls:
        if stage_of(call) == "first":
            subject = (subject_of(call), sees_events(call)) if call.task == "query" else subject_of(call)
            assert found.setdefault(subject, call).body == call.body
    return found


# What is asked


def test_every_trajectory_transition_and_question_is_asked_about_once(runs: Runs) -> None:
    assert sorted(firsts(runs.calls("note"))) == list(range(RUNS))
    assert sorted(firsts(runs.calls("event"))) == TRANSITIONS
    # A memory without events says so in its summary, so that row asks for itself; a row that reranks does not.
    queries = firsts(runs.calls("query"))
    assert sorted(queries) == [(number, events) for number in range(QUESTIONS) for events in (False, True)]


def test_no_request_is_made_but_for_these_and_what_their_replies_call_for(runs: Runs) -> None:
    expected = Counter(
        note=sum(behaviour_of("note", run).requests() for run in range(RUNS)),
        event=sum(behaviour_of("event", pair).requests() for pair in TRANSITIONS),
        query=2 * sum(behaviour_of("query", number).requests() for number in range(QUESTIONS)),
    )
    # Each failed call was tried twice; the prompt that was refused as too long got no reply to keep, so it was sent
    # again when the events that had been let through were asked for again.
    expected += Counter(note=2 * len(NO_REPLY["note"]), event=2 * len(NO_REPLY["event"]) + 1)
    expected += Counter(query=1 + 2 * len(BROKEN_QUERIES))
    for number, row in by_question(runs.contexts[RERANK]).items():
        expected["rerank"] += blocks_of(row) * behaviour_of("rerank", number).requests()
    asked = Counter(call.task for call in runs.calls() if call.task in CONTROLLER)
    assert asked == expected


def blocks_of(row: dict[str, Any]) -> int:
    """Blocks of results in a context, procedure and hint notes apart."""
    queries = json.loads(row["queries"])
    return 2 * bool(queries["note"]) + bool(queries["event"]) + bool(queries["raw_state"])


def test_other_roles_are_asked_once_for_each_prompt(runs: Runs) -> None:
    contexts = {json.dumps([number_of(row), row["items"]]) for rows in runs.contexts.values() for row in rows}
    readers = {json.dumps(call.body) for call in runs.calls("reader")}
    assert len(readers) == len(contexts) and len(runs.calls("reader")) <= len(METHODS) * QUESTIONS
    judged = sum(kind.endswith("-abs") or kind == "errors-gotchas" for kind in map(kind_of, range(QUESTIONS)))
    assert len({json.dumps(call.body) for call in runs.calls("judge")}) == judged
    texts = Counter(text for call in runs.calls("embedding") for text in call.body["input"])
    assert texts and max(texts.values()) == 1
    models = {call.task: call.body["model"] for call in runs.calls()}
    assert models == dict.fromkeys(("note", "event", "query", "rerank"), "test-controller") | {
        "reader": "test-reader",
        "judge": "test-judge",
        "embedding": "test-embedder",
    }


def test_notes_and_events_show_their_screenshots_and_queries_none(runs: Runs) -> None:
    for run, call in firsts(runs.calls("note")).items():
        assert call.images == [data_url(screenshot(runs.root, run, state)) for state in range(STATES)]
    for call in runs.calls("event"):
        run, pre = subject_of(call)
        assert call.images == [data_url(screenshot(runs.root, run, state)) for state in (pre, pre + 1)]
    assert not [call for call in runs.calls() if call.task in ("query", "rerank") and call.images]


def test_thinking_is_off_for_events_and_repairs_only(runs: Runs) -> None:
    thinking = {(call.task, call.kind, json.dumps(call.body.get("chat_template_kwargs"))) for call in runs.calls()}
    on, off = '{"enable_thinking": true}', '{"enable_thinking": false}'
    assert thinking == {
        ("note", "note", on),
        ("event", "event", off),
        ("query", "query", on),
        ("rerank", "rerank", on),
        *((task, "repair", off) for task in ("note", "event", "query", "rerank")),
        *((task, task, "null") for task in ("reader", "judge", "embedding")),
    }


def test_every_request_for_an_object_carries_its_schema(runs: Runs) -> None:
    shapes: dict[str, type[BaseModel]] = {
        "note": note_schema(None),
        "event": event_schema(None),
        "query": QueryReply,
        "rerank": RerankReply,
    }
    for call in runs.calls(*CONTROLLER):
        asked = call.body["response_format"]
        assert asked["type"] == "json_schema" and asked["json_schema"]["strict"] is True
        assert asked["json_schema"]["schema"] == shapes[call.task].model_json_schema()
        assert (call.body["temperature"], call.body["seed"], call.body["max_tokens"]) == (0.6, 1, 512)


def test_a_repair_shows_the_reply_and_what_is_wrong_with_it(runs: Runs) -> None:
    shown = set()
    for call in runs.calls("repair"):
        roles = [message["role"] for message in call.body["messages"]]
        assert roles == ["system", "user", "assistant", "user"]
        assert any(other.body["messages"] == call.body["messages"][:2] for other in runs.calls(call.task))
        shown.add(call.texts[2])
    assert {"I cannot say.", "(no answer)"} <= shown and "" not in shown


def test_gold_answers_ids_and_scorers_reach_the_judge_only(runs: Runs) -> None:
    rows = runs.root.questions
    gold = {row["answer"] for row in rows} - {"A"}
    ids = {row["id"] for row in rows}
    scorers = {name.partition("|")[0] for name in SCORERS.values()} | {"eval_function"}
    judged = " ".join(text for call in runs.calls("judge") for text in call.texts)
    assert any(answer in judged for answer in gold)
    for call in runs.calls():
        texts = call.body["input"] if call.task == "embedding" else call.texts
        hidden = ids | scorers | (gold if call.task != "judge" else set())
        assert not [word for word in hidden for text in texts if word in text]
    kinds = {kind for kind in SCORERS if "-" in kind}
    for call in runs.calls():
        if call.task in ("note", "event", "rerank", "reader"):
            assert not [kind for kind in kinds for text in call.texts if kind in text]


def test_queries_name_the_type_and_no_file_of_the_question(runs: Runs) -> None:
    for (number, _), call in firsts(runs.calls("query")).items():
        assert f"Question type: {kind_of(number)}.\n" in call.prompt
        image = "question.png" if kind_of(number) == "errors-gotchas" else "<none>"
        assert "Question ID: <none>.\n" in call.prompt and f"Question image path: {image}.\n" in call.prompt


# What is made of the replies


@pytest.mark.parametrize("pool", ["procedure_note", "hint_note"])
def test_notes_take_the_path_of_their_reply(runs: Runs, pool: str) -> None:
    rows = {row["trajectory_id"]: row for row in runs.pools[pool]}
    assert len(rows) == len(runs.pools[pool]) == RUNS
    for run in range(RUNS):
        check_entry(rows[make_id("trajectory", run)], "note", run, value_of("note", run)[pool])


def test_events_take_the_path_of_their_reply(runs: Runs) -> None:
    rows = {(row["trajectory_id"], row["first_state"]): row for row in runs.pools["event"]}
    assert len(rows) == len(runs.pools["event"]) == len(TRANSITIONS)
    for run, pre in TRANSITIONS:
        check_entry(rows[make_id("trajectory", run), pre], "event", (run, pre), value_of("event", (run, pre)))


def check_entry(row: dict[str, Any], task: str, subject: Any, value: dict[str, str]) -> None:
    expected = behaviour_of(task, subject)
    assert (row["origin"], row["images_left_out"]) == (expected.origin, 0), subject
    detail = row["origin_detail"]
    assert (detail is None) == (not expected.detail), (subject, detail)
    assert re.search(".*".join(map(re.escape, expected.detail)), detail or ""), (subject, detail)
    payload = json.loads(row["payload"])
    assert (value.items() <= payload.items()) == (expected.origin != "fallback"), subject
    assert all(payload[name].strip() for name in value)


def test_the_second_request_for_an_event_has_both_trees_cut(runs: Runs) -> None:
    whole = firsts(runs.calls("event"))
    short = {subject_of(call): call for call in runs.calls("event") if stage_of(call) == "short"}
    assert sorted(short) == [pair for pair, one in sorted(EVENTS.items()) if "short" in one.forms]
    for pair, call in short.items():
        before, after = trees_of(whole[pair]), trees_of(call)
        assert len(before) == len(after) == 2 and min(map(len, before)) > TREE_CHARS
        assert [len(tree) for tree in after] == [TREE_CHARS] * 2
        saved = sum(map(len, before)) - sum(map(len, after))
        assert len(whole[pair].prompt) - len(call.prompt) == saved
    assert all(len(tree) <= TREE_CHARS for tree in trees_of(whole[5, 0]))  # hence no second request


def test_queries_take_the_path_of_their_reply(runs: Runs) -> None:
    for method, rows in runs.contexts.items():
        found = by_question(rows)
        assert sorted(found) == list(range(QUESTIONS))
        for number, row in found.items():
            origin = behaviour_of("query", number).origin
            assert (row["query_origin"], row["error"]) == (origin, None)
            assert json.loads(row["queries"]) == searched(runs, number, method, origin)


def searched(runs: Runs, number: int, method: str, origin: str) -> dict[str, list[str]]:
    """The queries by pool that a row must have searched with."""
    if origin == "fallback":
        text, kind = " ".join(runs.root.questions[number]["question"].split()), kind_of(number)
        event, note = [text] * kind.startswith("dynamic"), [text] * kind.startswith("procedure")
        queries = {"raw_state": [text], "event": event, "note": note}
    else:
        value = value_of("query", number)
        queries = {
            "raw_state": value["raw_state_queries"],
            "event": [value["event_query"]],
            "note": [value["note_query"]],
        }
    return {pool: texts for pool, texts in queries.items() if method != NO_EVENT or pool != "event"}


def test_the_model_chooses_among_results_and_the_first_ones_stay_without_a_choice(runs: Runs) -> None:
    plain, chosen = by_question(runs.contexts[FULL]), by_question(runs.contexts[RERANK])
    for number in range(QUESTIONS):
        found, kept = entries(plain[number]), entries(chosen[number])
        assert found.keys() == kept.keys()
        for pool, texts in found.items():
            if behaviour_of("rerank", number).origin == "fallback":
                expected = texts[: 2 if pool == "raw_state" else 3]
            else:
                expected = texts[1:2]
            assert [text.split(" (")[1] for text in kept[pool]] == [text.split(" (")[1] for text in expected]


def entries(row: dict[str, Any]) -> dict[str, list[str]]:
    """Headings of a context's entries by pool, each with rank and source."""
    found: dict[str, list[str]] = {}
    for item in row["items"]:
        if item["type"] == "text":
            (heading,) = re.findall(r"^### (.*)$", item["value"], re.MULTILINE)
            found.setdefault(item["pool"], []).append(heading)
    return found


def test_the_table_of_origins_counts_what_was_injected(runs: Runs) -> None:
    rows = list(csv.DictReader(runs.tables["origins.csv"].decode().splitlines()))
    found = {(row["kind"], row["name"], row["origin"]): int(row["entries"]) for row in rows}
    expected = Counter[tuple[str, str, str]]()
    for run in range(RUNS):
        for pool in ("procedure_note", "hint_note"):
            expected["pool", pool, behaviour_of("note", run).origin] += 1
    for pair in TRANSITIONS:
        expected["pool", "event", behaviour_of("event", pair).origin] += 1
    for method in METHODS:
        for number in range(QUESTIONS):
            expected["queries", method, behaviour_of("query", number).origin] += 1
    for number in range(QUESTIONS):
        expected["rerank", RERANK, behaviour_of("rerank", number).origin] += 1
    expected["pool", "raw_state", "rules"] = RUNS * STATES
    assert found == expected
    shortened = {(row["name"], row["origin"]): int(row["shortened"]) for row in rows if row["kind"] == "pool"}
    cut = [one for one in EVENTS.values() if one.forms.get("short") == "good"]
    assert shortened["event", "model"] == len(cut)


# Calls without a reply


def test_calls_without_a_reply_are_listed_when_they_are_too_many(runs: Runs) -> None:
    log = runs.outputs["pools"]
    assert f"generate_note/{SHARD}: 2 rows failed (2 malformed_reply), errors.allow is 1:" in log
    assert listed(log) == {make_id("trajectory", run): "malformed_reply" for run in NO_REPLY["note"]}
    assert "the reply has no choices (after 2 attempts)" in log
    assert "the reply's choice has no message (after 2 attempts)" in log
    log = runs.outputs["queries"]
    assert f"query_memory/{NO_EVENT}/small/{SHARD}: 2 rows failed (2 memory_error), errors.allow is 0:" in log
    assert listed(log) == {make_id("question", number): "memory_error" for number in BROKEN_QUERIES}


def listed(log: str) -> dict[str, str]:
    return dict(re.findall(r"^  ([0-9a-f]{8}): (\w+): ", log, re.MULTILINE))


def test_an_allowed_one_passes_as_a_fallback_until_fewer_are_allowed(runs: Runs) -> None:
    ((run, pre),) = NO_REPLY["event"]
    (row,) = [
        row for row in runs.events if (row["trajectory_id"], row["first_state"]) == (make_id("trajectory", run), pre)
    ]
    assert row["origin"] == "fallback"
    assert row["origin_detail"] == "malformed_reply: the reply's message has no content (after 2 attempts)"
    others = [one for one in runs.events if one is not row]
    assert others == [one for one in runs.pools["event"] if one["entry_id"] != row["entry_id"]]


# Time


def test_latencies_hold_the_call_for_queries_wherever_it_was_made(runs: Runs) -> None:
    for rows in runs.contexts.values():
        for number, row in by_question(rows).items():
            replies = 1 if "repair" not in QUERIES.get(number, behaviour_of("query", number)).forms else 2
            assert row["latency_s"] >= replies * QUERY_DELAY_S


def test_a_wait_for_the_endpoint_is_no_latency(runs: Runs) -> None:
    slow = [by_question(runs.contexts[method])[SLOW_DOWN] for method in (FULL, RERANK)]
    assert all(QUERY_DELAY_S <= row["latency_s"] < RETRY_AFTER_S for row in slow)
    first, second = sorted(row["waited_s"] for row in slow)
    assert first < RETRY_AFTER_S <= second  # the row that asked first waited, the other had its replies
    assert len([call for call in runs.calls("query") if subject_of(call) == SLOW_DOWN]) == 3
    others = [row["waited_s"] for rows in runs.contexts.values() for row in rows if number_of(row) != SLOW_DOWN]
    assert max(others) < QUERY_DELAY_S


# Again


def test_a_second_run_has_nothing_to_do(runs: Runs) -> None:
    assert "Nothing to be done" in runs.outputs["again"]
    assert runs.ends["again"] == runs.ends["whole"]


def test_a_run_from_the_cache_asks_for_no_reply_again_and_ends_the_same(runs: Runs) -> None:
    # An endpoint's refusal is no reply, so the prompt that is too long is sent again, and nothing else.
    again = runs.server.of()[runs.ends["again"] :]
    refused = [pair for pair, one in EVENTS.items() if one.forms["first"] == "too long"]
    assert [(call.kind, subject_of(call), stage_of(call)) for call in again] == [
        ("event", pair, "first") for pair in refused
    ]
    assert runs.tables_again == runs.tables
    for method in METHODS:
        first, second = runs.contexts[method], runs.contexts_again[method]
        assert [row | {"waited_s": 0.0, "replayed": True} for row in first] == second


def test_the_key_is_sent_and_written_nowhere(runs: Runs) -> None:
    assert {call.headers["authorization"] for call in runs.server.of()} == {f"Bearer {API_KEY}"}
    assert [name for name, text in runs.outputs.items() if API_KEY in text] == []
    files = [path for path in runs.pipeline.folder.rglob("*") if path.is_file()]
    assert {".parquet", ".log", ".json"} <= {path.suffix for path in files}
    assert [path for path in files if API_KEY in content_of(path)] == []


def content_of(path: Path) -> str:
    """A file's bytes or, of compressed rows, their values."""
    return str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_bytes().decode("latin-1")


def test_the_tables_are_complete(runs: Runs) -> None:
    rows = list(csv.DictReader(runs.tables["table2.csv"].decode().splitlines()))
    assert [(row["method"], row["questions"], row["errors"]) for row in rows] == [
        (method, str(QUESTIONS), "0") for method in METHODS
    ]
    for row in rows:
        latencies = [one["latency_s"] for one in runs.contexts[row["method"]]]
        assert float(row["latency_s"]) == pytest.approx(sum(latencies) / len(latencies), abs=0.001)


# What was planned


def test_the_plan_counts_what_is_asked(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls of each stage are those of the run, repairs and repeats left out; prompts are about as long."""
    assert main(["plan", "--configfile", str(runs.pipeline.overlay), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    planned = {stage["stage"]: stage for stage in plan["stages"]}
    first = {
        "Notes": firsts(runs.calls("note")),
        "Events": firsts(runs.calls("event")),
        "Query generation": firsts(runs.calls("query")),
    }
    for name, calls in first.items():
        assert planned[name]["calls"] == len(calls)
        chars = sum(sum(map(len, call.texts)) for call in calls.values())
        images = sum(len(call.images) for call in calls.values())
        texts = planned[name]["prompt_tokens"] - 66 * images  # what the smallest image costs
        assert 0.5 < texts / (chars / plan["chars_per_token"]["controller"]["prose"]) < 2, name
    answers = {json.dumps([number_of(row), row["items"]]) for rows in runs.contexts.values() for row in rows}
    # No more than one per question and row: equal contexts, replies and texts are asked about once.
    assert len(answers) <= planned["Reader"]["calls"] == len(METHODS) * QUESTIONS
    judged = {call.prompt for call in runs.calls("judge")}
    assert planned["Judge"]["calls"] == len(METHODS) * len(judged)
    blocks = sum(blocks_of(row) for row in runs.contexts[RERANK])
    assert blocks <= planned["Reranking"]["calls"] == 4 * QUESTIONS
    texts = {text for call in runs.calls("embedding") for text in call.body["input"]}
    embedded = planned["Embedding of pools"]["parts"]
    slices = [text for text in texts if text.startswith("State ")]
    assert embedded["raw_state"]["calls"] == len(slices) == RUNS * STATES
    for pool in POOLS:
        assert embedded[pool]["calls"] == len(runs.pools[pool])
