"""Write the effective settings of every method of the run."""

from pathlib import Path

from lmev2.job import Job
from lmev2.tables.methods import write_methods

with Job(snakemake) as job:
    write_methods(Path(snakemake.output[0]), dict(job.spec["methods"]), job.spec["render"])
