"""Count the reader's tokens of the trajectories of a shard."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.models.factory import make_counter
from lmev2.models.settings import ChatSettings
from lmev2.rows import TRAJECTORY_TOKENS, write_rows
from lmev2.shards import in_shard
from lmev2.tables.haystack_tokens import token_rows

with (
    Job(snakemake) as job,
    StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories), keep=1) as store,
):
    counter = make_counter(job.settings("reader", ChatSettings), job.cache)
    names = [name for name in store.trajectory_ids if in_shard(name, job.spec["shard"])]
    rows = token_rows(names, store, counter, job.progress("trajectories"))
    write_rows(snakemake.output[0], TRAJECTORY_TOKENS, rows)
