"""Draw what the data root holds."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures_statistics import plot_statistics
from lmev2.tables.data_statistics import VIEWS

with Job(snakemake):
    plot_statistics(
        {name: Path(snakemake.input[name]) for name in VIEWS},
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        Path(snakemake.output.png),
        Path(snakemake.output.pdf),
    )
