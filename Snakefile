"""LongMemEval-V2: from raw web-agent trajectories to tables. Settings: config.yaml; stages: rules/*.smk."""

from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/workflow.rst"


configfile: f"{workflow.basedir}/config.yaml"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/goals.smk"
include: "rules/pools.smk"
include: "rules/index.smk"
include: "rules/memory.smk"
include: "rules/agents.smk"
include: "rules/read.smk"
include: "rules/score.smk"
include: "rules/pilots.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/report.smk"
include: "rules/interchange.smk"
include: "rules/provenance.smk"
include: "rules/endpoints.smk"


# On a cluster these run where Snakemake does: a wait in the queue and three starts of Snakemake would cost more than
# their second or two on one core; fetch_dataset needs the network, write_provenance the checkout's Git.
localrules:
    check_endpoints,
    fetch_dataset,
    select_questions,
    export_agents,
    export_comparisons,
    export_evidence,
    export_figure4,
    export_judge_agreement,
    export_lafs,
    export_latencies,
    export_methods,
    export_origins,
    export_paper_check,
    export_shares,
    export_table1,
    export_table2,
    export_table6,
    plot_errors,
    plot_evidence,
    plot_figure4,
    plot_frontier,
    plot_latency,
    plot_table2,
    plot_tokens,
    write_provenance,


rule all:
    """Every table and figure."""
    default_target: True
    input:
        rules.apply_goals.output.report,
        rules.export_table2.output,
        rules.export_evidence.output,
        rules.export_origins.output,
        rules.export_methods.output,
        rules.export_agents.output if PLAN.agent_methods() else [],
        rules.export_judge_agreement.output if PLAN.compares_judges() else [],
        rules.export_comparisons.output,
        rules.export_shares.output,
        rules.export_latencies.output,
        rules.export_lafs.output,
        rules.export_paper_check.output,
        rules.export_table1.output,
        rules.export_statistics.output,
        rules.plot_statistics.output,
        rules.export_table6.output,
        rules.plot_table2.output,
        rules.plot_frontier.output,
        rules.plot_latency.output,
        rules.plot_evidence.output,
        rules.plot_tokens.output,
        rules.plot_errors.output,
        rules.build_report.output,
        rules.write_provenance.output,


rule pilots:
    """Pilot studies: answers from oracle contexts and without any (docs/pilots.md)."""
    input:
        rules.export_figure4.output,
        rules.plot_figure4.output,
        rules.export_table6.output,


rule harness_runs:
    """Run folders of the public harness: every method, tier and domain."""
    input:
        harness_runs,
