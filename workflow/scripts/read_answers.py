"""Let the reader answer the questions of a shard."""

from lmev2.failures import check_allowed
from lmev2.job import Job
from lmev2.models.settings import ReaderSettings
from lmev2.prompts import load_prompt
from lmev2.reader import answer_rows
from lmev2.rows import ANSWER, CONTEXT, QUESTION, read_rows, write_rows

with Job(snakemake) as job:
    contexts = {row["question_id"]: row for row in read_rows(snakemake.input.contexts[0], CONTEXT)}
    questions = [row for row in read_rows(snakemake.input.questions, QUESTION) if row["question_id"] in contexts]
    settings = job.settings("reader", ReaderSettings)
    prompts = {domain: load_prompt(snakemake.input[domain]) for domain in ("web", "enterprise")}
    rows = answer_rows(questions, contexts, job.chat(settings), settings, prompts, job.progress("questions"))
    check_allowed(rows, job.config.errors.allow, job.name)
    write_rows(snakemake.output[0], ANSWER, rows)
