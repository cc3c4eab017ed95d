"""The checked configuration as a plan, wildcard constraints, and the params that every rule shares. No rules."""

import re
import sys
from functools import cache
from pathlib import Path

# Makes the library importable here and in scripts without installing it, also with --directory.
sys.path.insert(0, f"{workflow.basedir}/src")
from snakemake.exceptions import WorkflowError

from lmev2.agent.preflight import check_agents
from lmev2.checkout import import_first
from lmev2.config import ConfigError, load_config
from lmev2.data.errors import DataError
from lmev2.data.schema import DOMAINS
from lmev2.endpoints import check_planned, planned_roles
from lmev2.interchange.layout import RUN_FILES
from lmev2.job_specs import judge_role
from lmev2.memory.settings import POOL_TABLES
from lmev2.pilots.labels import check_labels
from lmev2.pilots.settings import AGENT, CONTEXT_LABELS, FILES, NO_CONTEXT, SHOWN
from lmev2.models.types import ModelSetupError
from lmev2.plan import Plan
from lmev2.resources import gpus, memory_mb, minutes
from lmev2.run_lock import forget_run, hold_soon, name_run, stale_lock
from lmev2.storage import from_the_future, read_only_cache, storage_problems

try:
    PLAN = Plan(load_config(config), Path(workflow.basedir).resolve())
    PLAN.check_cache()
    PLAN.imports  # for its errors
    if PLAN.config.data.hub is None:
        # Here, not in an input function: Snakemake forgives those where the outputs already exist, and a wrong data root
        # would pass for a finished run.
        PLAN.data_files()
except ConfigError as error:
    raise WorkflowError(str(error)) from None

import_first(f"{workflow.basedir}/src")

RESULTS = PLAN.results

if workflow.is_main_process:
    name_run()
    for warning in (stale_lock(Path.cwd()), from_the_future(Path(RESULTS))):
        if warning is not None and "--unlock" not in sys.argv:
            print(f"Warning: {warning}", file=sys.stderr)
elif workflow.remote_exec:
    forget_run()


wildcard_constraints:
    shard="|".join(PLAN.trajectory_shards),
    qshard="|".join(PLAN.question_shards),
    pool="|".join(PLAN.pools()) or "none",
    method="|".join(re.escape(name) for name in PLAN.config.run.methods),
    tier="|".join(PLAN.config.run.tiers),
    domain="|".join(DOMAINS),
    imported="|".join(re.escape(one.manifest.name) for one in PLAN.imports) or "none",
    reader="|".join(re.escape(name) for name in [*PLAN.config.pilots.asked(), AGENT]),
    context="|".join(CONTEXT_LABELS),


def spec_of(rule_name):
    """A params function: the canonical JSON of every setting that can change the rule's output."""
    return lambda wildcards: PLAN.spec(rule_name, dict(wildcards.items()))


def data_files(_wildcards):
    """Files of the data root, evidence labels and images aside."""
    return (
        PLAN.data_files()
        if PLAN.config.data.hub is None
        else [f"{RESULTS}/data/fetched.json"]
    )


def prompt(name):
    """A prompt file; an input of the rules that use it, so that an edit reruns them."""
    return f"{workflow.basedir}/workflow/prompts/{name}.md"


def controller_prompts(name):
    """The prompt of a pool that the controller writes; none where the controller is rules."""
    return [prompt(name)] if PLAN.has_controller() else []


def goal_prompts():
    """The prompt that goals are rewritten with; none where rules rewrite them, or they are only checked."""
    return [prompt(name) for name in PLAN.goal_prompts()]


def query_prompts(wildcards):
    """Prompts that queries of the method send to the controller's model."""
    return [prompt(name) for name in PLAN.query_prompts(wildcards.method)]


def model_cores():
    """Cores of a job whose model runs in its process: all of the run, on a cluster those of the configuration."""
    # Also in a job of a cluster, where Snakemake runs once more and takes the node's cores for the run's.
    on_cluster = workflow.non_local_exec or workflow.remote_exec
    return PLAN.config.cluster.model_threads if on_cluster else workflow.cores


