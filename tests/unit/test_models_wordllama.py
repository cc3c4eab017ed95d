"""WordLlama embeddings: offline, equal to the library's own, and independent of how texts are batched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmev2.models.settings import EmbedderSettings
from lmev2.models.text import cut_middle, encode_prefix
from lmev2.models.types import ModelSetupError
from lmev2.models.wordllama_backend import WordLlamaEmbedder, package_folder

REAL_RUNS = Path(__file__).parents[3] / "shared" / "data" / "realruns" / "trajectories.jsonl"
TEXTS = ["", "one", "RootWebArea 'Incidents', focused\n\t[a1] button 'Submit'", "é\u2028𝒳 " * 9, "word " * 3000, " "]
LONE_SURROGATE = "a\ud83db"


def embedder(**changes: Any) -> WordLlamaEmbedder:
    return WordLlamaEmbedder(EmbedderSettings(backend="wordllama", model="wordllama", **changes))


@pytest.fixture(scope="module")
def real_slices() -> list[str]:
    """The trees of each state and its neighbours, from real runs."""
    if not REAL_RUNS.is_file():
        pytest.skip(f"no real runs at {REAL_RUNS}")
    slices = []
    for line in REAL_RUNS.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            trees = [state["accessibility_tree"] for state in json.loads(line)["states"]]
            slices += ["\n".join(trees[max(0, centre - 1) : centre + 2]) for centre in range(len(trees))]
    return slices


def library_vectors(texts: list[str], max_tokens: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    from wordllama import WordLlama

    model = WordLlama.load("l2_supercat", cache_dir=package_folder(), disable_download=True)
    model.tokenizer.enable_truncation(max_tokens)
    vectors = model.embed(texts, norm=False, batch_size=8)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1))


def test_vectors_equal_the_library(real_slices: list[str]) -> None:
    texts = [cut_middle(text, 40_000) for text in [*TEXTS, *real_slices[::4]]]
    # the library adds thousands of vectors in single precision: its own error is larger than ours
    np.testing.assert_allclose(embedder().embed_documents(texts), library_vectors(texts, 4096), atol=5e-6)
    short = [text[:2000] for text in texts]
    np.testing.assert_allclose(embedder().embed_documents(short), library_vectors(short, 4096), atol=1e-6)


def test_a_prefix_of_a_real_tree_has_the_tokens_of_the_whole(real_slices: list[str]) -> None:
    tokenizer, _ = embedder()._load()
    for text in real_slices:
        whole = tokenizer.ids(text)
        for limit in (1, 100, 4096):
            assert encode_prefix(text, limit, tokenizer.ids)[:limit] == whole[:limit]


def test_vectors_are_unit_or_zero_and_independent_of_their_neighbours() -> None:
    vectors = embedder().embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), 256)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    norms = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(norms[1:5], 1, atol=1e-6)
    assert norms[0] == 0
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_array_equal(embedder().embed_documents([text])[0], vector)
    assert embedder().embed_documents([]).shape == (0, 256)
    np.testing.assert_array_equal(embedder().embed_query(LONE_SURROGATE), embedder().embed_query("a\ufffdb"))


def test_texts_are_cut_at_characters_then_tokens() -> None:
    backend = embedder(max_tokens=50, max_chars=400)
    text = "alpha beta " * 100 + "omega " * 100
    cut = cut_middle(text, 400)
    assert "omega" in cut
    tokenizer, weights = backend._load()
    total = weights[tokenizer.ids(cut)[:50]].astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(backend.embed_documents([text])[0], total / np.linalg.norm(total), atol=1e-6)


def test_queries_carry_the_instruction_documents_do_not() -> None:
    plain, instructed = embedder(), embedder(query_instruction="Find it.")
    np.testing.assert_array_equal(plain.embed_query("who?"), plain.embed_documents(["who?"])[0])
    expected = plain.embed_documents(["Instruct: Find it.\nQuery:who?"])[0]
    np.testing.assert_array_equal(instructed.embed_query("who?"), expected)
    np.testing.assert_array_equal(instructed.embed_documents(["who?"]), plain.embed_documents(["who?"]))


def test_smaller_dimensions_are_the_first_columns() -> None:
    whole, part = embedder().embed_documents(["one two"])[0], embedder(dimension=64).embed_documents(["one two"])[0]
    np.testing.assert_allclose(part, whole[:64] / np.linalg.norm(whole[:64]), atol=1e-6)
    with pytest.raises(ModelSetupError, match="100"):
        embedder(dimension=100)


def test_what_changes_a_vector_is_in_the_identity() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"dimension": 64},
        {"max_tokens": 9},
        {"max_chars": 9},
        {"query_instruction": "x"},
    ]
    assert len({json.dumps(embedder(**change).identity()) for change in changes}) == len(changes)


def test_loading_leaves_the_root_logger_alone() -> None:
    code = """
import logging
from lmev2.models.settings import EmbedderSettings
from lmev2.models.wordllama_backend import WordLlamaEmbedder
WordLlamaEmbedder(EmbedderSettings(backend="wordllama", model="w")).embed_query("a")
root = logging.getLogger()
assert root.handlers == [] and root.level == logging.WARNING, (root.handlers, root.level)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
