"""Asking an agent: attempts, named faults, kept results, honest times, traces."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from test_agent_removal import make_deep

from lmev2.agent.output import read_memory
from lmev2.agent.runner import AgentResult, AgentRunner, agent_identity, write_trace
from lmev2.agent.types import MEMORY_FILE, AgentRun, Box, Execution, Mount, Task, Usage
from lmev2.files import StorageError
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.scripted import ScriptedChat
from lmev2.models.stopwatch import account, collect
from lmev2.models.types import ChatRequest, Message, Sampling

STATES = {"t1": 5, "t2": 2}
GOOD = {
    "memory_markdown": "## Support Analysis\nIt stands there.",
    "trajectory_spans": [{"trajectory_id": "t1", "start_state_index": 1, "end_state_index": 2}],
}


class FakeBox:
    """A folder without any sandbox."""

    inside = "/sandbox"

    def __init__(self, folder: Path, mounts: Sequence[Mount]):
        self.folder, self.mounts = folder, mounts

    def path_inside(self, mount: Mount) -> str:
        return mount.target

    def execute(self, command: Sequence[str], timeout_s: float, **_: Any) -> Execution:
        raise AssertionError("no command is run here")


class ScriptedAgent:
    """Does in each attempt what its step says."""

    name, model = "scripted 1", "none"

    def __init__(self, *steps: Callable[[Path], AgentRun]):
        self.steps, self.calls, self.checks = steps, 0, 0
        self.seen: list[tuple[str, float, list[str]]] = []

    def check(self) -> None:
        assert self.calls == 0 or self.checks
        self.checks += 1

    def run(self, box: Box, task: Task, timeout_s: float) -> AgentRun:
        self.seen.append((task.prompt, timeout_s, sorted(path.name for path in box.folder.iterdir())))
        step = self.steps[min(self.calls, len(self.steps) - 1)]
        self.calls += 1
        return step(box.folder)


def done(folder: Path, text: str | None, outcome: Any = "finished", detail: str | None = None) -> AgentRun:
    if text is not None:
        (folder / MEMORY_FILE).write_text(text, encoding="utf-8")
    usage = Usage(2, 100, 40, 10, 5)
    return AgentRun(outcome, detail, usage, 3, 1.5, ({"type": "command", "text": "ls \ud800"},))


def writes(value: Any, **how: Any) -> Callable[[Path], AgentRun]:
    text = value if value is None or isinstance(value, str) else json.dumps(value)
    return lambda folder: done(folder, text, **how)


def build(folder: Path) -> tuple[Task, list[Mount]]:
    (folder / "question.json").write_text('{"question": "Where?"}', encoding="utf-8")
    return Task("Look.", MEMORY_FILE), []


def read(folder: Path) -> dict[str, Any]:
    output = read_memory(folder, STATES, 20)
    return {"markdown": output.markdown, "spans": [[one.trajectory_id, one.first, one.last] for one in output.spans]}


def make_runner(agent: ScriptedAgent, folder: Path, attempts: int = 3, **identity: Any) -> AgentRunner:
    cache = CallCache(folder / "cache")
    return AgentRunner(agent, {"agent": "scripted", **identity}, attempts, 60.0, "none", FakeBox, cache, agent.check)


def test_a_good_first_attempt_is_the_only_one(tmp_path: Path) -> None:
    agent = ScriptedAgent(writes(GOOD))
    result = make_runner(agent, tmp_path).ask({"haystack": ["t1"]}, build, read)
    assert result.output == {"markdown": GOOD["memory_markdown"], "spans": [["t1", 1, 2]]}
    assert [(one.outcome, one.fault) for one in result.attempts] == [("finished", None)]
    assert agent.seen == [("Look.", 60.0, ["question.json"])]
    assert not result.replayed and result.usage == Usage(2, 100, 40, 10, 5)


def test_faults_are_named_and_the_next_attempt_starts_without_the_old_output(tmp_path: Path) -> None:
    many = {**GOOD, "trajectory_spans": [{"trajectory_id": "t1", "start_state_index": 0, "end_state_index": 4}] * 1}
    agent = ScriptedAgent(
        writes("{not json"), writes(None, outcome="timeout", detail="60 s"), writes(many, outcome="crashed", detail="x")
    )
    result = make_runner(agent, tmp_path).ask(
        {}, build, lambda folder: {"states": read_memory(folder, STATES, 4).states}
    )
    assert result.output is None
    assert [one.outcome for one in result.attempts] == ["finished", "timeout", "crashed"]
    reasons = [str(one.fault).split(":")[0] for one in result.attempts]
    assert reasons == ["not_json", "missing", "too_many_states"]
    assert all(files == ["question.json"] for _, _, files in agent.seen)
    fault = result.fault()
    assert fault.startswith("no usable output in 3 attempts: attempt 1: not_json: ")
    assert "attempt 2: timeout: 60 s: missing" in fault and "attempt 3: crashed: x: too_many_states" in fault
    assert result.usage == Usage(6, 300, 120, 30, 15)  # attempts that failed cost as well


def test_an_attempt_that_ended_badly_but_left_a_good_output_counts(tmp_path: Path) -> None:
    agent = ScriptedAgent(writes(GOOD, outcome="timeout", detail="60 s"))
    result = make_runner(agent, tmp_path).ask({}, build, read)
    assert result.output is not None and agent.calls == 1
    assert result.attempts[0].outcome == "timeout"


def test_results_are_kept_and_failures_are_not(tmp_path: Path) -> None:
    agent = ScriptedAgent(writes("{"), writes("{"), writes(GOOD))
    assert make_runner(agent, tmp_path, attempts=2).ask({}, build, read).output is None
    first = make_runner(agent, tmp_path, attempts=2).ask({}, build, read)
    again = make_runner(agent, tmp_path, attempts=2).ask({}, build, read)
    assert agent.calls == 3 and agent.checks == 2  # a runner that finds everything in the cache looks for nothing
    assert again.replayed and not first.replayed and again.isolation == "none"
    assert (again.output, again.wall_s) == (first.output, first.wall_s)
    assert again.attempts[0].usage == first.attempts[0].usage and len(again.attempts[0].events) == 1


@pytest.mark.parametrize("what", ["identity", "shown", "file", "prompt"])
def test_whatever_the_agent_sees_makes_another_key(tmp_path: Path, what: str) -> None:
    agent = ScriptedAgent(writes(GOOD))

    def other(folder: Path) -> tuple[Task, list[Mount]]:
        task, mounts = build(folder)
        if what == "file":
            (folder / "INSTRUCTION.md").write_text("Be quick.", encoding="utf-8")
        return (Task("Look well.", MEMORY_FILE) if what == "prompt" else task), mounts

    make_runner(agent, tmp_path).ask({"data": "a"}, build, read)
    changed = {"effort": "low"} if what == "identity" else {}
    shown = {"data": "b"} if what == "shown" else {"data": "a"}
    assert not make_runner(agent, tmp_path, **changed).ask(shown, other, read).replayed
    assert agent.calls == 2


def test_how_often_and_how_long_is_not_what_an_agent_is() -> None:
    role = {"agent": "loop", "model": "m", "attempts": 3, "attempt_s": 60.0, "max_states": 20}
    identity = agent_identity(role, "abc")
    assert identity == {"agent": "loop", "model": "m", "max_states": 20, "code": "abc"}


def test_a_replay_counts_for_the_time_that_was_measured_first(tmp_path: Path) -> None:
    def slowly(folder: Path) -> AgentRun:
        import time

        time.sleep(0.2)
        return done(folder, json.dumps(GOOD))

    with collect() as first:
        result = make_runner(ScriptedAgent(slowly), tmp_path).ask({}, build, read)
    with collect() as second:
        make_runner(ScriptedAgent(slowly), tmp_path).ask({}, build, read)
    assert first.honest_s >= result.wall_s >= 0.2
    assert second.elapsed_s < 0.2 and second.honest_s == pytest.approx(result.wall_s, abs=0.05)


def test_waits_for_an_endpoint_do_not_count(tmp_path: Path) -> None:
    def waiting(folder: Path) -> AgentRun:
        account(0.0, -30.0, waited_s=30.0)  # as if half a minute of the attempt had been a pause
        return done(folder, json.dumps(GOOD))

    with collect() as ledger:
        result = make_runner(ScriptedAgent(waiting), tmp_path).ask({}, build, read)
    assert result.wall_s == 0.0 and ledger.waited_s == 30.0


def test_nothing_of_the_sandbox_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))

    def fails(folder: Path) -> AgentRun:
        (folder / "scratch").write_text("x", encoding="utf-8")
        raise RuntimeError("the agent itself is broken")

    make_runner(ScriptedAgent(writes(GOOD)), tmp_path).ask({}, build, read)
    with pytest.raises(RuntimeError):
        make_runner(ScriptedAgent(fails), tmp_path).ask({"other": 1}, build, read)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_an_agent_leaves_is_no_error_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))

    def deep(folder: Path) -> AgentRun:
        make_deep(folder, 1500)
        make_deep(folder, 1500, MEMORY_FILE)
        return done(folder, None)

    result = make_runner(ScriptedAgent(deep, writes(GOOD)), tmp_path).ask({}, build, read)
    assert [str(one.fault).split(":")[0] for one in result.attempts] == ["not_a_file", "None"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_cannot_be_removed_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("lmev2.agent.removal.remove_at", fail)
    assert make_runner(ScriptedAgent(writes(GOOD)), tmp_path).ask({}, build, read).output is not None
    assert "too deep" in caplog.text


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RecursionError("too deep")], ids=str)
def test_a_sandbox_that_an_agent_broke_is_a_failed_attempt(tmp_path: Path, error: Exception) -> None:
    def breaks(folder: Path) -> AgentRun:
        raise error

    result = make_runner(ScriptedAgent(breaks, writes(GOOD)), tmp_path).ask({}, build, read)
    assert [one.outcome for one in result.attempts] == ["crashed", "finished"]
    assert str(error).split("] ")[-1] in result.attempts[0].told()
    gone = make_runner(ScriptedAgent(lambda folder: (shutil.rmtree(folder), done(folder, None))[1]), tmp_path, 2)
    assert (
        "attempt 2: crashed: the sandbox cannot be used: FileNotFoundError" in gone.ask({"x": 1}, build, read).fault()
    )


def test_traces_hold_events_and_a_summary_and_equal_results_equal_bytes(tmp_path: Path) -> None:
    agent = ScriptedAgent(writes("{"), writes(GOOD))
    results: list[AgentResult] = [make_runner(agent, tmp_path).ask({}, build, read) for _ in range(2)]
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, result in zip(folders, results, strict=True):
        write_trace(folder, result)
    assert results[1].replayed
    files = {path.name: path.read_bytes() for path in folders[0].iterdir()}
    assert files == {path.name: path.read_bytes() for path in folders[1].iterdir()}
    assert set(files) == {"summary.json", "attempt_1.events.jsonl.gz", "attempt_2.events.jsonl.gz"}
    (event,) = gzip.decompress(files["attempt_1.events.jsonl.gz"]).decode().splitlines()
    assert json.loads(event)["type"] == "command"
    summary = json.loads(files["summary.json"])
    assert [one["fault"] is None for one in summary["attempts"]] == [False, True]
    assert summary["usage"]["requests"] == 4 and summary["output"]["spans"] == [["t1", 1, 2]]


def test_a_full_disk_of_the_call_cache_is_no_fault_of_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("lmev2.models.cache.write_atomically", full)
    backend = ScriptedChat(lambda request: "reply")
    chat = CachedChat(backend, CallCache(tmp_path / "cache"))

    def asks(folder: Path) -> AgentRun:
        chat.complete(ChatRequest((Message.text("user", "Where?"),), Sampling(max_tokens=10), "agent"))
        return done(folder, json.dumps(GOOD))

    agent = ScriptedAgent(asks)
    with pytest.raises(StorageError, match=r"cannot write to the call cache .*No space left"):
        make_runner(agent, tmp_path).ask({}, build, read)
    assert agent.calls == 1 and len(backend.calls) == 1


def test_two_jobs_share_the_run_of_an_agent_and_its_time(tmp_path: Path) -> None:
    inside, go = threading.Event(), threading.Event()

    def slowly(folder: Path) -> AgentRun:
        inside.set()
        assert go.wait(20)
        return done(folder, json.dumps(GOOD))

    # Each with a cache object of its own, as two processes have.
    first, second = ScriptedAgent(slowly), ScriptedAgent(writes(GOOD))
    results: list[AgentResult] = []
    threads = [threading.Thread(target=lambda: results.append(make_runner(first, tmp_path).ask({}, build, read)))]
    threads[0].start()
    assert inside.wait(20)
    threads.append(threading.Thread(target=lambda: results.append(make_runner(second, tmp_path).ask({}, build, read))))
    threads[1].start()
    threads[1].join(0.3)
    assert threads[1].is_alive() and second.calls == 0
    go.set()
    for thread in threads:
        thread.join(20)
    assert (first.calls, second.calls) == (1, 0)
    assert sorted(one.replayed for one in results) == [False, True] and results[0].wall_s == results[1].wall_s


def test_a_wait_for_another_job_that_failed_does_not_count(tmp_path: Path) -> None:
    inside, go = threading.Event(), threading.Event()

    def fails(folder: Path) -> AgentRun:
        inside.set()
        assert go.wait(20)
        return done(folder, None)

    failing = make_runner(ScriptedAgent(fails), tmp_path, attempts=1)
    thread = threading.Thread(target=lambda: failing.ask({}, build, read))
    thread.start()
    assert inside.wait(20)
    threading.Timer(1.0, go.set).start()
    with collect() as ledger:
        result = make_runner(ScriptedAgent(writes(GOOD)), tmp_path).ask({}, build, read)
    thread.join(20)
    assert result.output is not None and ledger.elapsed_s > 0.9
    assert result.wall_s < 0.5 and ledger.honest_s < 0.5
