"""Gather all rows of the run in one DuckDB file."""

import json
from pathlib import Path

from lmev2.files import file_sha256
from lmev2.job import Job
from lmev2.tables.database import collect

with Job(snakemake) as job:
    manifest = json.loads(Path(snakemake.input.manifest).read_text(encoding="utf-8"))
    sources = {"data": f"{Path(job.spec['data_root']).name}, fingerprint {manifest['fingerprint']}"}
    sources["goals"] = json.dumps(json.loads(Path(snakemake.input.goals).read_text(encoding="utf-8")))
    sources |= {f"prompt {Path(path).stem}": file_sha256(Path(path)) for path in snakemake.input.prompts}
    collect(
        Path(snakemake.output[0]),
        job.spec,
        Path(snakemake.input.questions),
        {stage: [Path(path) for path in snakemake.input[stage]] for stage in ("contexts", "answers", "scores")},
        [Path(path) for path in snakemake.input.pools],
        Path(snakemake.input.paper),
        Path(snakemake.input.views).read_text(encoding="utf-8"),
        sources,
        [Path(path) for path in snakemake.input.imports],
        [Path(path) for path in snakemake.input.agent_runs],
    )
