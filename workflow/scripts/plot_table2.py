"""Draw table 2 as dots."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures_table2 import plot_table2

with Job(snakemake) as job:
    plot_table2(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
