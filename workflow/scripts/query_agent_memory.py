"""Let a coding agent answer the questions of a shard, one at a time, and time each."""

import shutil
import signal
import sys
from pathlib import Path

from lmev2.agent.factory import open_agent
from lmev2.agent.instruction import load_agent_prompts
from lmev2.agent.pool import read_entries
from lmev2.agent.settings import AgentSettings
from lmev2.data.store import StateStore
from lmev2.failures import check_allowed
from lmev2.job import Job
from lmev2.memory.agent import Files
from lmev2.memory.agent_job import Recorder, open_memory
from lmev2.memory.query import data_digest, prompt_digests, query_rows, questions_of_shard
from lmev2.rows import AGENT_RUN, CONTEXT, HAYSTACK, QUESTION, read_rows, write_rows

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a cancelled job ends its agent and its sandbox

with Job(snakemake) as job, StateStore(Path(snakemake.input.states), Path(snakemake.input.trajectories)) as store:
    prompts = load_agent_prompts(Path(snakemake.input.instruction).parent)
    entries = {name: one for path in snakemake.input.entries for name, one in read_entries(Path(path)).items()}
    folders = {path.name: path.absolute() for shard in snakemake.input.folders for path in Path(shard).iterdir()}
    digests = data_digest(Path(snakemake.input.manifest)) | prompt_digests(
        {"agent_invocation": prompts.invocation, "agent_instruction": prompts.instruction}
    )
    haystacks = {
        row["question_id"]: row["trajectory_ids"]
        for row in read_rows(snakemake.input.haystacks, HAYSTACK)
        if row["tier"] == job.spec["tier"]
    }
    questions = questions_of_shard(
        list(read_rows(snakemake.input.questions, QUESTION)), haystacks, job.spec["shard"], by_haystack=False
    )
    spec = job.spec | {"code": snakemake.params.code}
    settings = job.settings("agent", AgentSettings)
    agent = open_agent(settings, lambda: job.chat(settings), job.pipeline)
    traces = Path(snakemake.log[0]).with_suffix(".traces")  # where they stay if the job fails
    recorder = Recorder(questions, haystacks, spec, traces, agent)
    files = Files(folders, entries, prompts)
    identity = job.spec["agent"] | {"code": job.agent_code()}
    private = [job.data_root, Path(snakemake.input.questions).parent]
    memory = open_memory(agent, settings, spec, files, store, digests["data"], job.cache, identity, recorder, private)
    rows = query_rows(memory, questions, haystacks, spec, digests, job.cache, job.progress("questions"))
    check_allowed(rows, job.config.errors.allow, job.name)
    write_rows(snakemake.output.runs, AGENT_RUN, recorder.rows())
    write_rows(snakemake.output.contexts, CONTEXT, rows)
    shutil.move(traces, snakemake.output.traces)
