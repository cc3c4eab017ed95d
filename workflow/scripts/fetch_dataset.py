"""Download the pinned revision of the data set and check its sums."""

from pathlib import Path

from lmev2.data.fetch import fetch_dataset
from lmev2.job import Job

with Job(snakemake) as job:
    hub = job.spec["hub"]
    fetch_dataset(hub["repo"], hub["revision"], job.data_root)
    Path(snakemake.output[0]).write_text(snakemake.params.spec + "\n", encoding="utf-8")
