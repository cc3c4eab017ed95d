"""WordLlama embeddings: averaged token vectors whose weights ship inside the package, so no network is needed."""

from __future__ import annotations

import importlib.util
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmev2.models.embedding_text import with_instruction
from lmev2.models.gguf import remembered_sha256
from lmev2.models.settings import EmbedderSettings
from lmev2.models.text import cut_middle, encode_prefix
from lmev2.models.tokens import JsonTokenizer
from lmev2.models.types import ModelSetupError

_CONFIG, _DIMENSION = "l2_supercat", 256  # the one model inside the package; smaller dimensions are its first columns
_DIMENSIONS = (64, 128, 256)


class WordLlamaEmbedder:
    """Mean of the token vectors of a text, L2-normalised.

    Texts are cut in the middle at ``max_chars`` characters, then at ``max_tokens`` tokens. A vector does not depend on
    the texts beside it. A text without tokens gets the zero vector.
    """

    def __init__(self, settings: EmbedderSettings):
        if settings.dimension not in _DIMENSIONS:
            raise ModelSetupError(
                f"embedder wordllama: `dimension` is {settings.dimension}, expected one of {_DIMENSIONS}"
            )
        self.settings = settings
        self.model = settings.model
        self.dimension = settings.dimension
        self._guard = threading.Lock()
        self._loaded: tuple[JsonTokenizer, npt.NDArray[np.float32]] | None = None

    def identity(self) -> dict[str, Any]:
        """Hashes of weights and tokenizer, where texts are cut, and the query's prefix."""
        folder = package_folder()
        return {
            "backend": "wordllama",
            "weights_sha256": remembered_sha256(folder / "weights" / f"{_CONFIG}_{_DIMENSION}.safetensors"),
            "tokenizer_sha256": remembered_sha256(folder / "tokenizers" / f"{_CONFIG}_tokenizer_config.json"),
            "dimension": self.dimension,
            "max_tokens": self.settings.max_tokens,
            "max_chars": self.settings.max_chars,
            "query_instruction": self.settings.query_instruction,
        }

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension).

        Raises:
            ModelSetupError: the package or its files are missing.
        """
        tokenizer, weights = self._load()
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            ids = self._ids(tokenizer, text)
            if ids:
                vectors[row] = _normalised_sum(weights, ids)
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Vector of shape (dimension,) for a query, with the instruction before it, if any."""
        asked = with_instruction(self.settings.query_instruction, text)
        vector: npt.NDArray[np.float32] = self.embed_documents([asked])[0]
        return vector

    def _ids(self, tokenizer: JsonTokenizer, text: str) -> list[int]:
        cut = cut_middle(text, self.settings.max_chars)
        return encode_prefix(cut, self.settings.max_tokens, tokenizer.ids)[: self.settings.max_tokens]

    def _load(self) -> tuple[JsonTokenizer, npt.NDArray[np.float32]]:
        with self._guard:
            if self._loaded is None:
                folder = package_folder()
                with _untouched_root_logger():
                    from wordllama import WordLlama
                try:
                    # the package looks for its tokenizer in the cache folder only
                    inference = WordLlama.load(
                        _CONFIG, cache_dir=folder, dim=_DIMENSION, trunc_dim=self.dimension, disable_download=True
                    )
                except FileNotFoundError as error:
                    raise ModelSetupError(f"the wordllama package at {folder} lacks a file: {error}") from error
                self._loaded = (JsonTokenizer(inference.tokenizer), inference.embedding)
            return self._loaded


def package_folder() -> Path:
    """Where the package wordllama stands, found without importing it.

    Raises:
        ModelSetupError: it is not installed.
    """
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ModelSetupError("the package wordllama is not installed; install it or choose another embedder backend")
    return Path(next(iter(spec.submodule_search_locations)))


def _normalised_sum(weights: npt.NDArray[np.float32], ids: list[int]) -> npt.NDArray[np.float32]:
    """Direction of the mean of the ids' vectors; each distinct id is gathered once, pages repeat the same few."""
    distinct, counts = np.unique(np.minimum(ids, len(weights) - 1), return_counts=True)
    # not a matrix product: its order of summation, and so its last bits, may depend on the number of threads
    total = np.einsum("t,td->d", counts.astype(np.float64), weights[distinct].astype(np.float64))
    norm = float(np.linalg.norm(total))
    direction: npt.NDArray[np.float32] = (total / norm if norm > 0 else total).astype(np.float32)
    return direction


@contextmanager
def _untouched_root_logger() -> Iterator[None]:
    """Undo what an import does to the root logger: wordllama configures it as an application would."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in list(root.handlers):
            if handler not in handlers:
                root.removeHandler(handler)
        root.setLevel(level)
