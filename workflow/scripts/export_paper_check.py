"""Write our numbers beside the paper's, and the published cells that do not add up."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import TableFiles, read_table
from lmev2.tables.paper_check import export_paper_check

with Job(snakemake) as job:
    output = snakemake.output
    export_paper_check(
        Path(snakemake.input.database[0]),
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        read_table(Path(snakemake.input.table2)),
        read_table(Path(snakemake.input.table6)),
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
    )
