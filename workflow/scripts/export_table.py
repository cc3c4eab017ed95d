"""Run a table's query and write it as CSV, Markdown and LaTeX."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import TableFiles, export_table

with Job(snakemake) as job:
    output = snakemake.output
    export_table(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
        snakemake.params.notes,
    )
