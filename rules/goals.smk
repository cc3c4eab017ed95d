"""Goal sanitisation: goals without their routes, and the tables that everything downstream reads."""


rule sanitize_goals:
    """Rewrite goals that spell out the route, or only check them, and judge each result."""
    input:
        trajectories=rules.ingest_dataset.output.trajectories,
        states=rules.ingest_dataset.output.states,
        prompt=goal_prompts(),
    output:
        f"{RESULTS}/goals/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/sanitize_goals/{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/sanitize_goals/{{shard}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    threads: lambda _: PLAN.model_threads("sanitize_goals", model_cores())
    resources:
        **queue_of("sanitize_goals"),
        llm=PLAN.calls("sanitize_goals"),
    params:
        spec=spec_of("sanitize_goals"),
        code=PLAN.code("sanitize_goals"),
    message:
        "Sanitising goals of trajectory shard {wildcards.shard}"
    script:
        "../workflow/scripts/sanitize_goals.py"


rule apply_goals:
    """Put the sanitised goals into the tables of trajectories and states, copies in pages included."""
    input:
        trajectories=rules.ingest_dataset.output.trajectories,
        states=rules.ingest_dataset.output.states,
        goals=expand(f"{RESULTS}/goals/{{shard}}.parquet", shard=PLAN.trajectory_shards),
    output:
        trajectories=f"{RESULTS}/goals/trajectories.parquet",
        states=f"{RESULTS}/goals/states.parquet",
        summary=f"{RESULTS}/goals/summary.json",
        report=report(
            f"{RESULTS}/goals/report.csv",
            caption="../workflow/report/goals.rst",
            category="Tables",
            labels={"what": "Goals before and after sanitisation"},
        ),
    log:
        f"{RESULTS}/logs/apply_goals.log",
    benchmark:
        f"{RESULTS}/benchmarks/apply_goals.tsv"
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("apply_goals"),
    params:
        spec=spec_of("apply_goals"),
        code=PLAN.code("apply_goals"),
    message:
        "Applying sanitised goals"
    script:
        "../workflow/scripts/apply_goals.py"


# What everything downstream of ingestion reads in place of the ingested tables, and what was changed in them.
TRAJECTORIES = rules.apply_goals.output.trajectories
STATES = rules.apply_goals.output.states
GOALS = rules.apply_goals.output.summary
