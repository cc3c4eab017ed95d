"""The reader answers from each context."""


rule read_answers:
    """Answers to a question shard."""
    input:
        questions=rules.select_questions.output.questions,
        contexts=rules.query_memory.output,
        web=prompt("reader_web"),
        enterprise=prompt("reader_enterprise"),
    output:
        f"{RESULTS}/answers/{{method}}/{{tier}}/{{qshard}}.parquet",
    log:
        f"{RESULTS}/logs/read_answers/{{method}}/{{tier}}/{{qshard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/read_answers/{{method}}/{{tier}}/{{qshard}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    threads: lambda _: PLAN.model_threads("read_answers", model_cores())
    resources:
        **queue_of("read_answers"),
        llm=PLAN.calls("read_answers"),
    params:
        spec=spec_of("read_answers"),
        code=PLAN.code("read_answers"),
    message:
        "Reading answers of {wildcards.method} on {wildcards.tier}, question shard {wildcards.qshard}"
    script:
        "../workflow/scripts/read_answers.py"
