"""Write what the data root holds, by tier and domain."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.data_statistics import VIEWS, export_statistics
from lmev2.tables.export import TableFiles
from lmev2.tables.notes import read_goal_notes

with Job(snakemake):
    output = snakemake.output
    export_statistics(
        {name: Path(snakemake.input[name]) for name in VIEWS},
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
        read_goal_notes(Path(snakemake.input.goals)),
    )
