"""Settings of memory methods and of how their contexts are rendered."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from lmev2.settings import Settings

PoolName = Literal["note", "raw_state"]

# What a pool name in a method row stands for in the index: notes are two tables, searched separately.
POOL_TABLES: dict[PoolName, tuple[str, ...]] = {
    "note": ("procedure_note", "hint_note"),
    "raw_state": ("raw_state",),
}


class TopK(Settings):
    """Results per query and pool (paper, section on AgentRunbook-R): raw slices, and notes of each of the two types."""

    raw_state: Annotated[int, Field(ge=1)] = 6
    note: Annotated[int, Field(ge=1)] = 3


class RenderSettings(Settings):
    """How a context is written out.

    Attributes:
        mode: ``full``, every state of a slice with its whole tree, as in the paper; or ``focused``, only the tree lines
            and note bullets that bear on the question, for readers with a small window.
        slice_chars: for ``focused``, characters of tree text per slice.
        note_chars: for ``focused``, characters of bullets per note.
    """

    mode: Literal["full", "focused"] = "full"
    slice_chars: Annotated[int, Field(ge=100)] = 1200
    note_chars: Annotated[int, Field(ge=100)] = 900


class NoneMethod(Settings):
    """No memory: an empty context and a latency of 0."""

    family: Literal["none"]
    label: str


class RagMethod(Settings):
    """Retrieval from vector pools.

    Attributes:
        pools: pools in use; the context's order is always notes, then raw slices.
        queries: ``question``, the question's text is the query of every pool.
        top_k: results per query.
    """

    family: Literal["rag"]
    label: str
    pools: Annotated[tuple[PoolName, ...], Field(min_length=1)]
    queries: Literal["question"] = "question"
    top_k: TopK = TopK()

    @field_validator("pools")
    @classmethod
    def _no_repeats(cls, pools: tuple[PoolName, ...]) -> tuple[PoolName, ...]:
        if len(set(pools)) != len(pools):
            raise ValueError(f"a pool is named twice in {list(pools)}")
        return pools

    def tables(self) -> list[str]:
        """Index tables that the method searches."""
        return [table for pool in self.pools for table in POOL_TABLES[pool]]


Method = Annotated[NoneMethod | RagMethod, Field(discriminator="family")]
