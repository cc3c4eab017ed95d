"""Stages from slices to scores, as the workflow's scripts run them, for one shard of questions of tier medium.

Vectors are random and the reader's reply is always the same: neither costs anything here, and all else is as in a run.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.data_stages import GGUF_FILE, TIERS
from lmev2.data.store import StateStore
from lmev2.index import build_index
from lmev2.memory.families import Tools, open_indexes, open_memory
from lmev2.memory.query import haystacks_of_tier, query_rows
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.settings import ReaderSettings
from lmev2.models.tokens import TokenizerCounter, VocabularyCounter, load_tokenizer
from lmev2.models.types import ChatBackend, ChatReply, ChatRequest, TokenCounter
from lmev2.prompts import load_prompt
from lmev2.reader import answer_rows
from lmev2.rows import ANSWER, CONTEXT, EMBEDDING, EVIDENCE, POOL_ENTRY, QUESTION, SCORE, read_rows, write_rows
from lmev2.scoring.score import score_rows

PIPELINE = Path(__file__).resolve().parents[1]
TIER = TIERS[-1]
DIMENSION = 1024
SHARD = 29  # questions: 451 in 16 shards, rounded up
BUDGET = 200_000  # tokens of a context (paper)
TOP_K = 8  # slices, so that most contexts are longer than the budget
_BOUNDS = ("entry_id", "trajectory_id", "first_state", "last_state", "center_state")


class RandomEmbedder:
    """Vectors that depend on the text and mean nothing."""

    model = "random"
    dimension = DIMENSION

    def identity(self) -> dict[str, Any]:
        return {"model": self.model}

    def embed_documents(self, texts: Any) -> npt.NDArray[np.float32]:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)
        unit: npt.NDArray[np.float32] = vector / np.linalg.norm(vector)
        return unit


class OneReply:
    """A reader that gives every question the same answer."""

    model = "one-reply"
    supports_images = False
    context_length: int | None = None

    def __init__(self, counter: TokenCounter):
        self._counter = counter

    def identity(self) -> dict[str, Any]:
        return {"model": self.model}

    def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply("It is \\boxed{KA PLO}.", "stop", 0, 8, self.model, 0.0)

    def counter(self) -> TokenCounter:
        return self._counter


def _silent(done: int, total: int) -> None:
    """A progress report that nobody sees."""


def _questions(work: Path) -> list[dict[str, Any]]:
    return list(itertools.islice(read_rows(work / "data/questions.parquet", QUESTION), SHARD))


def embed_raw_state(work: Path) -> None:
    """Random vectors for the slices."""
    rng = np.random.default_rng(1)

    def rows() -> Iterator[dict[str, Any]]:
        for entry in read_rows(work / "pools/raw_state.parquet", POOL_ENTRY):
            vector = rng.standard_normal(DIMENSION, dtype=np.float32)
            yield {name: entry[name] for name in _BOUNDS} | {"vector": (vector / np.linalg.norm(vector)).tolist()}

    write_rows(work / "embeddings/raw_state.parquet", EMBEDDING, rows())


def index_raw_state(work: Path) -> None:
    """The index of the slices, from one shard."""
    files = [work / "pools/raw_state.parquet"], [work / "embeddings/raw_state.parquet"]
    build_index("raw_state", *files, work / "index/raw_state.lance", work / "index/raw_state.json", DIMENSION)


def query_full(work: Path) -> None:
    """Contexts with whole trees."""
    _query(work, "full")


def query_focused(work: Path) -> None:
    """Contexts of the lines that bear on the question."""
    _query(work, "focused")


def _query(work: Path, mode: str) -> None:
    method = {"family": "rag", "label": "RAG", "pools": ["raw_state"], "top_k": {"raw_state": TOP_K}}
    spec = {"name": "rag", "tier": TIER, "method": method | {"queries": "question"}, "render": {"mode": mode}}
    indexes = open_indexes([work / "index/raw_state.lance"], [work / "index/raw_state.json"])
    cache = _cache(work, f"query-{mode}")
    haystacks = haystacks_of_tier(work / "data/haystacks.parquet", TIER)
    with StateStore(work / "goals/states.parquet", work / "goals/trajectories.parquet") as store:
        memory = open_memory(spec, Tools(indexes, store, RandomEmbedder, lambda: None, str))
        rows = query_rows(memory, _questions(work), haystacks, spec, {}, cache, _silent)
        write_rows(work / f"contexts/{mode}.parquet", CONTEXT, rows)


def read_with_gguf(work: Path) -> None:
    """Answers from the contexts with whole trees, counted with a GGUF file's vocabulary."""
    _read(work, VocabularyCounter(GGUF_FILE), "gguf")


def read_with_json(work: Path) -> None:
    """The same, counted with a tokenizer.json."""
    _read(work, TokenizerCounter(load_tokenizer(str(work / "tokenizer.json"))), "json")


def _read(work: Path, counter: TokenCounter, name: str) -> None:
    contexts = {row["question_id"]: row for row in read_rows(work / "contexts/full.parquet", CONTEXT)}
    settings = ReaderSettings(
        backend="scripted", model="one-reply", script="", context_length=262_144, context_tokens=BUDGET, concurrency=4
    )
    chat: ChatBackend = CachedChat(OneReply(counter), _cache(work, f"read-{name}"))
    prompts = {name: load_prompt(PIPELINE / f"workflow/prompts/reader_{name}.md") for name in ("web", "enterprise")}
    rows = answer_rows(_questions(work), contexts, chat, settings, prompts, _silent)
    write_rows(work / f"answers/{name}.parquet", ANSWER, rows)


def score_answers(work: Path) -> None:
    """Scores of the answers that rules can score."""
    questions = [row for row in _questions(work) if not row["eval_function"].startswith("llm_")]
    names = {row["question_id"] for row in questions}
    rows = score_rows(
        (row for row in read_rows(work / "answers/json.parquet", ANSWER) if row["question_id"] in names),
        questions,
        read_rows(work / "contexts/full.parquet", CONTEXT),
        read_rows(work / "data/evidence.parquet", EVIDENCE),
        judge=None,
    )
    write_rows(work / "scores/json.parquet", SCORE, rows)


def _cache(work: Path, name: str) -> CallCache:
    """An empty call cache."""
    folder = work / "cache" / name
    shutil.rmtree(folder, ignore_errors=True)
    return CallCache(folder)


STAGES: dict[str, Callable[[Path], None]] = {
    "embed_raw_state": embed_raw_state,
    "index_raw_state": index_raw_state,
    "query_full": query_full,
    "query_focused": query_focused,
    "read_with_gguf": read_with_gguf,
    "read_with_json": read_with_json,
    "score_answers": score_answers,
}
