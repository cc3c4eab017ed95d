"""What scripts are given: settings from the params, mechanics of calls from the configuration, and a log that tells."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from lmev2 import job as job_module
from lmev2.config import load_config
from lmev2.job import Job
from lmev2.models.cached import CachedChat
from lmev2.models.scripted import ScriptedEmbedder
from lmev2.models.settings import JudgeSettings, ReaderSettings
from lmev2.models.types import ChatRequest, Message
from lmev2.plan import CALL_MECHANICS, Plan


@pytest.fixture(autouse=True)
def root_handlers() -> Iterator[None]:
    """A job takes over the root logger; tests give it back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def config(project: Path, tmp_path: Path) -> dict[str, Any]:
    """The shipped configuration with scripted models and its folders below ``tmp_path``."""
    raw: dict[str, Any] = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    script = tmp_path / "replies.jsonl"
    script.write_text('{"regex": ".", "text": "yes"}\n', encoding="utf-8")
    for role in ("reader", "judge"):
        raw["models"][role] |= {"backend": "scripted", "model": f"scripted-{role}", "script": str(script)}
    raw["models"]["embedder"] = {"backend": "scripted", "model": "scripted", "dimension": 32}
    return raw | {"cache": str(tmp_path / "cache")}


def make_snakemake(project: Path, tmp_path: Path, config: dict[str, Any], **changes: Any) -> SimpleNamespace:
    """What Snakemake gives to a script of rule ``read_answers``."""
    wildcards = {"method": "rag_slice", "tier": "small", "qshard": "000-of-001"}
    spec = Plan(load_config(config), project).spec("read_answers", wildcards)
    given = {
        "params": SimpleNamespace(spec=spec),
        "rule": "read_answers",
        "wildcards": wildcards,
        "threads": 2,
        "log": [str(tmp_path / "logs" / "read_answers" / "rag_slice.log")],
        "config": config,
        "scriptdir": str(project / "workflow" / "scripts"),
    }
    return SimpleNamespace(**{**given, **changes})


def log_of(snakemake: SimpleNamespace) -> str:
    return Path(snakemake.log[0]).read_text(encoding="utf-8")


