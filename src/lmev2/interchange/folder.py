"""Reading a run folder of the public harness, from anyone, and finding everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from lmev2.data.errors import DataError, Problems
from lmev2.data.jsonl import JsonLine
from lmev2.data.schema import Record, parse_record
from lmev2.files import file_sha256
from lmev2.interchange import layout
from lmev2.interchange.aggregate import USED_FIELDS
from lmev2.interchange.faults import record_faults, total_faults
from lmev2.interchange.jsonfiles import RecordLines, read_json
from lmev2.interchange.schema import Aggregated, QuestionResult, RunArgs, RuntimeQuestion
from lmev2.scoring.spec import ScorerSpecError, parse_eval_function

AnyRecord = TypeVar("AnyRecord", bound=Record)
_METHOD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # as in run_args.json


@dataclass
class RunFolder:
    """A run folder whose inputs are read; its records come one at a time from :meth:`records`.

    Attributes:
        path: the folder.
        args: ``run_args.json``; ``raw_args`` is the same as an object.
        method, tier: from ``run_args.json`` or the folder's name; None where neither says.
        questions: by id, in the order of the file.
        haystacks: trajectory ids by question id.
        aggregated: ``aggregated_metrics.json``; ``raw_aggregated`` is the same as an object.
        facts: what the metrics are made of, of the records read so far.
    """

    path: Path
    args: RunArgs
    raw_args: dict[str, Any]
    method: str | None
    tier: str | None
    questions: dict[str, RuntimeQuestion]
    haystacks: dict[str, list[str]]
    aggregated: Aggregated
    raw_aggregated: dict[str, Any]
    problems: Problems
    facts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def domain(self) -> str:
        """The run's domain."""
        return self.args.domain

    def sources(self) -> dict[str, str]:
        """SHA-256 of its files by path."""
        return {name: file_sha256(self.path / name) for name in layout.RUN_FILES}

    def records(self) -> Iterator[dict[str, Any]]:
        """The valid records, in the order of the file; what is wrong becomes a problem.

        Raises:
            DataError: after the last record, if there are problems: in a line, between records and questions, or
                between records and ``aggregated_metrics.json``.
        """
        self.facts = []
        lines: dict[str, int] = {}
        file = RecordLines(self.path, layout.RECORDS, "question", "question_id", self.problems, on_bytes=lambda _: None)
        for line in file:
            if line.id is not None and line.id in lines:
                self._add(f"the question stands on line {lines[line.id]} already, expected one record each", line)
                continue
            result = parse_record(QuestionResult, line, self.problems)
            if line.id is not None:
                lines[line.id] = line.number
            faults = [] if result is None else self._faults(result)
            for fault in faults:
                self._add(fault, line)
            if result is not None and not faults:
                self.facts.append({name: line.value.get(name) for name in (*USED_FIELDS, "error")})
                yield line.value
        missing = [name for name in self.questions if name not in lines and name not in file.broken_ids]
        if missing:
            text = f"no record of {len(missing)} of the {len(self.questions)} questions (first: {missing[0]!r})"
            self.problems.add(text, file=layout.RECORDS)
        if not len(self.problems):
            for name, text in total_faults(self.args, self.aggregated, self.facts, self.haystacks):
                self.problems.add(text, file=name)
        self.problems.raise_if_any()

    def _add(self, text: str, line: JsonLine) -> None:
        self.problems.add(text, file=line.file, line=line.number, id=line.label)

    def _faults(self, result: QuestionResult) -> list[str]:
        question = self.questions.get(result.question_id)
        if question is None:
            return [f"the question is not in {layout.QUESTIONS}"]
        return record_faults(result, question, self.haystacks.get(result.question_id))


