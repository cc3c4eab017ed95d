"""Pilot studies: answers from oracle contexts (paper, Figure 4) and without any context (paper, Table 6)."""

from lmev2.pilots.specs import check_reader_labels

try:
    check_reader_labels(PLAN)
except ConfigError as error:
    raise WorkflowError(str(error)) from None

# Below this folder, contexts, answers and scores lie by what the context holds and who answers.
PILOTS = f"{RESULTS}/pilots"
PILOT_CELL = "{context}/{reader}/{qshard}"


rule build_oracle_contexts:
    """Contexts of a question shard from the evidence labels' trajectories, cut to the reader's budget."""
    input:
        notes=oracle_notes,
        questions=rules.select_questions.output.questions,
        evidence=complete_evidence,
        trajectories=TRAJECTORIES,
        states=STATES,
    output:
        contexts=f"{PILOTS}/contexts/{PILOT_CELL}.parquet",
        cuts=f"{PILOTS}/cuts/{PILOT_CELL}.parquet",
    log:
        f"{RESULTS}/logs/build_oracle_contexts/{PILOT_CELL}.log",
    benchmark:
        f"{RESULTS}/benchmarks/build_oracle_contexts/{PILOT_CELL}.tsv"
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("build_oracle_contexts"),
    params:
        spec=spec_of("build_oracle_contexts"),
        code=PLAN.code("build_oracle_contexts"),
    message:
        "Writing contexts {wildcards.context} for {wildcards.reader}, question shard {wildcards.qshard}"
    script:
        "../workflow/scripts/build_oracle_contexts.py"


use rule read_answers as read_pilot_answers with:
    input:
        questions=rules.select_questions.output.questions,
        contexts=[rules.build_oracle_contexts.output.contexts],
        web=lambda wildcards: pilot_prompt(wildcards, "web"),
        enterprise=lambda wildcards: pilot_prompt(wildcards, "enterprise"),
    output:
        f"{PILOTS}/answers/{PILOT_CELL}.parquet",
    log:
        f"{RESULTS}/logs/read_pilot_answers/{PILOT_CELL}.log",
    benchmark:
        f"{RESULTS}/benchmarks/read_pilot_answers/{PILOT_CELL}.tsv"
    wildcard_constraints:
        reader=one_of(PLAN.config.pilots.asked()),
        context=one_of(READER_CONTEXTS),
    threads: pilot_threads
    resources:
        **queue_of("read_pilot_answers"),
        llm=lambda wildcards: PLAN.calls("read_pilot_answers", reader=wildcards.reader),
    params:
        spec=spec_of("read_pilot_answers"),
        code=lambda wildcards: PLAN.code("read_pilot_answers", reader=wildcards.reader),
    message:
        "Reading answers of {wildcards.reader} from {wildcards.context}, question shard {wildcards.qshard}"


rule answer_oracle_files:
    """A coding agent's answers to a question shard from the files of its oracle trajectories, and what it did."""
    input:
        folders=expand(
            rules.build_agent_pool.output.folder, shard=PLAN.trajectory_shards
        ),
        entries=expand(
            rules.build_agent_pool.output.entries, shard=PLAN.trajectory_shards
        ),
        questions=rules.select_questions.output.questions,
        evidence=rules.ingest_dataset.output.evidence,
        contexts=f"{PILOTS}/contexts/{ORACLE_FILES}/{{qshard}}.parquet",
        states=STATES,
        invocation=prompt("agent_invocation"),
        instruction=prompt("agent_instruction"),
        oracle=prompt("agent_oracle"),
    output:
        answers=f"{PILOTS}/answers/{ORACLE_FILES}/{{qshard}}.parquet",
        runs=f"{PILOTS}/runs/{{qshard}}.parquet",
        traces=directory(f"{PILOTS}/traces/{{qshard}}"),
    log:
        f"{RESULTS}/logs/answer_oracle_files/{{qshard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/answer_oracle_files/{{qshard}}.tsv"
    conda:
        "../envs/lmev2.yaml"
    threads: lambda wildcards: PLAN.model_threads("answer_oracle_files", model_cores())
    resources:
        **queue_of("answer_oracle_files"),
        # Capped at 3 by profiles/default.
        codex=1,
        llm=PLAN.calls("answer_oracle_files"),
    params:
        spec=spec_of("answer_oracle_files"),
        code=PLAN.code("answer_oracle_files"),
    message:
        "Asking the coding agent about oracle files, question shard {wildcards.qshard}"
    script:
        "../workflow/scripts/answer_oracle_files.py"


use rule score_answers as score_pilot_answers with:
    input:
        questions=rules.select_questions.output.questions,
        evidence=rules.ingest_dataset.output.evidence,
        contexts=[rules.build_oracle_contexts.output.contexts],
        answers=[f"{PILOTS}/answers/{PILOT_CELL}.parquet"],
        abstention=prompt("judge_abstention"),
        gotchas=prompt("judge_gotchas"),
    output:
        f"{PILOTS}/scores/{PILOT_CELL}.parquet",
    log:
        f"{RESULTS}/logs/score_pilot_answers/{PILOT_CELL}.log",
    benchmark:
        f"{RESULTS}/benchmarks/score_pilot_answers/{PILOT_CELL}.tsv"
    params:
        spec=spec_of("score_pilot_answers"),
        code=PLAN.code("score_pilot_answers"),
    message:
        "Scoring {wildcards.reader} from {wildcards.context}, question shard {wildcards.qshard}"


rule export_figure4:
    """Accuracy from oracle contexts by reader and context, beside the paper's and the run's own methods."""
    input:
        scores=pilot_files("scores", PLAN.config.pilots.figure4),
        answers=pilot_files("answers", PLAN.config.pilots.figure4),
        cuts=pilot_files("cuts", PLAN.config.pilots.figure4),
        near_scores=near_files("scores"),
        near_answers=near_files("answers"),
        manifest=rules.ingest_dataset.output.manifest,
        goals=GOALS,
        published=published("figure4"),
    output:
        csv=report(
            f"{RESULTS}/figure4.csv",
            caption="../workflow/report/figure4.rst",
            category="Tables",
            labels={"what": "Answers from oracle contexts"},
        ),
        md=f"{RESULTS}/figure4.md",
        tex=f"{RESULTS}/figure4.tex",
    log:
        f"{RESULTS}/logs/export_figure4.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("export_figure4"),
        code=PLAN.code("export_figure4"),
        title="Answers from oracle contexts",
    message:
        "Writing {output.csv}"
    script:
        "../workflow/scripts/export_figure4.py"


rule plot_figure4:
    """Figure 4: accuracy from oracle contexts, the paper's values beside ours."""
    input:
        table=rules.export_figure4.output.csv,
    output:
        png=report(
            f"{RESULTS}/figure4.png",
            caption="../workflow/report/figure_figure4.rst",
            category="Figures",
            labels={"what": "Answers from oracle contexts"},
        ),
        pdf=f"{RESULTS}/figure4.pdf",
    log:
        f"{RESULTS}/logs/plot_figure4.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("plot_figure4"),
        code=PLAN.code("plot_figure4"),
    message:
        "Drawing {output.png}"
    script:
        "../workflow/scripts/plot_figure4.py"
