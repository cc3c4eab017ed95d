"""Write table 1: published benchmarks, and this data root."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import TableFiles, read_table
from lmev2.tables.notes import read_goal_notes
from lmev2.tables.table1 import export_table1

with Job(snakemake) as job:
    output = snakemake.output
    export_table1(
        {
            "questions": [Path(snakemake.input.questions)],
            "haystacks": [Path(snakemake.input.haystacks)],
            "tokens": [Path(path) for path in snakemake.input.tokens],
        },
        Path(snakemake.input.query).read_text(encoding="utf-8"),
        read_table(Path(snakemake.input.published)),
        job.spec["name"],
        job.spec["tokenizer"],
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
        read_goal_notes(Path(snakemake.input.goals)),
    )
