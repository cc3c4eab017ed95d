"""A cancelled job of the agent loop: the process is gone at once, with its sandbox and with all that ran in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bwrap import needs_bwrap

from lmev2.agent.isolation import Isolation

JOB = """
import json, signal, sys
from pathlib import Path
from lmev2.agent.loop import LoopAgent
from lmev2.agent.runner import AgentRunner
from lmev2.agent.sandbox import Sandbox
from lmev2.agent.scratch import scratch_folder
from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import MEMORY_FILE, Task
from lmev2.models.scripted import Rule, ScriptedChat

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
isolation, reply, delay_s, started = sys.argv[1:]

def script(request):
    Path(started).touch()
    import time
    time.sleep(float(delay_s))
    return reply

settings = AgentSettings.model_validate(
    {"agent": "loop", "backend": "scripted", "model": "m", "script": "none", "command_s": 60}
)
agent = LoopAgent(settings, lambda: ScriptedChat(script))
with scratch_folder() as folder:
    (folder / "sandbox").mkdir()
    agent.run(Sandbox(folder / "sandbox", isolation), Task("Look.", MEMORY_FILE), 120)
print("it went on")
"""
KINDS = [pytest.param("bubblewrap", marks=needs_bwrap), "none"]


def running(mark: str) -> list[str]:
    """Command lines of processes with the mark, zombies aside."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in line and int(path.parent.name) != os.getpid():
            found.append(line.decode("utf-8", "replace"))
    return found


def cancel(tmp_path: Path, isolation: Isolation, command: str, delay_s: float, number: signal.Signals) -> float:
    """Start a job, cancel it when the model, or its command, is at work; the seconds until it was gone."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    reply = json.dumps({"thought": "so", "tool": "shell", "arguments": {"command": command}})
    arguments = [sys.executable, "-c", JOB, isolation, reply, str(delay_s), str(tmp_path / "started")]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        try:
            until = time.monotonic() + 60
            while not (tmp_path / "started").exists() or (not delay_s and not list(temporary.rglob("beat"))):
                assert time.monotonic() < until and job.poll() is None, job.communicate()
                time.sleep(0.02)
            time.sleep(0.3)
            began = time.monotonic()
            job.send_signal(number)
            output, errors = job.communicate(timeout=60)
            seconds = time.monotonic() - began
        finally:
            job.kill()
    assert "it went on" not in output
    assert job.returncode == (143 if number == signal.SIGTERM else -signal.SIGINT), errors
    assert list(temporary.iterdir()) == []
    return seconds


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("isolation", KINDS)
def test_during_a_command(tmp_path: Path, isolation: Isolation, number: signal.Signals) -> None:
    mark = f"cancelled-{os.getpid()}-{number}-{isolation}"
    command = f"touch beat; setsid sh -c 'sleep 47; : {mark}' & exec sh -c 'exec 1>&- 2>&-; sleep 48; : {mark}'"
    assert cancel(tmp_path, isolation, command, 0, number) < 2
    assert running(mark) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_while_a_model_in_this_process_writes(tmp_path: Path, number: signal.Signals) -> None:
    assert cancel(tmp_path, "none", "true", 30, number) < 2
