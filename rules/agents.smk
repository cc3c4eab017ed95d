"""Coding agents that explore the haystack's files, one sandbox a question."""


onstart:
    check_storage()
    # Whatever agents and endpoints lack is said now, not after hours of other work.
    check_planned_jobs(list(workflow.dag.needrun_jobs()))


rule build_agent_pool:
    """Each trajectory's files as agents see them, made once and shared, read only, by all sandboxes."""
    input:
        trajectories=TRAJECTORIES,
        states=STATES,
    output:
        folder=directory(f"{RESULTS}/agent/pool/{{shard}}"),
        entries=f"{RESULTS}/agent/pool/{{shard}}.jsonl",
    log:
        f"{RESULTS}/logs/build_agent_pool/{{shard}}.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("build_agent_pool"),
    params:
        spec=spec_of("build_agent_pool"),
        code=PLAN.code("build_agent_pool"),
    message:
        "Writing trajectory files of shard {wildcards.shard}"
    script:
        "../workflow/scripts/build_agent_pool.py"


rule query_agent_memory:
    """Memory contexts of a question shard from a coding agent, what it cost, and a trace of what it did."""
    input:
        folders=expand(
            rules.build_agent_pool.output.folder, shard=PLAN.trajectory_shards
        ),
        entries=expand(
            rules.build_agent_pool.output.entries, shard=PLAN.trajectory_shards
        ),
        questions=rules.select_questions.output.questions,
        haystacks=rules.ingest_dataset.output.haystacks,
        manifest=rules.ingest_dataset.output.manifest,
        goals=GOALS,
        trajectories=TRAJECTORIES,
        states=STATES,
        invocation=prompt("agent_invocation"),
        instruction=prompt("agent_instruction"),
    output:
        contexts=f"{RESULTS}/contexts/{{method}}/{{tier}}/{{qshard}}.parquet",
        runs=f"{RESULTS}/agent/runs/{{method}}/{{tier}}/{{qshard}}.parquet",
        traces=directory(f"{RESULTS}/agent/traces/{{method}}/{{tier}}/{{qshard}}"),
    log:
        f"{RESULTS}/logs/query_agent_memory/{{method}}/{{tier}}/{{qshard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/query_agent_memory/{{method}}/{{tier}}/{{qshard}}.tsv"
    wildcard_constraints:
        method=one_of(PLAN.agent_methods()),
    conda:
        "../envs/lmev2.yaml"
    threads: lambda wildcards: PLAN.model_threads("query_agent_memory", model_cores())
    resources:
        **queue_of("query_agent_memory"),
        # Capped at 3 by profiles/default.
        codex=1,
        # An agent without a model computes here, so it is timed alone, as the retrieval methods are.
        timing=PLAN.agent_timing(),
        llm=PLAN.calls("query_agent_memory"),
    params:
        spec=spec_of("query_agent_memory"),
        code=PLAN.code("query_agent_memory"),
    message:
        "Asking {wildcards.method} on {wildcards.tier}, question shard {wildcards.qshard}"
    script:
        "../workflow/scripts/query_agent_memory.py"
