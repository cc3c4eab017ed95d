"""Let a coding agent answer the questions of a shard from the files of their oracle trajectories, one at a time."""

import shutil
import signal
import sys
from pathlib import Path

from lmev2.agent.factory import open_agent
from lmev2.agent.instruction import load_agent_prompts
from lmev2.agent.runner import agent_identity
from lmev2.agent.settings import AgentSettings
from lmev2.failures import check_allowed
from lmev2.job import Job
from lmev2.memory.agent import Files
from lmev2.memory.agent_job import open_runner
from lmev2.pilots.files import file_answers
from lmev2.pilots.oracle import oracles
from lmev2.rows import AGENT_RUN, ANSWER, CONTEXT, EVIDENCE, QUESTION, read_rows, write_rows

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a cancelled job ends its agent and its sandbox

with Job(snakemake) as job:
    prompts = load_agent_prompts(Path(snakemake.input.instruction).parent)
    files = Files.of_pool(snakemake.input.folders, snakemake.input.entries, prompts)
    contexts = {row["question_id"]: row for row in read_rows(snakemake.input.contexts, CONTEXT)}
    questions = [row for row in read_rows(snakemake.input.questions, QUESTION) if row["question_id"] in contexts]
    oracle = oracles(questions, read_rows(snakemake.input.evidence, EVIDENCE), files.folders)
    settings = job.settings("agent", AgentSettings)
    agent = open_agent(settings, lambda: job.chat(settings), job.pipeline)
    private = [job.data_root, *(Path(path).parent for path in (snakemake.input.questions, snakemake.input.states))]
    runner = open_runner(agent, settings, agent_identity(job.spec["agent"], job.agent_code()), job.cache, private)
    traces = Path(snakemake.log[0]).with_suffix(".traces")  # where they stay if the job fails
    answers, runs = file_answers(questions, oracle, contexts, runner, files, traces, job.progress("questions"))
    check_allowed(answers, job.config.errors.allow, job.name)
    write_rows(snakemake.output.runs, AGENT_RUN, runs)
    write_rows(snakemake.output.answers, ANSWER, answers)
    shutil.move(traces, snakemake.output.traces)