def queue_of(rule_name):
    """Resources that the rule's job asks a cluster's queue for; on one machine they limit nothing."""

    def asked(wildcards):
        judge = wildcards.get("judge")
        reader = (
            wildcards.get("reader", "reader") if judge is None else judge_role(judge)
        )
        return {"method": wildcards.get("method"), "reader": reader}

    return {
        "mem_mb": lambda wildcards, attempt: memory_mb(
            PLAN, rule_name, attempt, **asked(wildcards)
        ),
        "runtime": lambda wildcards, attempt: minutes(
            PLAN, rule_name, attempt, **asked(wildcards)
        ),
        "gpu": lambda wildcards: gpus(PLAN, rule_name, **asked(wildcards)),
    }


def query_threads(wildcards):
    """Threads of the method's queries: all cores where a model runs in the job's process."""
    return PLAN.model_threads("query_memory", model_cores(), wildcards.method)


def judge_threads(wildcards):
    """Threads of a further judge: all cores where its model runs in the job's process."""
    return PLAN.model_threads(
        "judge_again", model_cores(), reader=judge_role(wildcards.judge)
    )


def own_rows(stage):
    """Files of a stage of the run's own methods, on all tiers."""
    return expand(
        f"{RESULTS}/{stage}/{{method}}/{{tier}}/{{qshard}}.parquet",
        method=PLAN.config.run.methods,
        tier=PLAN.config.run.tiers,
        qshard=PLAN.question_shards,
    )


PROMPTS = [prompt(name) for name in PLAN.prompts()]


def check_storage():
    """Show that this run lives, and stop if it cannot write to its folders."""
    hold_soon(Path.cwd())
    folders = {"results": Path(RESULTS), "cache": PLAN.cache}
    if warning := read_only_cache(PLAN.cache):
        print(f"Warning: {warning}", file=sys.stderr)
        del folders["cache"]
    if problems := storage_problems(folders):
        raise WorkflowError("\n".join(problems))


def check_planned_jobs(jobs):
    """Stop if a planned job asks a coding agent that cannot run here, or an endpoint that cannot do what it is asked."""
    if workflow.touch:  # runs no job
        return
    problems = []
    for check in (check_planned_agents, check_planned_endpoints):
        try:
            check(jobs)
        except ModelSetupError as error:
            problems.append(str(error))
    if problems:
        raise WorkflowError("\n".join(problems))


def check_planned_agents(jobs):
    """Look for what coding agents need."""
    missing = check_agents(
        [job.rule.name for job in jobs],
        PLAN.config.models.agent,
        PLAN.pipeline,
        PLAN.data_root,
        PLAN.cache,
    )
    if missing:
        print(f"Warning: {missing}", file=sys.stderr)


def check_planned_endpoints(jobs):
    """Look at the endpoints that planned jobs call."""
    if PLAN.config.preflight:
        asked = [(job.rule.name, dict(job.wildcards.items())) for job in jobs]
        check_planned(planned_roles(PLAN, asked), PLAN.cache)


def one_of(names):
    """A pattern that matches these names and nothing else, nothing at all if there are none."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


def sql(name):
    """A query file; an input of the rules that use it."""
    return f"{workflow.basedir}/workflow/sql/{name}.sql"


def report_templates():
    """Templates, style and script of the HTML report; inputs, so that an edit writes it anew."""
    folder = Path(workflow.basedir) / "src" / "lmev2" / "report" / "templates"
    return sorted(str(path) for path in folder.iterdir())


def published(table):
    """The paper's own numbers of a table or figure."""
    return f"{workflow.basedir}/resources/paper/{table}.csv"


def shards_of(stage, method, tier):
    """Files of a stage (contexts, answers, scores) for a method and tier: its shards, or the one of an imported run."""
    names = (
        PLAN.question_shards if PLAN.import_of(method, tier) is None else ["imported"]
    )
    return [f"{RESULTS}/{stage}/{method}/{tier}/{name}.parquet" for name in names]


def scored(stage):
    """Files of a stage (contexts, answers, scores) for all methods and tiers, imported runs included."""
    return [
        path for method, tier in PLAN.cells() for path in shards_of(stage, method, tier)
    ]


def pool_files():
    """Every shard of the pools that the run's methods search."""
    return expand(
        f"{RESULTS}/pools/{{pool}}/{{shard}}.parquet",
        pool=PLAN.pools(),
        shard=PLAN.trajectory_shards,
    )


READER_CONTEXTS = [NO_CONTEXT, *SHOWN]
ORACLE_FILES = f"{FILES}/{AGENT}"


