"""Write what the run was made from."""

import json
from pathlib import Path

from lmev2.config import JUDGE_ROLE
from lmev2.job import Job
from lmev2.models.settings import ControllerSettings, JudgeSettings, ReaderSettings
from lmev2.provenance import file_hashes, model_facts, write_provenance

CHAT = {"reader": ReaderSettings, "judge": JudgeSettings, "controller": ControllerSettings}

with Job(snakemake) as job:
    chat = {**CHAT, **{role: JudgeSettings for role in job.spec if role.startswith(JUDGE_ROLE)}}
    called = {role: kind for role, kind in chat.items() if job.spec[role]["backend"] != "rules"}
    backends = {role: job.chat(job.settings(role, kind)) for role, kind in called.items()}
    identities = {role: backend.identity() for role, backend in {**backends, "embedder": job.embedder()}.items()}
    target = Path(snakemake.output[0])
    write_provenance(
        target,
        json.loads(snakemake.params.git),
        *(json.loads(Path(snakemake.input[name]).read_text(encoding="utf-8")) for name in ("manifest", "goals")),
        job.spec,
        {
            **{role: model_facts(job.spec[role], identities.get(role), job.cache) for role in (*chat, "embedder")},
            **{name: model_facts(role, None, job.cache) for name, role in job.spec["pilots"].items()},
        },
        {
            kind: file_hashes(map(Path, snakemake.input[kind]), target.parent if kind == "tables" else None)
            for kind in ("prompts", "queries", "published", "tables")
        },
    )
