"""LanceDB index of a pool: exact vector search within a haystack, and full-text search where entries have a text.

Search is a full scan of the entries of the haystack's trajectories (no approximate index), which a bitmap of trajectory
ids finds, so its result equals a brute-force cosine ranking. Entries without content have no direction: their vectors
are zero and never found. LanceDB computes distances in 32 bits and orders ties
arbitrarily; candidates are therefore scored again in 64 bits, with a margin wide enough to hold everything that could
belong to the result, and ties are broken by haystack order, then by state.

Full-text search is LanceDB's BM25 over stemmed English words. It is exact, too, but a word's rarity and the mean length
are those of the whole index, not of the haystack.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lmev2.files import replacing
from lmev2.rows import EMBEDDING, POOL_ENTRY, RowError, check_readable, read_rows, reading

if TYPE_CHECKING:
    from lancedb import DBConnection
    from lancedb.query import LanceQueryBuilder, LanceVectorQueryBuilder
    from lancedb.table import Table

_TABLE = "entries"
_MARK = "manifest.json"  # a copy in the index's folder, which tells whether folder and manifest belong together
# 32-bit cosine distances may be about 1e-6 off; within this margin they do not decide the order.
_MARGIN = 1e-5
_SPARE = 8


class PoolIndexError(RuntimeError):
    """An index that is missing, damaged or does not fit its pool; the message says which files to delete."""


def _connect(folder: Path) -> DBConnection:
    """Open a LanceDB folder. The import takes seconds, so jobs that never search do without it."""
    os.environ.setdefault("LANCE_LOG", "error")  # writing a new table is not worth a warning
    import lancedb

    return lancedb.connect(str(folder))


@dataclass(frozen=True)
class Hit:
    """A pool entry found by a search.

    Attributes:
        score: cosine similarity with the query's vector.
        text_score: BM25 of the query's words; 0 for an entry that was not searched by words.
    """

    entry_id: str
    trajectory_id: str
    first_state: int
    last_state: int
    center_state: int
    payload: dict[str, Any]
    score: float
    text_score: float = 0.0


def build_index(
    pool: str,
    pool_files: Sequence[Path],
    embedding_files: Sequence[Path],
    target: Path,
    manifest: Path,
    dimension: int,
) -> dict[str, Any]:
    """Write the LanceDB folder ``target`` and ``manifest`` from a pool's shards and their embeddings.

    Pool shard i and embedding shard i must hold the same entries in the same order. A pool without any entry, such as
    the events of trajectories of one state, gives an index that finds nothing.

    Args:
        dimension: of the vectors.

    Returns:
        The manifest: pool, number of entries and of entries with a text, dimension, and ``digest``, a SHA-256 over
        ids, payloads, texts and vectors.

    Raises:
        PoolIndexError: a shard and its embeddings do not agree, or its vectors have another dimension.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema(
        [
            pa.field("entry_id", pa.string()),
            pa.field("trajectory_id", pa.string()),
            pa.field("first_state", pa.int32()),
            pa.field("last_state", pa.int32()),
            pa.field("center_state", pa.int32()),
            pa.field("payload", pa.string()),
            pa.field("text", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), dimension)),
        ]
    )
    digest = hashlib.sha256()
    counts = Counter[str]()
    mismatches: list[PoolIndexError | RowError] = []  # LanceDB wraps what its input iterator raises into a RuntimeError

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for pool_file, embedding_file in zip(pool_files, embedding_files, strict=True):
                yield from _joined_batches(pool_file, embedding_file, schema, digest, counts)
        except (PoolIndexError, RowError) as error:
            mismatches.append(error)
            raise

    database = _connect(target)
    try:
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        table = database.create_table(_TABLE, data=reader, mode="overwrite")
    except RuntimeError:
        if mismatches:
            raise mismatches[0] from None
        raise
    if counts["entries"]:
        _index_trajectories(table)
    if counts["texts"]:
        _index_words(table)
    facts = {
        "pool": pool,
        "entries": counts["entries"],
        "texts": counts["texts"],
        "dimension": dimension,
        "digest": digest.hexdigest(),
    }
    text = json.dumps(facts, indent=2) + "\n"
    for path in (target / _MARK, manifest):
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return facts


def _index_trajectories(table: Table) -> None:
    """Let a search read the haystack's rows only: without it, every query reads every vector of the table."""
    from lancedb.index import Bitmap

    table.create_index("trajectory_id", config=Bitmap())


def _index_words(table: Table) -> None:
    from lancedb.index import FTS

    table.create_index("text", config=FTS(with_position=False, stem=True, remove_stop_words=True, ascii_folding=True))


