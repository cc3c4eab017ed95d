"""Reading and checking ``questions.jsonl``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from lmev2.data.errors import Problems
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.layout import QUESTIONS_FILE, path_fault
from lmev2.data.manifest import QuestionCounts
from lmev2.data.schema import ABSTENTION_SUFFIX, CATEGORIES, QuestionRecord, parse_record
from lmev2.scoring.spec import ScorerSpecError, parse_eval_function


def load_questions(file: JsonLinesFile, root: Path, problems: Problems) -> dict[str, QuestionRecord]:
    """Read questions by id, and check fields, scorer, image and that no id occurs twice.

    Lines that do not fit become problems and are left out; their ids are added to ``file.broken_ids``.

    Raises:
        DataError: the limit of problems is reached.
    """
    questions: dict[str, QuestionRecord] = {}
    lines: dict[str, int] = {}
    for line in file:
        question = parse_record(QuestionRecord, line, problems)
        if question is None:
            file.broken_ids.update(filter(None, [line.id]))
            continue
        if question.id in questions:
            text = f"the id stands on line {lines[question.id]} already, expected unique ids"
            problems.add(text, file=line.file, line=line.number, id=line.label)
            continue
        for fault in (_scorer_fault(question), _image_fault(question, root)):
            if fault is not None:
                problems.add(fault, file=line.file, line=line.number, id=line.label)
        questions[question.id] = question
        lines[question.id] = line.number
    if not questions and not len(problems):
        problems.add("found no question, expected at least one", file=QUESTIONS_FILE)
    return questions


def _scorer_fault(question: QuestionRecord) -> str | None:
    try:
        spec = parse_eval_function(question.eval_function)
    except ScorerSpecError as error:
        return f"field 'eval_function': {error}"
    if spec.name == "llm_abstention_checker" and not question.question_type.endswith(ABSTENTION_SUFFIX):
        return (
            f"field 'eval_function': found scorer {spec.name} on question type {question.question_type!r}, expected it "
            f"only on types that end in {ABSTENTION_SUFFIX!r}"
        )
    return None


def _image_fault(question: QuestionRecord, root: Path) -> str | None:
    if question.image is None:
        return None
    fault = path_fault(question.image)
    if fault is not None:
        return f"field 'image': {fault}"
    if not (root / question.image).is_file():
        return f"field 'image': found no file {root / question.image}, expected the question's image there"
    return None


def count_questions(questions: Mapping[str, QuestionRecord]) -> QuestionCounts:
    """Count questions by kind; keys are sorted."""

    def count(values: list[str]) -> dict[str, int]:
        return dict(sorted(Counter(values).items()))

    records = list(questions.values())
    return QuestionCounts(
        total=len(records),
        by_domain=count([question.domain for question in records]),
        by_question_type=count([question.question_type for question in records]),
        by_category=count([CATEGORIES[question.question_type] for question in records]),
        by_scorer=count([parse_eval_function(question.eval_function).name for question in records]),
        with_image=sum(question.image is not None for question in records),
    )
