"""What a change plans, seen in dry runs over a finished run whose controller is a scripted model."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from pipeline import METHODS, Pipeline, merged
from unit.dataroot import DataRoot, png_bytes
from workflow.conftest import EVENT, QUERIES

from lmev2.files import file_sha256
from lmev2.rows import CONTEXT, POOL_ENTRY, read_rows

TABLES = {
    **dict.fromkeys(("export_table2", "export_evidence", "export_origins"), 1),
    **dict.fromkeys(("export_comparisons", "export_shares", "export_latencies", "export_lafs"), 1),
    "export_paper_check": 1,
    "collect_scores": 1,
    **dict.fromkeys(("plot_table2", "plot_frontier", "plot_latency"), 1),
    **dict.fromkeys(("plot_evidence", "plot_tokens", "plot_errors"), 1),
    "build_report": 1,
    "write_provenance": 1,
    "all": 1,
}
ONE_METHOD = {"query_memory": 1, "read_answers": 1, "score_answers": 1, **TABLES}
NEW_METHOD = {**ONE_METHOD, "export_methods": 1}
EVENTS = {"generate_event": 1, "embed_pool": 1, "index_pool": 1}
NOTES = {"generate_note": 1, "embed_pool": 2, "index_pool": 2}


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    """Replace a piece of a file for the time of a test."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} no longer holds {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def configured(pipeline: Pipeline, over: dict[str, Any]) -> Any:
    """Lay more configuration over a pipeline's for the time of a test."""
    text = pipeline.overlay.read_text(encoding="utf-8")
    return edited(pipeline.overlay, text, yaml.safe_dump(merged(yaml.safe_load(text), over)))


def library(pipeline: Pipeline, module: str) -> Path:
    """A module of the copied library."""
    return pipeline.folder / "src" / "lmev2" / module


def prompt(pipeline: Pipeline, name: str) -> Path:
    """A prompt file of the copied pipeline."""
    return pipeline.folder / "workflow" / "prompts" / f"{name}.md"


