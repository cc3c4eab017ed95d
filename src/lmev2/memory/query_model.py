"""Queries written by the controller's model (paper, Table 9)."""

from __future__ import annotations

import json
import logging

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lmev2.memory.base import MemoryQuery
from lmev2.memory.queries import QueryBundle, fallback_bundle, make_bundle
from lmev2.memory.summary import HaystackSummaries
from lmev2.models.json_reply import UnusableReplyError, ask_json
from lmev2.models.request import make_request
from lmev2.models.settings import ChatSettings
from lmev2.models.types import ChatBackend
from lmev2.prompts import Prompt

_log = logging.getLogger("lmev2")
_NONE = "<none>"

# The table names an example of the schema and prompt examples but does not print them. These are about made-up systems.
_SCHEMA_EXAMPLE = json.dumps(
    {
        "raw_state_queries": [
            "Loan desk checkout form field labels",
            "Loan desk checkout form Branch dropdown options",
        ],
        "event_query": "message shown after pressing Check out on the loan desk form",
        "note_query": "how to check out an item at the loan desk",
    }
)
_EXAMPLES: tuple[tuple[str, dict[str, object]], ...] = (
    (
        'I use our library system. Which button stands on the "Reserve room" form but not on the "Reserve projector" '
        "form? Answer with its label in brackets.",
        {
            "raw_state_queries": ["Reserve room form visible buttons", "Reserve projector form visible buttons"],
            "event_query": "",
            "note_query": "differences between Reserve room and Reserve projector forms",
        },
    ),
    (
        "I use our clinic's planner. I move the visit of Ines Vogt to a day when the ward is closed and press `Shift`. "
        "What does the yellow notice say? Wrap your answer in asterisks.",
        {
            "raw_state_queries": ["visit of Ines Vogt planner page yellow notice ward closed"],
            "event_query": "pressing `Shift` moves a visit to a closed day, yellow notice appears",
            "note_query": "moving a visit to a day when the ward is closed, notice and restrictions",
        },
    ),
    (
        "I use our garden club's site. I want to hand a plot over to another member. Which menu do I open first?\n"
        "A. Members\nB. Plots\nC. Waiting list\nGive one letter.",
        {
            "raw_state_queries": ["main menu entries", "plot page hand over to another member control"],
            "event_query": "",
            "note_query": "procedure to hand a plot over to another member, menu path",
        },
    ),
)


class QueryReply(BaseModel):
    """The controller's reply: queries for the three pools, at least one of them not blank."""

    model_config = ConfigDict(extra="forbid")

    raw_state_queries: list[str] = Field(description="queries for raw state slices, at most five")
    event_query: str = Field(description="query for state-transition events, empty when none is needed")
    note_query: str = Field(description="query for procedure and hint notes, empty when none is needed")

    @model_validator(mode="after")
    def _searches_something(self) -> QueryReply:
        if not any(text.strip() for text in (*self.raw_state_queries, self.event_query, self.note_query)):
            raise ValueError("all queries are empty")
        return self


class ModelQueries:
    """Asks the controller for queries; one repair call with thinking off, then the fallback.

    A reply that was cut counts as no valid JSON. Every reply is kept in the call cache as it is, so that a repeated run
    asks nothing and falls back where the first run did.

    Args:
        chat: the controller.
        settings: sampling and thinking of the controller's role.
        prompt: the query-generation prompt.
        summaries: what a haystack's memory holds, for the prompt.
    """

    def __init__(self, chat: ChatBackend, settings: ChatSettings, prompt: Prompt, summaries: HaystackSummaries):
        self._chat, self._settings, self._prompt, self._summaries = chat, settings, prompt, summaries

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Make the summary of the haystack's memory."""
        self._summaries.of(haystack)

    def write(self, query: MemoryQuery) -> QueryBundle:
        """The queries for one question, normalised.

        Raises:
            ModelCallError: a call failed; this is never a fallback.
        """
        messages = self._prompt.render_messages(
            runtime_summary=self._summaries.of(query.haystack),
            schema_example=_SCHEMA_EXAMPLE,
            few_shot_examples=_examples_text(),
            question_id=_NONE,  # a memory is given none
            question_type=query.question_type or _NONE,
            question=query.text,
            # Not the file's own name: data sets name images by question id.
            image_path=f"question{query.image.suffix}" if query.image else _NONE,
            original_goals=_NONE,  # the data set has none
        )
        request = make_request(self._settings, messages, role="controller")
        try:
            value, origin = ask_json(self._chat, request, QueryReply, repair_cut=True)
        except UnusableReplyError as error:
            _log.warning("queries fall back to the question's text: %s", error.detail)
            return fallback_bundle(query)
        reply = QueryReply.model_validate(value)
        return make_bundle(reply.raw_state_queries, reply.event_query, reply.note_query, origin)


def _examples_text() -> str:
    """The prompt examples, question and reply each."""
    blocks = [f"Question: {question}\nReply: {json.dumps(reply)}" for question, reply in _EXAMPLES]
    return "\n" + "\n\n".join(blocks)
