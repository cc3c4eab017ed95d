"""Write table 6: the published direct answers without context."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import TableFiles, read_table
from lmev2.tables.table6 import PAPER, export_table6

with Job(snakemake) as job:
    output = snakemake.output
    export_table6(
        [{**row, "source": PAPER} for row in read_table(Path(snakemake.input.published))],
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
    )
