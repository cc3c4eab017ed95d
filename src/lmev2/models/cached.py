"""Chat and embedding backends behind the call cache."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from lmev2.models.cache import CallCache
from lmev2.models.stopwatch import account, collect
from lmev2.models.types import ChatBackend, ChatReply, ChatRequest, EmbeddingBackend, ModelCallError, TokenCounter

_EMBEDDING = "embedding"


class CachedChat:
    """A chat backend whose finished replies are replayed, with the wall time that they first took.

    Equal requests that arrive at once from several threads or processes make one call; the others replay its reply.
    Errors, and replies that the request's ``usable`` refuses, are not stored: each of them then tries for itself.
    """

    def __init__(self, backend: ChatBackend, cache: CallCache):
        self.backend = backend
        self.cache = cache
        self.model = backend.model
        self.supports_images = backend.supports_images
        self.context_length = backend.context_length

    def identity(self) -> dict[str, Any]:
        """The identity of the backend behind."""
        return self.backend.identity()

    def complete(self, request: ChatRequest) -> ChatReply:
        """The stored reply, or the backend's, which is then stored.

        In a measured time a call counts for the reply's ``wall_s``, now and when it is replayed; loading a model or
        hashing its file does not.

        Raises:
            ModelCallError: the backend failed for good.
        """
        with collect() as ledger:
            reply = self._complete(request)
        account(0.0, reply.wall_s - ledger.honest_s)
        return reply

    def _complete(self, request: ChatRequest) -> ChatReply:
        identity = self.identity()
        with self.cache.only_one_call(identity, request):
            reply = self.cache.get(identity, request)
            if reply is None:
                reply = self.backend.complete(request)
                if request.usable is None or request.usable(reply):
                    self.cache.put(identity, request, reply)
        return reply

    def counter(self) -> TokenCounter:
        """The token counter of the backend behind."""
        return self.backend.counter()


class CachedEmbedder:
    """An embedding backend whose vectors are stored text by text.

    A job that is killed, or of which a batch fails, keeps every finished batch, those beside the failed one included.

    Args:
        batch_size: texts of one call of the backend.
        concurrency: calls at once.
    """

    def __init__(self, backend: EmbeddingBackend, cache: CallCache, batch_size: int, concurrency: int = 1):
        self.backend = backend
        self.cache = cache
        self.batch_size = batch_size
        self.concurrency = concurrency
        self.model = backend.model
        self.dimension = backend.dimension

    def identity(self) -> dict[str, Any]:
        """The identity of the backend behind."""
        return self.backend.identity()

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension); only texts that are not stored are sent, each once."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        missing: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            if text in missing:
                missing[text].append(row)
                continue
            stored = self._stored("document", text)
            if stored is None:
                missing[text] = [row]
            else:
                vectors[row] = stored[0]
        unknown = list(missing)
        batches = [unknown[start : start + self.batch_size] for start in range(0, len(unknown), self.batch_size)]
        for batch, made in zip(batches, self._embed(batches), strict=True):
            for text, vector in zip(batch, made, strict=True):
                vectors[missing[text]] = vector
        return vectors

    def _embed(self, batches: Sequence[Sequence[str]]) -> Iterator[npt.NDArray[np.float32]]:
        """Vectors of each batch, stored as soon as they are there."""

        def embed(batch: Sequence[str]) -> npt.NDArray[np.float32]:
            made = self.backend.embed_documents(batch)
            for text, vector in zip(batch, made, strict=True):
                self._store("document", text, vector, 0.0)
            return made

        if self.concurrency == 1:
            yield from map(embed, batches)
            return
        with ThreadPoolExecutor(self.concurrency) as pool:
            # At an error, map cancels what has not begun, and the pool waits for what has.
            yield from pool.map(embed, batches)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Vector of shape (dimension,) for a query; a replayed one counts, in a measured time, for as long as it first
        took."""
        key = self._key("query", text)
        started = time.perf_counter()
        with self.cache.only_one_across(_EMBEDDING, key):
            stored = self._stored("query", text)
            if stored is not None:
                vector, wall_s = stored
                account(time.perf_counter() - started, wall_s)
                return vector
            account(time.perf_counter() - started, 0.0)  # a wait for whoever failed at the same
            with collect() as ledger:
                vector = self.backend.embed_query(text)
            self._store("query", text, vector, ledger.honest_s)
        return vector

    def _key(self, kind: str, text: str) -> dict[str, Any]:
        return {"backend": self.identity(), "kind": kind, "text": text}

    def _stored(self, kind: str, text: str) -> tuple[npt.NDArray[np.float32], float] | None:
        """A stored vector and the seconds that its call took."""
        stored = self.cache.get_json(_EMBEDDING, self._key(kind, text))
        if stored is None:
            return None
        vector = np.frombuffer(base64.b64decode(stored["float32"]), dtype="<f4").astype(np.float32)
        if vector.shape != (self.dimension,):
            raise ModelCallError(
                "malformed_reply", f"a stored vector has shape {vector.shape}, expected ({self.dimension},)"
            )
        return vector, float(stored["wall_s"])

    def _store(self, kind: str, text: str, vector: npt.NDArray[np.float32], wall_s: float) -> None:
        encoded = base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode("ascii")
        self.cache.put_json(_EMBEDDING, self._key(kind, text), {"float32": encoded, "wall_s": wall_s})
