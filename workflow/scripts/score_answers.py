"""Score the answers of a question shard."""

from lmev2.failures import check_allowed
from lmev2.job import Job
from lmev2.models.settings import JudgeSettings
from lmev2.prompts import load_prompt
from lmev2.rows import ANSWER, CONTEXT, EVIDENCE, QUESTION, SCORE, read_rows, write_rows
from lmev2.scoring.score import Judge, score_rows

with Job(snakemake) as job:
    settings = job.settings("judge", JudgeSettings)
    prompts = {
        "llm_abstention_checker": load_prompt(snakemake.input.abstention),
        "llm_gotchas_checker": load_prompt(snakemake.input.gotchas),
    }
    rows = score_rows(
        read_rows(snakemake.input.answers[0], ANSWER),
        read_rows(snakemake.input.questions, QUESTION),
        read_rows(snakemake.input.contexts[0], CONTEXT),
        read_rows(snakemake.input.evidence, EVIDENCE),
        Judge(job.chat(settings), prompts, settings, settings.label_attempts, settings.repeats),
        settings.concurrency,
        job.progress("answers"),
    )
    check_allowed((row for row in rows if row["error"] == "judge_error"), job.config.errors.allow, job.name)
    write_rows(snakemake.output[0], SCORE, rows)
