"""Score rows: one for every answer, from the scorer or the judge that its question names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeVar

from lmev2.models.settings import ChatSettings
from lmev2.models.types import ChatBackend
from lmev2.prompts import Prompt
from lmev2.scoring.judge import Decision, judge_repeatedly
from lmev2.scoring.scorers import gold_supported, score_prediction
from lmev2.scoring.spec import ScorerName, ScorerSpec, parse_eval_function

Row = Mapping[str, Any]
State = tuple[str, int]  # trajectory id, state index
Hop = Collection[State]
Key = tuple[str, str, str]  # question id, method, tier
Progress = Callable[[int, int], None]
T = TypeVar("T")
R = TypeVar("R")


class ScoreInputError(ValueError):
    """Answers, questions and contexts that do not belong together."""


@dataclass(frozen=True)
class Judge:
    """All that a judge call needs.

    Attributes:
        chat: the judge's backend.
        prompts: the prompt of each judge scorer, by scorer name.
        settings: sampling and reasoning settings.
        attempts: calls for one verdict while replies have no usable label.
        repeats: verdicts on each answer, of which the majority decides.
    """

    chat: ChatBackend
    prompts: Mapping[ScorerName, Prompt]
    settings: ChatSettings
    attempts: int = 3
    repeats: int = 1


@dataclass(frozen=True)
class _Case:
    """An answer with all that its score depends on."""

    answer: Row
    question: Row
    spec: ScorerSpec
    facts: dict[str, bool | None]  # evidence coverage and gold support


def evidence_covered(hops: Collection[Hop], shown_states: Collection[State]) -> bool | None:
    """Whether a context covers a question's evidence: each hop has at least one state among those shown.

    None when the question has no hops, that is, no labels.
    """
    if not hops:
        return None
    shown = set(shown_states)
    return all(not shown.isdisjoint(hop) for hop in hops)


def group_evidence(evidence: Iterable[Row]) -> dict[str, list[set[State]]]:
    """Evidence rows as hops by question id."""
    hops: dict[str, dict[int, set[State]]] = {}
    for row in evidence:
        hop = hops.setdefault(row["question_id"], {}).setdefault(row["hop"], set())
        hop.add((row["trajectory_id"], row["state_index"]))
    return {question: list(by_number.values()) for question, by_number in hops.items()}


def score_rows(
    answers: Iterable[Row],
    questions: Iterable[Row],
    contexts: Iterable[Row],
    evidence: Iterable[Row],
    judge: Judge | None,
    concurrency: int = 1,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Score answers.

    An answer with an error keeps its error kind and has no score. ``UNKNOWN`` is always wrong and costs no judge call.
    A judge that gives no verdict makes an error row. Evidence coverage and gold support never change a score.

    Args:
        answers, questions, contexts, evidence: rows by their contracts in :mod:`lmev2.rows`; contexts are read one at
            a time, evidence may be empty.
        judge: may be None when no answer needs one.
        concurrency: judge calls at once.
        progress: called with the numbers of rows done and in all.

    Returns:
        Rows by the score contract, in the order of the answers.

    Raises:
        ScoreInputError: an answer without its question or context, repeated rows, a context that is not the one the
            answer was read from, or a judged question without a judge; before any judge call.
        ScorerSpecError: a question's scorer spec is malformed.
    """
    cases = _gather_cases(answers, questions, contexts, evidence)
    _require_judge(cases, judge)
    rows: list[dict[str, Any] | None] = [None] * len(cases)
    done = 0

    def finish(index: int, row: dict[str, Any]) -> None:
        nonlocal done
        rows[index] = row
        done += 1
        if progress is not None:
            progress(done, len(cases))

    judged: list[int] = []
    for index, case in enumerate(cases):
        if needs_judge(case.answer, case.question, case.spec):
            judged.append(index)
        else:
            finish(index, _score_without_judge(case))
    if judge is not None and judged:
        for number, row in in_threads(lambda index: _score_with_judge(cases[index], judge), judged, concurrency):
            finish(judged[number], row)
    return [row for row in rows if row is not None]


