"""Exact search: order and scores equal a brute-force cosine ranking, ties included."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lmev2.index import PoolIndex, PoolIndexError, build_index, cosine
from lmev2.rows import EMBEDDING, POOL_ENTRY, write_rows


def make_index(
    folder: Path,
    vectors: dict[str, npt.NDArray[np.float32]],
    shards: int = 2,
    texts: dict[tuple[str, int], str] | None = None,
    dimension: int | None = None,
) -> PoolIndex:
    """An index of slices: ``vectors`` maps a trajectory to its (states, dimension) matrix, ``texts`` a state to what
    is searched by words."""
    pools, embeddings = [], []
    for shard in range(shards):
        names = sorted(vectors)[shard::shards]
        rows = [
            {
                "entry_id": f"raw_state/{name}/{state:04d}",
                "trajectory_id": name,
                "first_state": max(state - 1, 0),
                "last_state": min(state + 1, len(vectors[name]) - 1),
                "center_state": state,
            }
            for name in names
            for state in range(len(vectors[name]))
        ]
        pools.append(folder / f"pool{shard}.parquet")
        embeddings.append(folder / f"embedding{shard}.parquet")
        write_rows(
            pools[-1],
            POOL_ENTRY,
            (
                row
                | {"pool": "raw_state", "payload": json.dumps({"n": row["center_state"]})}
                | {"origin": "rules", "images_left_out": 0}
                | {"text": None if texts is None else texts[str(row["trajectory_id"]), int(str(row["center_state"]))]}
                for row in rows
            ),
        )
        write_rows(
            embeddings[-1],
            EMBEDDING,
            ({**row, "vector": vectors[str(row["trajectory_id"])][row["center_state"]].tolist()} for row in rows),
        )
    dimension = dimension or next(iter(vectors.values())).shape[1]
    build_index("raw_state", pools, embeddings, folder / "raw_state.lance", folder / "raw_state.json", dimension)
    return PoolIndex(folder / "raw_state.lance", folder / "raw_state.json")


def brute_force(
    vectors: dict[str, npt.NDArray[np.float32]], query: npt.NDArray[np.float32], haystack: list[str], k: int
) -> list[tuple[str, int, float]]:
    """The definition: stable sort by falling cosine over haystack order."""
    entries = [
        (name, state, float(score)) for name in haystack for state, score in enumerate(cosine(vectors[name], query))
    ]
    return sorted(entries, key=lambda entry: -entry[2])[:k]


def unit(rng: np.random.Generator, n: int, dimension: int) -> npt.NDArray[np.float32]:
    raw = rng.normal(size=(n, dimension))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_search_equals_brute_force_with_ties(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = {f"t{i:03d}": unit(rng, int(rng.integers(1, 12)), 32) for i in range(40)}
    shared = unit(rng, 1, 32)[0]
    for name in list(vectors)[::3]:  # equal vectors within and across trajectories, more of them than k
        vectors[name][: len(vectors[name]) // 2 + 1] = shared
    index = make_index(tmp_path, vectors)
    for trial in range(12):
        haystack = list(rng.permutation(sorted(vectors))[: int(rng.integers(1, 40))])
        query = shared if trial % 3 == 0 else unit(rng, 1, 32)[0]
        k = int(rng.integers(1, 15))
        hits = index.search(query, haystack, k)
        expected = brute_force(vectors, query, haystack, k)
        assert [(hit.trajectory_id, hit.center_state) for hit in hits] == [entry[:2] for entry in expected]
        assert [hit.score for hit in hits] == [entry[2] for entry in expected]
        assert all(hit.payload == {"n": hit.center_state} for hit in hits)


def test_nearly_equal_vectors_keep_the_exact_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    base = unit(rng, 1, 64)[0]
    noisy = {f"t{i}": (base + rng.normal(scale=3e-7, size=(5, 64))).astype(np.float32) for i in range(10)}
    index = make_index(tmp_path, noisy)
    hits = index.search(base, sorted(noisy), 6)
    assert [(hit.trajectory_id, hit.center_state) for hit in hits] == [
        entry[:2] for entry in brute_force(noisy, base, sorted(noisy), 6)
    ]


def test_a_haystack_of_thousands_is_searched_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    vectors = {f"t{i:04d}": unit(rng, int(rng.integers(1, 4)), 8) for i in range(3000)}
    shared = unit(rng, 1, 8)[0]
    for name in list(vectors)[::50]:
        vectors[name][0] = shared
    index = make_index(tmp_path, vectors)
    for size, k in ((2500, 6), (2900, 200), (3000, 6)):
        haystack = [str(name) for name in rng.permutation(sorted(vectors))[:size]]
        for query in (shared, unit(rng, 1, 8)[0]):
            expected = brute_force(vectors, query, haystack, k)
            hits = index.search(query, haystack, k)
            assert [(hit.trajectory_id, hit.center_state, hit.score) for hit in hits] == expected
    assert [hit.trajectory_id for hit in index.entries(haystack) if hit.center_state == 0] == haystack


def test_a_search_reads_the_haystack_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    index = make_index(tmp_path, {name: unit(rng, 3, 8) for name in ("a", "b", "c")})
    (found,) = index._table.list_indices()
    assert (found.index_type, found.columns) == ("Bitmap", ["trajectory_id"])


def test_only_the_haystack_is_searched(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    vectors = {"it's": unit(rng, 3, 8), "other": unit(rng, 3, 8)}
    index = make_index(tmp_path, vectors)
    assert {hit.trajectory_id for hit in index.search(vectors["other"][0], ["it's"], 10)} == {"it's"}
    assert index.search(vectors["other"][0], [], 10) == []


def test_embeddings_that_do_not_fit_their_pool_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    make_index(tmp_path, {"a": unit(rng, 3, 8), "b": unit(rng, 2, 8)})
    with pytest.raises(PoolIndexError, match="does not fit"):
        build_index(
            "raw_state",
            [tmp_path / "pool0.parquet"],
            [tmp_path / "embedding1.parquet"],
            tmp_path / "x.lance",
            tmp_path / "x.json",
            8,
        )


def test_vectors_of_another_dimension_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PoolIndexError, match=r"embedding0\.parquet do not have the embedder's dimension 16"):
        make_index(tmp_path, {"a": unit(np.random.default_rng(2), 4, 8)}, dimension=16)


@pytest.mark.parametrize("shards", [1, 2])
def test_a_pool_without_entries_has_an_index_that_finds_nothing(tmp_path: Path, shards: int) -> None:
    index = make_index(tmp_path, {}, shards=shards, dimension=8)
    assert (index.manifest["entries"], index.manifest["texts"], index.manifest["dimension"]) == (0, 0, 8)
    vector = unit(np.random.default_rng(2), 1, 8)[0]
    assert index.search(vector, ["a"], 3) == index.candidates(vector, ["a"], 3) == index.entries(["a"]) == []
    assert index.text_candidates("copper", vector, ["a"], 3) == []


@pytest.mark.parametrize("lost", ["data/*.lance", "_indices/*/*"])
def test_an_index_that_lost_its_data_is_named(tmp_path: Path, lost: str) -> None:
    rng = np.random.default_rng(4)
    index = make_index(tmp_path, {"a": unit(rng, 3, 8), "b": unit(rng, 2, 8)})
    gone = list((tmp_path / "raw_state.lance").rglob(lost))
    assert gone
    for path in gone:
        path.unlink()
    with pytest.raises(PoolIndexError, match=r"raw_state\.lance.*delete it and .*raw_state\.json"):
        PoolIndex(tmp_path / "raw_state.lance", tmp_path / "raw_state.json").search(unit(rng, 1, 8)[0], ["a"], 2)
    del index


def test_a_missing_or_mismatched_index_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    make_index(tmp_path, {"a": unit(rng, 3, 8), "b": unit(rng, 2, 8)})
    with pytest.raises(PoolIndexError, match=r"gone\.lance"):
        PoolIndex(tmp_path / "gone.lance", tmp_path / "raw_state.json")
    (tmp_path / "raw_state.json").write_text(json.dumps({"entries": 4, "digest": ""}))
    with pytest.raises(PoolIndexError, match="holds 5 entries, its manifest says 4"):
        PoolIndex(tmp_path / "raw_state.lance", tmp_path / "raw_state.json")


def test_entries_come_in_haystack_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    index = make_index(tmp_path, {name: unit(rng, 2, 8) for name in ("a", "b", "c")})
    found = index.entries(["c", "a"])
    assert [(hit.trajectory_id, hit.center_state) for hit in found] == [("c", 0), ("c", 1), ("a", 0), ("a", 1)]
    assert found[1].payload == {"n": 1} and found[1].score == 0.0
    assert index.entries([]) == []


@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_the_start_of_the_search(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = {f"t{i}": unit(rng, 6, 16) for i in range(8)}
    vectors["t3"][:] = vectors["t3"][0]
    index = make_index(tmp_path, vectors)
    for k in (3, 10, 60):
        query, haystack = unit(rng, 1, 16)[0], list(rng.permutation(sorted(vectors)))
        found = index.candidates(query, haystack, k)
        assert found == index.search(query, haystack, len(found))
        assert len(found) == 48 if k >= 48 else len(found) >= k // 2


def test_candidates_take_a_tie_whole_rather_than_nothing(tmp_path: Path) -> None:
    same = unit(np.random.default_rng(5), 1, 16)[0]
    vectors = {f"t{i}": np.tile(same, (10, 1)) for i in range(6)}
    found = make_index(tmp_path, vectors).candidates(same, sorted(vectors), 10)
    expected = [(f"t{i}", state) for i in range(6) for state in range(10)]
    assert [(hit.trajectory_id, hit.center_state) for hit in found] == expected


WORDS = ["ledger", "parcel", "velvet", "anchor", "copper", "window", "harbor", "saddl", "tunnel", "marbl"]


def bm25(texts: dict[tuple[str, int], str], query: str) -> dict[tuple[str, int], float]:
    """BM25 with the usual constants over all texts; the words of the test are their own stems."""
    documents = {key: text.split() for key, text in texts.items()}
    mean = sum(map(len, documents.values())) / len(documents)
    scores = dict.fromkeys(documents, 0.0)
    for word in query.split():
        holding = sum(word in document for document in documents.values())
        rarity = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
        for key, document in documents.items():
            count = document.count(word)
            scores[key] += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(document) / mean))
    return scores


@pytest.mark.parametrize("seed", range(4))
def test_search_by_words_equals_brute_force_bm25(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = {f"t{i}": unit(rng, 5, 8) for i in range(12)}
    texts = {
        (name, state): " ".join(rng.choice(WORDS, int(rng.integers(3, 30)))) for name in vectors for state in range(5)
    }
    index = make_index(tmp_path, vectors, texts=texts)
    for _ in range(5):
        query = " ".join(rng.choice(WORDS, 3, replace=False))
        haystack = [str(name) for name in rng.permutation(sorted(vectors))[:7]]
        expected = bm25(texts, query)
        found = index.text_candidates(query, vectors["t0"][0], haystack, 100)
        matching = {key for key, text in texts.items() if key[0] in haystack and set(query.split()) & set(text.split())}
        assert {(hit.trajectory_id, hit.center_state) for hit in found} == matching
        assert [hit.text_score for hit in found] == sorted((hit.text_score for hit in found), reverse=True)
        for hit in found:
            assert hit.text_score == pytest.approx(expected[hit.trajectory_id, hit.center_state], rel=1e-5)
            exact = cosine(vectors[hit.trajectory_id][[hit.center_state]], vectors["t0"][0])[0]
            assert hit.score == pytest.approx(exact)


def test_nothing_in_a_searched_text_is_syntax(tmp_path: Path) -> None:
    vectors = {"t0": unit(np.random.default_rng(1), 2, 8)}
    index = make_index(tmp_path, vectors, texts={("t0", 0): "copper window", ("t0", 1): "velvet"})
    for query in ('"copper" AND (window', "copper:velvet~2 -window", "copper*^3 'window", "+velvet\\ [a TO b]"):
        assert index.text_candidates(query, vectors["t0"][0], ["t0"], 5), query
    assert index.text_candidates("the of ?!", vectors["t0"][0], ["t0"], 5) == []


def test_searching_words_of_entries_without_text_is_an_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    index = make_index(tmp_path, {"t0": unit(rng, 2, 8)})
    with pytest.raises(PoolIndexError, match="no text"):
        index.text_candidates("copper", unit(rng, 1, 8)[0], ["t0"], 5)
