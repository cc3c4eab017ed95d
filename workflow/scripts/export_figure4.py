"""Write figure 4 as a table: answers from oracle contexts."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import TableFiles, read_table
from lmev2.tables.figure4 import export_figure4, figure4_rows
from lmev2.tables.pilots import by_cell, cut_facts, facts, made_of

with Job(snakemake) as job:
    cells, beside = job.spec["cells"], job.spec["beside"]
    files = {name: by_cell(snakemake.input.get(name, []), len(cells)) for name in ("scores", "answers", "cuts")}
    near = {name: by_cell(snakemake.input.get(f"near_{name}", []), len(beside)) for name in ("scores", "answers")}
    ours = zip(cells, files["scores"], files["answers"], files["cuts"], strict=True)
    theirs = zip(beside, near["scores"], near["answers"], strict=True)
    rows = figure4_rows(
        [(cell, {**facts(scores, answers), **cut_facts(cuts)}) for cell, scores, answers, cuts in ours],
        [(cell, facts(scores, answers)) for cell, scores, answers in theirs],
        read_table(Path(snakemake.input.published)),
    )
    output = snakemake.output
    export_figure4(
        rows,
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
        made_of(job.spec, Path(snakemake.input.manifest), Path(snakemake.input.goals)),
    )
