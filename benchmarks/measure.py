"""What a call costs in a process of its own: time by the clock, CPU time, and memory with that of its children.

The process is started anew, so that imports and the start of Python (about half a second) are part of every number, as
they are of every job of the workflow. Linux only: memory is read from ``/proc``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

RESULTS_FILE = "results.jsonl"
_INTERVAL_S = 0.02  # between looks at the memory
_MB = 2**20


@dataclass(frozen=True)
class Cost:
    """What a process cost.

    Attributes:
        wall_s: seconds by the clock, from its start to its end.
        cpu_s: CPU seconds of it and its children, user and system.
        peak_mb: largest resident memory of it and its children together, in MB of 2**20 bytes. Looked at every 20 ms,
            so that a shorter peak of several processes can be missed; that of a single one only in its last 20 ms.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float


class Failed(RuntimeError):
    """The measured process failed; its error output is in the message."""


def measure(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Cost:
    """Run a command and tell what it cost. What it prints is dropped.

    Args:
        command: program and arguments.
        cwd: where it runs.
        env: all of its environment; None for ours.

    Raises:
        Failed: its exit code is not 0.
    """
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=errors)
        peak, usage, status = 0, None, 0
        while usage is None:
            peak = max(peak, _memory(_family(process.pid)), _highest(process.pid))
            pid, status, found = os.wait4(process.pid, os.WNOHANG)
            if pid:
                usage = found
            else:
                time.sleep(_INTERVAL_S)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)  # it is waited for here, not by Popen
        if process.returncode:
            errors.seek(0)
            text = errors.read().decode(errors="replace")[-4000:]
            raise Failed(f"{' '.join(command)} ended with {process.returncode}:\n{text}")
    return Cost(round(wall, 2), round(usage.ru_utime + usage.ru_stime, 2), round(peak / _MB, 1))


def measure_call(function: Callable[[Path], None], work: Path) -> Cost:
    """Call ``function(work)`` in a fresh Python and tell what that cost.

    Args:
        function: of the top level of a module.
        work: its argument.

    Raises:
        Failed: it raised an error.
    """
    target = f"{function.__module__}:{function.__qualname__}"
    return measure([sys.executable, "-m", "benchmarks.measure", target, str(work)])


def _family(pid: int) -> list[int]:
    """A process and its descendants, as far as they are still there."""
    found, open_ones = [], [pid]
    while open_ones:
        one = open_ones.pop()
        found.append(one)
        tasks: list[str] = _read(f"/proc/{one}/task", os.listdir, [])
        for task in tasks:
            children = _read(f"/proc/{one}/task/{task}/children", _text, "")
            open_ones += map(int, children.split())
    return found


def _memory(pids: Sequence[int]) -> int:
    """Resident memory of processes in bytes. What several of them share counts once: a process that has just been
    forked holds nothing of its own."""
    if len(pids) == 1:
        fields = _read(f"/proc/{pids[0]}/statm", _text, "").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0
    texts = (_read(f"/proc/{pid}/smaps_rollup", _text, "") for pid in pids)
    lines = (line.split() for text in texts for line in text.splitlines() if line.startswith("Pss:"))
    return sum(int(kilobytes) * 1024 for _, kilobytes, *_ in lines)


def _highest(pid: int) -> int:
    """Largest resident memory so far of one process in bytes. The kernel's ``ru_maxrss`` counts that of the process
    from which it was forked, too."""
    lines = _read(f"/proc/{pid}/status", _text, "").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _read(path: str, read: Callable[[str], Result], ended: Result) -> Result:
    try:
        return read(path)
    except (FileNotFoundError, ProcessLookupError):
        return ended


def _text(path: str) -> str:
    return Path(path).read_text(encoding="ascii")


def record(folder: Path, stage: str, size: str, cost: Cost) -> None:
    """Add a measurement to the folder's ``results.jsonl``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / RESULTS_FILE).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"stage": stage, "size": size, **asdict(cost)}) + "\n")


def read_records(folder: Path) -> dict[tuple[str, str], Cost]:
    """The latest measurement of each stage and size, in the order in which they were first made."""
    found: dict[tuple[str, str], Cost] = {}
    for line in (folder / RESULTS_FILE).read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        key = fields.pop("stage"), fields.pop("size")
        found[key] = Cost(**fields)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Call MODULE:FUNCTION with a folder. For measure_call().")
    parser.add_argument("target")
    parser.add_argument("work", type=Path)
    arguments = parser.parse_args()
    module, _, name = arguments.target.partition(":")
    getattr(importlib.import_module(module), name)(arguments.work)


if __name__ == "__main__":
    main()
