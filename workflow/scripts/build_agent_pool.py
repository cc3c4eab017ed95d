"""Write each trajectory of a shard as the folder that coding agents see, and what manifests tell of it."""

from dataclasses import replace
from pathlib import Path

from lmev2.agent.pool import trajectory_entry, write_entries, write_trajectory_folder
from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    names = [name for name in store.trajectory_ids if in_shard(name, job.spec["shard"])]
    folder = Path(snakemake.output.folder)
    folder.mkdir(parents=True)
    report = job.progress("trajectories")
    entries = []
    for number, name in enumerate(names, start=1):
        trajectory = store.trajectory(name)
        digest = write_trajectory_folder(trajectory, folder)
        entries.append(replace(trajectory_entry(trajectory), digest=digest))
        report(number, len(names))
    write_entries(entries, Path(snakemake.output.entries))
