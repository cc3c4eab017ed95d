"""What can be said of the workflow without running it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pipeline import make_pipeline, overlay_for


def edges(dot: str) -> set[tuple[str, str]]:
    """Edges of a rule graph by rule names."""
    labels = dict(re.findall(r'(\d+)\[label = "(\w+)"', dot))
    return {(labels[a], labels[b]) for a, b in re.findall(r"(\d+) -> (\d+)", dot)}


def test_the_pictures_source_is_the_workflows_rule_graph(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--rulegraph", "dot"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    drawn = (project / "docs" / "rulegraph.dot").read_text(encoding="utf-8")
    assert edges(done.stdout) == edges(drawn), "run `make rulegraph`"
    assert (project / "docs" / "rulegraph.svg").read_text(encoding="utf-8").count("<title>") > 15


def test_every_rule_has_script_log_message_and_docstring(project: Path) -> None:
    for path in sorted((project / "rules").glob("*.smk")):
        for block in re.split(r"^(?=rule )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name = re.match(r"rule (\w+):", block)[1]  # type: ignore[index]
            for part in ("log:", "params:", "message:", "conda:", "script:", '"""'):
                assert part in block, f"{name} in {path.name} lacks {part}"
            script = re.search(r'script:\s+"\.\./(workflow/scripts/\w+\.py)"', block)
            assert script and (project / script[1]).is_file(), name


def test_a_wrong_configuration_is_refused_before_any_job(project: Path, tmp_path: Path) -> None:
    overlay = overlay_for(tmp_path, [], [])
    overlay["run"]["tears"] = ["small"]
    failed = make_pipeline(project, tmp_path, overlay).run("-n", check=False)
    assert failed.returncode != 0
    assert "run.tears: Extra inputs are not permitted" in failed.stdout


def test_a_missing_data_root_is_an_error_and_never_replaced(project: Path, tmp_path: Path) -> None:
    overlay = overlay_for(tmp_path, [], [])
    overlay["data"]["root"] = str(tmp_path / "elsewhere")
    failed = make_pipeline(project, tmp_path, overlay).run("-n", check=False)
    assert failed.returncode != 0
    assert f"no folder {tmp_path / 'elsewhere'}" in failed.stdout


@pytest.mark.parametrize("tiers", [["small"], ["small", "medium"]])
def test_the_papers_settings_plan(project: Path, tmp_path: Path, tiers: list[str]) -> None:
    overlay = overlay_for(tmp_path, [], [])
    pipeline = make_pipeline(project, tmp_path, {"data": {**overlay["data"], "hub": None}, "run": {"tiers": tiers}})
    paper = str(project / "config" / "paper.yaml")
    done = subprocess.run(
        [part if part != str(pipeline.overlay) else paper for part in pipeline.command("-n")] + [str(pipeline.overlay)],
        capture_output=True,
        text=True,
        env=pipeline.env,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    stats = dict(re.findall(r"^(\w+) +(\d+)$", done.stdout + done.stderr, re.MULTILINE))
    assert stats["query_memory"] == stats["read_answers"] == stats["score_answers"] == str(3 * 16 * len(tiers))
    assert (stats["build_raw_state"], stats["embed_pool"], stats["index_pool"]) == ("64", "192", "3")
