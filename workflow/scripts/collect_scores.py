"""Gather all rows of the run in one DuckDB file."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.database import collect

with Job(snakemake) as job:
    collect(
        Path(snakemake.output[0]),
        job.spec,
        Path(snakemake.input.questions),
        {stage: [Path(path) for path in snakemake.input[stage]] for stage in ("contexts", "answers", "scores")},
        Path(snakemake.input.views).read_text(encoding="utf-8"),
    )
