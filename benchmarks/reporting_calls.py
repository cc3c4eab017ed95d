"""What the reporting benchmark measures, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

from benchmarks.reporting_data import TIERS, method_names, read_scale, stage_files
from lmev2.report.html.build import Sources, build_report
from lmev2.rows import ANSWER, CONTEXT, EVIDENCE, QUESTION, SCORE, read_rows, write_rows
from lmev2.scoring.score import score_rows
from lmev2.tables.database import collect
from lmev2.tables.export import TableFiles
from lmev2.tables.table2 import export_table2

PIPELINE = Path(__file__).resolve().parents[1]
_SQL = PIPELINE / "workflow/sql"


def score_shards(folder: Path) -> None:
    """Score the answers of all shards, one after the other; the workflow has a job for each."""
    scale = read_scale(folder)
    stages = (stage_files(folder, stage, scale) for stage in ("answers", "contexts", "scores"))
    for answers, contexts, scores in zip(*stages, strict=True):
        rows = score_rows(
            read_rows(answers, ANSWER),
            read_rows(folder / "questions.parquet", QUESTION),
            read_rows(contexts, CONTEXT),
            read_rows(folder / "evidence.parquet", EVIDENCE),
            None,
        )
        write_rows(scores, SCORE, rows)


def collect_rows(folder: Path) -> None:
    """All rows in one database, with intervals and comparisons by 10,000 resamples."""
    scale = read_scale(folder)
    names = method_names(scale)
    methods = [{"method": name, "label": name, "family": "rag"} for name in names]
    spec = {
        "methods": methods,
        "tiers": list(TIERS),
        "models": {"reader": {"model": "reader"}},
        "settings": {"run": {"notes": {}, "questions": None}, "render": {"mode": "full"}},
        "partners": dict.fromkeys(names[2:], names[:2]),
        "statistics": {"resamples": 10_000, "seed": 0, "level": 0.95, "alpha": 0.05},
    }
    rows = {stage: stage_files(folder, stage, scale) for stage in ("contexts", "answers", "scores")}
    paper, views = PIPELINE / "resources/paper/table2.csv", (_SQL / "views.sql").read_text(encoding="utf-8")
    goals = '{"mode": "check", "goals": 0, "changed": 0, "flagged": 0, "origins": {}}'
    sources = {"data": "made up, fingerprint 0", "goals": goals}
    collect(folder / "metrics.duckdb", spec, folder / "questions.parquet", rows, [], paper, views, sources)


def write_table2(folder: Path) -> None:
    """Table 2 as CSV, Markdown and LaTeX."""
    files = TableFiles(*(folder / f"table2.{ending}" for ending in ("csv", "md", "tex")))
    query = (_SQL / "table2.sql").read_text(encoding="utf-8")
    export_table2(folder / "metrics.duckdb", query, files, "Table 2")


def build_html(folder: Path) -> None:
    """The report, without figures."""
    scale = read_scale(folder)
    sources = Sources(
        folder / "metrics.duckdb",
        stage_files(folder, "contexts", scale),
        folder / "evidence.parquet",
        folder / "states.parquet",
        [],
        [folder / "table2.csv"],
    )
    build_report(folder / "report/index.html", sources, 1, lambda done, total: None)
