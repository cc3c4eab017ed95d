"""Write how far judges agree, and one judge with itself."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import TableFiles
from lmev2.tables.judge_agreement import export_judge_agreement

with Job(snakemake) as job:
    output = snakemake.output
    export_judge_agreement(
        [Path(path) for path in snakemake.input.scores],
        [Path(path) for path in snakemake.input.get("verdicts", [])],
        job.spec["judges"],
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
    )
