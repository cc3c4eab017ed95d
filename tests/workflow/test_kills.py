"""A run that is killed again and again ends with the tables of an undisturbed one and pays for nothing twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from bwrap import needs_bwrap
from chatserver import ChatServer
from killpoints import (
    AGENT,
    BATCH,
    MOST_IN_FLIGHT,
    POINTS,
    RAG,
    SHORT_TABLES,
    KilledRun,
    Models,
    faults_in_rows,
    overlay_of,
    points,
    table_of,
)
from pipeline import Pipeline, make_pipeline, open_pipeline

COUNT = int(os.environ.get("KILL_POINTS", "5"))
WHOLE = len(POINTS) <= COUNT
REPORT = os.environ.get("KILL_REPORT")  # a file that the table of kills is written to


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(Models(0.2)) as running:
        yield running


@pytest.mark.skipif(WHOLE and needs_bwrap.args[0], reason="all points include those of coding agents: needs bwrap")
def test_a_run_killed_at_many_points_ends_like_an_undisturbed_one(
    project: Path, tmp_path: Path, server: ChatServer
) -> None:
    overlay = overlay_of(tmp_path, [RAG, AGENT] if WHOLE else [RAG])
    pipeline = make_pipeline(project, tmp_path, overlay)
    pipeline.env["KILL_TEST_BASE_URL"] = server.url
    targets = [] if WHOLE else SHORT_TABLES
    models = server._reply
    assert isinstance(models, Models)
    killed = KilledRun(pipeline, models, server.calls)

    for number, point in enumerate(points(COUNT)):
        killed.kill_at(point)
        if number == 0:
            resume_is_refused_until_unlocked(pipeline, targets)
        killed.unlock()
    pipeline.run(*targets)

    asked = len(server.calls)
    within = killed.count_repeats()
    (tmp_path / "undisturbed").mkdir()
    undisturbed = open_pipeline(pipeline.folder, tmp_path / "undisturbed", overlay)
    undisturbed.env["KILL_TEST_BASE_URL"] = server.url
    undisturbed.run(*targets)
    differing = different_tables(pipeline, undisturbed)
    table = table_of(killed.kills, not differing)
    if REPORT:
        Path(REPORT).write_text(table, encoding="utf-8")

    assert not differing, f"{differing}\n{table}"
    assert sum(not kill.hit for kill in killed.kills) <= 1, table
    assert len(server.calls) == asked, "a call of the killed run was not in the cache"
    assert within == 0, "a call was made twice without a kill in between"
    # Repeated texts of requests for vectors, repeated requests of all others.
    most = {
        task: MOST_IN_FLIGHT * (BATCH if task == "embedding" else 1)
        for task in {kill.point.task for kill in killed.kills}
    }
    assert all(kill.repeated <= most[kill.point.task] for kill in killed.kills), table
    assert faults_in_rows(pipeline.results) == []


def resume_is_refused_until_unlocked(pipeline: Pipeline, targets: list[str]) -> None:
    """The lock of a killed run stays; the message says that no run lives here, and which command removes the lock."""
    refused = pipeline.run(*targets, check=False).stdout
    assert "Directory cannot be locked" in refused
    assert "No run lives in this folder any more" in refused and "snakemake --unlock" in refused
    assert "Unlocked" in pipeline.run("--unlock").stdout


def different_tables(one: Pipeline, other: Pipeline) -> list[str]:
    """Names of tables that are not byte for byte the same in both run folders."""
    found = [
        {str(path.relative_to(run.results)): path.read_bytes() for path in sorted(run.results.rglob("*.csv"))}
        for run in (one, other)
    ]
    assert "table2.csv" in found[0] and found[0].keys() == found[1].keys()
    return [name for name, content in found[0].items() if found[1][name] != content]