def _joined_batches(
    pool_file: Path, embedding_file: Path, schema: pa.Schema, digest: Any, counts: Counter[str]
) -> Iterator[pa.RecordBatch]:
    entries = read_rows(pool_file, POOL_ENTRY)
    check_readable(embedding_file, EMBEDDING)
    with reading(embedding_file), pq.ParquetFile(embedding_file) as file:
        for batch in file.iter_batches(batch_size=1024):
            payloads, texts = [], []
            for entry_id in batch.column("entry_id").to_pylist():
                entry = next(entries, None)
                if entry is None or entry["entry_id"] != entry_id:
                    raise PoolIndexError(
                        f"{embedding_file} does not fit {pool_file}: expected entry {entry and entry['entry_id']}, "
                        f"found {entry_id}; delete both and run again"
                    )
                payloads.append(entry["payload"])
                texts.append(entry["text"])
                digest.update(f"{entry_id}\n{entry['payload']}\n{entry['text'] or ''}\n".encode())
            flat = batch.column("vector").flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
            dimension = schema.field("vector").type.list_size
            if len(flat) != len(payloads) * dimension:
                raise PoolIndexError(
                    f"the vectors of {embedding_file} do not have the embedder's dimension {dimension}; delete it and "
                    "run again"
                )
            digest.update(flat.tobytes())
            counts["entries"] += len(payloads)
            counts["texts"] += sum(text is not None for text in texts)
            columns = [batch.column(name) for name in schema.names if name not in ("payload", "text", "vector")]
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dimension)
            written = [pa.array(values, pa.string()) for values in (payloads, texts)]
            yield pa.RecordBatch.from_arrays([*columns, *written, vectors], schema=schema)
    if (left := next(entries, None)) is not None:
        raise PoolIndexError(
            f"{embedding_file} lacks entry {left['entry_id']} of {pool_file}; delete both and run again"
        )


