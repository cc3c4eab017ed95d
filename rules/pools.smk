"""Memory pools, made once per trajectory."""


rule build_raw_state:
    """Raw-state slices: each state with its neighbours."""
    input:
        trajectories=TRAJECTORIES,
        states=STATES,
    output:
        f"{RESULTS}/pools/raw_state/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/build_raw_state/{{shard}}.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("build_raw_state"),
    params:
        spec=spec_of("build_raw_state"),
        code=PLAN.code("build_raw_state"),
    message:
        "Cutting raw-state slices of trajectory shard {wildcards.shard}"
    script:
        "../workflow/scripts/build_raw_state.py"


rule build_center_state:
    """The same slices, to be embedded with the centre state first."""
    input:
        trajectories=TRAJECTORIES,
        states=STATES,
    output:
        f"{RESULTS}/pools/center_state/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/build_center_state/{{shard}}.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("build_center_state"),
    params:
        spec=spec_of("build_center_state"),
        code=PLAN.code("build_center_state"),
    message:
        "Cutting centre-first slices of trajectory shard {wildcards.shard}"
    script:
        "../workflow/scripts/build_center_state.py"


rule build_state_chunk:
    """Every state's tree in overlapping chunks."""
    input:
        trajectories=TRAJECTORIES,
        states=STATES,
    output:
        f"{RESULTS}/pools/state_chunk/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/build_state_chunk/{{shard}}.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("build_state_chunk"),
    params:
        spec=spec_of("build_state_chunk"),
        code=PLAN.code("build_state_chunk"),
    message:
        "Cutting state chunks of trajectory shard {wildcards.shard}"
    script:
        "../workflow/scripts/build_state_chunk.py"


rule generate_note:
    """A procedure note and a hint note per trajectory."""
    input:
        trajectories=TRAJECTORIES,
        states=STATES,
        prompt=controller_prompts("note"),
    output:
        procedure=f"{RESULTS}/pools/procedure_note/{{shard}}.parquet",
        hint=f"{RESULTS}/pools/hint_note/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/generate_note/{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/generate_note/{{shard}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    threads: lambda _: PLAN.model_threads("generate_note", model_cores())
    resources:
        **queue_of("generate_note"),
        llm=PLAN.calls("generate_note"),
    params:
        spec=spec_of("generate_note"),
        code=PLAN.code("generate_note"),
    message:
        "Writing notes of trajectory shard {wildcards.shard}"
    script:
        "../workflow/scripts/generate_note.py"


rule generate_event:
    """A state-transition event per pair of adjacent states."""
    input:
        trajectories=TRAJECTORIES,
        states=STATES,
        prompt=controller_prompts("event"),
    output:
        f"{RESULTS}/pools/event/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/generate_event/{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/generate_event/{{shard}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    threads: lambda _: PLAN.model_threads("generate_event", model_cores())
    resources:
        **queue_of("generate_event"),
        llm=PLAN.calls("generate_event"),
    params:
        spec=spec_of("generate_event"),
        code=PLAN.code("generate_event"),
    message:
        "Writing events of trajectory shard {wildcards.shard}"
    script:
        "../workflow/scripts/generate_event.py"


rule embed_pool:
    """Vectors of a pool's entries."""
    input:
        pool=f"{RESULTS}/pools/{{pool}}/{{shard}}.parquet",
        trajectories=TRAJECTORIES,
        states=STATES,
    output:
        f"{RESULTS}/embeddings/{{pool}}/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/embed_pool/{{pool}}/{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/embed_pool/{{pool}}/{{shard}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    threads: lambda _: PLAN.model_threads("embed_pool", model_cores())
    resources:
        **queue_of("embed_pool"),
        llm=PLAN.calls("embed_pool"),
    params:
        spec=spec_of("embed_pool"),
        code=PLAN.code("embed_pool"),
    message:
        "Embedding {wildcards.pool}, trajectory shard {wildcards.shard}"
    script:
        "../workflow/scripts/embed_pool.py"
