"""The run folders of a run whose reader and judge failed at chosen questions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from rules.conftest import METHOD, TIER, Run

from lmev2.cli import main
from lmev2.interchange.layout import AGGREGATED, RECORDS, RUN_ARGS
from lmev2.rows import SCORE, read_rows

DOMAINS = ("web", "enterprise")


@pytest.fixture(scope="module")
def folders(allowed: Run) -> dict[str, Path]:
    """Its run folders by domain."""
    paths = {domain: allowed.path("harness_runs", f"{METHOD}_{domain}_{TIER}") for domain in DOMAINS}
    allowed.pipeline.run(*(f"results/harness_runs/{path.name}/{RUN_ARGS}" for path in paths.values()))
    return paths


def test_failed_rows_are_marked_and_never_scored(allowed: Run, folders: dict[str, Path]) -> None:
    (path,) = allowed.path("scores", METHOD, TIER).glob("*.parquet")
    scores = {row["question_id"]: row for row in read_rows(path, SCORE)}
    seen: Counter[str] = Counter()
    for folder in folders.values():
        lines = (folder / RECORDS).read_text(encoding="ascii").splitlines()
        records = [json.loads(line) for line in lines]
        for record in records:
            score = scores[record["question_id"]]
            assert (record.get("error"), record["score_bool"]) == (score["error"], score["correct"])
            assert (record["score"] is None) == (score["error"] is not None)
        errors = Counter(record["error"] for record in records if "error" in record)
        args, metrics = (json.loads((folder / name).read_text(encoding="ascii")) for name in (RUN_ARGS, AGGREGATED))
        assert args.get("errors", {}) == metrics.get("errors", {}) == dict(errors)
        assert args.get("incomplete", False) == bool(errors)
        assert metrics["overall"]["count_all_questions"] == len(records) - sum(errors.values())
        seen += errors
    assert {"api_error", "length", "judge_error"} == set(seen)


def test_no_package_is_made_of_them(
    allowed: Run, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "about.md").write_text("About.\n", encoding="utf-8")
    point = f"only={folders['web']},{folders['enterprise']}"
    command = ["leaderboard", "--name", "mine", "--point", point, "--out", str(tmp_path / "out"), "--private"]
    files = ["--description", str(tmp_path / "about.md"), "--code", str(tmp_path / "about.md")]
    assert main([*command, *files]) == 1
    assert " is incomplete: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
