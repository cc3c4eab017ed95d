"""Embed the entries of a pool's trajectory shard."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.pools.embed import embedding_rows
from lmev2.rows import EMBEDDING, POOL_ENTRY, read_rows, write_rows

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    entries = list(read_rows(snakemake.input.pool, POOL_ENTRY))
    rows = embedding_rows(entries, store, job.embedder(), job.progress("entries"))
    write_rows(snakemake.output[0], EMBEDDING, rows)
