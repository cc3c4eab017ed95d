"""Draw figure 4: accuracy from oracle contexts."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.figures_figure4 import plot_figure4

with Job(snakemake):
    plot_figure4(Path(snakemake.input.table), Path(snakemake.output.png), Path(snakemake.output.pdf))
