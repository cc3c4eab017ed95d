"""What a job asks of a cluster's queue: memory, run time and GPUs.

One table for all rules. A run on one machine is limited by none of it, unless `snakemake --resources mem_mb=…` says so,
and no job is repeated because a number here changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmev2.plan import Plan


@dataclass(frozen=True)
class Request:
    """What one rule's job asks for at its first attempt, without a model.

    Attributes:
        mem_mb: memory in MB. Every stage reads its tables a trajectory or a job's file at a time.
        minutes: run time.
    """

    mem_mb: int = 4_000
    minutes: int = 60


_TABLES = Request()
_WHOLE_DATA = Request(minutes=240)
# An index is written by one job, from the vectors of all shards.
_INDEX = Request(mem_mb=8_000, minutes=240)
# A coding agent's question has `attempts` of `attempt_s` each. Agents run in sandboxes, all on the job's node.
_AGENT = Request(mem_mb=8_000, minutes=24 * 60)

# Rules that become jobs of a queue; the others run where Snakemake does (`localrules` in the Snakefile).
REQUESTS: dict[str, Request] = {
    "prepare_screenshots": _WHOLE_DATA,
    "ingest_dataset": _WHOLE_DATA,
    "sanitize_goals": _TABLES,
    "apply_goals": _WHOLE_DATA,
    "build_raw_state": _TABLES,
    "build_center_state": _TABLES,
    "build_state_chunk": _TABLES,
    "generate_note": _TABLES,
    "generate_event": _TABLES,
    "embed_pool": _WHOLE_DATA,
    "index_pool": _INDEX,
    "query_memory": _WHOLE_DATA,
    "build_agent_pool": _WHOLE_DATA,
    "query_agent_memory": _AGENT,
    "read_answers": _TABLES,
    "score_answers": _TABLES,
    "judge_again": _TABLES,
    "build_oracle_contexts": _WHOLE_DATA,
    "read_pilot_answers": _TABLES,
    "answer_oracle_files": _AGENT,
    "collect_scores": _TABLES,
    "count_tokens": _WHOLE_DATA,
    "export_statistics": _TABLES,
    "plot_statistics": _TABLES,
    "build_report": _WHOLE_DATA,
    "select_import": _TABLES,
    "export_harness_run": _TABLES,
}
# A job that calls a model: what it got is in the call cache, so that the next attempt goes on where this one ended.
_MODEL_MINUTES = 12 * 60


def memory_mb(plan: Plan, rule: str, attempt: int, method: str | None = None, reader: str = "reader") -> int:
    """Memory of a rule's job in MB, growing with each attempt; ``cluster.model_mem_mb`` more for each model that runs
    in the job's process."""
    models = len(plan.own_models(rule, method, reader))
    return attempt * (REQUESTS[rule].mem_mb + models * plan.config.cluster.model_mem_mb)


def minutes(plan: Plan, rule: str, attempt: int, method: str | None = None, reader: str = "reader") -> int:
    """Run time of a rule's job in minutes, growing with each attempt."""
    calling = _MODEL_MINUTES if plan.calls(rule, method, reader) else 0
    return attempt * max(REQUESTS[rule].minutes, calling)


def gpus(plan: Plan, rule: str, method: str | None = None, reader: str = "reader") -> int:
    """GPUs of a rule's job: ``cluster.gpus`` where a model in its process computes on one, else 0.

    PyTorch's backends do unless their ``device`` is ``cpu``; ``llama_cpp`` does where ``cluster.llama_cpp_gpu`` says
    that it was built for it, which no setting of a model tells.
    """
    cluster = plan.config.cluster
    for model in plan.own_models(rule, method, reader):
        on_gpu = cluster.llama_cpp_gpu if model.backend == "llama_cpp" else getattr(model, "device", None) != "cpu"
        if on_gpu:
            return cluster.gpus
    return 0
