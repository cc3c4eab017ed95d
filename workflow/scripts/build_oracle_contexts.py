"""Write the oracle contexts of a question shard, cut to a reader's budget."""

from pathlib import Path

from lmev2.data.store import StateStore
from lmev2.job import Job
from lmev2.memory.settings import RenderSettings
from lmev2.models.factory import make_counter
from lmev2.models.settings import ChatSettings
from lmev2.pilots.contexts import Budget, context_rows, read_notes
from lmev2.pilots.oracle import oracles, unflawed
from lmev2.rows import CONTEXT, EVIDENCE, ORACLE_CUT, QUESTION, read_rows, write_rows
from lmev2.shards import in_shard

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    spec = job.spec
    every = unflawed(read_rows(snakemake.input.questions, QUESTION))
    questions = [row for row in every if in_shard(row["question_id"], spec["shard"])]
    labels = read_rows(snakemake.input.evidence, EVIDENCE) if spec["labels"] else None
    oracle = {} if labels is None else oracles(every, labels, set(store.trajectory_ids))
    notes = read_notes(snakemake.input.notes, {name for one in oracle.values() for name in one.trajectories})
    budget = None
    if "reader" in spec:
        reader = job.settings("reader", ChatSettings)
        budget = Budget(make_counter(reader, job.cache), spec["context_tokens"], reader.images)
    render = RenderSettings.model_validate(spec["render"])
    contexts, cuts = context_rows(
        spec["context"], questions, oracle, store, notes, render, budget, job.progress("questions")
    )
    write_rows(snakemake.output.contexts, CONTEXT, contexts)
    write_rows(snakemake.output.cuts, ORACLE_CUT, cuts)
