"""Ask a memory the questions of a shard, one at a time, and time each call."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.failures import check_allowed
from lmev2.index import PoolIndex
from lmev2.job import Job
from lmev2.memory.query import open_memory, query_rows
from lmev2.rows import CONTEXT, HAYSTACK, QUESTION, read_rows, write_rows
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    indexes = {
        Path(folder).stem: PoolIndex(Path(folder), Path(manifest))
        for folder, manifest in zip(snakemake.input.get("index", []), snakemake.input.get("manifests", []), strict=True)
    }
    questions = [
        row for row in read_rows(snakemake.input.questions, QUESTION) if in_shard(row["question_id"], job.spec["shard"])
    ]
    haystacks = {
        row["question_id"]: row["trajectory_ids"]
        for row in read_rows(snakemake.input.haystacks, HAYSTACK)
        if row["tier"] == job.spec["tier"]
    }
    memory = open_memory(job.spec, indexes, store, job.embedder)
    digests = {name: index.digest for name, index in indexes.items()}
    spec = job.spec | {"code": snakemake.params.code}
    rows = list(query_rows(memory, questions, haystacks, spec, digests, job.cache, job.progress("questions")))
    check_allowed(rows, job.config.errors.allow, job.name)
    write_rows(snakemake.output[0], CONTEXT, rows)
