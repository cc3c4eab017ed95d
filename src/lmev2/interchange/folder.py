"""Reading a run folder of the public harness, from anyone, and finding everything that is wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lmev2.data.errors import DataError, Problems
from lmev2.data.jsonl import JsonLine, JsonLinesFile
from lmev2.data.schema import Record, parse_record
from lmev2.files import file_sha256
from lmev2.interchange import layout
from lmev2.interchange.aggregate import USED_FIELDS, aggregate
from lmev2.interchange.schema import Aggregated, QuestionResult, RunArgs, RuntimeQuestion
from lmev2.scoring.spec import ScorerSpecError, parse_eval_function

AnyRecord = TypeVar("AnyRecord", bound=Record)
_TOLERANCE = 1e-6  # of means: libraries add floats in different orders


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
        file = JsonLinesFile(
            self.path, layout.RECORDS, "question", "question_id", self.problems, on_bytes=lambda _: None
        )
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
            self._check_totals()
        self.problems.raise_if_any()

    def _add(self, text: str, line: JsonLine) -> None:
        self.problems.add(text, file=line.file, line=line.number, id=line.label)

    def _faults(self, result: QuestionResult) -> list[str]:
        question = self.questions.get(result.question_id)
        if question is None:
            return [f"the question is not in {layout.QUESTIONS}"]
        pairs = {
            "question_type": (result.question_type, question.question_type),
            "category": (result.category, layout.HARNESS_CATEGORIES[question.question_type]),
            "eval_function": (result.eval_function, question.eval_function),
            "question_text": (result.question_text, question.text),
            "answer_gold": (result.answer_gold, question.answer),
            "haystack_ids": (result.haystack_ids, self.haystacks.get(result.question_id)),
            "is_abstention_problem": (result.is_abstention_problem, _is_flawed(question)),
        }
        faults = [
            f"field {name!r}: found {found!r:.80}, expected {expected!r:.80} as in the run's inputs"
            for name, (found, expected) in pairs.items()
            if found != expected
        ]
        return faults + _score_faults(result) + _context_faults(result)

    def _check_totals(self) -> None:
        """Compare ``aggregated_metrics.json`` with the records."""
        expected = Aggregated.model_validate(aggregate(self.facts, self.haystacks))
        found = self.aggregated
        pairs: dict[str, tuple[Any, Any]] = {
            f"overall.{name}": (getattr(found.overall, name), value) for name, value in expected.overall
        }
        pairs |= {
            f"abstention_overall.{name}": (getattr(found.abstention_overall, name), value)
            for name, value in expected.abstention_overall
        }
        for section in ("non_abstention_by_category", "abstention_by_category", "combined_abstention_by_category"):
            for name, cell in getattr(expected, section).items():
                own = getattr(found, section).get(name)
                pairs |= {f"{section}.{name}.{key}": (getattr(own, key, None), value) for key, value in cell}
        pairs["memory_query.avg_seconds"] = (found.memory_query.avg_seconds, expected.memory_query.avg_seconds)
        for place, (value, counted) in pairs.items():
            if not _agree(value, counted):
                text = f"{place} is {value}, but the records give {counted}"
                self.problems.add(text, file=layout.AGGREGATED)


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
    return args.method or named[0], args.tier or named[2]


def _read_json(path: Path, name: str, problems: Problems) -> Any:
    try:
        return json.loads((path / name).read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        problems.add(f"not readable as JSON ({error})", file=name)
        return None


def _read_object(
    model: type[AnyRecord], path: Path, name: str, problems: Problems
) -> tuple[dict[str, Any], AnyRecord | None]:
    value = _read_json(path, name, problems)
    if isinstance(value, dict):
        return value, parse_record(model, JsonLine(name, 0, "", None, value), problems)
    if value is not None:
        problems.add(f"found {type(value).__name__} {value!r:.60}, expected an object", file=name)
    return {}, None


def _read_questions(path: Path, problems: Problems) -> dict[str, RuntimeQuestion]:
    value = _read_json(path, layout.QUESTIONS, problems)
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
    value = _read_json(path, layout.HAYSTACK, problems)
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


def _is_flawed(question: RuntimeQuestion) -> bool:
    return parse_eval_function(question.eval_function).name == "llm_abstention_checker"


def _score_faults(result: QuestionResult) -> list[str]:
    score, error = result.score, result.error
    if score is None or error is not None:
        if score is not None or result.score_bool is not None or error is None:
            return [f"found score {score} and error {error!r}, expected a score, or else an error and no score"]
        return []
    if score not in (0, 1):
        return [f"field 'score': found {score}, expected 0 or 1"]
    if result.score_bool is not bool(score):
        return [f"score is {score}, but score_bool is {result.score_bool}"]
    if score and result.is_unknown:
        return ["score is 1, but the answer is UNKNOWN, which is always wrong"]
    return []


def _context_faults(result: QuestionResult) -> list[str]:
    faults = []
    if result.memory_query_duration_seconds is None and result.error is None:
        faults.append(
            "field 'memory_query_duration_seconds': found null, expected seconds in a record without an error"
        )
    if result.memory_context_token_count > result.memory_context_original_token_count:
        faults.append("the context has more tokens after truncation than before")
    if result.lmev2 is not None:
        told = len(result.lmev2.items)
        items = len(result.memory_context) + len(result.lmev2.dropped_items)
        if told != items:
            faults.append(f"field 'lmev2.items': describes {told} items, but there are {items}")
    return faults


def _agree(found: Any, expected: Any) -> bool:
    if found is None or expected is None:
        return found is expected
    return math.isclose(found, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
