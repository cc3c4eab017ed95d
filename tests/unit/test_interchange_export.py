"""Run folders that we write: every field of the harness, metrics against the tables' arithmetic, equal bytes."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.harnessworld import PROMPT, World, make_world, records

from lmev2.interchange import layout
from lmev2.interchange.aggregate import aggregate, overview
from lmev2.interchange.export import ExportError, prompts_are_ours
from lmev2.interchange.layout import folder_name, parse_folder_name
from lmev2.metrics import accuracy, shares, table_row

FIELDS = [
    "index",
    "stream_index",
    "question_id",
    "question_type",
    "category",
    "is_abstention_problem",
    "eval_function",
    "question_text",
    "question_image",
    "haystack_ids",
    "memory_context",
    "memory_query_duration_seconds",
    "memory_post_query_duration_seconds",
    "memory_post_query_metadata",
    "memory_context_original_token_count",
    "memory_context_token_count",
    "memory_context_was_truncated",
    "prompt_messages",
    "answer_gold",
    "response_raw",
    "response_parsed_boxed",
    "is_unknown",
    "score",
    "score_bool",
    "usage",
    "timestamp_utc",
]
POOLED = {"static": "static", "dynamic": "dynamic", "procedure": "workflow"}


def load(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="ascii"))


def test_a_folder_holds_what_the_harness_writes(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 1)
    for folder, domain in zip(world.export(tmp_path / "runs"), ("web", "enterprise"), strict=True):
        assert folder.name == f"rag_{domain}_small"
        found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        assert found == sorted(layout.RUN_FILES)
        args = load(folder, layout.RUN_ARGS)
        assert (args["domain"], args["model"], args["evaluator_model"]) == (domain, world.reader, world.judge)
        assert (args["method"], args["tier"]) == ("rag", "small") and "incomplete" not in args
        assert "machine" not in json.dumps(args) and "stamps" not in json.dumps(args)
        questions = load(folder, layout.QUESTIONS)
        own = {row["question_id"]: row for row in world.questions if row["domain"] == domain}
        assert [row["id"] for row in questions] == sorted(own)
        haystacks = {row["question_id"]: row["trajectory_ids"] for row in world.haystacks if row["tier"] == "small"}
        assert load(folder, layout.HAYSTACK) == {name: haystacks[name] for name in own}
        for row in questions:
            image = own[row["id"]]["image"]
            assert "image" not in row
            if image is None:
                assert row["question"] == own[row["id"]]["question"]
            else:
                shown = {"text": own[row["id"]]["question"], "image": f"question_screenshots/{row['id']}.png"}
                assert row["question"] == shown
        assert [list(record) for record in records(folder)] == [[*FIELDS, layout.OURS]] * len(own)


def test_a_record_says_what_the_rows_say(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 2)
    (folder,) = world.export(tmp_path / "runs", "web")
    contexts, answers, scores = (
        {row["question_id"]: row for row in rows} for rows in (world.contexts, world.answers, world.scores)
    )
    images = 0
    for number, record in enumerate(records(folder)):
        name = record["question_id"]
        context, answer, score = contexts[name], answers[name], scores[name]
        assert (record["index"], record["stream_index"]) == (number, number)
        kept = context["items"][: len(context["items"]) - answer["items_dropped"]]
        assert [item["type"] for item in record["memory_context"]] == [item["type"] for item in kept]
        for shown, item in zip(record["memory_context"], kept, strict=True):
            assert set(shown) == {"type", "value"}
            full = str(world.root / shown["value"]) if item["type"] == "image" else shown["value"]
            assert full == item["value"]
            images += item["type"] == "image"
        assert record["memory_query_duration_seconds"] == context["latency_s"]
        assert record["memory_context_was_truncated"] == bool(answer["items_dropped"])
        assert record["score"] == float(score["correct"]) and record["score_bool"] is score["correct"]
        assert record["usage"]["total_tokens"] == answer["prompt_tokens"] + answer["completion_tokens"]
        assert record["is_abstention_problem"] == record["category"].endswith("-abs")
        assert record["timestamp_utc"] == layout.NOT_RECORDED
    assert images


def test_messages_are_those_that_the_reader_gets(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 3)
    (folder,) = world.export(tmp_path / "runs", "web")
    answers = {row["question_id"]: row for row in world.answers}
    seen = set()
    for record in records(folder):
        system, user = record["prompt_messages"]
        assert system == {"role": "system", "content": PROMPT.system}
        parts = user["content"]
        shown = answers[record["question_id"]]["images_shown"]
        pictures = [part["image_path"] for part in parts if part["type"] == "image_path"]
        wanted = [item["value"] for item in record["memory_context"] if item["type"] == "image"]
        wanted += [record["question_image"]] if record["question_image"] else []
        assert pictures == (wanted if shown else [])
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        assert text.startswith("Context:\n") and f"Question: {record['question_text']}" in text
        assert all(item["value"] in text for item in record["memory_context"] if item["type"] == "text")
        seen.add((shown, bool(pictures), bool(record["memory_context"])))
    assert {(True, True, True), (False, False, True)} <= seen
    (plain,) = world.export(tmp_path / "short", "web", prompt=None)
    assert {json.dumps(record["prompt_messages"]) for record in records(plain)} == {"[]"}


def test_prompts_of_other_files_are_not_ours() -> None:
    args = {layout.OURS: {"prompts": {"reader_web": "a"}}}
    assert prompts_are_ours(args, {"reader_web": "a"})
    assert not prompts_are_ours(args, {"reader_web": "b"})
    assert not prompts_are_ours({}, {"reader_web": "a"})


def test_equal_rows_give_equal_bytes_whatever_their_order(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 4, errors=0.3)
    before = world.export(tmp_path / "one")
    for rows in (world.questions, world.haystacks, world.contexts, world.answers, world.scores):
        random.Random(0).shuffle(rows)
    for one, other in zip(before, world.export(tmp_path / "other"), strict=True):
        for name in layout.RUN_FILES:
            assert (one / name).read_bytes() == (other / name).read_bytes()
    assert not list((tmp_path / "one").glob(".*"))


def test_lines_hold_no_separator_that_splits_them_elsewhere(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 5)
    for folder in world.export(tmp_path / "runs"):
        text = (folder / layout.RECORDS).read_text(encoding="utf-8")
        assert text.splitlines() == text.rstrip("\n").split("\n") and "\\u2028" in text


def test_rows_with_an_error_are_no_scores_and_mark_the_folder(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 6, errors=0.4)
    for folder in world.export(tmp_path / "runs"):
        rows = records(folder)
        failed = [row for row in rows if "error" in row]
        errors = {row["question_id"]: row["error"] for row in world.scores if row["error"]}
        assert 0 < len(failed) < len(rows)
        for row in failed:
            assert (row["error"], row["score"], row["score_bool"]) == (errors[row["question_id"]], None, None)
            assert (row["memory_query_duration_seconds"] is None) == (row["error"] == "memory_error")
        counts = {kind: sum(row["error"] == kind for row in failed) for kind in {row["error"] for row in failed}}
        for name in (layout.RUN_ARGS, layout.AGGREGATED):
            marks = load(folder, name)
            assert marks["incomplete"] is True and marks["errors"] == counts
        overall = load(folder, layout.AGGREGATED)["overall"]
        # The harness's tools compare this count with the records, and so refuse the folder.
        assert overall["count_all_questions"] == len(rows) - len(failed)


def test_a_domain_without_questions_is_no_folder(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 7)
    world.questions = [row for row in world.questions if row["domain"] == "web"]
    with pytest.raises(ExportError, match="no question of domain enterprise"):
        world.export(tmp_path / "runs", "enterprise")
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_missing_rows_are_an_error(tmp_path: Path) -> None:
    world = make_world(tmp_path / "data", 8)
    world.scores.pop(0)
    with pytest.raises(ExportError, match="1 questions lack a context, score or haystack"):
        world.export(tmp_path / "runs")


def of_domain(world: World, domain: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {row["question_id"] for row in world.questions if row["domain"] == domain}
    return [row for row in rows if row["question_id"] in names]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 999), st.integers(2, 40), st.sampled_from([0.0, 0.2, 1.0]), st.booleans())
def test_the_metrics_are_those_of_our_tables(
    tmp_path_factory: pytest.TempPathFactory, seed: int, questions: int, errors: float, shared: bool
) -> None:
    tmp_path = tmp_path_factory.mktemp("metrics")
    world = make_world(tmp_path / "data", seed, questions, errors, shared=shared)
    parts = []
    for folder, domain in zip(world.export(tmp_path / "runs"), ("web", "enterprise"), strict=True):
        found = load(folder, layout.AGGREGATED)
        parts.append(found)
        scores = of_domain(world, domain, world.scores)
        flawed = [row for row in scores if row["scorer"] == "llm_abstention_checker"]
        plain = [row for row in scores if row["scorer"] != "llm_abstention_checker"]
        overall = found["overall"]
        for name, count, rows in (
            ("overall_full_set", "count_all_questions", scores),
            ("overall_abstention_only", "count_abstention", flawed),
            ("overall_non_abstention_only", "count_non_abstention", plain),
        ):
            assert overall[name] == pytest.approx(accuracy(rows).value)
            assert overall[count] == accuracy(rows).scored
        row = table_row(scores)
        for name, category in POOLED.items():
            assert found["combined_abstention_by_category"][name]["pct_correct"] == pytest.approx(row[category].value)
            check_shares(
                found["non_abstention_by_category"][name], [one for one in plain if one["category"] == category]
            )
            own = [one for one in flawed if one["category"] == category]
            check_shares(found["abstention_by_category"][f"{name}-abs"], own)
        check_shares(
            found["non_abstention_by_category"]["gotchas"], [one for one in plain if one["category"] == "gotchas"]
        )
        check_shares(found["abstention_overall"], flawed)
        check_timing(found["memory_query"], of_domain(world, domain, world.contexts))
        check_tokens(found, world, domain)
        lists = {tuple(one["haystack_ids"]) for one in records(folder)}
        assert found["shared_haystack"] == (len(lists) == 1)
        assert ("shared_haystack_ids" in found) == (len(lists) == 1)
    together = overview(parts)
    row = table_row(world.scores)
    expected = {f"{name}_accuracy": row[category].value for name, category in {**POOLED, "gotchas": "gotchas"}.items()}
    expected["overall_full_set"] = row["overall"].value
    if errors == 0:
        expected["memory_query_avg_seconds"] = statistics.fmean(one["latency_s"] for one in world.contexts)
        assert set(together) == set(expected)
    for name, value in expected.items():
        assert together[name] == pytest.approx(value)


def check_shares(found: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    expected = shares(rows)
    assert found["count"] == expected.count
    values = (found["pct_correct"], found["pct_answered_wrong"], found["pct_unknown"])
    assert values == pytest.approx((expected.correct, expected.wrong, expected.unknown))


def check_timing(found: dict[str, Any], contexts: list[dict[str, Any]]) -> None:
    spent = sorted(row["latency_s"] for row in contexts if row["error"] is None)
    assert found["total_seconds"] == pytest.approx(sum(spent))
    if not spent:
        assert {found[name] for name in found if name != "total_seconds"} == {None}
        return
    assert found["avg_seconds"] == pytest.approx(statistics.fmean(spent))
    assert found["p50_seconds"] == statistics.median_high(spent)
    assert found["max_seconds"] == max(spent)
    # At least 95 % of the calls are at most that long, and it is one of them.
    assert found["p95_seconds"] in spent
    assert sum(one <= found["p95_seconds"] for one in spent) >= 0.95 * len(spent)


def check_tokens(found: dict[str, Any], world: World, domain: str) -> None:
    scored = {row["question_id"] for row in of_domain(world, domain, world.scores) if row["error"] is None}
    answers = [row for row in world.answers if row["question_id"] in scored]
    tokens, context = found["tokens"], found["memory_context"]
    assert tokens["prompt_tokens"] == sum(row["prompt_tokens"] for row in answers)
    assert tokens["total_tokens"] == tokens["prompt_tokens"] + tokens["completion_tokens"]
    assert context["num_truncated_sequences"] == sum(bool(row["items_dropped"]) for row in answers)
    if answers:
        assert tokens["avg_total_tokens"] == pytest.approx(tokens["total_tokens"] / len(answers))
        assert context["avg_original_tokens"] == pytest.approx(
            statistics.fmean(row["context_tokens_before"] for row in answers)
        )
    else:
        assert tokens["avg_prompt_tokens"] is None and context["avg_final_tokens"] is None


def test_folder_names() -> None:
    assert folder_name("agentrunbook_r", "web", "small") == "agentrunbook_r_web_small"
    assert parse_folder_name("agentrunbook_r_web_small") == ("agentrunbook_r", "web", "small")
    assert parse_folder_name("a_web_small_enterprise_medium") == ("a_web_small", "enterprise", "medium")
    for name in ("_web_small", "web_small", "rag_web", "rag_web_large", "rag"):
        assert parse_folder_name(name) is None


def test_no_records_give_nulls() -> None:
    found = aggregate([], {})
    assert found["overall"]["overall_full_set"] is None and found["shared_haystack"] is False
    assert found["memory_query"]["avg_seconds"] is None and found["memory_query"]["total_seconds"] == 0
