"""Sanitise the goals of a shard's trajectories: by rules, by the controller's model, or check them only."""

from functools import partial
from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.goals.sanitize import check_only, sanitize_by_rules
from lmev2.goals.table import GOAL, goal_rows
from lmev2.job import Job
from lmev2.models.settings import ControllerSettings
from lmev2.pools.controller import Controller
from lmev2.prompts import load_prompt
from lmev2.rows import write_rows
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    sanitize = check_only if job.spec["mode"] == "check" else sanitize_by_rules
    if job.spec["mode"] == "model":
        from lmev2.goals.model import sanitize_by_model

        role, prompt = job.settings("controller", ControllerSettings), load_prompt(snakemake.input.prompt[0])
        controller = Controller(job.chat(role), role, prompt, job.config.errors.allow, job.name)
        sanitize = partial(sanitize_by_model, controller=controller, report=job.progress("goals"))
    names = [name for name in store.trajectory_ids if in_shard(name, job.spec["shard"])]
    write_rows(snakemake.output[0], GOAL, goal_rows(names, store, sanitize))
