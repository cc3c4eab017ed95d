"""Scores by rules and by the judge. Grading is apart from answering, so that grading again is free of reader calls."""

JUDGED_CELL = "{judge}/{method}/{tier}/{qshard}"


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
    threads: lambda _: PLAN.model_threads("score_answers", model_cores())
    resources:
        **queue_of("score_answers"),
        llm=PLAN.calls("score_answers"),
    params:
        spec=spec_of("score_answers"),
        code=PLAN.code("score_answers"),
    message:
        "Scoring {wildcards.method} on {wildcards.tier}, question shard {wildcards.qshard}"
    script:
        "../workflow/scripts/score_answers.py"


rule judge_again:
    """Verdicts of a further judge on a question shard: they are compared with the run's own and change no score."""
    input:
        questions=rules.select_questions.output.questions,
        answers=rules.read_answers.output,
        abstention=prompt("judge_abstention"),
        gotchas=prompt("judge_gotchas"),
    output:
        f"{RESULTS}/judges/{JUDGED_CELL}.parquet",
    log:
        f"{RESULTS}/logs/judge_again/{JUDGED_CELL}.log",
    benchmark:
        f"{RESULTS}/benchmarks/judge_again/{JUDGED_CELL}.tsv"
    wildcard_constraints:
        judge=one_of(PLAN.config.judges),
    conda:
        "../envs/lmev2.yaml"
    threads: judge_threads
    resources:
        **queue_of("judge_again"),
        llm=lambda wildcards: PLAN.calls(
            "judge_again", reader=judge_role(wildcards.judge)
        ),
    params:
        spec=spec_of("judge_again"),
        code=lambda wildcards: PLAN.code(
            "judge_again", reader=judge_role(wildcards.judge)
        ),
    message:
        "Asking judge {wildcards.judge} about {wildcards.method} on {wildcards.tier}, question shard {wildcards.qshard}"
    script:
        "../workflow/scripts/judge_again.py"
