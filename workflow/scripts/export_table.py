"""Run a table's query and write it as CSV and Markdown."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import export_table

with Job(snakemake) as job:
    export_table(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        Path(snakemake.output.csv),
        Path(snakemake.output.md),
        snakemake.params.title,
    )
