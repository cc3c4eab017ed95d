"""Draw table 2 as bars."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures import plot_table2

with Job(snakemake) as job:
    plot_table2(
        Path(snakemake.input.table),
        Path(snakemake.input.evidence),
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
