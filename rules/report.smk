"""The HTML report."""


rule build_report:
    """Static pages to look at: the run, every method and question with its evidence, a comparison, and examples."""
    input:
        database=rules.collect_scores.output,
        contexts=scored("contexts"),
        evidence=rules.ingest_dataset.output.evidence,
        states=STATES,
        tables=[
            rules.export_evidence.output.csv,
            rules.export_origins.output.csv,
            *([rules.export_agents.output.csv] if PLAN.agent_methods() else []),
            rules.export_paper_check.output.csv,
            rules.export_statistics.output.csv,
        ],
        figures=[
            rules.plot_table2.output.png,
            rules.plot_frontier.output.png,
            rules.plot_latency.output.png,
            rules.plot_evidence.output.png,
            rules.plot_tokens.output.png,
            rules.plot_errors.output.png,
            rules.plot_statistics.output.png,
        ],
        templates=report_templates(),
    output:
        index=f"{RESULTS}/report/index.html",
        # Everything but the first page, so that pages of a former run vanish with the folder.
        pages=directory(f"{RESULTS}/report/pages"),
    log:
        f"{RESULTS}/logs/build_report.log",
    benchmark:
        f"{RESULTS}/benchmarks/build_report.tsv"
    conda:
        "../envs/lmev2.yaml"
    threads: 2
    resources:
        **queue_of("build_report"),
    params:
        spec=spec_of("build_report"),
        code=PLAN.code("build_report"),
    message:
        "Writing {output.index}"
    script:
        "../workflow/scripts/build_report.py"
