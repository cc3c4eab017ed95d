"""From a data root in the official format to Parquet."""


rule fetch_dataset:
    """Download the pinned revision of the data set and check its sums."""
    output:
        f"{RESULTS}/data/fetched.json",
    log:
        f"{RESULTS}/logs/fetch_dataset.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("fetch_dataset"),
        code=PLAN.code("fetch_dataset"),
        root=str(PLAN.data_root),
    message:
        "Fetching the data set into {params.root}"
    script:
        "../workflow/scripts/fetch_dataset.py"


rule prepare_screenshots:
    """Unpack the screenshot bundles of the data root, where it has any."""
    input:
        files=data_files,
        bundles=PLAN.bundles(),
    output:
        f"{RESULTS}/data/screenshots.json",
    log:
        f"{RESULTS}/logs/prepare_screenshots.log",
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("prepare_screenshots"),
    params:
        spec=spec_of("prepare_screenshots"),
        code=PLAN.code("prepare_screenshots"),
    message:
        "Preparing screenshots"
    script:
        "../workflow/scripts/prepare_screenshots.py"


rule ingest_dataset:
    """Check the whole data root and write it as Parquet."""
    input:
        files=data_files,
        evidence=PLAN.evidence_files(),
        images=PLAN.question_images(),
        screenshots=rules.prepare_screenshots.output,
    output:
        questions=f"{RESULTS}/data/questions.parquet",
        trajectories=f"{RESULTS}/data/trajectories.parquet",
        states=f"{RESULTS}/data/states.parquet",
        haystacks=f"{RESULTS}/data/haystacks.parquet",
        evidence=f"{RESULTS}/data/evidence.parquet",
        manifest=f"{RESULTS}/data/manifest.json",
    log:
        f"{RESULTS}/logs/ingest_dataset.log",
    benchmark:
        f"{RESULTS}/benchmarks/ingest_dataset.tsv"
    conda:
        "../envs/lmev2.yaml"
    resources:
        **queue_of("ingest_dataset"),
    params:
        spec=spec_of("ingest_dataset"),
        code=PLAN.code("ingest_dataset"),
    message:
        "Checking and ingesting the data root"
    script:
        "../workflow/scripts/ingest_dataset.py"


rule select_questions:
    """Choose the questions of this run: all, or a sample stratified over type and domain."""
    input:
        questions=rules.ingest_dataset.output.questions,
    output:
        questions=f"{RESULTS}/data/selected.parquet",
    log:
        f"{RESULTS}/logs/select_questions.log",
    conda:
        "../envs/lmev2.yaml"
    params:
        spec=spec_of("select_questions"),
        code=PLAN.code("select_questions"),
    message:
        "Selecting questions"
    script:
        "../workflow/scripts/select_questions.py"
