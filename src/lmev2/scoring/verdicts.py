"""Verdicts of further judges on answers that have a score: they stand beside it and never change it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lmev2.scoring.score import Judge, Progress, Row, ScoreInputError, decide, in_threads, needs_judge
from lmev2.scoring.spec import ScorerName, parse_eval_function

Task = tuple[Row, Row, ScorerName]  # answer, question, scorer


def verdict_rows(
    answers: Iterable[Row],
    questions: Iterable[Row],
    name: str,
    judge: Judge,
    concurrency: int = 1,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """What a further judge says of the answers that the run's own judge is asked about, and of no others.

    Args:
        answers, questions: rows by their contracts in :mod:`lmev2.rows`.
        name: of the judge in the configuration.
        judge: with its prompts, those of the run's own judge.
        concurrency: judge calls at once.
        progress: called with the numbers of rows done and in all.

    Returns:
        Rows by the verdict contract, in the order of the answers. A judge that gives no verdict makes an error row.

    Raises:
        ScoreInputError: an answer without its question; before any call.
        ScorerSpecError: a question's scorer spec is malformed.
    """
    tasks = _tasks(answers, questions)
    rows: list[dict[str, Any]] = [{} for _ in tasks]
    for done, (number, row) in enumerate(in_threads(lambda task: _verdict(*task, name, judge), tasks, concurrency), 1):
        rows[number] = row
        if progress is not None:
            progress(done, len(tasks))
    return rows


def _tasks(answers: Iterable[Row], questions: Iterable[Row]) -> list[Task]:
    by_id = {question["question_id"]: question for question in questions}
    tasks: list[Task] = []
    for answer in answers:
        question = by_id.get(answer["question_id"])
        if question is None:
            raise ScoreInputError(f"an answer names question {answer['question_id']!r}, which is unknown")
        spec = parse_eval_function(question["eval_function"])
        if needs_judge(answer, question, spec):
            tasks.append((answer, question, spec.name))
    return tasks


def _verdict(answer: Row, question: Row, scorer: ScorerName, name: str, judge: Judge) -> dict[str, Any]:
    decision = decide(answer, question, scorer, judge)
    return {
        "question_id": answer["question_id"],
        "method": answer["method"],
        "tier": answer["tier"],
        "scorer": scorer,
        "judge": name,
        "labels": list(decision.labels),
        "label": decision.label,
        "reason": decision.reason,
        "error": "judge_error" if decision.label is None else None,
        "error_detail": decision.detail,
    }
