"""Put sanitised goals into the tables of trajectories and states, and write the report."""

from pathlib import Path

from lmev2.goals.apply import apply_goals
from lmev2.goals.table import GOAL, write_report
from lmev2.job import Job
from lmev2.rows import read_rows

with Job(snakemake):
    goals = [row for file in snakemake.input.goals for row in read_rows(file, GOAL)]
    old, new = snakemake.input, snakemake.output
    apply_goals(Path(old.trajectories), Path(old.states), goals, Path(new.trajectories), Path(new.states))
    write_report(Path(new.report), goals)
