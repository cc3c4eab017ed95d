"""Scores by rules and by the judge. Grading is apart from answering, so that grading again is free of reader calls."""


rule score_answers:
    """Scores of a question shard."""
    input:
        questions=rules.select_questions.output.questions,
        evidence=rules.ingest_dataset.output.evidence,
        contexts=rules.query_memory.output,
        answers=rules.read_answers.output,
        abstention=prompt("judge_abstention"),
        gotchas=prompt("judge_gotchas"),
    output:
        f"{RESULTS}/scores/{{method}}/{{tier}}/{{qshard}}.parquet",
    log:
        f"{RESULTS}/logs/score_answers/{{method}}/{{tier}}/{{qshard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/score_answers/{{method}}/{{tier}}/{{qshard}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    threads: lambda _: PLAN.model_threads("score_answers", workflow.cores)
    resources:
        llm=PLAN.calls("score_answers"),
    params:
        spec=spec_of("score_answers"),
        code=PLAN.code("score_answers"),
    message:
        "Scoring {wildcards.method} on {wildcards.tier}, question shard {wildcards.qshard}"
    script:
        "../workflow/scripts/score_answers.py"
