"""The harness's files as strict models. Fields that nothing here depends on are not asked for and may be anything."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from lmev2.data.schema import Domain, Identifier, Index, QuestionType, Record, Text

Count = Index
Seconds = Annotated[float, Field(ge=0)]


class RunArgs(Record):
    """``run_args.json``."""

    domain: Domain
    model: Text
    evaluator_model: Text
    method: Identifier | None = None
    tier: Literal["small", "medium"] | None = None
    incomplete: bool = False


class QuestionWithImage(Record):
    """Text and image of a question that has one."""

    text: Text
    image: Text


class RuntimeQuestion(Record):
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


class Item(Record):
    """An item of a memory context."""

    type: Literal["text", "image"]
    value: Text


class Usage(Record):
    """Tokens of the reader's call."""

    prompt_tokens: Count
    completion_tokens: Count


class OurItem(Record):
    """Where an item of ours comes from."""

    trajectory_id: str | None
    states: list[Index]
    pool: str | None
    score: float | None


class OurFields(Record):
    """What this pipeline adds to a record."""

    items: list[OurItem]
    dropped_items: list[Item]
    queries: str
    query_origin: str | None
    rerank_origin: str | None = None
    waited_s: Seconds
    replayed: bool
    images_shown: bool
    images_left_out: Count
    wall_s: Seconds
    model: str
    finish_reason: str | None
    judge_label: int | None
    judge_reason: str | None


class QuestionResult(Record):
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
    error: Text | None = None
    error_detail: str | None = None
    lmev2: OurFields | None = None


class Overall(Record):
    """The section ``overall`` of ``aggregated_metrics.json``."""

    overall_full_set: float | None
    overall_non_abstention_only: float | None
    overall_abstention_only: float | None
    count_all_questions: Count
    count_non_abstention: Count
    count_abstention: Count


class Breakdown(Record):
    """Shares of a category."""

    count: Count
    pct_correct: float | None
    pct_answered_wrong: float | None
    pct_unknown: float | None


class Timing(Record):
    """A section of durations."""

    avg_seconds: Seconds | None


class Aggregated(Record):
    """``aggregated_metrics.json``."""

    overall: Overall
    non_abstention_by_category: dict[str, Breakdown]
    abstention_by_category: dict[str, Breakdown]
    combined_abstention_by_category: dict[str, Breakdown]
    abstention_overall: Breakdown
    memory_query: Timing
    completed_at_utc: str | None = None
    shared_haystack: bool | None = None
    incomplete: bool = False
    errors: dict[str, Any] = Field(default_factory=dict)
