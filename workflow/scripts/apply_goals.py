"""Put sanitised goals into the tables of trajectories and states, and write the report."""

import json
from pathlib import Path

from lmev2.files import replacing
from lmev2.goals.apply import apply_goals, summary
from lmev2.goals.table import GOAL, write_report
from lmev2.job import Job
from lmev2.rows import read_rows

with Job(snakemake) as job:
    goals = [row for file in snakemake.input.goals for row in read_rows(file, GOAL)]
    old, new = snakemake.input, snakemake.output
    applied = apply_goals(Path(old.trajectories), Path(old.states), goals, Path(new.trajectories), Path(new.states))
    write_report(Path(new.report), goals)
    with replacing(Path(new.summary)) as temporary:
        temporary.write_text(json.dumps(summary(job.spec["mode"], goals, applied), indent=1) + "\n", encoding="utf-8")
