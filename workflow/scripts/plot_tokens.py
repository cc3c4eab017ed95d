"""Draw context tokens."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures_tokens import plot_tokens

with Job(snakemake) as job:
    plot_tokens(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
