"""Questions asked of a memory, one at a time, with the call timed."""


rule query_memory:
    """Memory contexts of a question shard."""
    input:
        unpack(index_files),
        questions=rules.select_questions.output.questions,
        haystacks=rules.ingest_dataset.output.haystacks,
        manifest=rules.ingest_dataset.output.manifest,
        goals=GOALS,
        trajectories=TRAJECTORIES,
        states=STATES,
        prompts=query_prompts,
    output:
        f"{RESULTS}/contexts/{{method}}/{{tier}}/{{qshard}}.parquet",
    log:
        f"{RESULTS}/logs/query_memory/{{method}}/{{tier}}/{{qshard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/query_memory/{{method}}/{{tier}}/{{qshard}}.tsv"
    wildcard_constraints:
        method=one_of(PLAN.memory_methods()),
    conda:
        "../envs/lmev2.yaml"
    threads: query_threads
    resources:
        **queue_of("query_memory"),
        # Capped at 1 by profiles/default, so that two timed jobs never disturb each other.
        timing=1,
        llm=lambda wildcards: PLAN.calls("query_memory", wildcards.method),
    params:
        spec=spec_of("query_memory"),
        code=lambda wildcards: PLAN.code("query_memory", wildcards.method),
    message:
        "Querying {wildcards.method} on {wildcards.tier}, question shard {wildcards.qshard}"
    script:
        "../workflow/scripts/query_memory.py"
