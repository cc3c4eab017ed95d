"""Draw errors by kind."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures_errors import plot_errors

with Job(snakemake) as job:
    plot_errors(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
