"""Figures: each draws the rows of its SQL file over the database."""


rule plot_table2:
    """Table 2 as dots: accuracy by category of every method and tier, and what reached the reader."""
    input:
        database=rules.collect_scores.output,
        query=sql("figure_table2"),
    output:
        png=report(
            f"{RESULTS}/table2.png",
            caption="../workflow/report/figure_table2.rst",
            category="Figures",
            labels={"what": "Accuracy by category"},
        ),
        pdf=f"{RESULTS}/table2.pdf",
    log:
        f"{RESULTS}/logs/plot_table2.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("plot_table2"),
        code=PLAN.code("plot_table2"),
    message:
        "Drawing {output.png}"
    script:
        "../workflow/scripts/plot_table2.py"


rule plot_frontier:
    """Accuracy against mean query latency, with the paper's reference points and LAFS."""
    input:
        database=rules.collect_scores.output,
        query=sql("figure_frontier"),
    output:
        png=report(
            f"{RESULTS}/frontier.png",
            caption="../workflow/report/figure_frontier.rst",
            category="Figures",
            labels={"what": "Accuracy against latency"},
        ),
        pdf=f"{RESULTS}/frontier.pdf",
    log:
        f"{RESULTS}/logs/plot_frontier.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("plot_frontier"),
        code=PLAN.code("plot_frontier"),
    message:
        "Drawing {output.png}"
    script:
        "../workflow/scripts/plot_frontier.py"


rule plot_latency:
    """The distribution of query latencies of every method and tier."""
    input:
        database=rules.collect_scores.output,
        query=sql("figure_latency"),
    output:
        png=report(
            f"{RESULTS}/latency.png",
            caption="../workflow/report/figure_latency.rst",
            category="Figures",
            labels={"what": "Query latency"},
        ),
        pdf=f"{RESULTS}/latency.pdf",
    log:
        f"{RESULTS}/logs/plot_latency.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("plot_latency"),
        code=PLAN.code("plot_latency"),
    message:
        "Drawing {output.png}"
    script:
        "../workflow/scripts/plot_latency.py"


rule plot_evidence:
    """Evidence coverage against accuracy of every method and tier."""
    input:
        database=rules.collect_scores.output,
        query=sql("figure_evidence"),
    output:
        png=report(
            f"{RESULTS}/evidence.png",
            caption="../workflow/report/figure_evidence.rst",
            category="Figures",
            labels={"what": "Evidence coverage against accuracy"},
        ),
        pdf=f"{RESULTS}/evidence.pdf",
    log:
        f"{RESULTS}/logs/plot_evidence.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("plot_evidence"),
        code=PLAN.code("plot_evidence"),
    message:
        "Drawing {output.png}"
    script:
        "../workflow/scripts/plot_evidence.py"


rule plot_tokens:
    """Context tokens of every method and tier, before and after truncation."""
    input:
        database=rules.collect_scores.output,
        query=sql("figure_tokens"),
    output:
        png=report(
            f"{RESULTS}/tokens.png",
            caption="../workflow/report/figure_tokens.rst",
            category="Figures",
            labels={"what": "Context tokens"},
        ),
        pdf=f"{RESULTS}/tokens.pdf",
    log:
        f"{RESULTS}/logs/plot_tokens.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("plot_tokens"),
        code=PLAN.code("plot_tokens"),
    message:
        "Drawing {output.png}"
    script:
        "../workflow/scripts/plot_tokens.py"


rule plot_errors:
    """Rows that failed, by error kind, method and tier."""
    input:
        database=rules.collect_scores.output,
        query=sql("figure_errors"),
    output:
        png=report(
            f"{RESULTS}/errors.png",
            caption="../workflow/report/figure_errors.rst",
            category="Figures",
            labels={"what": "Errors by kind"},
        ),
        pdf=f"{RESULTS}/errors.pdf",
    log:
        f"{RESULTS}/logs/plot_errors.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("plot_errors"),
        code=PLAN.code("plot_errors"),
    message:
        "Drawing {output.png}"
    script:
        "../workflow/scripts/plot_errors.py"


rule plot_statistics:
    """What the data root holds: distributions by domain and tier, and questions by type."""
    input:
        questions=rules.ingest_dataset.output.questions,
        haystacks=rules.ingest_dataset.output.haystacks,
        evidence=rules.ingest_dataset.output.evidence,
        trajectories=TRAJECTORIES,
        states=STATES,
        query=sql("figure_statistics"),
    output:
        png=report(
            f"{RESULTS}/statistics.png",
            caption="../workflow/report/figure_statistics.rst",
            category="Figures",
            labels={"what": "Statistics of the data"},
        ),
        pdf=f"{RESULTS}/statistics.pdf",
    log:
        f"{RESULTS}/logs/plot_statistics.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("plot_statistics"),
    params:
        spec=spec_of("plot_statistics"),
        code=PLAN.code("plot_statistics"),
    message:
        "Drawing {output.png}"
    script:
        "../workflow/scripts/plot_statistics.py"
