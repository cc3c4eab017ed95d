"""Run folders of the public harness, written and taken in."""


rule select_import:
    """The rows of an imported run that belong to this run's questions, with their evidence coverage."""
    input:
        imported=imported_files,
        questions=rules.ingest_dataset.output.questions,
        selected=rules.select_questions.output.questions,
        haystacks=rules.ingest_dataset.output.haystacks,
        evidence=rules.ingest_dataset.output.evidence,
    output:
        contexts=f"{RESULTS}/contexts/{{imported}}/{{tier}}/imported.parquet",
        answers=f"{RESULTS}/answers/{{imported}}/{{tier}}/imported.parquet",
        scores=f"{RESULTS}/scores/{{imported}}/{{tier}}/imported.parquet",
        summary=f"{RESULTS}/imports/{{imported}}/{{tier}}.json",
    log:
        f"{RESULTS}/logs/select_import/{{imported}}/{{tier}}.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("select_import"),
    params:
        spec=spec_of("select_import"),
        code=PLAN.code("select_import"),
    message:
        "Taking in {wildcards.imported} on {wildcards.tier}"
    script:
        "../workflow/scripts/select_import.py"


rule export_harness_run:
    """A run folder of the public harness: one method, domain and tier."""
    input:
        unpack(harness_rows),
        questions=rules.select_questions.output.questions,
        haystacks=rules.ingest_dataset.output.haystacks,
        manifest=rules.ingest_dataset.output.manifest,
        web=prompt("reader_web"),
        enterprise=prompt("reader_enterprise"),
    output:
        expand(
            f"{RESULTS}/harness_runs/{{{{method}}}}_{{{{domain}}}}_{{{{tier}}}}/{{file}}",
            file=RUN_FILES,
        ),
    log:
        f"{RESULTS}/logs/export_harness_run/{{method}}_{{domain}}_{{tier}}.log",
    wildcard_constraints:
        method="|".join(dict.fromkeys(re.escape(method) for method, _ in PLAN.cells())),
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("export_harness_run"),
    params:
        spec=spec_of("export_harness_run"),
        code=PLAN.code("export_harness_run"),
    message:
        "Writing the run folder of {wildcards.method}, {wildcards.domain}, {wildcards.tier}"
    script:
        "../workflow/scripts/export_harness_run.py"
