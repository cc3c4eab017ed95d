"""The shipped configuration with its real models: two questions, one method.

Takes about 40 s on two cores, most of it spent by the small model on reading and judging; requantising the model for the
new cache is part of it.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from pipeline import Pipeline, open_pipeline

METHOD = "rag_slice_notes"


@pytest.fixture(scope="module")
def real(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The run, done. Nothing but its size and its folders differs from the default."""
    folder = tmp_path_factory.mktemp("real")
    overlay = {"cache": str(folder / "cache"), "run": {"questions": 2, "methods": [METHOD]}}
    pipeline = open_pipeline(project, folder, overlay)
    pipeline.run()
    return pipeline


def test_real_models_fill_a_row_without_errors(real: Pipeline) -> None:
    with (real.results / "table2.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["method"], row["tier"], row["questions"], row["errors"]) == (METHOD, "small", "2", "0")
    assert float(row["overall"]) in (0, 0.5, 1)
    assert float(row["latency_s"]) > 0
    with (real.results / "evidence.csv").open(newline="", encoding="utf-8") as file:
        (evidence,) = csv.DictReader(file)
    assert 0 < float(evidence["tokens"]) <= 2000
    assert "SmolLM2-135M-Instruct" in (real.results / "table2.md").read_text(encoding="utf-8")
    assert (real.results / "table2.png").is_file()
    assert sorted(path.name for path in real.directory.iterdir()) == [".snakemake", "results"]


def test_a_second_run_does_nothing(real: Pipeline) -> None:
    assert "Nothing to be done" in real.run().stdout
