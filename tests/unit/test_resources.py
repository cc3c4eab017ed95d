"""What jobs ask of a cluster's queue, and names of temporary files that machines may share."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmev2.config import load_config
from lmev2.models import cache as cache_module
from lmev2.plan import Plan
from lmev2.resources import REQUESTS, gpus, memory_mb, minutes

TORCH = {"backend": "sentence_transformers", "model": "m", "file": None}


def make_plan(project: Path, embedder: dict[str, Any] | None = None, **cluster: Any) -> Plan:
    raw = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    raw["models"]["embedder"] |= embedder or {}
    raw["cluster"] |= cluster
    return Plan(load_config(raw), project)


def test_every_attempt_asks_for_more(project: Path) -> None:
    plan = make_plan(project)
    for rule, attempt in itertools.product(REQUESTS, (1, 2, 3)):
        method = "rag_slice" if rule == "query_memory" else None
        for of in (memory_mb, minutes):
            assert of(plan, rule, attempt, method) == attempt * of(plan, rule, 1, method) > 0


def test_a_model_in_the_jobs_process_gets_its_memory_and_half_a_day(project: Path) -> None:
    plan = make_plan(project, model_mem_mb=5_000)
    # The default reader is a GGUF file in the job's process, the embedder no model that costs anything.
    assert (memory_mb(plan, "read_answers", 1), minutes(plan, "read_answers", 1)) == (9_000, 720)
    assert (memory_mb(plan, "embed_pool", 1), minutes(plan, "embed_pool", 1)) == (4_000, 240)
    assert (memory_mb(plan, "ingest_dataset", 1), minutes(plan, "ingest_dataset", 1)) == (4_000, 240)


@pytest.mark.parametrize(
    ("embedder", "cluster", "found"),
    [
        ({}, {}, 0),
        (TORCH, {}, 1),
        ({**TORCH, "device": "cuda"}, {"gpus": 2}, 2),
        ({**TORCH, "device": "cpu"}, {}, 0),
        (TORCH, {"gpus": 0}, 0),
        ({"backend": "llama_cpp", "file": "e.gguf"}, {}, 0),
        ({"backend": "llama_cpp", "file": "e.gguf"}, {"llama_cpp_gpu": True}, 1),
        ({"backend": "openai", "tokenizer": "t.json"}, {"llama_cpp_gpu": True}, 0),
    ],
)
def test_gpus_go_to_jobs_whose_own_model_computes_on_them(
    project: Path, embedder: dict[str, Any], cluster: dict[str, Any], found: int
) -> None:
    plan = make_plan(project, embedder, **cluster)
    assert gpus(plan, "embed_pool") == gpus(plan, "query_memory", "rag_slice") == found
    assert gpus(plan, "query_memory", "no_retrieval") == gpus(plan, "ingest_dataset") == 0


def test_two_machines_never_write_the_same_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    replace = cache_module.os.replace

    def noting(source: Path, target: Path) -> None:
        written.append(Path(source).name)
        replace(source, target)

    monkeypatch.setattr(cache_module.os, "replace", noting)
    # As on two machines whose processes and threads happen to have the same numbers.
    monkeypatch.setattr(cache_module.os, "getpid", lambda: 7)
    monkeypatch.setattr(cache_module.threading, "get_ident", lambda: 7)
    for _machine in range(2):
        monkeypatch.setattr(cache_module, "_temporary_number", itertools.count())
        cache_module.write_atomically(tmp_path / "call.json", b"{}")
    assert len(set(written)) == 2 and [path.name for path in tmp_path.iterdir()] == ["call.json"]
