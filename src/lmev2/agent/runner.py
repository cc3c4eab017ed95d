"""Asking a coding agent: a fresh sandbox, up to so many attempts until there is a usable output, and a kept result.

An agent's run can cost minutes and money, so what it handed in is kept in the call cache under everything that the
agent could see and everything that can change what it does. Runs without a usable output are not kept.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmev2.agent.output import OutputError, remove_outputs
from lmev2.agent.scratch import scratch_folder
from lmev2.agent.types import Agent, AgentRun, Box, Mount, Task, Usage
from lmev2.files import StorageError
from lmev2.models.cache import CallCache
from lmev2.models.stopwatch import account, collect
from lmev2.models.text import well_formed

_log = logging.getLogger(__name__)
_NAMESPACE = "agent"
_DETAIL_CHARS = 300
_TRIES = ("attempts", "attempt_s")

Build = Callable[[Path], tuple[Task, Sequence[Mount]]]
Read = Callable[[Path], dict[str, Any]]


@dataclass(frozen=True)
class Attempt:
    """One attempt and what was wrong with it.

    Attributes:
        outcome: ``finished``, ``timeout`` or ``crashed``.
        fault: why its output cannot be used, as a named reason with its detail; None where it can.
        detail: why the agent did not finish.
        usage, commands, wall_s, events: as in :class:`~lmev2.agent.types.AgentRun`.
    """

    outcome: str
    fault: str | None
    detail: str | None
    usage: Usage
    commands: int
    wall_s: float
    events: tuple[Mapping[str, Any], ...] = ()

    def told(self) -> str:
        """What happened, for messages."""
        parts = [self.outcome if self.outcome != "finished" else "", self.detail or "", self.fault or ""]
        return ": ".join(filter(None, parts))[:_DETAIL_CHARS]


@dataclass(frozen=True)
class AgentResult:
    """What came of asking.

    Attributes:
        output: what was read of the output file; None when no attempt left a usable one.
        attempts: in order; the last one left the output.
        wall_s: seconds from the making of the sandbox to the output, as first measured, without waits for an endpoint.
        isolation: of the sandbox in which the agent worked when it first ran.
        replayed: from the cache.
    """

    output: dict[str, Any] | None
    attempts: tuple[Attempt, ...]
    wall_s: float
    isolation: str
    replayed: bool = False

    @property
    def usage(self) -> Usage:
        """Of all attempts together."""
        return sum((one.usage for one in self.attempts), Usage())

    def fault(self) -> str:
        """Why there is no output."""
        told = "; ".join(f"attempt {number}: {one.told()}" for number, one in enumerate(self.attempts, start=1))
        return f"no usable output in {len(self.attempts)} attempts: {told}"


def agent_identity(settings: Mapping[str, Any], code: str) -> dict[str, Any]:
    """All that can change what an agent does, besides what it sees: its role's settings and a hash of its code.

    How often and how long it may try is not part of it: what came of an attempt that was good enough stays good.
    """
    return {name: value for name, value in settings.items() if name not in _TRIES} | {"code": code}


class AgentRunner:
    """Asks an agent, or repeats what it answered before.

    Args:
        agent: the agent.
        identity: all that can change what it does, see :func:`agent_identity`.
        attempts: tries until there is a usable output.
        attempt_s: seconds of one attempt.
        isolation: of the sandboxes, to be told.
        open_box: makes a sandbox of a folder and its mounts.
        cache: keeps the results.
        check: looks for everything that a run needs; called once, before the first attempt that is really made, so that
            a run that finds all its results in the cache needs no program, endpoint or key.
    """

    def __init__(
        self,
        agent: Agent,
        identity: Mapping[str, Any],
        attempts: int,
        attempt_s: float,
        isolation: str,
        open_box: Callable[[Path, Sequence[Mount]], Box],
        cache: CallCache,
        check: Callable[[], None],
    ):
        self.agent = agent
        self._check, self._checked = check, False
        self._identity, self._attempts, self._attempt_s = dict(identity), attempts, attempt_s
        self._isolation, self._open_box, self._cache = isolation, open_box, cache

    def ask(self, shown: Mapping[str, Any], build: Build, read: Read) -> AgentResult:
        """Build a sandbox and let the agent work in it until ``read`` accepts its output.

        The call's ledger counts the time that it took when it first ran, without waits.

        Args:
            shown: what stands behind the sandbox's read-only mounts, for the key: such as the haystack's ids.
            build: fills an empty folder; the invocation and the mounts.
            read: the output as JSON values.

        Raises:
            ModelSetupError: the agent or its sandbox cannot run here.
            StorageError: the call cache cannot be written to.
        """
        with collect() as ledger, scratch_folder() as scratch:
            started = time.perf_counter()
            folder = scratch / "sandbox"
            folder.mkdir()
            task, mounts = build(folder)
            key = {"agent": self._identity, "shown": dict(shown), "prompt": task.prompt, "files": _digests(folder)}
            asked = time.perf_counter()
            with self._cache.only_one_across(_NAMESPACE, key, self._attempts * self._attempt_s):
                kept = self._cache.get_json(_NAMESPACE, key)
                if kept is not None:
                    result = _from_json(kept)
                    account(time.perf_counter() - started, result.wall_s)
                    return result
                account(time.perf_counter() - asked, 0.0)  # a wait for whoever failed at the same
                if not self._checked:
                    self._check()
                    self._checked = True
                attempts, output = self._try(self._open_box(folder, mounts), task, read)
                spent = time.perf_counter() - started
                result = AgentResult(
                    output, tuple(attempts), max(0.0, spent - ledger.spent_s + ledger.counted_s), self._isolation
                )
                if output is not None:
                    self._cache.put_json(_NAMESPACE, key, _as_json(result))
        return result

    def _try(self, box: Box, task: Task, read: Read) -> tuple[list[Attempt], dict[str, Any] | None]:
        attempts: list[Attempt] = []
        while len(attempts) < self._attempts:
            run = self._run(box, task)
            output, fault = None, None
            try:
                output = read(box.folder)
            except OutputError as error:
                fault = str(error)
            attempts.append(Attempt(run.outcome, fault, run.detail, run.usage, run.commands, run.wall_s, run.events))
            if output is not None:
                return attempts, output
            _log.warning("attempt %d of %d: %s", len(attempts), self._attempts, attempts[-1].told())
        return attempts, None

    def _run(self, box: Box, task: Task) -> AgentRun:
        """One attempt. What the agent did to the sandbox's folder, or to the disk, is a fault of the attempt alone."""
        began = time.perf_counter()
        try:
            remove_outputs(box.folder)
            return self.agent.run(box, task, self._attempt_s)
        except StorageError:  # of the call cache: the job's fault, in which no attempt can succeed
            raise
        except (OSError, RecursionError) as error:
            _log.warning("the sandbox %s cannot be used", box.folder, exc_info=True)
            words = error.strerror if isinstance(error, OSError) else None
            detail = f"the sandbox cannot be used: {type(error).__name__}: {words or error}"
            return AgentRun("crashed", detail, Usage(), 0, time.perf_counter() - began)


