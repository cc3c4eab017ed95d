"""Check the whole data root and write it as Parquet."""

from pathlib import Path

from lmev2.data.ingest import ingest_dataset
from lmev2.job import Job
from lmev2.progress import in_megabytes

with Job(snakemake) as job:
    folder = Path(snakemake.output.manifest).parent
    ingest_dataset(job.data_root, folder, job.spec["tiers"], progress=in_megabytes(job.progress("MB")))
