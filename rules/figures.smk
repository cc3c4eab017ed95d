"""Figures, drawn from the tables."""


rule plot_table2:
    """Bars of table 2: accuracy by category, one panel a tier."""
    input:
        table=rules.export_table2.output.csv,
        evidence=rules.export_evidence.output.csv,
    output:
        png=f"{RESULTS}/table2.png",
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
