"""The rule-based coding agent: works in the sandbox with the files and the helper that others have, without a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from lmev2.agent.types import AgentRun, Box, Mount, Task, Usage
from lmev2.models.types import ModelSetupError

PROGRAM: Final = Path(__file__).parent / "inside" / "search_agent"
_MOUNT: Final = Mount(PROGRAM, "/agent/search_agent")
_OUTPUT_CHARS = 2_000_000
_ERROR_CHARS = 500


class SearchAgent:
    """See :class:`~lmev2.agent.types.Agent`. It writes memory outputs only: it has no model that could answer."""

    name = "search"
    model = "rules"

    def check(self) -> None:
        """See :class:`~lmev2.agent.types.Agent`."""
        if not (PROGRAM / "__main__.py").is_file():
            raise ModelSetupError(f"found no program of agent 'search' in {PROGRAM}: install the package again")

    def run(self, box: Box, task: Task, timeout_s: float) -> AgentRun:
        """See :class:`~lmev2.agent.types.Agent`."""
        folder = PurePosixPath(box.path_inside(_MOUNT)).parent
        execution = box.execute(
            # Nothing of the sandbox's folder is imported, and no byte code is written beside the program.
            ["python", "-B", "-P", "-m", PROGRAM.name],
            timeout_s,
            variables={"PYTHONPATH": str(folder)},
            mounts=[_MOUNT],
            output_chars=_OUTPUT_CHARS,
        )
        events = read_events(execution.stdout)
        commands = sum(event["type"] == "command" for event in events)
        common = {"usage": Usage(), "commands": commands, "wall_s": execution.wall_s, "events": events}
        if execution.timed_out:
            return AgentRun(outcome="timeout", detail=f"not finished after {timeout_s:g} s", **common)
        if execution.returncode != 0:
            words = execution.stderr.strip()[-_ERROR_CHARS:]
            detail = f"exit code {execution.returncode}: {words or 'it said nothing'}"
            return AgentRun(outcome="crashed", detail=detail, **common)
        return AgentRun(outcome="finished", detail=None, **common)


def read_events(text: str) -> tuple[Mapping[str, Any], ...]:
    """The events of a run, one JSON object a line; any other line is kept as an event of type ``output``."""
    return tuple(_read_event(line) for line in text.split("\n") if line.strip())


def _read_event(line: str) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else {"type": "output", "text": line}