class PoolIndex:
    """A pool's index, open for search. Thread-safe for reading."""

    def __init__(self, folder: Path, manifest: Path):
        """Open an index.

        Raises:
            PoolIndexError: folder or manifest are missing or cannot be read, or do not belong together.
        """
        self._folder = folder
        self._advice = f"delete it and {manifest}, and run again"
        try:
            text = manifest.read_text(encoding="utf-8")
            self.manifest: dict[str, Any] = json.loads(text)
            self._table = _connect(folder).open_table(_TABLE)
            rows = self._table.count_rows()
            marked = (folder / _MARK).read_text(encoding="utf-8")
            if not {"entries", "digest"} <= self.manifest.keys():
                raise ValueError(f"{manifest} does not say how many entries it has, or their digest")
        except Exception as error:  # lancedb raises many kinds, all of which mean the same here
            raise PoolIndexError(f"cannot open the index {folder} ({error}); {self._advice}") from error
        if rows != self.manifest["entries"]:
            raise PoolIndexError(
                f"the index {folder} holds {rows} entries, its manifest says {self.manifest['entries']}; {self._advice}"
            )
        if marked != text:
            raise PoolIndexError(f"the index {folder} is not the one of its manifest; {self._advice}")

    @property
    def digest(self) -> str:
        """SHA-256 of the index's content."""
        return str(self.manifest["digest"])

    def entries(self, haystack: Sequence[str]) -> list[Hit]:
        """All entries of the haystack's trajectories, in haystack order, then by state; scores are 0."""
        if not haystack:
            return []
        columns = [name for name in self._table.schema.names if name not in ("text", "vector")]
        found = self._scan(lambda: self._table.search().where(_within(haystack)).select(columns).limit(None).to_arrow())
        position = {name: number for number, name in enumerate(haystack)}
        rows = sorted(
            found.to_pylist(), key=lambda row: (position[row["trajectory_id"]], row["center_state"], row["entry_id"])
        )
        return [Hit(**{**row, "payload": json.loads(row["payload"])}, score=0.0) for row in rows]

    def candidates(self, vector: npt.NDArray[np.float32], haystack: Sequence[str], k: int) -> list[Hit]:
        """As :meth:`search`, for a ranking that is fused with others: of entries that tie at its end all are left out
        or, if less than half of k were left, all taken, so that the order never varies and no long tie is read for
        the last places."""
        if not haystack or k <= 0:
            return []
        query = self._nearest(vector).where(_within(haystack), prefilter=True).bypass_vector_index()
        return _rank(self._without_tied_end(query, "_distance", k), vector, haystack)

    def text_candidates(self, text: str, vector: npt.NDArray[np.float32], haystack: Sequence[str], k: int) -> list[Hit]:
        """The haystack's entries that share most words with a text (BM25), best first.

        Ties stand in haystack order, then by state; entries that tie at the end are treated as in :meth:`candidates`.

        Args:
            text: what is searched; every word counts, in any order, and nothing in it is syntax.
            vector: the text's vector, for the hits' cosine similarity.

        Raises:
            PoolIndexError: the entries have no text, or the index cannot be read.
        """
        from lancedb.query import MatchQuery

        if self.manifest["entries"] and not self.manifest["texts"]:
            raise PoolIndexError(f"the entries of {self._folder} have no text to search; {self._advice}")
        if not haystack or k <= 0:
            return []
        if not self.manifest["entries"]:
            return []
        query = self._table.search(MatchQuery(text, "text"), query_type="fts")  # type: ignore[call-arg] # has defaults
        found = self._without_tied_end(query.where(_within(haystack), prefilter=True), "_score", k)
        return sorted(_rank(found, vector, haystack), key=lambda hit: -hit.text_score)

    def _without_tied_end(self, query: LanceQueryBuilder, column: str, k: int) -> pa.Table:
        limit = k + 1
        while True:
            found = self._scan(query.limit(limit).to_arrow)
            if len(found) < limit:
                return found
            values = found.column(column).to_numpy().astype(np.float64)
            kept = np.abs(values - values[-1]) > _MARGIN
            if 2 * int(kept.sum()) >= k:
                return found.filter(pa.array(kept))
            limit *= 4

    def _scan(self, read: Callable[[], pa.Table]) -> pa.Table:
        try:
            return read()
        except (RuntimeError, OSError) as error:
            raise PoolIndexError(f"cannot read the index {self._folder} ({error}); {self._advice}") from error

    def _nearest(self, vector: npt.NDArray[np.float32]) -> LanceVectorQueryBuilder:
        from lancedb.query import LanceVectorQueryBuilder

        query = self._table.search(vector, vector_column_name="vector")
        assert isinstance(query, LanceVectorQueryBuilder)  # what a search for a vector returns
        return query.distance_type("cosine")

    def search(self, vector: npt.NDArray[np.float32], haystack: Sequence[str], k: int) -> list[Hit]:
        """The k entries of the haystack most similar to ``vector``, best first.

        Args:
            vector: shape (dimension,), L2-normalised.
            haystack: trajectory ids in haystack order; only their entries are searched.
            k: how many.

        Returns:
            At most k hits; ties stand in haystack order, then by centre state.
        """
        if not haystack or k <= 0:
            return []
        limit = k + _SPARE
        while True:
            query = self._nearest(vector).where(_within(haystack), prefilter=True).bypass_vector_index().limit(limit)
            found = self._scan(query.to_arrow)
            distances = found.column("_distance").to_numpy()
            if len(distances) < limit or distances[-1] - distances[k - 1] > _MARGIN:
                return _rank(found, vector, haystack)[:k]
            limit *= 2


def _within(haystack: Sequence[str]) -> str:
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in haystack)
    return f"trajectory_id IN ({names})"


def _rank(found: pa.Table, vector: npt.NDArray[np.float32], haystack: Sequence[str]) -> list[Hit]:
    extra = [name for name in ("_distance", "_score", "text", "vector") if name in found.column_names]
    rows = found.drop_columns(extra).to_pylist()
    if not rows:
        return []
    matrix = found.column("vector").combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
    scores = cosine(matrix, vector)
    position = {name: number for number, name in enumerate(haystack)}
    words = found.column("_score").to_pylist() if "_score" in found.column_names else [0.0] * len(rows)
    order = sorted(
        range(len(rows)),
        key=lambda i: (
            -scores[i],
            position[rows[i]["trajectory_id"]],
            rows[i]["center_state"],
            rows[i]["entry_id"],
        ),
    )
    return [
        Hit(**{**rows[i], "payload": json.loads(rows[i]["payload"])}, score=float(scores[i]), text_score=words[i])
        for i in order
    ]


def cosine(matrix: npt.NDArray[np.float32], vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Cosine similarity of each row of ``matrix`` (n, d) with ``vector`` (d,), in 64 bits; 0 for zero vectors.

    Sums row by row (not through BLAS), so that equal rows get equal scores wherever they stand, which ties depend on.
    """
    rows = matrix.astype(np.float64)
    query = vector.astype(np.float64)
    norms = np.sqrt((rows * rows).sum(axis=1)) * np.sqrt((query * query).sum())
    dots = (rows * query).sum(axis=1)
    scores: npt.NDArray[np.float64] = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
    return scores
