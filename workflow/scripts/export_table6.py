"""Write table 6: the published direct answers without context, and those of this run's readers."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.export import TableFiles, read_table
from lmev2.tables.pilots import by_cell, cost, facts, made_of
from lmev2.tables.table6 import PAPER, export_table6, own_row

with Job(snakemake) as job:
    cells = job.spec["cells"]
    scores, answers = (by_cell(snakemake.input.get(name, []), len(cells)) for name in ("scores", "answers"))
    own = [
        own_row(cell, facts(scored, answered), *cost(answered, cell["price"]))
        for cell, scored, answered in zip(cells, scores, answers, strict=True)
    ]
    notes = made_of(job.spec, Path(snakemake.input.manifest), Path(snakemake.input.goals)) if cells else []
    published = [{**row, "source": PAPER} for row in read_table(Path(snakemake.input.published))]
    output = snakemake.output
    export_table6(
        [*published, *own],
        TableFiles(Path(output.csv), Path(output.md), Path(output.tex)),
        snakemake.params.title,
        notes,
    )
