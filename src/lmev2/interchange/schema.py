"""The harness's files as strict models. Fields that nothing here depends on are not asked for and may be anything."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from lmev2.data.schema import Domain, Identifier, Index, QuestionType, Record, Text
from lmev2.interchange.jsonfiles import load_json

# Bounds that no run comes near, so that sums stay numbers.
_MOST_SECONDS: Final = 1e9
_MOST_IN_ALL: Final = 1e15
_LINE_CHARS: Final = 200
_UNPRINTABLE: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, direction and joining marks, line separators
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")


def line_fault(text: str) -> str | None:
    """What is wrong with a name that is shown within a line, such as a label; None when nothing is."""
    strange = next((character for character in text if unicodedata.category(character) in _UNPRINTABLE), None)
    if not text.strip():
        return "must not be empty"
    if strange is not None:
        return f"must be one line without control characters, found {strange!a}"
    return f"must have at most {_LINE_CHARS} characters" if len(text) > _LINE_CHARS else None


def parse_time(text: str) -> datetime:
    """A time of day in ISO 8601, taken as UTC where it names no zone.

    Raises:
        ValueError: it is none.
    """
    if _TIME.fullmatch(text) is None:
        raise ValueError("expected a time such as 2026-01-31T12:00:00+00:00")
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def parse_queries(text: str) -> dict[str, list[str]]:
    """What a context was searched with, by pool: a JSON object of lists of texts.

    Raises:
        ValueError: it is something else.
    """
    try:
        value = load_json(text)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    if not isinstance(value, dict) or not all(
        isinstance(queries, list) and all(isinstance(query, str) for query in queries) for queries in value.values()
    ):
        raise ValueError("expected a JSON object of lists of texts")
    return value


def _one_line(text: str) -> str:
    fault = line_fault(text)
    if fault is not None:
        raise ValueError(fault)
    return text


def _time(text: str) -> str:
    parse_time(text)
    return text


def _queries(text: str) -> str:
    parse_queries(text)
    return text


Count = Index
Seconds = Annotated[float, Field(ge=0, le=_MOST_SECONDS)]
Amount = Annotated[float, Field(ge=0, le=_MOST_IN_ALL)]
Sum = Annotated[int, Field(ge=0, le=int(_MOST_IN_ALL))]
Line = Annotated[str, AfterValidator(_one_line)]
Time = Annotated[str, AfterValidator(_time)]
Queries = Annotated[str, AfterValidator(_queries)]


class _Part(Record):
    model_config = ConfigDict(allow_inf_nan=False)


class RunArgs(_Part):
    """``run_args.json``. ``errors`` counts rows without a score by error kind."""

    domain: Domain
    model: Line
    evaluator_model: Line
    method: Identifier | None = None
    tier: Literal["small", "medium"] | None = None
    incomplete: bool = False
    errors: dict[Line, Count] = Field(default_factory=dict)


class QuestionWithImage(_Part):
    """Text and image of a question that has one."""

    text: Text
    image: Text


class RuntimeQuestion(_Part):
    """A question of ``runtime_inputs/questions.json``."""

    id: Identifier
    domain: Domain
    question_type: QuestionType
    question: Text | QuestionWithImage
    answer: str
    eval_function: str

    @property
    def text(self) -> str:
        """The question's text."""
        return self.question if isinstance(self.question, str) else self.question.text

    @property
    def image(self) -> str | None:
        """The image's path, if it has one."""
        return None if isinstance(self.question, str) else self.question.image


class Item(_Part):
    """An item of a memory context."""

    type: Literal["text", "image"]
    value: Text


class Usage(_Part):
    """Tokens of the reader's call."""

    prompt_tokens: Count
    completion_tokens: Count


class OurItem(_Part):
    """Where an item of ours comes from."""

    trajectory_id: str | None
    states: list[Index]
    pool: str | None
    score: float | None


class OurFields(_Part):
    """What this pipeline adds to a record."""

    items: list[OurItem]
    dropped_items: list[Item]
    queries: Queries
    query_origin: str | None
    rerank_origin: str | None = None
    waited_s: Seconds
    replayed: bool
    images_shown: bool
    images_left_out: Count
    wall_s: Seconds
    model: Line
    finish_reason: str | None
    judge_label: Annotated[int, Field(ge=0, le=1)] | None
    judge_reason: str | None


class QuestionResult(_Part):
    """A line of ``per_question.jsonl``. ``score`` is null exactly where ``error`` names what failed."""

    question_id: Identifier
    question_type: QuestionType
    category: str
    is_abstention_problem: bool
    eval_function: str
    question_text: str
    question_image: str | None
    haystack_ids: list[str]
    memory_context: list[Item]
    memory_query_duration_seconds: Seconds | None
    memory_post_query_duration_seconds: Seconds | None = None
    memory_context_original_token_count: Count
    memory_context_token_count: Count
    memory_context_was_truncated: bool
    answer_gold: str
    response_raw: str
    response_parsed_boxed: str
    is_unknown: bool
    score: float | None
    score_bool: bool | None
    usage: Usage
    error: Line | None = None
    error_detail: str | None = None
    lmev2: OurFields | None = None


class Overall(_Part):
    """The section ``overall`` of ``aggregated_metrics.json``."""

    overall_full_set: float | None
    overall_non_abstention_only: float | None
    overall_abstention_only: float | None
    count_all_questions: Count
    count_non_abstention: Count
    count_abstention: Count


class Breakdown(_Part):
    """Shares of a category."""

    count: Count
    pct_correct: float | None
    pct_answered_wrong: float | None
    pct_unknown: float | None


class PostTiming(_Part):
    """A section of durations that nothing here depends on."""

    avg_seconds: Seconds | None = None
    p50_seconds: Seconds | None = None
    p95_seconds: Seconds | None = None
    max_seconds: Seconds | None = None
    total_seconds: Amount | None = None


class Timing(PostTiming):
    """Durations of the memory's queries; the mean is needed."""

    avg_seconds: Seconds | None


class Tokens(_Part):
    """Tokens of the reader's calls."""

    prompt_tokens: Sum | None = None
    completion_tokens: Sum | None = None
    total_tokens: Sum | None = None
    avg_prompt_tokens: Amount | None = None
    avg_completion_tokens: Amount | None = None
    avg_total_tokens: Amount | None = None


class ContextTokens(_Part):
    """Tokens of the memory's contexts."""

    avg_original_tokens: Amount | None = None
    avg_final_tokens: Amount | None = None
    num_truncated_sequences: Count | None = None


class Aggregated(_Part):
    """``aggregated_metrics.json``."""

    overall: Overall
    non_abstention_by_category: dict[str, Breakdown]
    abstention_by_category: dict[str, Breakdown]
    combined_abstention_by_category: dict[str, Breakdown]
    abstention_overall: Breakdown
    memory_query: Timing
    memory_post_query: PostTiming = PostTiming()
    tokens: Tokens = Tokens()
    memory_context: ContextTokens = ContextTokens()
    completed_at_utc: Time | None = None
    shared_haystack: bool | None = None
    incomplete: bool = False
    errors: dict[Line, Count] = Field(default_factory=dict)
