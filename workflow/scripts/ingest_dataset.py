"""Check the whole data root and write it as Parquet."""

from pathlib import Path

from lmev2.data.ingest import ingest_dataset
from lmev2.job import Job

with Job(snakemake) as job:
    report = job.progress("MB")
    ingest_dataset(
        job.data_root,
        Path(snakemake.output.manifest).parent,
        job.spec["tiers"],
        progress=lambda done, total: report(done // 1_000_000, total // 1_000_000),
    )
