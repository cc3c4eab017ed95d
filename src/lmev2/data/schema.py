"""The official format of a data root, as strict models: a missing or mistyped field is a problem, never a default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lmev2.data.errors import Problems, shown
from lmev2.data.jsonl import JsonLine
from lmev2.data.layout import IDENTIFIER

Domain = Literal["web", "enterprise"]
Outcome = Literal["success", "failure"]
QuestionType = Literal[
    "static-environment",
    "static-environment-abs",
    "dynamic-environment",
    "dynamic-environment-abs",
    "procedure",
    "procedure-abs",
    "errors-gotchas",
]
Category = Literal["static", "dynamic", "workflow", "gotchas"]

DOMAINS: tuple[Domain, ...] = get_args(Domain)
QUESTION_TYPES: tuple[QuestionType, ...] = get_args(QuestionType)
ABSTENTION_SUFFIX = "-abs"

# Columns of the main results table: each type is pooled with its abstention variant.
CATEGORIES: Mapping[str, Category] = {
    "static-environment": "static",
    "static-environment-abs": "static",
    "dynamic-environment": "dynamic",
    "dynamic-environment-abs": "dynamic",
    "procedure": "workflow",
    "procedure-abs": "workflow",
    "errors-gotchas": "gotchas",
}

Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
Text = Annotated[str, Field(min_length=1)]
Index = Annotated[int, Field(ge=0, lt=2**31)]

_ERRORS_PER_LINE = 3


class Record(BaseModel):
    """Base of the format's objects. Fields beyond the format are accepted, and counted by the ingestion."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


class QuestionRecord(Record):
    """A line of ``questions.jsonl``."""

    id: Identifier
    domain: Domain
    environment: Text
    question_type: QuestionType
    question: Text
    image: str | None
    answer: str
    eval_function: str


class StateRecord(Record):
    """A state of a trajectory. ``action`` and ``thought`` led to this state; state 0 has none."""

    state_index: Index
    step: Index | None = None
    url: str
    action: str | None
    thought: str | None
    accessibility_tree: str
    screenshot: str | None = None


class TrajectoryRecord(Record):
    """A line of ``trajectories.jsonl``."""

    id: Identifier
    domain: Domain
    environment: Text
    goal: str
    outcome: Outcome
    start_url: str
    states: list[StateRecord]


# Strictness would refuse the list that a JSON array becomes.
StateReference = Annotated[tuple[str, Index], Field(strict=False)]


class EvidenceRecord(Record):
    """A line of ``evidence.jsonl``: hops, each a list of alternative ``[trajectory_id, state_index]`` pairs."""

    question_id: Identifier
    hops: Annotated[list[Annotated[list[StateReference], Field(min_length=1)]], Field(min_length=1)]


AnyRecord = TypeVar("AnyRecord", bound=Record)


def parse_record(model: type[AnyRecord], line: JsonLine, problems: Problems) -> AnyRecord | None:
    """Check a line against a model; None, and its problems collected, when it does not fit."""
    try:
        return model.model_validate(line.value)
    except ValidationError as error:
        details = error.errors(include_url=False)
        for detail in details[:_ERRORS_PER_LINE]:
            problems.add(_describe(detail), file=line.file, line=line.number, id=line.label)
        if len(details) > _ERRORS_PER_LINE:
            text = f"and {len(details) - _ERRORS_PER_LINE} more fields that do not fit"
            problems.add(text, file=line.file, line=line.number, id=line.label)
        return None


def _describe(detail: Any) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]).lstrip(".")
    if detail["type"] == "missing":
        return f"field {place!r} is missing"
    found = detail["input"]
    return f"field {place!r}: found {type(found).__name__} {shown(found, 80)}, expected otherwise: {detail['msg']}"
