"""Write an event for each transition of a trajectory shard."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.models.settings import ControllerSettings
from lmev2.pools.controller import Controller
from lmev2.pools.event_jobs import event_entries
from lmev2.pools.settings import EventSettings
from lmev2.prompts import load_prompt
from lmev2.rows import POOL_ENTRY, write_rows
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    role, controller = job.settings("controller", ControllerSettings), None
    if role.backend != "rules":
        prompt = load_prompt(snakemake.input.prompt[0])
        controller = Controller(job.chat(role), role, prompt, job.config.errors.allow, job.name)
    names = [name for name in store.trajectory_ids if in_shard(name, job.spec["shard"])]
    report = job.progress("trajectories" if controller is None else "transitions")
    events = event_entries(names, store, controller, EventSettings.model_validate(job.spec["event"]), report)
    write_rows(snakemake.output[0], POOL_ENTRY, events)
