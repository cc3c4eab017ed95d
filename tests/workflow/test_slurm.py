"""The workflow on a Slurm cluster of one node, which the tests start themselves: the same tables as on one machine.

Takes about two minutes on two cores, most of them in starts of Snakemake: a job on a cluster starts it twice.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from chatserver import Answer, Call, ChatServer, completion, make_tokenizer
from pipeline import Pipeline, job_counts, make_pipeline, open_pipeline, write_script
from slurmcluster import Cluster, missing, started

from lmev2.resources import REQUESTS

MARKER = "marker-8c20d7"
TABLES = ["results/table2.csv", "results/evidence.csv"]
ANSWERS = "results/answers/rag_slice/small/0of1.parquet"
REFUSED = "no-such-model-5f1e"
# Memory is made in one submission, to save time. Everything after it is submitted job by job.
GROUPED = ["prepare_screenshots", "ingest_dataset", "sanitize_goals", "apply_goals", "build_raw_state"]
GROUPED += ["embed_pool", "index_pool"]
GROUP = "memory"
SUBMITTED = {GROUP: 1, "query_memory": 2, "read_answers": 2, "score_answers": 2, "collect_scores": 1}


def answer(call: Call) -> Answer:
    """A reply that differs by question and context."""
    return Answer(completion(rf"\boxed{{{len(call.texts[-1]) % 7}}}"))


@dataclass
class Runs:
    """What the runs left.

    Attributes:
        local, slurm: the same configuration on this machine and through Slurm; the call cache is shared, replies of
            models excepted.
        output, failed: what Snakemake printed of the run through Slurm, and of one whose reader refuses.
        asked: requests that jobs of Slurm made, of the first of these runs.
        jobs: what Slurm says of its jobs, in order.
    """

    local: Pipeline
    slurm: Pipeline
    cluster: Cluster
    output: str = ""
    failed: str = ""
    asked: list[Call] = field(default_factory=list)
    jobs: list[dict[str, str]] = field(default_factory=list)

    def submit(self, *targets: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake through Slurm as docs/cluster.md says, with times that suit a cluster without a queue."""
        head = [sys.executable, "-m", "snakemake", "-s", str(self.slurm.folder / "Snakefile")]
        head += ["--directory", str(self.slurm.directory), "--workflow-profile", "profiles/slurm"]
        head += ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"]
        grouped = ["--groups", *(f"{rule}={GROUP}" for rule in GROUPED)]
        return subprocess.run(
            [*head, *targets, *grouped, "--configfile", str(self.slurm.overlay)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.slurm.env,
            timeout=900,
        )


def overlay_of(project: Path, folder: Path) -> dict[str, Any]:
    """Six questions of the shipped data, two methods, the default embedder, and a reader behind an endpoint."""
    script = write_script(folder / "judge.jsonl", [{"regex": ".", "text": '{"label": 1, "reason": "it says so"}'}])
    unused = {"file": None, "quantize": None}
    reader = {**unused, "backend": "openai", "model": "m", "endpoint": "CLUSTER_TEST", "retries": 0, "concurrency": 2}
    reader |= {"tokenizer": make_tokenizer(folder / "tokenizer.json"), "reply_format": "free"}
    return {
        "data": {"root": str(project / "resources" / "minibench")},
        "cache": str(folder / "cache"),
        "run": {"questions": 6, "methods": ["no_retrieval", "rag_slice"]},
        "shards": {"trajectories": 1, "questions": 1},
        "models": {"reader": reader, "judge": {**unused, "backend": "scripted", "model": "judge", "script": script}},
    }


@pytest.fixture(scope="module")
def runs(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm")
    replies = {"now": answer}
    overlay = overlay_of(project, folder)
    with ChatServer(lambda call: replies["now"](call)) as server, started(folder / "cluster", 8, 64_000) as cluster:
        local = make_pipeline(project, folder, overlay)
        local.env.update({"CLUSTER_TEST_BASE_URL": server.url, "CLUSTER_TEST_API_KEY": MARKER})
        local.run(*TABLES)
        # Latencies of queries are replayed; the reader is asked once more, by jobs of the cluster.
        shutil.rmtree(folder / "cache" / "chat")
        (folder / "again").mkdir()
        slurm = open_pipeline(local.folder, folder / "again", overlay)
        slurm.env.update({**local.env, **cluster.environment})
        del slurm.env["PYTHONPATH"]  # no user has it
        done, before = Runs(local, slurm, cluster), len(server.calls)
        output = done.submit(*TABLES)
        done.output, done.asked = output.stdout, server.calls[before:]
        assert output.returncode == 0, explain(done)
        shutil.rmtree(folder / "cache" / "chat")
        (slurm.directory / ANSWERS).unlink()
        replies["now"] = lambda call: Answer({"error": {"message": REFUSED}}, status=400)
        failed = done.submit(ANSWERS)
        assert failed.returncode != 0
        done.failed = failed.stdout
        shown = cluster.ask("scontrol", "--oneliner", "show", "jobs")
        done.jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in shown.splitlines()]
        yield done


def explain(runs: Runs) -> str:
    """What is known of a run that went wrong."""
    logs = [path.read_text(errors="replace") for path in runs.slurm.directory.rglob("slurm_logs/**/*.log")]
    return "\n".join([runs.output[-6000:], *(log[-3000:] for log in logs), runs.cluster.log("slurmctld")[-3000:]])


def rule_of(job: dict[str, str]) -> str:
    """Rule or group of a job of Slurm: the executor writes it, and rules or wildcards, into the job's comment."""
    name = job["Comment"].removeprefix("rule_").split("_wildcards_")[0]
    return GROUP if name.startswith(f"{GROUP}_") else name


def test_tables_are_the_same_byte_for_byte(runs: Runs) -> None:
    for name in TABLES:
        local, slurm = ((one.directory / name).read_bytes() for one in (runs.local, runs.slurm))
        assert local == slurm and local.count(b"\n") == 3, name


def test_jobs_ran_in_slurm(runs: Runs) -> None:
    done = [job for job in runs.jobs if job["JobState"] == "COMPLETED"]
    assert Counter(rule_of(job) for job in done) == SUBMITTED
    assert all(job["JobName"].startswith("lmev2_") and job["NodeList"] == "node1" for job in done)
    assert runs.cluster.log("slurmd").count("launch task StepId=") >= len(done)
    # What is not worth a submission ran here.
    planned = job_counts(runs.output)
    assert planned["export_table2"] == planned["select_questions"] == 1


def test_jobs_ask_for_what_the_table_says(runs: Runs) -> None:
    found = {rule_of(job): (job["MinMemoryNode"], job["TimeLimit"], job["NumCPUs"]) for job in runs.jobs}
    assert found["score_answers"] == ("4000M", "01:00:00", "1")
    assert found["query_memory"] == ("4000M", "04:00:00", "1")
    # Both attempts of the job that calls a model over a network.
    failed = [job for job in runs.jobs if job["JobState"] == "FAILED"]
    assert [(rule_of(job), job["MinMemoryNode"], job["TimeLimit"]) for job in failed] == (
        [("read_answers", "4000M", "12:00:00"), ("read_answers", "8000M", "1-00:00:00")]
    )


def test_keys_reach_jobs_and_no_file(runs: Runs) -> None:
    assert len(runs.asked) > 6
    assert {call.headers["authorization"] for call in runs.asked} == {f"Bearer {MARKER}"}
    folder = runs.cluster.folder.parent
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len([path for path in files if path.name == "script" and path.is_relative_to(runs.cluster.folder)]) >= 8
    holding = [path for path in files if MARKER.encode() in path.read_bytes()]
    # Slurm's controller keeps the environment of its jobs for itself until it forgets them.
    assert {path.name for path in holding} == {"environment"}
    assert all(path.is_relative_to(runs.cluster.folder / "state") for path in holding)
    assert MARKER not in runs.output + runs.failed + str(runs.jobs)


def test_a_failing_jobs_message_reaches_the_user(runs: Runs) -> None:
    assert re.search(r"Error in rule read_answers", runs.failed)
    assert REFUSED in runs.failed
    assert "rag_slice" in runs.failed and "FAILED" in runs.failed


def test_a_finished_run_repeats_nothing_because_of_a_cluster(runs: Runs) -> None:
    # The run of this machine, planned with the cluster's profile, whose threads and resources differ.
    plan = ["-n", "--workflow-profile", "profiles/slurm", "--default-resources", "mem_mb=123", "runtime=7"]
    assert "Nothing to be done" in runs.local.run(*TABLES, *plan).stdout


def caps(project: Path, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((project / "profiles" / name / "profile.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_profile_keeps_in_step_with_the_default_one(project: Path) -> None:
    default, slurm = caps(project, "default"), caps(project, "slurm")
    assert {key: slurm[key] for key in default} == default


def test_every_rule_runs_where_snakemake_does_or_has_its_request(project: Path) -> None:
    files = [project / "Snakefile", *sorted((project / "rules").glob("*.smk"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    rules = set(re.findall(r"^rule (\w+):", text, flags=re.MULTILINE)) - {"all", "pilots", "harness_runs"}
    local = set(re.search(r"^localrules:\n((?:    \w+,\n)+)", text, flags=re.MULTILINE)[1].replace(",", "").split())  # type: ignore[index]
    assert local | set(REQUESTS) == rules | {"read_pilot_answers"}, "see `localrules` and src/lmev2/resources.py"
    assert not local & set(REQUESTS)
    assert set(re.findall(r'queue_of\("(\w+)"\)', text)) == set(REQUESTS)
