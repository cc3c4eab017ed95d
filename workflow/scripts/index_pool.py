"""Gather a pool's shards and vectors into its LanceDB index."""

from pathlib import Path

from lmev2.index import build_index
from lmev2.job import Job

with Job(snakemake) as job:
    build_index(
        job.spec["pool"],
        [Path(path) for path in snakemake.input.pools],
        [Path(path) for path in snakemake.input.embeddings],
        Path(snakemake.output.index),
        Path(snakemake.output.manifest),
        job.spec["dimension"],
    )
