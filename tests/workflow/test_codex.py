"""The real Codex CLI in the whole pipeline, over the shipped data, with a scripted model behind it."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

from bwrap import needs_bwrap
from pipeline import merged, open_pipeline, overlay_for
from responsesserver import ResponsesServer, Turn, say, shell
from unit.test_agent_codex import needs_codex
from workflow.conftest import JUDGE, READER

from lmev2.rows import AGENT_RUN, CONTEXT, read_rows

KEY = "sk-secret-of-this-test"
LOOK = "cat INSTRUCTION.md question.json && head -5 trajectories/TRAJECTORY_SUMMARY_CONCISE.md"
INSPECT = "python scripts/inspect_trajectory.py $(ls trajectories | grep -v md | head -1) --state 0"
WRITE = (
    'id=$(ls trajectories | grep -v md | head -1); printf \'{"memory_markdown": "## Support Analysis\\\\nState 0.", '
    '"trajectory_spans": [{"trajectory_id": "%s", "start_state_index": 0, "end_state_index": 1}]}\' $id '
    "> memory_module_output.json; cat memory_module_output.json"
)
TURNS = (
    Turn((shell(LOOK),), (1000, 100, 50, 20)),
    Turn((shell(INSPECT),), (2000, 900, 60, 20)),
    Turn((shell(WRITE),), (3000, 1900, 70, 20)),
    Turn((say("Done."),), (3500, 2900, 10, 0)),
)


def turns(number: int, body: dict[str, Any]) -> Turn:
    """The turn after as many results as the conversation holds: each question is a conversation of its own."""
    return TURNS[sum(item.get("type") == "function_call_output" for item in body["input"])]


@needs_codex
@needs_bwrap
def test_codex_completes_agentrunbook_c_on_two_questions(project: Path, tmp_path: Path) -> None:
    overlay = merged(
        overlay_for(tmp_path, READER, JUDGE),
        {
            "data": {"root": str(project / "resources" / "minibench")},
            "run": {"questions": 2, "methods": ["agentrunbook_c"]},
            "models": {
                "agent": {
                    "agent": "codex",
                    "backend": "openai",
                    "model": "gpt-5.4-mini",
                    "endpoint": "LMEV2_AGENT",
                    "reasoning_effort": "xhigh",
                    "price": {"input": 1.0, "cached_input": 0.1, "output": 10.0},
                }
            },
        },
    )
    pipeline = open_pipeline(project, tmp_path, overlay)
    with ResponsesServer(turns) as server:
        pipeline.env.update(LMEV2_AGENT_BASE_URL=server.url, LMEV2_AGENT_API_KEY=KEY)
        pipeline.run("results/agents.csv", "results/table2.csv")
        requests = list(server.requests)

    runs = list(read_rows(pipeline.results / "agent/runs/agentrunbook_c/small/0of1.parquet", AGENT_RUN))
    assert [(row["agent"], row["model"], row["outcome"], row["attempts"]) for row in runs] == [
        ("codex 0.117.0", "gpt-5.4-mini", "finished", 1)
    ] * 2
    for row in runs:
        tokens = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
        assert (row["requests"], *[row[name] for name in tokens]) == (4, 9500, 5800, 190, 60)
        assert (row["commands"], row["states"]) == (3, 2)
    with (pipeline.results / "agents.csv").open(newline="", encoding="utf-8") as file:
        (line,) = csv.DictReader(file)
    # (9500 - 5800) tokens at 1, 5800 at 0.1 and 190 at 10 for a million.
    assert (line["cost"], line["total_cost"], line["currency"]) == ("0.0062", "0.01", "USD")

    assert len(requests) == 8 and {one.headers["authorization"] for one in requests} == {f"Bearer {KEY}"}
    told = json.dumps([one.body["input"] for one in requests], ensure_ascii=False)
    assert "Move fast and prefer targeted exploration." in told and "| id | goal |" in told.lower()
    for context in read_rows(pipeline.results / "contexts/agentrunbook_c/small/0of1.parquet", CONTEXT):
        assert context["items"][0]["value"].startswith("## Support Analysis") and context["latency_s"] > 0
        trace = pipeline.results / "agent/traces/agentrunbook_c/small/0of1" / context["question_id"]
        events = gzip.decompress((trace / "attempt_1.events.jsonl.gz").read_bytes()).decode()
        assert all(part in events for part in ("inspect_trajectory.py", "memory_module_output.json", "turn.completed"))
    for path in [*pipeline.directory.rglob("*"), *(tmp_path / "cache").rglob("*")]:
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), f"{path} holds the key"
