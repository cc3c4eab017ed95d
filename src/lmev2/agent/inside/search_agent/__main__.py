"""Works in the current folder: reads question and instruction, and writes ``memory_module_output.json``."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any

from .choose import Span, choose
from .files import Opened, open_trajectory, read_candidates
from .question import Question, analyse
from .rank import Scored, rank_candidates, score_states
from .report import Evidence, write_report

QUESTION_FILE = "question.json"
INSTRUCTION_FILE = "INSTRUCTION.md"
OUTPUT_FILE = "memory_module_output.json"
WORKFLOW_HEADING = "## Workflow instruction"
_SHORTLIST = 8
_STATES = 20  # where the instruction does not say
_BLIND = 3
_LIMIT = re.compile(r"at most (\d+) states in total")
_ORIGIN = re.compile(r"\w+://([^/?#\s]*)")
_SECONDS = 120.0  # after that no further trajectory is opened


def emit(event: str, **fields: Any) -> None:
    """One event of the trace, as a JSON line on standard output."""
    if isinstance(fields.get("seconds"), float):
        fields["seconds"] = round(fields["seconds"], 3)
    print(json.dumps({"type": event, **fields}), flush=True)


def main() -> int:
    """Look for the evidence and write it down; the exit code."""
    with open(QUESTION_FILE, encoding="utf-8") as stream:
        asked = json.load(stream)
    with open(INSTRUCTION_FILE, encoding="utf-8") as stream:
        instruction = stream.read()
    has_workflow = WORKFLOW_HEADING in instruction
    limit = _LIMIT.search(instruction)
    question = analyse(str(asked["question"]), bool(asked.get("image")))
    emit("decision", what="question", kind=question.kind, words=question.strong, workflow=has_workflow)
    ranked = rank_candidates(question, read_candidates(emit))
    shortlist = ranked[:_SHORTLIST]
    emit("decision", what="shortlist", trajectories=[each.trajectory_id for each, _ in shortlist], of=len(ranked))
    opened = open_all(question, [each.trajectory_id for each, _ in shortlist])
    triage = {each.trajectory_id: score for each, score in shortlist}
    scored = rank(question, opened, triage, has_workflow)
    counts = {trajectory_id: each.count for trajectory_id, each in opened.items()}
    families = {each.trajectory_id: origin(each.start_url) for each, _ in shortlist}
    kind = question.kind if has_workflow else None
    spans = choose(kind, scored, counts, families, int(limit[1]) if limit else _STATES)
    if not spans:  # the question has no word that any trajectory has: better the likeliest runs' starts than nothing
        spans = [Span(each.trajectory_id, 0, 0) for each, _ in shortlist[:_BLIND]]
    emit("decision", what="spans", spans=[[each.trajectory_id, each.first, each.last] for each in spans])
    evidence = Evidence(question, spans, scored, {each.trajectory_id: each for each, _ in ranked}, opened)
    output = {
        "memory_markdown": write_report(evidence),
        "trajectory_spans": [
            {"trajectory_id": each.trajectory_id, "start_state_index": each.first, "end_state_index": each.last}
            for each in spans
        ],
    }
    with open(OUTPUT_FILE, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(output, ensure_ascii=True, indent=1) + "\n")
    return 0


def open_all(question: Question, shortlist: list[str]) -> dict[str, Opened]:
    """What was found in each trajectory of the shortlist; none of those for which there is no time."""
    started = time.monotonic()
    opened: dict[str, Opened] = {}
    for trajectory_id in shortlist:
        if time.monotonic() - started > _SECONDS:
            emit("decision", what="out of time", left=shortlist[len(opened) :])
            break
        found = open_trajectory(trajectory_id, question.strong, emit) if question.strong else Opened(0, [])
        if found.count:
            opened[trajectory_id] = found
    return opened


def origin(url: str) -> str:
    """Host and port of an address: runs that begin there are of one workflow family."""
    match = _ORIGIN.match(url)
    return match[1] if match else ""


def rank(question: Question, opened: dict[str, Opened], triage: dict[str, float], by_sides: bool) -> list[list[Scored]]:
    """States, best first: one ranking for the question, or one per side of a comparison and one for the whole."""
    states = [state for each in opened.values() for state in each.states]
    total = sum(each.count for each in opened.values())
    word_sets = [*(question.sides if by_sides else ()), question.weights]
    return [score_states(weights, question, states, total, triage) for weights in word_sets]


if __name__ == "__main__":
    sys.exit(main())
