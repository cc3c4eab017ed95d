"""Settings of memory methods and of how their contexts are rendered."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from lmev2.agent.types import PartName
from lmev2.models.settings import ReasoningEffort
from lmev2.settings import Settings

PoolName = Literal["note", "event", "raw_state"]

# What a pool name in a method row stands for in the index: notes are two tables, searched separately.
POOL_TABLES: dict[PoolName, tuple[str, ...]] = {
    "note": ("procedure_note", "hint_note"),
    "event": ("event",),
    "raw_state": ("raw_state",),
}
# The table of raw states by what its vectors are made of.
RAW_STATE_TABLES = {"slice": "raw_state", "center": "center_state", "chunk": "state_chunk"}


class TopK(Settings):
    """Results per query and pool (paper, section on AgentRunbook-R): raw slices, events, and notes of each of the two
    types."""

    raw_state: Annotated[int, Field(ge=1)] = 6
    event: Annotated[int, Field(ge=1)] = 6
    note: Annotated[int, Field(ge=1)] = 3


class RenderSettings(Settings):
    """How a context is written out.

    Attributes:
        mode: ``full``, every state of a slice with its whole tree, as in the paper; or ``focused``, only the tree lines
            and note bullets that bear on the question, for readers with a small window.
        slice_chars: for ``focused``, characters of tree text per slice, and of the goal where it is named.
        note_chars: for ``focused``, characters of bullets per note.
        event_chars: for ``focused``, characters of an event's description.
    """

    mode: Literal["full", "focused"] = "full"
    slice_chars: Annotated[int, Field(ge=100)] = 1200
    note_chars: Annotated[int, Field(ge=100)] = 900
    event_chars: Annotated[int, Field(ge=60)] = 400


class RerankSettings(Settings):
    """Choosing among a block of search results by a model.

    Attributes:
        candidates: a block is cut to so many before the model sees it.
        keep_raw_state, keep_other: how many of the first results stay when the model gives no usable choice.
    """

    candidates: Annotated[int, Field(ge=1)] = 8
    keep_raw_state: Annotated[int, Field(ge=1)] = 2
    keep_other: Annotated[int, Field(ge=1)] = 3


class SearchSettings(Settings):
    """How entries are found; what stands here by default is the paper's search.

    Attributes:
        vectors: what the vectors of raw states are made of: ``slice``, the slice's text from its beginning (the paper);
            ``center``, the same with the centre state first; ``chunk``, overlapping chunks of the centre state, of
            which the most similar counts.
        full_text: rank also by words (BM25; for raw states over their chunks) and fuse the rankings by reciprocal rank.
        strip: search without the question's instructions on the form of its answer and without its lead-in.
        distinct: which raw states may stand beside each other: ``none``, all; ``window``, no state that an earlier
            slice shows already; ``page``, besides, one per title and address.
        candidates: results of each ranking that are fused.
        rrf_k: constant of the reciprocal-rank fusion: a rank r counts 1 / (rrf_k + r).
    """

    vectors: Literal["slice", "center", "chunk"] = "slice"
    full_text: bool = False
    strip: bool = False
    distinct: Literal["none", "window", "page"] = "none"
    candidates: Annotated[int, Field(ge=10, le=2000)] = 200
    rrf_k: Annotated[int, Field(ge=0)] = 60

    def tables(self) -> list[str]:
        """Index tables that a search of the pool ``raw_state`` reads."""
        tables = [RAW_STATE_TABLES[self.vectors]]
        chunks = RAW_STATE_TABLES["chunk"]
        return [*tables, chunks] if self.full_text and chunks not in tables else tables


class MethodRow(Settings):
    """What every row of the table has.

    Attributes:
        label: its name in tables and figures.
        compare_with: methods that it is tested against, each category against the best of them there.
    """

    label: str
    compare_with: tuple[str, ...] = ()


class NoneMethod(MethodRow):
    """No memory: an empty context and a latency of 0."""

    family: Literal["none"]


class RagMethod(MethodRow):
    """Retrieval from vector pools.

    Attributes:
        pools: pools in use; the context's order is always notes, then events, then raw slices.
        queries: ``question``, the question's text is the query of every pool; ``generated``, the controller writes up
            to five raw-state queries, an event query and a note query (paper, Table 9).
        question_type: generated queries may see the question's type, as in the paper's prompt.
        top_k: results per query.
        rerank: the controller's model picks from each block of results (off in the paper).
        search: how entries are found.
    """

    family: Literal["rag"]
    pools: Annotated[tuple[PoolName, ...], Field(min_length=1)]
    queries: Literal["question", "generated"] = "question"
    question_type: bool = True
    top_k: TopK = TopK()
    rerank: RerankSettings | None = None
    search: SearchSettings = SearchSettings()

    @field_validator("pools")
    @classmethod
    def _no_repeats(cls, pools: tuple[PoolName, ...]) -> tuple[PoolName, ...]:
        if len(set(pools)) != len(pools):
            raise ValueError(f"a pool is named twice in {list(pools)}")
        return pools

    @model_validator(mode="after")
    def _no_idle_keys(self) -> Self:
        """Refuse keys that would seem to have an effect: what a table says of a row must be what it does."""
        idle = []
        if self.queries == "question" and not self.question_type:
            idle.append("question_type, without `queries: generated`")
        if not self.search.full_text and self.search.rrf_k != SearchSettings().rrf_k:
            idle.append("search.rrf_k, without `full_text`")
        if "raw_state" not in self.pools and (self.search.vectors != "slice" or self.search.distinct != "none"):
            idle.append("search.vectors or search.distinct, without the pool raw_state")
        if idle:
            raise ValueError(f"keys without effect: {'; '.join(idle)}")
        return self

    def uses_controller(self) -> bool:
        """Whether a query may call the controller."""
        return self.queries == "generated" or self.rerank is not None

    def tables(self) -> list[str]:
        """Index tables that the method searches."""
        return [
            table
            for pool in self.pools
            for table in (self.search.tables() if pool == "raw_state" else POOL_TABLES[pool])
        ]


class PluginMethod(MethodRow):
    """A memory of the user's own: a class with ``insert(trajectory)`` and ``query(text, image)``.

    Attributes:
        class_: ``package.module:Class`` (key ``class``).
        path: folder to import it from, besides the environment's packages; relative to the working directory, and
            ``{pipeline}`` stands for the folder of the Snakefile.
        options: keyword arguments of the class.
    """

    family: Literal["plugin"]
    class_: Annotated[str, Field(alias="class", pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
    path: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class AgentMethod(MethodRow):
    """A coding agent that explores the haystack's files; which one is the role ``agent`` (paper, Tables 10 and 11).

    Attributes:
        parts: what it is given beside the files: ``workflow`` (how to go about it), ``manifest`` (summaries of all
            trajectories), ``helper`` (a script that inspects one). Without any it is the plain coding agent.
        reasoning_effort: of its model, in place of the role's: rows that differ in it are operating points.
    """

    family: Literal["agent"]
    parts: tuple[PartName, ...] = ()
    reasoning_effort: ReasoningEffort | None = None

    @field_validator("parts")
    @classmethod
    def _no_repeats(cls, parts: tuple[PartName, ...]) -> tuple[PartName, ...]:
        if len(set(parts)) != len(parts):
            raise ValueError(f"a part is named twice in {list(parts)}")
        return parts


Method = Annotated[NoneMethod | RagMethod | PluginMethod | AgentMethod, Field(discriminator="family")]
