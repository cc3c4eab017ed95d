"""Ask a memory the questions of a shard, one at a time, and time each call."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.failures import check_allowed
from lmev2.job import Job
from lmev2.memory.families import Controller, Tools, open_controller, open_indexes, open_memory
from lmev2.memory.query import data_digest, haystacks_of_tier, prompt_digests, query_rows, questions_of_shard
from lmev2.models.settings import ControllerSettings
from lmev2.prompts import load_prompt
from lmev2.rows import CONTEXT, QUESTION, read_rows, write_rows

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    indexes = open_indexes(snakemake.input.get("index", []), snakemake.input.get("manifests", []))
    prompts = {Path(file).stem: load_prompt(file) for file in snakemake.input.get("prompts", [])}

    def controller() -> Controller | None:
        """The controller's model; None where the controller is rules."""
        return open_controller(job.settings("controller", ControllerSettings), job.chat, prompts)

    haystacks = haystacks_of_tier(snakemake.input.haystacks, job.spec["tier"])
    questions = questions_of_shard(
        list(read_rows(snakemake.input.questions, QUESTION)),
        haystacks,
        job.spec["shard"],
        by_haystack=job.spec["method"]["family"] == "plugin",
    )
    memory = open_memory(job.spec, Tools(indexes, store, job.embedder, controller, job.path))
    digests = {name: index.digest for name, index in indexes.items()} | prompt_digests(prompts)
    digests |= data_digest(Path(snakemake.input.manifest), Path(snakemake.input.goals))
    spec = job.spec | {"code": snakemake.params.code}
    rows = query_rows(memory, questions, haystacks, spec, digests, job.cache, job.progress("questions"))
    check_allowed(rows, job.config.errors.allow, job.name)
    write_rows(snakemake.output[0], CONTEXT, rows)
