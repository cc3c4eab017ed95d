"""A coding agent answers from the files of the oracle trajectories (paper, Table 8)."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lmev2.agent.output import read_answer
from lmev2.agent.package import build_oracle_package
from lmev2.agent.runner import AgentResult, AgentRunner, write_trace
from lmev2.agent.types import Agent, Mount, Task
from lmev2.memory.agent import Files, run_row
from lmev2.pilots.contexts import TIER
from lmev2.pilots.oracle import Oracle
from lmev2.pilots.settings import FILES
from lmev2.progress import Report
from lmev2.scoring.boxed import is_unknown, parse_prediction

_log = logging.getLogger(__name__)
AGENT_ERROR: Final = "agent_error"  # error kind of a question that no attempt answered


def file_answers(
    questions: Sequence[Mapping[str, Any]],
    oracle: Mapping[str, Oracle],
    contexts: Mapping[str, Mapping[str, Any]],
    runner: AgentRunner,
    files: Files,
    traces: Path,
    report: Report,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Answer rows of the questions, in order, and what the agent did for each.

    A question that no attempt answered has the error kind ``agent_error``.

    Args:
        questions: question rows.
        oracle: evidence by question id; only its trajectories go into the sandbox.
        contexts: context rows by question id, of what lies in the packages.
        runner: asks the agent.
        files: what sandboxes are made of.
        traces: folder of the traces, emptied first; gets a folder per question.
        report: progress callback.

    Raises:
        ModelSetupError: the agent or its sandbox cannot run here.
    """
    shutil.rmtree(traces, ignore_errors=True)
    answers, runs = [], []
    for done, question in enumerate(questions, start=1):
        name = question["question_id"]
        result = _ask(question, oracle[name], runner, files)
        write_trace(traces / name, result)
        answers.append(_answer_row(contexts[name], result, runner.agent))
        runs.append(run_row(result, runner.agent.name, runner.agent.model, name, FILES, TIER))
        _log.info("question %s: %s in %.1f s", name, "answered" if result.output else result.fault(), result.wall_s)
        report(done, len(questions))
    return answers, runs


def _ask(question: Mapping[str, Any], oracle: Oracle, runner: AgentRunner, files: Files) -> AgentResult:
    trajectories = oracle.trajectories

    def build(folder: Path) -> tuple[Task, Sequence[Mount]]:
        return build_oracle_package(
            folder,
            question=question["question"],
            image=Path(question["image"]) if question["image"] else None,
            oracle=trajectories,
            find_trajectory=files.folders.__getitem__,
            prompts=files.prompts,
        )

    return runner.ask(files.shown(trajectories), build, lambda folder: {"answer": read_answer(folder)})


def _answer_row(context: Mapping[str, Any], result: AgentResult, agent: Agent) -> dict[str, Any]:
    reply = result.output["answer"] if result.output else ""
    parsed = parse_prediction(reply)
    usage = result.usage
    return {
        "question_id": context["question_id"],
        "method": context["method"],
        "tier": context["tier"],
        "reply": reply,
        "parsed": parsed,
        "unknown": result.output is not None and is_unknown(parsed),
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        # Files are not put into a context; the agent reads of them what it likes.
        "context_tokens_before": 0,
        "context_tokens": 0,
        "items_before": len(context["items"]),
        "items_dropped": 0,
        "images_shown": True,
        "images_left_out": 0,
        "wall_s": result.wall_s,
        "model": agent.model,
        "finish_reason": "stop" if result.output else None,
        "error": None if result.output else AGENT_ERROR,
        "error_detail": None if result.output else result.fault(),
    }
