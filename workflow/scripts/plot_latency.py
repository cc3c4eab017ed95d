"""Draw the distribution of query latencies."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures_latency import plot_latency

with Job(snakemake) as job:
    plot_latency(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
