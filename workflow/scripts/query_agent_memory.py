"""Let a coding agent answer the questions of a shard, one at a time, and time each."""

import shutil
import signal
import sys
from pathlib import Path

from lmev2.agent.factory import open_agent
from lmev2.agent.instruction import load_agent_prompts
from lmev2.agent.runner import agent_identity
from lmev2.agent.settings import AgentSettings
from lmev2.data.store import StateStore
from lmev2.failures import check_allowed
from lmev2.job import Job
from lmev2.memory.agent import Files
from lmev2.memory.agent_job import Recorder, open_memory
from lmev2.memory.query import data_digest, haystacks_of_tier, prompt_digests, query_rows, questions_of_shard
from lmev2.rows import AGENT_RUN, CONTEXT, QUESTION, read_rows, write_rows

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a cancelled job ends its agent and its sandbox

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    prompts = load_agent_prompts(Path(snakemake.input.instruction).parent)
    files = Files.of_pool(snakemake.input.folders, snakemake.input.entries, prompts)
    digests = data_digest(Path(snakemake.input.manifest), Path(snakemake.input.goals)) | prompt_digests(
        {"agent_invocation": prompts.invocation, "agent_instruction": prompts.instruction}
    )
    haystacks = haystacks_of_tier(snakemake.input.haystacks, job.spec["tier"])
    questions = questions_of_shard(
        list(read_rows(snakemake.input.questions, QUESTION)), haystacks, job.spec["shard"], by_haystack=False
    )
    spec = job.spec | {"code": snakemake.params.code}
    settings = job.settings("agent", AgentSettings)
    agent = open_agent(settings, lambda: job.chat(settings), job.pipeline)
    traces = Path(snakemake.log[0]).with_suffix(".traces")  # where they stay if the job fails
    recorder = Recorder(questions, haystacks, spec, traces, agent)
    identity = agent_identity(job.spec["agent"], job.agent_code())
    private = [job.data_root, *(Path(path).parent for path in (snakemake.input.questions, snakemake.input.states))]
    memory = open_memory(agent, settings, spec, files, store, job.cache, identity, recorder, private)
    rows = query_rows(memory, questions, haystacks, spec, digests, job.cache, job.progress("questions"))
    check_allowed(rows, job.config.errors.allow, job.name)
    write_rows(snakemake.output.runs, AGENT_RUN, recorder.rows())
    write_rows(snakemake.output.contexts, CONTEXT, rows)
    shutil.move(traces, snakemake.output.traces)