def test_a_failure_reaches_the_log_with_its_traceback_and_goes_on(
    project: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    snakemake = make_snakemake(project, tmp_path, config)

    def deep_inside() -> None:
        raise KeyError("the missing thing")

    with pytest.raises(KeyError, match="the missing thing"), Job(snakemake) as job:
        assert job.name == "read_answers/rag_slice/small/000-of-001"
        deep_inside()
    log = log_of(snakemake)
    assert "INFO read_answers {'method': 'rag_slice', 'tier': 'small', 'qshard': '000-of-001'}" in log
    assert "ERROR read_answers/rag_slice/small/000-of-001 failed\nTraceback (most recent call last):" in log
    assert "in deep_inside" in log and log.rstrip().endswith("KeyError: 'the missing thing'")


def test_a_run_that_succeeds_logs_no_error_and_its_cache_counts(
    project: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    snakemake = make_snakemake(project, tmp_path, config)
    with Job(snakemake) as job:
        logging.getLogger("lmev2.models").warning("a remark of the library")
        job.cache.get_json("latency", {"x": 1})
    assert "WARNING a remark of the library" in log_of(snakemake)
    assert "call cache: 0 hits, 1 misses, 0 writes" in log_of(snakemake)
    assert "ERROR" not in log_of(snakemake)
    with Job(snakemake):
        pass
    assert "remark" not in log_of(snakemake) and "call cache" not in log_of(snakemake)  # the log is of the last run


def test_addresses_of_calls_stay_out_of_the_log(project: Path, tmp_path: Path, config: dict[str, Any]) -> None:
    snakemake = make_snakemake(project, tmp_path, config)
    with Job(snakemake):
        logging.getLogger("httpx2").info("HTTP Request: POST https://host.example/v1")
    assert "host.example" not in log_of(snakemake)


def test_settings_come_from_the_params_and_mechanics_from_the_configuration(
    project: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    snakemake = make_snakemake(project, tmp_path, config)
    spec = json.loads(snakemake.params.spec)
    assert not set(spec["reader"]) & CALL_MECHANICS
    spec["reader"] |= {"context_tokens": 123, "model": "of the params", "sampling": {"max_tokens": 7, "seed": 5}}
    snakemake.params.spec = json.dumps(spec)
    mechanics = {"timeout_s": 12.5, "retries": 9, "retry_wait_s": 0.5, "concurrency": 6, "endpoint": "ELSEWHERE"}
    of_transformers = {"batch_size", "device"}  # which the reader of this configuration does not take
    assert set(mechanics) == CALL_MECHANICS & set(ReaderSettings.model_fields) - of_transformers
    config["models"]["reader"] |= mechanics | {"context_tokens": 999, "model": "of the configuration"}
    settings = Job(snakemake).settings("reader", ReaderSettings)
    assert (settings.context_tokens, settings.model, settings.sampling.max_tokens) == (123, "of the params", 7)
    assert {name: getattr(settings, name) for name in mechanics} == mechanics


def test_each_role_has_its_own_mechanics(project: Path, tmp_path: Path, config: dict[str, Any]) -> None:
    config["models"]["reader"]["concurrency"], config["models"]["judge"]["concurrency"] = 3, 8
    wildcards = {"method": "rag_slice", "tier": "small"}
    spec = Plan(load_config(config), project).spec("score_answers", wildcards)
    job = Job(make_snakemake(project, tmp_path, config, params=SimpleNamespace(spec=spec)))
    assert job.settings("judge", JudgeSettings).concurrency == 8
    assert job.settings("judge", JudgeSettings).label_attempts == config["models"]["judge"]["label_attempts"]


def test_models_stand_behind_the_runs_cache(project: Path, tmp_path: Path, config: dict[str, Any]) -> None:
    job = Job(make_snakemake(project, tmp_path, config))
    chat = job.chat(job.settings("reader", ReaderSettings))
    assert isinstance(chat, CachedChat) and chat.model == "scripted-reader"
    assert job.cache is chat.cache and job.cache.folder == tmp_path / "cache"
    request = ChatRequest(messages=(Message.text("user", "Is it?"),))
    assert (chat.complete(request).replayed, chat.complete(request).replayed) == (False, True)
    assert len(list((tmp_path / "cache" / "chat").rglob("*.json"))) == 1


def test_a_chat_model_gets_the_threads_of_the_job(
    project: Path, tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(job_module, "make_chat", lambda settings, cache, threads: seen.append(threads))
    job = Job(make_snakemake(project, tmp_path, config, threads=3))
    job.chat(job.settings("reader", ReaderSettings))
    assert seen == [3]


def test_the_embedder_is_that_of_the_params(project: Path, tmp_path: Path, config: dict[str, Any]) -> None:
    spec = json.dumps({"embedder": {"backend": "scripted", "model": "of the params", "dimension": 16}})
    config["models"]["embedder"]["concurrency"] = 5
    embedder = Job(make_snakemake(project, tmp_path, config, params=SimpleNamespace(spec=spec))).embedder()
    assert isinstance(embedder, ScriptedEmbedder)
    assert (embedder.model, embedder.dimension, embedder.settings.concurrency) == ("of the params", 16, 5)


def test_the_data_root_is_found_from_the_pipelines_folder(
    project: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    assert config["data"]["root"] == "{pipeline}/resources/minibench"
    assert Job(make_snakemake(project, tmp_path, config)).data_root == project / "resources" / "minibench"


def test_progress_lines_name_the_job(
    project: Path, tmp_path: Path, config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Job(make_snakemake(project, tmp_path, config)).progress("questions")(3, 3)
    assert capsys.readouterr().err.startswith("read_answers/rag_slice/small/000-of-001: 3/3 questions (")
