"""Write a procedure note and a hint note for each trajectory of a shard."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.models.settings import ControllerSettings
from lmev2.pools.controller import Controller
from lmev2.pools.note_jobs import note_entries
from lmev2.pools.settings import NoteSettings
from lmev2.prompts import load_prompt
from lmev2.rows import POOL_ENTRY, write_rows
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    role, controller = job.settings("controller", ControllerSettings), None
    if role.backend != "rules":
        prompt = load_prompt(snakemake.input.prompt[0])
        controller = Controller(job.chat(role), role, prompt, job.config.errors.allow, job.name)
    names = [name for name in store.trajectory_ids if in_shard(name, job.spec["shard"])]
    settings = NoteSettings.model_validate(job.spec["note"])
    notes = note_entries(names, store, controller, settings, job.progress("trajectories"))
    for output, pool in ((snakemake.output.procedure, "procedure_note"), (snakemake.output.hint, "hint_note")):
        write_rows(output, POOL_ENTRY, (note for note in notes if note["pool"] == pool))