def open_run(path: Path, limit: int = 20) -> RunFolder:
    """Read a run folder's inputs.

    Args:
        path: the folder.
        limit: problems to collect before giving up.

    Raises:
        DataError: the folder or a file of it is missing, or a file is not what it must be; names file and question.
    """
    problems = Problems(path, limit)
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; expected a run folder of the harness")
    for name in layout.RUN_FILES:
        if not (path / name).is_file():
            problems.add("no such file, expected in every finished run folder", file=name)
    problems.raise_if_any()
    raw_args, args = _read_object(RunArgs, path, layout.RUN_ARGS, problems)
    raw_aggregated, aggregated = _read_object(Aggregated, path, layout.AGGREGATED, problems)
    questions = _read_questions(path, problems)
    haystacks = _read_haystacks(path, questions, problems)
    if args is not None:
        for name, question in questions.items():
            if question.domain != args.domain:
                text = f"found domain {question.domain!r} in a run of domain {args.domain!r}"
                problems.add(text, file=layout.QUESTIONS, id=f"question {name!r}")
    method, tier = (None, None) if args is None else _identity(path, args, problems)
    problems.raise_if_any()
    assert args is not None and aggregated is not None  # else there were problems
    return RunFolder(path, args, raw_args, method, tier, questions, haystacks, aggregated, raw_aggregated, problems)


def _identity(path: Path, args: RunArgs, problems: Problems) -> tuple[str | None, str | None]:
    """Method and tier by ``run_args.json`` and by the folder's name, which must not contradict each other."""
    named = layout.parse_folder_name(path.resolve().name)
    if named is None:
        return args.method, args.tier
    for key, found, expected in zip(
        ("method", "domain", "tier"), (args.method, args.domain, args.tier), named, strict=True
    ):
        if found is not None and found != expected:
            text = f"{key} is {found!r}, but the folder's name says {expected!r}"
            problems.add(text, file=layout.RUN_ARGS)
    if args.method is None and _METHOD.fullmatch(named[0]) is None:
        text = f"the folder's name gives the method {named[0]!r}, which may hold only letters, digits, '.', '_' and '-'"
        problems.add(f"{text}, first a letter or digit; rename the folder", file=layout.RUN_ARGS)
    return args.method or named[0], args.tier or named[2]


def _read_object(
    model: type[AnyRecord], path: Path, name: str, problems: Problems
) -> tuple[dict[str, Any], AnyRecord | None]:
    before = len(problems)
    value = read_json(path, name, problems)
    if isinstance(value, dict):
        return value, parse_record(model, JsonLine(name, 0, "", None, value), problems)
    if len(problems) == before:  # null is JSON, too
        problems.add(f"found {type(value).__name__} {value!r:.60}, expected an object", file=name)
    return {}, None


def _read_questions(path: Path, problems: Problems) -> dict[str, RuntimeQuestion]:
    value = read_json(path, layout.QUESTIONS, problems)
    if not isinstance(value, list) or not value:
        problems.add(f"found {value!r:.60}, expected a list of questions", file=layout.QUESTIONS)
        return {}
    found: dict[str, RuntimeQuestion] = {}
    for number, item in enumerate(value):
        name = item.get("id") if isinstance(item, dict) else None
        label = f"question {name!r} (number {number})"
        if not isinstance(item, dict):
            problems.add(f"found {item!r:.60}, expected an object", file=layout.QUESTIONS, id=label)
            continue
        question = parse_record(RuntimeQuestion, JsonLine(layout.QUESTIONS, 0, label, None, item), problems)
        if question is None:
            continue
        if question.id in found:
            problems.add("the id stands there twice", file=layout.QUESTIONS, id=label)
        try:
            parse_eval_function(question.eval_function)
        except ScorerSpecError as error:
            problems.add(f"field 'eval_function': {error}", file=layout.QUESTIONS, id=label)
        found[question.id] = question
    return found


def _read_haystacks(path: Path, questions: Mapping[str, RuntimeQuestion], problems: Problems) -> dict[str, list[str]]:
    value = read_json(path, layout.HAYSTACK, problems)
    if not isinstance(value, dict):
        problems.add(f"found {value!r:.60}, expected lists of trajectory ids by question id", file=layout.HAYSTACK)
        return {}
    for name, ids in value.items():
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
            text = f"found {ids!r:.60}, expected a list of trajectory ids"
            problems.add(text, file=layout.HAYSTACK, id=f"question {name!r}")
    lacking, strange = questions.keys() - value.keys(), value.keys() - questions.keys()
    if questions and (lacking or strange):
        text = f"{len(lacking)} questions have no haystack and {len(strange)} haystacks no question"
        first = min(lacking or strange)
        problems.add(f"{text} (first: {first!r}); expected exactly the run's questions", file=layout.HAYSTACK)
    return value
