"""What can be said of the workflow without running it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from pipeline import make_pipeline, overlay_for
from unit.dataroot import make_bundle, png_bytes


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


def test_the_readmes_commands_plan(project: Path, tmp_path: Path) -> None:
    text = (project / "README.md").read_text(encoding="utf-8")
    commands = [line.split("#")[0].strip() for line in text.splitlines() if line.startswith("    snakemake ")]
    assert len(commands) >= 4
    for command in commands:
        words = shlex.split(command)[1:]
        if "config/paper.yaml" in words or any("/path/to" in word for word in words):
            continue  # they need data that is not here
        directory = [] if "--directory" in words else ["--directory", str(tmp_path)]
        dry = [sys.executable, "-m", "snakemake", *words, "-n", *directory]
        done = subprocess.run(dry, cwd=project, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_a_fetched_data_root_plans_the_same_before_and_after(project: Path, tmp_path: Path) -> None:
    overlay = overlay_for(tmp_path, [], [])
    overlay["data"]["hub"] = {"revision": "a" * 40}
    pipeline = make_pipeline(project, tmp_path, overlay)
    before = pipeline.planned()
    make_bundle(tmp_path / "data" / "trajectory_screenshots" / "web_screenshots.tar.gz", {"aaaa/0.png": png_bytes(1)})
    assert before["fetch_dataset"] == 1
    assert pipeline.planned() == before