def in_threads(work: Callable[[T], R], tasks: Sequence[T], concurrency: int) -> Iterator[tuple[int, R]]:
    """Do all tasks, so many at once, and yield each one's position and result as it is done."""
    with ThreadPoolExecutor(max_workers=max(1, concurrency), thread_name_prefix="judge") as pool:
        futures: dict[Future[R], int] = {pool.submit(work, task): number for number, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def needs_judge(answer: Row, question: Row, spec: ScorerSpec) -> bool:
    """Whether an answer's score is a judge's to give: no failed, unknown or empty answer's is."""
    if not spec.is_judge or answer["error"] is not None or answer["unknown"]:
        return False
    return not (spec.require_non_empty and _empty_side(answer, question))


def decide(answer: Row, question: Row, scorer: ScorerName, judge: Judge) -> Decision:
    """What a judge says of an answer, over all its repeats."""
    return judge_repeatedly(
        judge.chat,
        judge.prompts[scorer],
        question["question"],
        question["answer"],
        answer["reply"],
        answer["parsed"],
        judge.settings,
        judge.attempts,
        judge.repeats,
    )


def _empty_side(answer: Row, question: Row) -> str | None:
    if not answer["parsed"].strip():
        return "answer"
    return None if question["answer"].strip() else "reference answer"


def _require_judge(cases: Sequence[_Case], judge: Judge | None) -> None:
    needed = [case for case in cases if needs_judge(case.answer, case.question, case.spec)]
    known = set() if judge is None else set(judge.prompts)
    lacking = sorted({case.spec.name for case in needed} - known)
    if lacking:
        ids = [case.question["question_id"] for case in needed if case.spec.name in lacking]
        raise ScoreInputError(
            f"{len(ids)} answers (first: question {ids[0]!r}) are scored by {', '.join(lacking)}, which need a judge "
            f"and its prompt; configure models.judge or select questions without them"
        )


def _score_without_judge(case: _Case) -> dict[str, Any]:
    answer = case.answer
    if answer["error"] is not None:
        return _score_row(case, error=answer["error"], error_detail=answer["error_detail"])
    if not case.spec.is_judge:
        correct = not answer["unknown"] and score_prediction(answer["parsed"], case.question["answer"], case.spec)
        return _score_row(case, correct=correct, unknown=answer["unknown"])
    reason = (
        "UNKNOWN is always wrong" if answer["unknown"] else f"an empty {_empty_side(answer, case.question)} is wrong"
    )
    return _score_row(case, correct=False, unknown=answer["unknown"], judge_reason=f"{reason}; the judge was not asked")


def _score_with_judge(case: _Case, judge: Judge) -> dict[str, Any]:
    decision = decide(case.answer, case.question, case.spec.name, judge)
    labels = list(decision.labels)
    if decision.label is None:
        return _score_row(case, judge_labels=labels, error="judge_error", error_detail=decision.detail)
    return _score_row(
        case,
        correct=decision.label == 1,
        unknown=False,
        judge_label=decision.label,
        judge_labels=labels,
        judge_reason=decision.reason,
    )


def _score_row(case: _Case, **values: Any) -> dict[str, Any]:
    answer, question = case.answer, case.question
    empty = dict.fromkeys(
        ("correct", "unknown", "judge_label", "judge_labels", "judge_reason", "error", "error_detail")
    )
    return {
        "question_id": answer["question_id"],
        "method": answer["method"],
        "tier": answer["tier"],
        "domain": question["domain"],
        "question_type": question["question_type"],
        "category": question["category"],
        "scorer": case.spec.name,
        **case.facts,
        **empty,
        **values,
    }


def _gather_cases(
    answers: Iterable[Row], questions: Iterable[Row], contexts: Iterable[Row], evidence: Iterable[Row]
) -> list[_Case]:
    by_key: dict[Key, Row] = {}
    for answer in answers:
        key = _key(answer)
        if key in by_key:
            raise ScoreInputError(f"{_name(key)} has more than one answer row; delete the answers and read them again")
        by_key[key] = answer
    by_id = {question["question_id"]: question for question in questions}
    hops = group_evidence(evidence)
    orphans = sorted({key[0] for key in by_key} - by_id.keys())
    if orphans:
        raise ScoreInputError(f"{len(orphans)} answers name unknown questions (first: {orphans[0]!r})")
    facts: dict[Key, dict[str, bool | None]] = {}
    for context in contexts:
        key = _key(context)
        if key in facts:
            raise ScoreInputError(f"{_name(key)} has more than one context row; delete the contexts and query again")
        if key in by_key:
            facts[key] = context_facts(by_key[key], by_id[key[0]], context, hops.get(key[0], []))
    missing = sorted(by_key.keys() - facts.keys())
    if missing:
        raise ScoreInputError(f"{len(missing)} answers have no context row (first: {_name(missing[0])})")
    return [
        _Case(answer, by_id[key[0]], parse_eval_function(by_id[key[0]]["eval_function"]), facts[key])
        for key, answer in by_key.items()
    ]


def context_facts(answer: Row, question: Row, context: Row, hops: Collection[Hop]) -> dict[str, bool | None]:
    """What the context held for the question, before truncation and in the items that the reader kept:
    ``evidence_covered_before``, ``evidence_covered`` and ``gold_supported``.

    All null when the memory gave no context; those of the kept items are null when an error came before truncation.
    """
    facts: dict[str, bool | None] = {"evidence_covered": None, "evidence_covered_before": None, "gold_supported": None}
    if context["error"] is not None:
        return facts
    items = context["items"]
    facts["evidence_covered_before"] = evidence_covered(hops, _shown_states(items, answer["images_shown"]))
    if answer["items_before"] != len(items):
        if answer["error"] is None:
            raise ScoreInputError(
                f"{_name(_key(answer))} was answered from {answer['items_before']} items, but its context has "
                f"{len(items)}; the answers are older than the contexts, read them again"
            )
        return facts
    if not 0 <= answer["items_dropped"] <= len(items):
        raise ScoreInputError(
            f"{_name(_key(answer))}: {answer['items_dropped']} of {len(items)} context items cannot have been dropped; "
            f"delete the answers and read them again"
        )
    kept = items[: len(items) - answer["items_dropped"]]
    facts["evidence_covered"] = evidence_covered(hops, _shown_states(kept, answer["images_shown"]))
    text = "\n".join(item["value"] for item in kept if item["type"] == "text")
    facts["gold_supported"] = gold_supported(question["answer"], question["eval_function"], question["question"], text)
    return facts


def _shown_states(items: Iterable[Row], images: bool) -> set[State]:
    """States that the reader can see in these items; a screenshot shows nothing to a text-only reader."""
    visible = [item for item in items if images or item["type"] == "text"]
    return {(item["trajectory_id"], state) for item in visible for state in item["states"]}


def _key(row: Row) -> Key:
    return row["question_id"], row["method"], row["tier"]


def _name(key: Key) -> str:
    return f"question {key[0]!r} ({key[1]}, {key[2]})"
