"""Cut raw-state slices of a trajectory shard, to be embedded with their centre state first."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.pools.raw_state import CENTER_STATE_POOL, raw_state_entries
from lmev2.rows import POOL_ENTRY, write_rows
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    names = [name for name in store.trajectory_ids if in_shard(name, job.spec["shard"])]
    entries = (
        entry
        for name in names
        for entry in raw_state_entries(store.trajectory(name), job.spec["radius"], CENTER_STATE_POOL)
    )
    write_rows(snakemake.output[0], POOL_ENTRY, entries)
