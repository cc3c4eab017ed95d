"""`snakemake --touch` runs no job, so it asks for nothing that jobs would need."""

from __future__ import annotations

from pathlib import Path

from pipeline import make_pipeline, merged, overlay_for

UNSET = "TOUCH_TEST"


def test_touching_needs_no_endpoint_and_no_agent(project: Path, tmp_path: Path) -> None:
    reader = {"backend": "openai", "model": "m", "endpoint": UNSET, "context_tokens": 0, "script": None}
    agent = {"agent": "codex", "backend": "openai", "model": "m", "endpoint": UNSET, "program": str(tmp_path / "none")}
    overlay = merged(
        overlay_for(tmp_path, [], []),
        {"run": {"methods": ["no_retrieval", "codex"]}, "models": {"reader": reader, "agent": agent}},
    )
    pipeline = make_pipeline(project, tmp_path, overlay)
    refused = pipeline.run(check=False).stdout
    assert f"{UNSET}_BASE_URL is not set" in refused and "`models.agent.program` names" in refused
    touched = pipeline.run("--touch").stdout
    assert "(Rule: read_answers)" in touched and UNSET not in touched
