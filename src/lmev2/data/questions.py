"""Reading and checking ``questions.jsonl``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from lmev2.data.errors import Problems
from lmev2.data.images import KINDS, image_fault
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.layout import QUESTIONS_FILE, length_fault, path_fault
from lmev2.data.manifest import QuestionCounts
from lmev2.data.schema import ABSTENTION_SUFFIX, CATEGORIES, QuestionRecord, parse_record
from lmev2.scoring.scorers import gold_phrases, mc_choice_set_match
from lmev2.scoring.spec import ScorerSpec, ScorerSpecError, parse_eval_function


def load_questions(file: JsonLinesFile, root: Path, problems: Problems) -> dict[str, QuestionRecord]:
    """Read questions by id, and check fields, scorer, answer, image and that no id occurs twice.

    Lines that do not fit become problems and are left out; ``file.broken_ids`` and ``file.nameless`` tell of them.

    Raises:
        DataError: the limit of problems is reached.
    """
    questions: dict[str, QuestionRecord] = {}
    lines: dict[str, int] = {}
    for line in file:
        question = parse_record(QuestionRecord, line, problems)
        if question is None:
            file.add_broken(line.id)
            continue
        if question.id in questions:
            text = f"the id stands on line {lines[question.id]} already, expected unique ids"
            problems.add(text, file=line.file, line=line.number, id=line.label)
            file.add_broken(line.id)
            continue
        for fault in (_scorer_fault(question), _image_fault(question, root)):
            if fault is not None:
                problems.add(fault, file=line.file, line=line.number, id=line.label)
        questions[question.id] = question
        lines[question.id] = line.number
    if not questions and not len(problems):
        file.nameless = True
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
    if spec.require_non_empty and _is_empty(question.answer, spec):
        return (
            f"field 'answer': found {question.answer!r:.80}, in which scorer {spec.name} finds nothing to compare, so "
            "that no reply could be right; expected an answer, or the scorer's option require_non_empty=false"
        )
    return None


def _is_empty(answer: str, spec: ScorerSpec) -> bool:
    if spec.is_phrase:
        return not gold_phrases(answer, spec)
    if spec.name == "mc_choice_set_match":  # an answer without letters does not even match itself
        return not mc_choice_set_match(answer, answer, spec)
    return not answer.strip()


def _image_fault(question: QuestionRecord, root: Path) -> str | None:
    if question.image is None:
        return None
    fault = path_fault(question.image) or length_fault(question.image)
    if fault is not None:
        return f"field 'image': {fault}"
    if not (root / question.image).is_file():
        return f"field 'image': found no file {root / question.image}, expected the question's image there"
    broken = image_fault(root / question.image)
    return None if broken is None else f"field 'image': found {question.image}, which {broken}, expected {KINDS}"


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
