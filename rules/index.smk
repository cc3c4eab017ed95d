"""One LanceDB index per pool. A LanceDB table has one writer, so this is one job."""


rule index_pool:
    """Gather a pool's shards and vectors into its index."""
    input:
        pools=expand(
            f"{RESULTS}/pools/{{{{pool}}}}/{{shard}}.parquet",
            shard=PLAN.trajectory_shards,
        ),
        embeddings=expand(
            f"{RESULTS}/embeddings/{{{{pool}}}}/{{shard}}.parquet",
            shard=PLAN.trajectory_shards,
        ),
    output:
        index=directory(f"{RESULTS}/index/{{pool}}.lance"),
        manifest=f"{RESULTS}/index/{{pool}}.json",
    log:
        f"{RESULTS}/logs/index_pool/{{pool}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/index_pool/{{pool}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("index_pool"),
    params:
        spec=spec_of("index_pool"),
        code=PLAN.code("index_pool"),
    message:
        "Indexing {wildcards.pool}"
    script:
        "../workflow/scripts/index_pool.py"
