"""Cut the states of a trajectory shard into overlapping chunks."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.pools.settings import ChunkSettings
from lmev2.pools.state_chunk import state_chunk_entries
from lmev2.rows import POOL_ENTRY, write_rows
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    names = [name for name in store.trajectory_ids if in_shard(name, job.spec["shard"])]
    settings = ChunkSettings.model_validate(job.spec["chunk"])
    entries = (
        entry for name in names for entry in state_chunk_entries(store.trajectory(name), job.spec["radius"], settings)
    )
    write_rows(snakemake.output[0], POOL_ENTRY, entries)
