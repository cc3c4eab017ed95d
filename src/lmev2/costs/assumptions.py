"""What an estimate has to assume, with where each value comes from. All of it can be set by the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from lmev2.settings import Settings

# Bounds keep the sums finite.
_Count = Annotated[float, Field(ge=0, le=1e9)]
_Size = Annotated[int, Field(ge=1, le=10**9)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Ratio = Annotated[float, Field(ge=0.01, le=100)]
_TABLE1 = "so that 498 trajectories of 27 states have the 115M tokens of the paper's Table 1"
_REAL = "about the mean of real BrowserGym runs"
_GUESS = "a guess; replace it by what a small run measures"


def _assumed(default: float, text: str) -> Any:
    return Field(default=default, description=text)


class Assumptions(Settings):
    """Values that stand in where neither data nor configuration tells. Descriptions say where the defaults come from.

    Lengths of texts are in characters, replies in tokens.
    """

    states_per_trajectory: Annotated[int, Field(ge=1, le=100_000)] = _assumed(
        27, "without trajectories: about 40,000 states in the release's 1,473 trajectories"
    )
    tree_chars: _Size = _assumed(21_000, f"without trajectories: {_TABLE1}")
    thought_chars: _Count = _assumed(530, f"without trajectories: {_REAL}")
    action_chars: _Count = _assumed(120, f"without trajectories, annotated: {_REAL}")
    url_chars: _Count = _assumed(90, "without trajectories: a guess")
    goal_chars: _Count = _assumed(200, "without trajectories: a guess")
    image_width: _Size = _assumed(1280, f"of a screenshot that is not there: {_REAL}")
    image_height: _Size = _assumed(720, f"of a screenshot that is not there: {_REAL}")
    goals_with_route: _Share = _assumed(1.0, "share of goals that a model rewrites, without trajectories: all, at most")
    chars_per_token: _Ratio = _assumed(
        4.2, "of prose, without a tokenizer: questions and thoughts, SmolLM2's tokenizer"
    )
    tree_chars_per_token: _Ratio = _assumed(2.8, "of trees, without a tokenizer: recorded pages, SmolLM2's tokenizer")
    note_tokens: _Count = _assumed(900, f"reply with both notes: {_GUESS}")
    event_tokens: _Count = _assumed(250, f"reply with one event: {_GUESS}")
    query_tokens: _Count = _assumed(150, f"reply with queries: {_GUESS}")
    rerank_tokens: _Count = _assumed(60, f"reply with a choice: {_GUESS}")
    goal_tokens: _Count = _assumed(60, f"reply with a goal: {_GUESS}")
    answer_tokens: _Count = _assumed(150, f"the reader's answer: {_GUESS}")
    verdict_tokens: _Count = _assumed(80, f"the judge's verdict: {_GUESS}")
    thinking_tokens: _Count = _assumed(
        2_000, f"before a reply, of notes, queries, answers, where thinking or reasoning is on: {_GUESS}"
    )
    judge_thinking_tokens: _Count = _assumed(500, f"before a verdict, where reasoning is on: {_GUESS}")
    raw_queries: Annotated[float, Field(ge=1, le=5)] = _assumed(3, "queries for raw states per question: one to five")
    agent_requests: _Count = _assumed(20, f"model calls of a coding agent per question: {_GUESS}")
    agent_prompt_tokens: _Count = _assumed(20_000, f"input of one of them, on average: {_GUESS}")
    agent_cached_share: _Share = _assumed(0.8, f"of that input, billed as cached: {_GUESS}")
    agent_tokens_per_s: _Count = _assumed(
        50, f"written by the agent's model per second of the latency in the paper's Table 2: {_GUESS}"
    )
    agent_context_states: _Count = _assumed(6, f"states in the spans that a coding agent names: {_GUESS}")
    agent_context_tokens: _Count = _assumed(600, f"text that a coding agent hands in: {_GUESS}")
    oracle_trajectories: _Count = _assumed(2, "pilot studies: trajectories with a question's evidence: a guess")
    oracle_states: _Count = _assumed(6, "pilot studies: states in its evidence windows: a guess")


class AssumptionError(ValueError):
    """An assumption that does not exist, or a value that it cannot take; says which there are."""


NAMES: Final[tuple[str, ...]] = tuple(Assumptions.model_fields)


def parse_assumptions(pairs: Iterable[tuple[str, str]]) -> Assumptions:
    """Assumptions with some set by the user.

    Args:
        pairs: name and value; a name that is given twice takes the last.

    Raises:
        AssumptionError: an unknown name, or a value of the wrong kind.
    """
    given = dict(pairs)
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise AssumptionError(f"there is no assumption {', '.join(unknown)}; there are {', '.join(NAMES)}")
    try:
        return Assumptions.model_validate(given)
    except ValidationError as error:
        faults = [f"{fault['loc'][0]}={fault['input']}: {fault['msg']}" for fault in error.errors()]
        raise AssumptionError("; ".join(faults)) from error


def told_by(name: str) -> str:
    """Where the default of an assumption comes from."""
    return str(Assumptions.model_fields[name].description)
