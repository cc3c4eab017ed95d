"""Draw evidence coverage against accuracy."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures_evidence import plot_evidence

with Job(snakemake) as job:
    plot_evidence(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
