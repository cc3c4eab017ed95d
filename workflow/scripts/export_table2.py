"""Write table 2: a row per method and tier as CSV, tiers side by side as Markdown and LaTeX."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import TableFiles
from lmev2.tables.table2 import export_table2

with Job(snakemake) as job:
    output = snakemake.output
    export_table2(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
    )
