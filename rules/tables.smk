"""All rows in one DuckDB file, and the tables as SQL over it."""


rule collect_scores:
    """Every row of the run in one DuckDB file with the views that tables use. A DuckDB file has one writer."""
    input:
        questions=rules.select_questions.output.questions,
        manifest=rules.ingest_dataset.output.manifest,
        goals=GOALS,
        prompts=PROMPTS,
        contexts=scored("contexts"),
        answers=scored("answers"),
        scores=scored("scores"),
        pools=pool_files(),
        imports=import_summaries(),
        agent_runs=agent_runs(),
        paper=published("table2"),
        views=sql("views"),
    output:
        f"{RESULTS}/metrics.duckdb",
    log:
        f"{RESULTS}/logs/collect_scores.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("collect_scores"),
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
        csv=report(
            f"{RESULTS}/table2.csv",
            caption="../workflow/report/table2.rst",
            category="Tables",
            labels={"what": "Accuracy and query latency"},
        ),
        md=f"{RESULTS}/table2.md",
        tex=f"{RESULTS}/table2.tex",
    log:
        f"{RESULTS}/logs/export_table2.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table2"),
        code=PLAN.code("export_table2"),
        title="Accuracy and query latency",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table2.py"


rule export_evidence:
    """What reached the reader: evidence coverage, gold support and context tokens of every method and tier."""
    input:
        database=rules.collect_scores.output,
        query=sql("evidence"),
    output:
        csv=report(
            f"{RESULTS}/evidence.csv",
            caption="../workflow/report/evidence.rst",
            category="Tables",
            labels={"what": "Evidence in the context"},
        ),
        md=f"{RESULTS}/evidence.md",
        tex=f"{RESULTS}/evidence.tex",
    log:
        f"{RESULTS}/logs/export_evidence.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Evidence in the context",
        notes=[],
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
        csv=report(
            f"{RESULTS}/origins.csv",
            caption="../workflow/report/origins.rst",
            category="Tables",
            labels={"what": "Origin of memory entries and queries"},
        ),
        md=f"{RESULTS}/origins.md",
        tex=f"{RESULTS}/origins.tex",
    log:
        f"{RESULTS}/logs/export_origins.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Origin of memory entries and queries",
        notes=[],
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_agents:
    """What coding agents did and cost, per method and tier."""
    input:
        database=rules.collect_scores.output,
        query=sql("agents"),
    output:
        csv=report(
            f"{RESULTS}/agents.csv",
            caption="../workflow/report/agents.rst",
            category="Tables",
            labels={"what": "Coding agents: work and cost"},
        ),
        md=f"{RESULTS}/agents.md",
        tex=f"{RESULTS}/agents.tex",
    log:
        f"{RESULTS}/logs/export_agents.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Coding agents: work and cost per question",
        notes=["agents"],
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_comparisons:
    """Each method against the best of its partners: difference, interval, p-value, mark."""
    input:
        database=rules.collect_scores.output,
        query=sql("comparisons"),
    output:
        csv=report(
            f"{RESULTS}/comparisons.csv",
            caption="../workflow/report/comparisons.rst",
            category="Tables",
            labels={"what": "Methods compared"},
        ),
        md=f"{RESULTS}/comparisons.md",
        tex=f"{RESULTS}/comparisons.tex",
    log:
        f"{RESULTS}/logs/export_comparisons.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Methods compared (paired bootstrap)",
        notes=["bootstrap"],
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_shares:
    """Shares correct, wrong and unknown, with and without abstention questions."""
    input:
        database=rules.collect_scores.output,
        query=sql("shares"),
    output:
        csv=report(
            f"{RESULTS}/shares.csv",
            caption="../workflow/report/shares.rst",
            category="Tables",
            labels={"what": "Shares correct, wrong and unknown"},
        ),
        md=f"{RESULTS}/shares.md",
        tex=f"{RESULTS}/shares.tex",
    log:
        f"{RESULTS}/logs/export_shares.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Shares correct, wrong and unknown",
        notes=["shares"],
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_latencies:
    """Query latency: mean, median, 95th percentile, longest, and what was waited for."""
    input:
        database=rules.collect_scores.output,
        query=sql("latencies"),
    output:
        csv=report(
            f"{RESULTS}/latencies.csv",
            caption="../workflow/report/latencies.rst",
            category="Tables",
            labels={"what": "Query latency"},
        ),
        md=f"{RESULTS}/latencies.md",
        tex=f"{RESULTS}/latencies.tex",
    log:
        f"{RESULTS}/logs/export_latencies.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Query latency",
        notes=["latency"],
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_lafs:
    """LAFS and LAFS gain of every method and of all together."""
    input:
        database=rules.collect_scores.output,
        query=sql("lafs"),
    output:
        csv=report(
            f"{RESULTS}/lafs.csv",
            caption="../workflow/report/lafs.rst",
            category="Tables",
            labels={"what": "LAFS and LAFS gain"},
        ),
        md=f"{RESULTS}/lafs.md",
        tex=f"{RESULTS}/lafs.tex",
    log:
        f"{RESULTS}/logs/export_lafs.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table"),
        code=PLAN.code("export_table"),
        title="Latency-aware score (LAFS)",
        notes=["references"],
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table.py"


