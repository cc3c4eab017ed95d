"""LongMemEval-V2: from raw web-agent trajectories to tables. Settings: config.yaml; stages: rules/*.smk."""

from snakemake.utils import min_version

min_version("9.27")


configfile: f"{workflow.basedir}/config.yaml"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/pools.smk"
include: "rules/index.smk"
include: "rules/memory.smk"
include: "rules/read.smk"
include: "rules/score.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/report.smk"
include: "rules/interchange.smk"
include: "rules/provenance.smk"


rule all:
    """Every table and figure."""
    default_target: True
    input:
        rules.export_table2.output,
        rules.export_evidence.output,
        rules.export_origins.output,
        rules.export_methods.output,
        rules.plot_table2.output,
