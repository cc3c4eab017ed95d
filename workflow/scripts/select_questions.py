"""Choose the questions of this run."""

from types import SimpleNamespace

from lmev2.data.selection import select_questions
from lmev2.job import Job
from lmev2.rows import QUESTION, read_rows, write_rows

with Job(snakemake) as job:
    rows = [SimpleNamespace(**row) for row in read_rows(snakemake.input.questions, QUESTION)]
    chosen = select_questions(rows, job.spec["questions"], job.spec["seed"])
    write_rows(snakemake.output.questions, QUESTION, (vars(question) for question in chosen))
