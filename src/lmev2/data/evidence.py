"""Reading and checking ``evidence.jsonl``: per question its hops, each a list of alternative states."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lmev2.data.errors import Problems
from lmev2.data.haystacks import TrajectoryFacts
from lmev2.data.jsonl import JsonLine, JsonLinesFile
from lmev2.data.schema import EvidenceRecord, QuestionRecord, parse_record
from lmev2.data.tables import Evidence


def load_evidence(
    file: JsonLinesFile,
    questions: Mapping[str, QuestionRecord] | None,
    trajectories: Mapping[str, TrajectoryFacts] | None,
    broken_ids: Collection[str],
    problems: Problems,
    *,
    unknown_questions: bool = False,
    unknown_trajectories: bool = False,
) -> list[Evidence]:
    """Read evidence labels and check that they name known questions, trajectories of their domain, and states.

    Ids in ``broken_ids`` (of questions and trajectories) are known by a line that is a problem already. Questions or
    trajectories that are None, because their file is missing, are not looked up. With ``unknown_questions`` or
    ``unknown_trajectories`` their file has problems of lines whose ids cannot be made out: an id that is not found is
    no further problem.

    Raises:
        DataError: the limit of problems is reached.
    """
    found: dict[str, Evidence] = {}
    for line in file:
        record = parse_record(EvidenceRecord, line, problems)
        if record is None or record.question_id in broken_ids:
            continue
        if questions is not None and record.question_id not in questions and unknown_questions:
            continue
        known = broken_ids
        if unknown_trajectories and trajectories is not None:
            named = {name for hop in record.hops for name, _ in hop}
            known = {*broken_ids, *(named - trajectories.keys())}
        faults = _faults(record, questions, trajectories, known)
        if record.question_id in found:
            faults = ["the question has labels on an earlier line already, expected one line per question"]
        _report(faults, line, problems)
        hops = tuple(tuple(dict.fromkeys(hop)) for hop in record.hops)
        found.setdefault(record.question_id, Evidence(record.question_id, hops))
    return sorted(found.values(), key=lambda evidence: evidence.question_id)


def _faults(
    record: EvidenceRecord,
    questions: Mapping[str, QuestionRecord] | None,
    trajectories: Mapping[str, TrajectoryFacts] | None,
    broken_ids: Collection[str],
) -> list[str]:
    question = None if questions is None else questions.get(record.question_id)
    if questions is not None and question is None:
        return ["the question is not in questions.jsonl, expected one of its ids"]
    if trajectories is None:
        return []
    faults = []
    for number, hop in enumerate(record.hops):
        for name, state in hop:
            facts = trajectories.get(name)
            if name in broken_ids:
                continue
            if facts is None:
                faults.append(f"hop {number} names trajectory {name!r}, which is not in trajectories.jsonl")
            elif question is not None and facts.domain != question.domain:
                faults.append(
                    f"hop {number} names trajectory {name!r} of domain {facts.domain!r}, expected {question.domain!r}, "
                    "the question's domain"
                )
            elif state >= facts.state_count:
                faults.append(
                    f"hop {number} names state {state} of trajectory {name!r}, expected 0 to {facts.state_count - 1}"
                )
    return faults


def _report(faults: list[str], line: JsonLine, problems: Problems) -> None:
    for fault in faults:
        problems.add(fault, file=line.file, line=line.number, id=line.label)
