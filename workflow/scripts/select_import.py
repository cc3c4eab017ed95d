"""Take in an imported run: its rows of this run's questions."""

from pathlib import Path

from lmev2.interchange.layout import write_json
from lmev2.interchange.select import select_import
from lmev2.job import Job
from lmev2.rows import EVIDENCE, HAYSTACK, QUESTION, read_rows

with Job(snakemake) as job:
    summary = select_import(
        Path(snakemake.input.imported[0]).parent,
        read_rows(snakemake.input.questions, QUESTION),
        read_rows(snakemake.input.selected, QUESTION),
        read_rows(snakemake.input.haystacks, HAYSTACK),
        read_rows(snakemake.input.evidence, EVIDENCE),
        job.data_root.absolute(),
        {stage: Path(snakemake.output[stage]) for stage in ("contexts", "answers", "scores")},
    )
    write_json(Path(snakemake.output.summary), summary)
