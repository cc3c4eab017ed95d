"""What contradicts itself in a run folder: within a record, and between the records and ``aggregated_metrics.json``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lmev2.interchange import layout
from lmev2.interchange.aggregate import aggregate
from lmev2.interchange.schema import Aggregated, QuestionResult, RunArgs, RuntimeQuestion
from lmev2.scoring.boxed import is_unknown, last_boxed
from lmev2.scoring.spec import parse_eval_function

_TOLERANCE: Final = 1e-6  # of means: libraries add floats in different orders
# Compared where the file has them: sums and means that can be taken in one way only.
_IF_GIVEN: Final[Mapping[str, tuple[str, ...]]] = {
    "memory_query": ("max_seconds", "total_seconds"),
    "tokens": ("prompt_tokens", "completion_tokens", "avg_prompt_tokens", "avg_completion_tokens"),
    "memory_context": ("avg_original_tokens", "avg_final_tokens", "num_truncated_sequences"),
}


def record_faults(result: QuestionResult, question: RuntimeQuestion, haystack: Sequence[str] | None) -> list[str]:
    """What is wrong with a record.

    Args:
        result: the record.
        question, haystack: of the run's inputs.
    """
    pairs = {
        "question_type": (result.question_type, question.question_type),
        "category": (result.category, layout.HARNESS_CATEGORIES[question.question_type]),
        "eval_function": (result.eval_function, question.eval_function),
        "question_text": (result.question_text, question.text),
        "answer_gold": (result.answer_gold, question.answer),
        "haystack_ids": (result.haystack_ids, haystack),
        "is_abstention_problem": (result.is_abstention_problem, _is_flawed(question)),
    }
    faults = [
        f"field {name!r}: found {found!r:.80}, expected {expected!r:.80} as in the run's inputs"
        for name, (found, expected) in pairs.items()
        if found != expected
    ]
    return (
        faults
        + _score_faults(result)
        + _unknown_faults(result)
        + _label_faults(result, question)
        + _context_faults(result)
    )


def total_faults(
    args: RunArgs, found: Aggregated, facts: Sequence[Mapping[str, Any]], haystacks: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """File and text of everything that the run's totals say otherwise than its records.

    Args:
        args, found: ``run_args.json`` and ``aggregated_metrics.json``.
        facts: the records, as for :func:`lmev2.interchange.aggregate.aggregate`.
        haystacks: trajectory ids by question id.
    """
    expected = Aggregated.model_validate(aggregate(facts, haystacks))
    for place, (value, counted) in _compared(found, expected).items():
        if not _agree(value, counted):
            yield layout.AGGREGATED, f"{place} is {value}, but the records give {counted}"
    for name in ("p50_seconds", "p95_seconds"):
        value, most = getattr(found.memory_query, name), expected.memory_query.max_seconds
        if value is not None and (most is None or value > most * (1 + _TOLERANCE)):
            yield layout.AGGREGATED, f"memory_query.{name} is {value}, but the longest of the records is {most}"
    errors = dict(sorted(Counter(str(fact["error"]) for fact in facts if fact["score"] is None).items()))
    for file, marks in ((layout.RUN_ARGS, args), (layout.AGGREGATED, found)):
        if marks.errors and marks.errors != errors:
            yield file, f"errors is {marks.errors}, but the records give {errors}"
        elif marks.incomplete and not errors:
            text = f"the run is marked as incomplete, but all of its {len(facts)} records have a score"
            yield file, f"{text}; import the whole run, or take the mark away if this is it"


def _compared(found: Aggregated, expected: Aggregated) -> dict[str, tuple[Any, Any]]:
    """Values of the file and of the records by place."""
    pairs: dict[str, tuple[Any, Any]] = {}
    for section in ("overall", "abstention_overall"):
        for name, value in getattr(expected, section):
            pairs[f"{section}.{name}"] = (getattr(getattr(found, section), name), value)
    for section in ("non_abstention_by_category", "abstention_by_category", "combined_abstention_by_category"):
        for name, cell in getattr(expected, section).items():
            own = getattr(found, section).get(name)
            pairs |= {f"{section}.{name}.{key}": (getattr(own, key, None), value) for key, value in cell}
    pairs["memory_query.avg_seconds"] = (found.memory_query.avg_seconds, expected.memory_query.avg_seconds)
    for section, names in _IF_GIVEN.items():
        for name in names:
            value = getattr(getattr(found, section), name)
            if value is not None:
                pairs[f"{section}.{name}"] = (value, getattr(getattr(expected, section), name))
    return pairs


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
    return []


def _unknown_faults(result: QuestionResult) -> list[str]:
    """The answer ``UNKNOWN`` must be told as such, and is always wrong."""
    parsed = result.response_parsed_boxed
    if result.is_unknown is not is_unknown(parsed):
        return [f"is_unknown is {result.is_unknown}, but response_parsed_boxed is {parsed!r:.80}"]
    if result.score == 1 and (result.is_unknown or is_unknown(last_boxed(result.response_raw) or "")):
        return ["score is 1, but the answer is UNKNOWN, which is always wrong"]
    return []


def _label_faults(result: QuestionResult, question: RuntimeQuestion) -> list[str]:
    """A judge's label is the score: both judges say 1 for a right answer. Other scorers have none."""
    label = None if result.lmev2 is None else result.lmev2.judge_label
    if label is None:
        return []
    if not parse_eval_function(question.eval_function).is_judge:
        return [f"field 'lmev2.judge_label': found {label}, expected null, since no judge scores this question"]
    if result.score != label:
        return [f"field 'lmev2.judge_label': found {label}, but the score is {result.score}"]
    return []


def _context_faults(result: QuestionResult) -> list[str]:
    faults = []
    if result.memory_query_duration_seconds is None and result.error in (None, "judge_error"):
        text = "found null, expected seconds in a record whose query ended well"
        faults.append(f"field 'memory_query_duration_seconds': {text}")
    before, after = result.memory_context_original_token_count, result.memory_context_token_count
    if after > before:
        faults.append("the context has more tokens after truncation than before")
    elif result.memory_context_was_truncated is not (after < before):
        text = f"found {result.memory_context_was_truncated}, but of {before} tokens {after} are left"
        faults.append(f"field 'memory_context_was_truncated': {text}")
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
