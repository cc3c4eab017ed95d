"""Write a run folder of the public harness."""

import json
from pathlib import Path

from lmev2.files import file_sha256
from lmev2.interchange.export import ExportedRun, export_run, imported_args, prompts_are_ours, read_shards, run_args
from lmev2.interchange.layout import NOT_RECORDED
from lmev2.interchange.manifest import load_manifest
from lmev2.job import Job
from lmev2.prompts import load_prompt
from lmev2.rows import ANSWER, CONTEXT, HAYSTACK, QUESTION, SCORE, read_rows

with Job(snakemake) as job:
    domain = snakemake.wildcards.domain
    hashes = {f"reader_{name}": file_sha256(Path(snakemake.input[name])) for name in ("web", "enterprise")}
    source = snakemake.input.get("imported")
    if source is None:
        manifest = json.loads(Path(snakemake.input.manifest).read_text(encoding="utf-8"))
        args, completed_at = run_args(job.spec, domain, manifest["fingerprint"], hashes), NOT_RECORDED
    else:
        args, completed_at = imported_args(load_manifest(Path(source).parent), domain)
    rebuilt = job.spec["prompt_messages"] and prompts_are_ours(args, hashes)
    run = ExportedRun(
        method=job.spec["name"],
        tier=job.spec["tier"],
        domain=domain,
        args=args,
        completed_at=completed_at,
        questions=read_rows(snakemake.input.questions, QUESTION),
        haystacks=read_rows(snakemake.input.haystacks, HAYSTACK),
        contexts=read_shards(snakemake.input.contexts, CONTEXT),
        answers=read_shards(snakemake.input.answers, ANSWER),
        scores=read_shards(snakemake.input.scores, SCORE),
        prompt=load_prompt(snakemake.input[domain]) if rebuilt else None,
        root=job.spec["data_root"],
    )
    export_run(Path(snakemake.output[0]).parent, run)