def write_trace(folder: Path, result: AgentResult) -> None:
    """Keep what an agent did: ``summary.json``, and per attempt ``attempt_N.events.jsonl.gz``; nothing of the haystack.

    Equal results make equal files, byte for byte.
    """
    folder.mkdir(parents=True, exist_ok=True)
    attempts = [{**asdict(one), "events": len(one.events)} for one in result.attempts]
    summary = {
        "wall_s": result.wall_s,
        "isolation": result.isolation,
        "usage": asdict(result.usage),
        "attempts": attempts,
        "output": result.output,
    }
    text = json.dumps(summary, indent=1, ensure_ascii=False, sort_keys=True)
    (folder / "summary.json").write_text(well_formed(text) + "\n", encoding="utf-8")
    for number, one in enumerate(result.attempts, start=1):
        (folder / f"attempt_{number}.events.jsonl.gz").write_bytes(_packed(one.events))


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a sandbox by its relative path."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _packed(events: Sequence[Mapping[str, Any]]) -> bytes:
    lines = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
    return gzip.compress(well_formed(lines).encode(), mtime=0)


def _as_json(result: AgentResult) -> dict[str, Any]:
    attempts = [
        {**asdict(one), "events": base64.b64encode(_packed(one.events)).decode("ascii")} for one in result.attempts
    ]
    return {
        "output": result.output,
        "wall_s": result.wall_s,
        "isolation": result.isolation,
        "attempts": attempts,
    }


def _from_json(value: Mapping[str, Any]) -> AgentResult:
    attempts = []
    for one in value["attempts"]:
        text = gzip.decompress(base64.b64decode(one["events"])).decode()
        events = tuple(json.loads(line) for line in text.split("\n") if line)
        attempts.append(Attempt(**{**one, "usage": Usage(**one["usage"]), "events": events}))
    return AgentResult(value["output"], tuple(attempts), value["wall_s"], value["isolation"], replayed=True)