def test_the_run_made_a_table_with_every_row(finished: Pipeline) -> None:
    with (finished.results / "table2.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == METHODS
    assert list(rows[0]) == (
        [
            "method",
            "label",
            "tier",
            "overall",
            "static",
            "dynamic",
            "workflow",
            "gotchas",
            "latency_s",
            "significant",
            "overall_low",
            "overall_high",
            "questions",
            "errors",
            "error_kinds",
        ]
    )
    assert {row["questions"] for row in rows} == {"14"}
    assert {row["errors"] for row in rows} == {"0"}
    # The judge accepts everything, the rules nothing: the judged share of the questions is right.
    assert {row["gotchas"] for row in rows} == {"1.000"}
    assert rows[0]["latency_s"] == "0.000" and float(rows[1]["latency_s"]) > 0


def test_the_controllers_replies_became_the_memory_and_their_origins_are_counted(finished: Pipeline) -> None:
    with (finished.results / "origins.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    counts = {(row["kind"], row["name"], row["tier"], row["origin"]): int(row["entries"]) for row in rows}
    chunks = counts.pop(("pool", "state_chunk", "", "rules"))
    questions = DataRoot(finished.folder / "data").questions
    fallback = sum("record 3:" in row["question"] for row in questions)
    assert chunks >= 12 and 0 < fallback < len(questions)  # a state has a chunk or more
    assert counts == {
        ("pool", "event", "", "fallback"): 1,
        ("pool", "event", "", "model"): 6,
        ("pool", "event", "", "repaired"): 1,
        ("pool", "hint_note", "", "model"): 4,
        ("pool", "procedure_note", "", "model"): 4,
        ("pool", "raw_state", "", "rules"): 12,
        ("queries", "rag_slice", "small", "question"): 14,
        ("queries", "rag_slice_notes", "small", "question"): 14,
        ("queries", "agentrunbook_r", "small", "model"): 14 - fallback,
        ("queries", "agentrunbook_r", "small", "fallback"): fallback,
        ("queries", "rag_hybrid", "small", "question"): 14,
    }
    left_out = {(row["name"], row["origin"]): int(row["images_left_out"]) for row in rows if row["kind"] == "pool"}
    assert left_out["event", "model"] == 6 * 2 and left_out["hint_note", "model"] == 4 * 3
    note = f"{fallback} fallback in agentrunbook_r queries, 1 fallback in event, 1 repaired in event (origins.csv)."
    for name in ("table2", "evidence", "origins"):
        assert note in (finished.results / f"{name}.md").read_text(encoding="utf-8")


def test_the_replies_themselves_stand_in_pools_and_contexts(finished: Pipeline) -> None:
    events = list(read_rows(finished.results / "pools" / "event" / "0of1.parquet", POOL_ENTRY))
    told = {row["origin"]: row for row in events}
    assert told["repaired"]["text"] == told["model"]["text"] == "\n\n".join(EVENT.values())
    assert "(state_transition: Field required)" in told["fallback"]["origin_detail"]
    rows = list(read_rows(finished.results / "contexts" / "agentrunbook_r" / "small" / "0of1.parquet", CONTEXT))
    for row in rows:
        if row["query_origin"] == "model":
            assert json.loads(row["queries"])["raw_state"] == QUERIES["raw_state_queries"]
            assert {item["pool"] for item in row["items"]} == {"procedure_note", "hint_note", "event", "raw_state"}


def test_the_database_says_by_which_prompts_the_run_was_made(finished: Pipeline) -> None:
    with duckdb.connect(str(finished.results / "metrics.duckdb"), read_only=True) as database:
        facts = dict(database.execute("SELECT name, value FROM run").fetchall())
    hashes = {name.removeprefix("prompt "): value for name, value in facts.items() if name.startswith("prompt ")}
    sent = ("reader_web", "reader_enterprise", "judge_abstention", "judge_gotchas", "note", "event", "query")
    assert hashes == {name: file_sha256(prompt(finished, name)) for name in sent}


def test_a_second_run_has_nothing_to_do(finished: Pipeline) -> None:
    assert "Nothing to be done" in finished.run().stdout
    assert finished.planned() == {}


def test_the_judges_prompt_reruns_scores_and_tables_only(finished: Pipeline) -> None:
    with edited(prompt(finished, "judge_gotchas"), "strict grader", "very strict grader"):
        assert finished.planned() == {"score_answers": len(METHODS), **TABLES}


def test_the_readers_prompt_reruns_answers(finished: Pipeline) -> None:
    with edited(prompt(finished, "reader_web"), "experienced colleague", "colleague"):
        assert finished.planned() == {"read_answers": len(METHODS), "score_answers": len(METHODS), **TABLES}


def test_a_tables_query_reruns_that_table(finished: Pipeline) -> None:
    with edited(finished.folder / "workflow" / "sql" / "table2.sql", "AS overall", "AS total"):
        assert finished.planned() == {"export_table2": 1, "write_provenance": 1, "all": 1}


def test_a_figures_query_or_drawing_draws_that_figure(finished: Pipeline) -> None:
    with edited(finished.folder / "workflow" / "sql" / "figure_latency.sql", "0.95", "0.90"):
        planned = finished.planned()
    assert {rule for rule in planned if rule.startswith("plot_")} == {"plot_latency"}
    with edited(library(finished, "report/figures_errors.py"), "_SWATCH = 0.22", "_SWATCH = 0.3"):
        planned = finished.planned()
    assert {rule for rule in planned if rule.startswith(("plot_", "export_"))} == {"plot_errors"}


def test_comments_in_the_library_plan_nothing(finished: Pipeline) -> None:
    line = "from __future__ import annotations\n"
    with ExitStack() as edits:
        for module in ("scoring/judge.py", "rows.py", "models/cache.py", "memory/render.py", "pools/event_model.py"):
            edits.enter_context(edited(library(finished, module), line, f"{line}\n# A remark.\n"))
        assert finished.planned() == {}


def test_a_changed_judge_reruns_scores_and_tables_only(finished: Pipeline) -> None:
    with edited(library(finished, "scoring/judge.py"), "_REASON_CHARS: Final = 240", "_REASON_CHARS: Final = 120"):
        assert finished.planned() == {"score_answers": len(METHODS), **TABLES}


def test_the_events_prompt_reruns_events_and_the_methods_that_search_them(finished: Pipeline) -> None:
    with edited(prompt(finished, "event"), "You convert one UI transition", "You turn one UI transition"):
        counts, messages = finished.plan()
    assert counts == {**EVENTS, **ONE_METHOD}
    shard = "shard 0of1"
    assert [text for text in messages if not text.startswith(("Writing results", "Drawing", "Collecting"))] == [
        f"Embedding event, trajectory {shard}",
        "Indexing event",
        f"Querying agentrunbook_r on small, question {shard}",
        f"Reading answers of agentrunbook_r on small, question {shard}",
        f"Scoring agentrunbook_r on small, question {shard}",
        f"Writing events of trajectory {shard}",
    ]


def test_the_notes_prompt_reruns_notes_and_the_methods_that_search_them(finished: Pipeline) -> None:
    with edited(prompt(finished, "note"), "You convert one UI task", "You turn one UI task"):
        counts, messages = finished.plan()
    two = dict.fromkeys(("query_memory", "read_answers", "score_answers"), 2)
    assert counts == {**NOTES, **TABLES, **two}
    asked = [text.split()[1] for text in messages if text.startswith("Querying")]
    assert asked == ["agentrunbook_r", "rag_slice_notes"]
    assert [text for text in messages if text.startswith("Indexing")] == (
        ["Indexing hint_note", "Indexing procedure_note"]
    )


def test_the_queries_prompt_reruns_the_methods_with_generated_queries(finished: Pipeline) -> None:
    with ExitStack() as edits:
        for name in ("query", "rerank"):  # the second is sent by none of the methods
            edits.enter_context(edited(prompt(finished, name), "Return JSON only.", "Return only JSON."))
        counts, messages = finished.plan()
    assert counts == ONE_METHOD
    assert any(text.startswith("Querying agentrunbook_r on") for text in messages)


def test_a_changed_request_for_events_reruns_them_only(finished: Pipeline) -> None:
    with edited(library(finished, "pools/event_model.py"), "(none: the run begins here)", "(none)"):
        assert finished.planned() == {**EVENTS, **ONE_METHOD}


def test_changed_backends_that_no_role_calls_plan_nothing(finished: Pipeline) -> None:
    line = "from __future__ import annotations\n"
    with ExitStack() as edits:
        for name in ("llama", "llama_embedder", "openai_backend", "sentence_transformers_backend", "wordllama_backend"):
            edits.enter_context(edited(library(finished, f"models/{name}.py"), line, f"{line}\n_ADDED = 1\n"))
        assert finished.planned() == {}


METHOD = {"inherits": "rag_slice", "label": "One more"}


@pytest.mark.parametrize(
    ("row", "more"),
    [
        ({"inherits": "agentrunbook_r", "pools": ["note", "event"]}, {}),
        ({"search": {"vectors": "chunk"}}, {}),
        ({"search": {"full_text": True, "distinct": "page"}}, {}),
        ({"search": {"vectors": "center"}}, {"build_center_state": 1, "embed_pool": 1, "index_pool": 1}),
    ],
    ids=["without-a-pool", "chunk-vectors", "full-text", "a-new-pool"],
)
def test_a_new_row_asks_that_method_only(finished: Pipeline, row: dict[str, Any], more: dict[str, int]) -> None:
    over = {"run": {"methods": [*METHODS, "one_more"]}, "methods": {"one_more": {**METHOD, **row}}}
    with configured(finished, over):
        counts, messages = finished.plan()
    assert counts == {**NEW_METHOD, **more}
    assert "Querying one_more on small, question shard 0of1" in messages


def test_another_search_asks_the_rows_that_search_so(finished: Pipeline) -> None:
    with configured(finished, {"methods": {"rag_slice": {"search": {"strip": True}}}}):
        counts, messages = finished.plan()
    # The third row that inherits from it has a search of its own.
    asked = [text.split()[1] for text in messages if text.startswith("Querying")]
    assert asked == ["rag_slice", "rag_slice_notes"]
    assert counts == {**NEW_METHOD, "query_memory": 2, "read_answers": 2, "score_answers": 2}


@pytest.mark.parametrize("size", ["retry_tree_chars", "change_chars"])  # the second is of the rules' fallback entries
def test_sizes_of_a_pool_write_it_again(finished: Pipeline, size: str) -> None:
    with configured(finished, {"pools": {"event": {size: 700}}}):
        assert finished.planned() == {**EVENTS, **ONE_METHOD}


def test_another_order_of_the_rows_writes_tables_only(finished: Pipeline) -> None:
    with configured(finished, {"run": {"methods": METHODS[::-1]}}):
        assert finished.planned() == {**TABLES, "export_methods": 1}


def test_a_wrong_data_root_is_an_error_also_over_a_finished_run(finished: Pipeline) -> None:
    root = str(finished.folder / "data")
    with edited(finished.overlay, f"root: {root}", f"root: {root}-typo"):
        failed = finished.run("results/table2.csv", check=False)
    assert failed.returncode != 0 and f"no folder {root}-typo" in failed.stdout


def test_a_new_question_image_is_noticed(finished: Pipeline) -> None:
    image = next((finished.folder / "data" / "question_screenshots").glob("*.png"))
    content = image.read_bytes()
    try:
        image.write_bytes(png_bytes(99))
        assert "ingest_dataset" in finished.planned()
    finally:
        image.write_bytes(content)


def test_fewer_allowed_errors_repeat_the_calls_that_were_let_through(finished: Pipeline) -> None:
    with configured(finished, {"errors": {"allow": 2}}):
        planned = finished.planned()
    assert planned["query_memory"] == planned["read_answers"] == planned["score_answers"] == len(METHODS)
    assert planned["generate_note"] == planned["generate_event"] == 1


def test_mechanics_of_calls_plan_nothing(finished: Pipeline) -> None:
    mechanics = {"concurrency": 3, "timeout_s": 5, "retries": 1, "endpoint": "ELSEWHERE"}
    roles = dict.fromkeys(("reader", "judge", "controller", "embedder"), mechanics)
    with configured(finished, {"models": roles}):
        assert finished.planned() == {}
