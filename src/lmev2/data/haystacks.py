"""Reading and checking ``haystacks/lme_v2_{tier}.json``: per question the ordered ids of its trajectories."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmev2.data.errors import Problems, shown
from lmev2.data.layout import haystack_file
from lmev2.data.manifest import InputFile, TierCounts
from lmev2.data.schema import QuestionRecord


@dataclass(frozen=True)
class TrajectoryFacts:
    """What other files are checked against."""

    domain: str
    state_count: int


@dataclass(frozen=True)
class Haystacks:
    """The haystacks of one tier.

    Attributes:
        file: path below the data root.
        raw: the file's bytes, to find the line of a problem.
        lists: ordered trajectory ids by question id, for the known questions.
        other_entries: entries of questions that ``questions.jsonl`` does not hold.
    """

    tier: str
    file: str
    raw: bytes
    lists: Mapping[str, tuple[str, ...]]
    other_entries: int

    def line_of(self, question_id: str, trajectory_id: str | None = None) -> int | None:
        """Line of a question's entry, or of a trajectory in it; None when it cannot be made out."""
        entry = re.search(re.escape(json.dumps(question_id)).encode() + rb"\s*:", self.raw)
        if entry is None:
            return None
        position = entry.start()
        if trajectory_id is not None:
            found = self.raw.find(json.dumps(trajectory_id).encode(), entry.end())
            position = found if found >= 0 else position
        return self.raw.count(b"\n", 0, position) + 1


def read_haystacks(
    root: Path,
    tier: str,
    questions: Mapping[str, QuestionRecord],
    problems: Problems,
    broken_ids: Collection[str] = (),
) -> tuple[Haystacks, InputFile]:
    """Read a tier's haystacks and check their form: an object of non-empty lists of ids, one for each question.

    Entries that do not fit become problems and are left out. Questions in ``broken_ids`` are known by a line that is a
    problem already: their entries are not counted as those of other questions.

    Raises:
        DataError: the limit of problems is reached.
    """
    file = haystack_file(tier)
    raw = (root / file).read_bytes()
    facts = InputFile(sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw))
    pairs = _parse(raw, file, problems)
    if pairs is None:
        return Haystacks(tier, file, raw, {}, 0), facts
    plain = Haystacks(tier, file, raw, {}, 0)
    lists: dict[str, tuple[str, ...]] = {}
    seen: set[str] = set()
    for question_id, value in pairs:
        fault = "the question has two entries, expected one" if question_id in seen else _form_fault(value)
        seen.add(question_id)
        if question_id not in questions:
            continue
        if fault is not None:
            problems.add(fault, file=file, line=plain.line_of(question_id), id=f"question {question_id!r}")
        else:
            lists[question_id] = tuple(value)
    for question_id in sorted(questions.keys() - seen):
        problems.add("found no entry, expected a list of trajectory ids", file=file, id=f"question {question_id!r}")
    return Haystacks(tier, file, raw, lists, len(seen - questions.keys() - set(broken_ids))), facts


def _parse(raw: bytes, file: str, problems: Problems) -> list[tuple[str, Any]] | None:
    """Entries in order, repeated keys included; None when the file holds no JSON object."""
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        problems.add(f"found malformed JSON ({error}), expected one JSON object", file=file, line=line)
        return None
    if not isinstance(value, _Pairs):
        text = f"found {type(value).__name__}, expected an object: question id -> list of trajectory ids"
        problems.add(text, file=file, line=1)
        return None
    return value


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs."""


def _form_fault(value: Any) -> str | None:
    if isinstance(value, _Pairs) or not isinstance(value, list):
        found = "object" if isinstance(value, _Pairs) else f"{type(value).__name__} {shown(value, 60)}"
        return f"found {found}, expected a list of trajectory ids"
    if not value:
        return "found an empty list, expected at least one trajectory id"
    wrong = next((item for item in value if not isinstance(item, str)), None)
    if any(not isinstance(item, str) for item in value):
        return f"found {type(wrong).__name__} {shown(wrong, 60)} in the list, expected trajectory ids"
    return None


def check_haystacks(
    haystacks: Haystacks,
    questions: Mapping[str, QuestionRecord],
    trajectories: Mapping[str, TrajectoryFacts] | None,
    broken_ids: Collection[str],
    problems: Problems,
    *,
    unknown_trajectories: bool = False,
) -> None:
    """Check that every list names known trajectories of its question's domain, none twice.

    A trajectory that is wrong for many questions is one problem. Trajectories in ``broken_ids`` are known by a line
    that is a problem already. If ``trajectories`` is None, because their file is missing, they are not looked up. With
    ``unknown_trajectories`` that file has problems of lines whose ids cannot be made out: an id that is not found is no
    further problem.

    Raises:
        DataError: the limit of problems is reached.
    """
    known = trajectories or {}
    by_domain = {domain: _ids_of_domain(known, domain) for domain in {q.domain for q in questions.values()}}
    faults: dict[tuple[str, str], list[str]] = {}
    for question_id, names in haystacks.lists.items():
        distinct = set(names)
        domain = questions[question_id].domain
        allowed = distinct if trajectories is None else by_domain[domain]
        if len(distinct) == len(names) and distinct <= allowed:
            continue
        for name in sorted(distinct - allowed - set(broken_ids)):
            other = known.get(name)
            if other is None and unknown_trajectories:
                continue
            text = (
                "the trajectory is not in trajectories.jsonl, expected one of its ids"
                if other is None
                else f"the trajectory is of domain {other.domain!r}, expected the question's domain {domain!r}"
            )
            faults.setdefault((name, text), []).append(question_id)
        for name in sorted(name for name, count in Counter(names).items() if count > 1):
            text = "the trajectory stands in the list twice, expected it once"
            faults.setdefault((name, text), []).append(question_id)
    for (name, text), affected in faults.items():
        more = f" (and in the lists of {len(affected) - 1} more questions)" if len(affected) > 1 else ""
        place = f"question {affected[0]!r}, trajectory {name!r}"
        problems.add(text + more, file=haystacks.file, line=haystacks.line_of(affected[0], name), id=place)


def _ids_of_domain(trajectories: Mapping[str, TrajectoryFacts], domain: str) -> set[str]:
    return {name for name, facts in trajectories.items() if facts.domain == domain}


def count_haystacks(haystacks: Haystacks) -> TierCounts:
    """Numbers of a tier's haystacks, which must not be empty."""
    lengths = [len(names) for names in haystacks.lists.values()]
    return TierCounts(
        questions=len(lengths),
        distinct_lists=len(set(haystacks.lists.values())),
        trajectories=len({name for names in haystacks.lists.values() for name in names}),
        shortest=min(lengths),
        longest=max(lengths),
        mean_length=sum(lengths) / len(lengths),
        entries_of_other_questions=haystacks.other_entries,
    )
