"""Draw accuracy against query latency."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures_frontier import plot_frontier

with Job(snakemake) as job:
    plot_frontier(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
