"""What a memory searches for: queries by pool, and who writes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from lmev2.memory.base import MemoryQuery
from lmev2.memory.settings import PoolName
from lmev2.models.text import well_formed

MAX_RAW_QUERIES = 5


@dataclass(frozen=True)
class QueryBundle:
    """Queries for the three pools (paper, Table 9).

    Attributes:
        raw_state: queries for raw-state slices, in order of importance; none is empty.
        event, note: the query for events, and that for notes of both types; empty searches nothing.
        origin: who wrote them: ``question``, ``rules``, ``model``, ``repaired`` or ``fallback``.
    """

    raw_state: tuple[str, ...]
    event: str
    note: str
    origin: str

    def of_pool(self, pool: PoolName) -> tuple[str, ...]:
        """The queries of one pool, empty ones left out."""
        if pool == "raw_state":
            return self.raw_state
        query = self.event if pool == "event" else self.note
        return (query,) if query else ()


class QueryWriter(Protocol):
    """Writes the queries for a question."""

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Make ready for questions about a haystack; outside the measured latency, cheap when repeated."""
        ...

    def write(self, query: MemoryQuery) -> QueryBundle:
        """The queries for one question."""
        ...


class QuestionQueries:
    """The question's text as it stands is the query of every pool."""

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Nothing to do."""

    def write(self, query: MemoryQuery) -> QueryBundle:
        """The question's text for every pool."""
        return question_bundle(query.text)


def make_bundle(raw_state: Iterable[str], event: str, note: str, origin: str) -> QueryBundle:
    """A bundle with texts as :func:`squeeze` makes them, without empty and repeated raw queries, at most five of these.

    Queries that differ in case only are repeats; the first spelling stays.
    """
    distinct: dict[str, str] = {}
    for text in map(squeeze, raw_state):
        if text:
            distinct.setdefault(text.casefold(), text)
    return QueryBundle(tuple(distinct.values())[:MAX_RAW_QUERIES], squeeze(event), squeeze(note), origin)


def question_bundle(text: str) -> QueryBundle:
    """The question's text, unchanged, as the query of every pool; a blank text gives no queries."""
    if not text.strip():
        return QueryBundle((), "", "", "question")
    return QueryBundle((text,), text, text, "question")


def fallback_bundle(query: MemoryQuery) -> QueryBundle:
    """What is searched when the controller gives no valid queries: the question's text as the only raw query, also as
    note query for procedure questions and as event query for dynamic ones, where the memory may see the type."""
    kind = query.question_type or ""
    event = query.text if kind.startswith("dynamic") else ""
    note = query.text if kind.startswith("procedure") else ""
    return make_bundle([query.text], event, note, "fallback")


def squeeze(text: str) -> str:
    """The text with every run of white space as one blank, none at its ends, and U+FFFD for every lone surrogate, which
    a model can write as an escape but no file and no tokenizer takes."""
    return " ".join(well_formed(text).split())
