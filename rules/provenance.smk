"""What a run was made from."""

from lmev2.models.cache import canonical_json
from lmev2.provenance import git_state


rule write_provenance:
    """Data, models, prompts, queries, settings, versions and the commit of the run, and the hash of every table."""
    input:
        manifest=rules.ingest_dataset.output.manifest,
        goals=GOALS,
        prompts=PROMPTS,
        queries=sorted(Path(workflow.basedir).glob("workflow/sql/*.sql")),
        published=sorted(Path(workflow.basedir).glob("resources/paper/*.csv")),
        # Read when the jobs are planned; by then the rule `all` has told which tables there are.
        tables=lambda _: [path for path in rules.all.input if path.endswith(".csv")],
    output:
        report(
            f"{RESULTS}/provenance.json",
            caption="../workflow/report/provenance.rst",
            category="Provenance",
            labels={"what": "What the run was made from"},
        ),
    log:
        f"{RESULTS}/logs/write_provenance.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("write_provenance"),
        code=PLAN.code("write_provenance"),
        # Snakemake sees no commits; this makes a new one write the file again, and nothing else.
        git=lambda _: canonical_json(git_state(PLAN.pipeline)),
    message:
        "Writing {output}"
    script:
        "../workflow/scripts/write_provenance.py"
