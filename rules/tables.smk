"""All rows in one DuckDB file, and the tables as SQL over it."""


rule collect_scores:
    """Every row of the run in one DuckDB file with the views that tables use. A DuckDB file has one writer."""
    input:
        questions=rules.select_questions.output.questions,
        manifest=rules.ingest_dataset.output.manifest,
        prompts=PROMPTS,
        contexts=scored("contexts"),
        answers=scored("answers"),
        scores=scored("scores"),
        pools=pool_files(),
        paper=published("table2"),
        views=sql("views"),
    output:
        f"{RESULTS}/metrics.duckdb",
    log:
        f"{RESULTS}/logs/collect_scores.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("collect_scores"),
        code=PLAN.code("collect_scores"),
    message:
        "Collecting all rows"
    script:
        "../workflow/scripts/collect_scores.py"


rule export_table2:
    """Accuracy by category and query latency of every method and tier (paper, Table 2)."""
    input:
        database=rules.collect_scores.output,
        query=sql("table2"),
    output:
        csv=f"{RESULTS}/table2.csv",
        md=f"{RESULTS}/table2.md",
    log:
        f"{RESULTS}/logs/export_table2.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Accuracy and query latency",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_evidence:
    """What reached the reader: evidence coverage, gold support and context tokens of every method and tier."""
    input:
        database=rules.collect_scores.output,
        query=sql("evidence"),
    output:
        csv=f"{RESULTS}/evidence.csv",
        md=f"{RESULTS}/evidence.md",
    log:
        f"{RESULTS}/logs/export_evidence.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Evidence in the context",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_origins:
    """Who wrote the memory's entries and the queries: rules, a model, a repair call, or the fallback."""
    input:
        database=rules.collect_scores.output,
        query=sql("origins"),
    output:
        csv=f"{RESULTS}/origins.csv",
        md=f"{RESULTS}/origins.md",
    log:
        f"{RESULTS}/logs/export_origins.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Origin of memory entries and queries",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_methods:
    """Effective settings of every method of the run."""
    output:
        f"{RESULTS}/methods.yaml",
    log:
        f"{RESULTS}/logs/export_methods.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_methods"),
        code=PLAN.code("export_methods"),
    message:
        "Writing {output}"
    script:
        "../workflow/scripts/export_methods.py"
