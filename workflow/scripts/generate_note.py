"""Write a procedure note and a hint note for each trajectory of a shard."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.pools.note import build_notes
from lmev2.pools.settings import NoteSettings
from lmev2.rows import POOL_ENTRY, write_rows
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    settings = NoteSettings.model_validate(job.spec["note"])
    names = [name for name in store.trajectory_ids if in_shard(name, job.spec["shard"])]
    report = job.progress("trajectories")
    notes = []
    for number, name in enumerate(names, start=1):
        notes += build_notes(store.trajectory(name), settings)
        report(number, len(names))
    for output, pool in ((snakemake.output.procedure, "procedure_note"), (snakemake.output.hint, "hint_note")):
        write_rows(output, POOL_ENTRY, (note for note in notes if note["pool"] == pool))
