"""Write the HTML report."""

from pathlib import Path

from lmev2.job import Job
from lmev2.report.html.build import Sources, build_report

with Job(snakemake) as job:
    sources = Sources(
        Path(snakemake.input.database[0]),
        [Path(path) for path in snakemake.input.contexts],
        Path(snakemake.input.evidence),
        Path(snakemake.input.states),
        [Path(path) for path in snakemake.input.figures],
        [Path(path) for path in snakemake.input.tables],
    )
    build_report(Path(snakemake.output.index), sources, snakemake.threads, job.progress("contexts"))
