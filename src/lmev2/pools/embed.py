"""Vectors of a pool's entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmev2.data.store import StateStore
from lmev2.models.types import EmbeddingBackend
from lmev2.pools.raw_state import embedded_text, embedding_order
from lmev2.progress import Report

_CHUNK = 128


def embedding_rows(
    entries: Sequence[Mapping[str, Any]],
    store: StateStore,
    embedder: EmbeddingBackend,
    report: Report,
) -> Iterator[dict[str, Any]]:
    """Embedding rows of pool entries, in order.

    An entry's own text is embedded; a raw-state slice has none, its text is written from its states.
    """
    for start in range(0, len(entries), _CHUNK):
        chunk = entries[start : start + _CHUNK]
        vectors = embedder.embed_documents([_text(entry, store) for entry in chunk])
        for entry, vector in zip(chunk, vectors, strict=True):
            yield {
                **{
                    name: entry[name]
                    for name in ("entry_id", "trajectory_id", "first_state", "last_state", "center_state")
                },
                "vector": vector.tolist(),
            }
        report(start + len(chunk), len(entries))


def _text(entry: Mapping[str, Any], store: StateStore) -> str:
    if entry["text"] is not None:
        return str(entry["text"])
    states = store.states(entry["trajectory_id"], entry["first_state"], entry["last_state"])
    return embedded_text(embedding_order(entry["pool"], states, entry["center_state"]))