def oracle_evidence(wildcards):
    """Evidence labels; where contexts are made of them, a data root without labels is refused before any job."""
    if wildcards.get("context", FILES) != NO_CONTEXT:
        try:
            PLAN.check_evidence()
        except ConfigError as error:
            raise WorkflowError(str(error)) from None
    return f"{RESULTS}/data/evidence.parquet"


def oracle_notes(wildcards):
    """Notes of the memory's pools, for contexts that show them."""
    return expand(
        f"{RESULTS}/pools/{{pool}}/{{shard}}.parquet",
        pool=(
            POOL_TABLES["note"] if wildcards.context == "oracle_slices_notes" else []
        ),
        shard=PLAN.trajectory_shards,
    )


@cache
def check_run_labels():
    """Stop if a question that the pilot studies ask lacks evidence labels; looks once at the data root."""
    run = PLAN.config.run
    try:
        check_labels(PLAN.data_root, run.tiers, run.questions, run.seed)
    except DataError as error:
        raise WorkflowError(
            f"pilots.figure4, data root {PLAN.data_root.absolute()}: {error}"
        ) from None


def complete_evidence(wildcards):
    """Evidence labels; where contexts are still to be made of them, incomplete ones are refused before any job."""
    contexts = str(rules.build_oracle_contexts.output.contexts).format(
        **dict(wildcards.items())
    )
    # Snakemake forgives an input function where the outputs already exist, and contexts of former labels would pass
    # for finished. There the job runs again, since the labels changed, and refuses them.
    if wildcards.context == NO_CONTEXT or Path(contexts).exists():
        return rules.ingest_dataset.output.evidence
    path = oracle_evidence(wildcards)
    check_run_labels()
    return path


def pilot_prompt(wildcards, domain):
    """The reader's prompt: the paper's for oracle contexts (Table 7), else that of every other row (Table 4)."""
    kind = "reader" if wildcards.context == NO_CONTEXT else "oracle"
    return prompt(f"{kind}_{domain}")


def pilot_threads(wildcards):
    """Threads of a pilot reader's answers: all cores where its model runs in the job's process."""
    return PLAN.model_threads(
        "read_pilot_answers", model_cores(), reader=wildcards.reader
    )


def pilot_files(stage, study):
    """Files of a stage of a pilot study, shard by shard, in the order of its readers and contexts."""
    return [
        f"{RESULTS}/pilots/{stage}/{context}/{reader}/{shard}.parquet"
        for reader, context in study.cells()
        for shard in PLAN.question_shards
    ]


def near_files(stage):
    """Files of a stage of the methods that stand beside the oracle contexts."""
    return [
        path
        for method, tier in PLAN.pilot_neighbours()
        for path in shards_of(stage, method, tier)
    ]


def agent_runs():
    """What coding agents did, of every method of theirs."""
    return expand(
        f"{RESULTS}/agent/runs/{{method}}/{{tier}}/{{qshard}}.parquet",
        method=PLAN.agent_methods(),
        tier=PLAN.config.run.tiers,
        qshard=PLAN.question_shards,
    )


def index_files(wildcards):
    """Index folders and manifests that the method searches."""
    tables = PLAN.method_tables(wildcards.method)
    return {
        "index": [f"{RESULTS}/index/{table}.lance" for table in tables],
        "manifests": [f"{RESULTS}/index/{table}.json" for table in tables],
    }


def import_summaries():
    """What was taken in of each imported run."""
    return [
        f"{RESULTS}/imports/{one.manifest.name}/{one.manifest.tier}.json"
        for one in PLAN.imports
    ]


def imported_files(wildcards):
    """Files of the import folder of an imported run."""
    return PLAN.import_of(wildcards.imported, wildcards.tier).files()


def harness_rows(wildcards):
    """Rows of a method and tier, and the description of the import where they were imported."""
    method, tier = wildcards.method, wildcards.tier
    rows = {
        stage: shards_of(stage, method, tier)
        for stage in ("contexts", "answers", "scores")
    }
    found = PLAN.import_of(method, tier)
    return rows if found is None else {**rows, "imported": found.files()[0]}


def harness_runs(_wildcards):
    """Run folders of every method and tier, for the domains that have questions."""
    return [
        f"{RESULTS}/harness_runs/{method}_{domain}_{tier}/{name}"
        for method, tier in PLAN.cells()
        for domain in PLAN.domains(method, tier)
        for name in RUN_FILES
    ]