rule export_paper_check:
    """Our numbers beside the paper's, and the published cells that do not add up (paper, Tables 2 and 6)."""
    input:
        database=rules.collect_scores.output,
        query=sql("paper_check"),
        table2=published("table2"),
        table6=published("table6"),
    output:
        csv=report(
            f"{RESULTS}/paper_check.csv",
            caption="../workflow/report/paper_check.rst",
            category="Tables",
            labels={"what": "This run beside the paper"},
        ),
        md=f"{RESULTS}/paper_check.md",
        tex=f"{RESULTS}/paper_check.tex",
    log:
        f"{RESULTS}/logs/export_paper_check.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_paper_check"),
        code=PLAN.code("export_paper_check"),
        title="This run beside the paper",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_paper_check.py"


rule count_tokens:
    """Tokens of each trajectory as the reader counts them, and its screenshots apart."""
    input:
        trajectories=TRAJECTORIES,
        states=STATES,
    output:
        f"{RESULTS}/tokens/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/count_tokens/{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/count_tokens/{{shard}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("count_tokens"),
    params:
        spec=spec_of("count_tokens"),
        code=PLAN.code("count_tokens"),
    message:
        "Counting tokens of trajectory shard {wildcards.shard}"
    script:
        "../workflow/scripts/count_tokens.py"


rule export_table1:
    """Published benchmarks, and this data root computed from its ingested data (paper, Table 1)."""
    input:
        questions=rules.ingest_dataset.output.questions,
        haystacks=rules.ingest_dataset.output.haystacks,
        tokens=expand(rules.count_tokens.output[0], shard=PLAN.trajectory_shards),
        goals=GOALS,
        published=published("table1"),
        query=sql("table1"),
    output:
        csv=report(
            f"{RESULTS}/table1.csv",
            caption="../workflow/report/table1.rst",
            category="Tables",
            labels={"what": "Benchmarks"},
        ),
        md=f"{RESULTS}/table1.md",
        tex=f"{RESULTS}/table1.tex",
    log:
        f"{RESULTS}/logs/export_table1.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table1"),
        code=PLAN.code("export_table1"),
        title="Benchmarks of long-term memory and long context",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table1.py"


rule export_statistics:
    """What the data root holds, by tier and domain: questions, haystacks, trajectories, states and trees."""
    input:
        questions=rules.ingest_dataset.output.questions,
        haystacks=rules.ingest_dataset.output.haystacks,
        evidence=rules.ingest_dataset.output.evidence,
        trajectories=TRAJECTORIES,
        states=STATES,
        goals=GOALS,
        query=sql("statistics"),
    output:
        csv=report(
            f"{RESULTS}/statistics.csv",
            caption="../workflow/report/statistics.rst",
            category="Tables",
            labels={"what": "Statistics of the data"},
        ),
        md=f"{RESULTS}/statistics.md",
        tex=f"{RESULTS}/statistics.tex",
    log:
        f"{RESULTS}/logs/export_statistics.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("export_statistics"),
    params:
        spec=spec_of("export_statistics"),
        code=PLAN.code("export_statistics"),
        title="Statistics of the data",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_statistics.py"


rule export_table6:
    """Direct answers without context, published ones and those of this run's readers (paper, Table 6)."""
    input:
        scores=pilot_files("scores", PLAN.config.pilots.table6),
        answers=pilot_files("answers", PLAN.config.pilots.table6),
        manifest=(
            rules.ingest_dataset.output.manifest
            if PLAN.config.pilots.table6.readers
            else []
        ),
        goals=GOALS if PLAN.config.pilots.table6.readers else [],
        published=published("table6"),
    output:
        csv=report(
            f"{RESULTS}/table6.csv",
            caption="../workflow/report/table6.rst",
            category="Tables",
            labels={"what": "Direct answers without context"},
        ),
        md=f"{RESULTS}/table6.md",
        tex=f"{RESULTS}/table6.tex",
    log:
        f"{RESULTS}/logs/export_table6.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_table6"),
        code=PLAN.code("export_table6"),
        title="Direct answers without context",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_table6.py"


rule export_judge_agreement:
    """Verdicts of several judges on the same answers, and of one judge asked several times."""
    input:
        scores=own_rows("scores"),
        verdicts=[
            path for name in PLAN.config.judges for path in own_rows(f"judges/{name}")
        ],
        query=sql("judge_agreement"),
    output:
        csv=report(
            f"{RESULTS}/judge_agreement.csv",
            caption="../workflow/report/judge_agreement.rst",
            category="Tables",
            labels={"what": "Agreement of judges"},
        ),
        md=f"{RESULTS}/judge_agreement.md",
        tex=f"{RESULTS}/judge_agreement.tex",
    log:
        f"{RESULTS}/logs/export_judge_agreement.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_judge_agreement"),
        code=PLAN.code("export_judge_agreement"),
        title="Agreement of judges",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_judge_agreement.py"


rule export_methods:
    """Effective settings of every method of the run."""
    output:
        report(
            f"{RESULTS}/methods.yaml",
            caption="../workflow/report/methods.rst",
            category="Provenance",
            labels={"what": "Settings of the methods"},
        ),
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
