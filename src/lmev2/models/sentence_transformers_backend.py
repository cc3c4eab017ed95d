"""Embeddings by a sentence-transformers model in this process, on a GPU if there is one.

Needs the extra ``gpu``. PyTorch is imported with the first text that the cache does not know.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmev2.models.cache import CallCache
from lmev2.models.embedding_text import check_dimension, unit_vector, with_instruction
from lmev2.models.model_folder import find_folder, folder_sha256, package_version
from lmev2.models.settings import EmbedderSettings
from lmev2.models.stopwatch import account
from lmev2.models.text import cut_middle, encode_prefix, well_formed
from lmev2.models.tokens import JsonTokenizer
from lmev2.models.torch_memory import free_memory, out_of_memory
from lmev2.models.types import ModelCallError, ModelSetupError

_PACKAGES = ("sentence-transformers", "transformers", "torch")
_MODULES_FILE = "modules.json"
_BACKEND = "sentence_transformers"


class SentenceTransformersEmbedder:
    """A sentence-transformers model from the hub or from a folder.

    Texts are cut in the middle at ``max_chars`` characters, then at ``max_tokens`` tokens of the model's own tokenizer;
    the model's special tokens come on top. A query gets the prefix of ``query_instruction``; prompts that the model's
    configuration holds are not used. Texts are embedded one at a time: padding and the shapes of a batch would change
    the last bits of a vector, in 16-bit types more than those, and long texts fill a GPU one by one. With
    ``padded_batches`` texts of like length go together, where that is worth more.

    Vectors are L2-normalised. A text without content gets the zero vector.
    """

    def __init__(self, settings: EmbedderSettings, cache: CallCache, threads: int):
        if threads < 1:
            raise ValueError(f"threads is {threads}, expected 1 or more")
        self.settings = settings
        self.model = settings.model
        self.dimension = settings.dimension
        self.threads = threads
        self.source = settings.served_name or settings.model
        self._cache = cache
        self._lock = threading.Lock()
        self._loaded: tuple[Any, JsonTokenizer] | None = None
        self._identity: dict[str, Any] | None = None

    def identity(self) -> dict[str, Any]:
        """Hub id and revision, or the hash of the folder's files; number type, how texts are cut, the query's prefix,
        and the versions of the libraries. Not the device: the same model may move.

        Raises:
            ModelSetupError: the extra is not installed, or the folder does not exist or is no model's.
        """
        if self._identity is None:
            names = ("revision", "dtype", "dimension", "max_tokens", "max_chars", "query_instruction")
            folder = model_folder(self.source)
            self._identity = {
                "backend": _BACKEND,
                "source": self.source if folder is None else folder_sha256(folder, self._cache),
                **{name: getattr(self.settings, name) for name in names},
                "versions": {name: package_version(name, _BACKEND) for name in _PACKAGES},
            }
            if self.settings.padded_batches:
                self._identity["padded_batches"] = True
        return self._identity

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension).

        Raises:
            ModelCallError: ``api_error`` when the model fails, such as for want of memory, ``malformed_reply`` when a
                vector has no direction.
            ModelSetupError: the model cannot be had or does not fit the settings.
        """
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        rows = [row for row, text in enumerate(texts) if text.strip()]
        with self._lock:
            if rows:
                vectors[rows] = self._embed([texts[row] for row in rows])
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Vector of shape (dimension,) for a query, with the instruction before it."""
        vector: npt.NDArray[np.float32] = self.embed_documents(
            [with_instruction(self.settings.query_instruction, text)]
        )[0]
        return vector

    def _embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        model, tokenizer = self._load()
        cut = [self._cut(tokenizer, text) for text in texts]
        order = list(range(len(cut)))
        size = 1
        if self.settings.padded_batches:
            order.sort(key=lambda row: (len(cut[row]), row))
            size = self.settings.batch_size
        vectors = np.zeros((len(cut), self.dimension), np.float32)
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            for row, vector in zip(rows, self._encode(model, [cut[row] for row in rows]), strict=True):
                vectors[row] = unit_vector(vector, self.dimension, self.model)
        return vectors

    def _encode(self, model: Any, texts: list[str]) -> npt.NDArray[np.floating]:
        options = {"prompt": "", "show_progress_bar": False, "convert_to_numpy": True}
        try:
            if len(texts) == 1:  # as it stands: no padding
                return np.asarray(model.encode(texts[0], **options))[np.newaxis]
            return np.asarray(model.encode(texts, batch_size=len(texts), **options))
        except RuntimeError as error:
            if len(texts) == 1 or not out_of_memory(error):
                raise ModelCallError("api_error", f"{self.model}: PyTorch failed: {error}") from error
        free_memory()
        half = len(texts) // 2
        return np.concatenate([self._encode(model, texts[:half]), self._encode(model, texts[half:])])

    def _cut(self, tokenizer: JsonTokenizer, text: str) -> str:
        limit = self.settings.max_tokens
        cut = cut_middle(well_formed(text), self.settings.max_chars)
        offsets = encode_prefix(cut, limit, tokenizer.offsets)
        return cut if len(offsets) <= limit else cut[: offsets[limit - 1][1]]

    def _load(self) -> tuple[Any, JsonTokenizer]:
        if self._loaded is None:
            started = time.perf_counter()
            self._loaded = self._loaded_anew()
            account(time.perf_counter() - started, 0.0)  # loading is no part of a query's time
        return self._loaded

    def _loaded_anew(self) -> tuple[Any, JsonTokenizer]:
        package_version("sentence-transformers", _BACKEND)
        model_folder(self.source)
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.util import is_sentence_transformer_model

        torch.set_num_threads(self.threads)
        revision, dtype = self.settings.revision, self.settings.dtype
        try:
            described = is_sentence_transformer_model(self.source, revision=revision)
            if described:
                model = SentenceTransformer(
                    self.source,
                    device=self.settings.device,
                    revision=revision,
                    model_kwargs={} if dtype is None else {"dtype": getattr(torch, dtype)},
                )
        except Exception as error:  # the libraries raise whatever the hub, the files or the device make them meet
            raise ModelSetupError(
                f"sentence-transformers cannot load {self.source!r} (revision {revision or 'main'}, device "
                f"{self.settings.device or 'automatic'}): {type(error).__name__}: {error}. Without network, set "
                "`served_name` to a folder that holds the model"
            ) from error
        if not described:
            raise ModelSetupError(_no_modules_file(self.source))
        tokenizer = self._own_tokenizer(model)
        check_dimension(self.source, int(model.get_embedding_dimension()), self.dimension, self.settings.matryoshka)
        return model, tokenizer

    def _own_tokenizer(self, model: Any) -> JsonTokenizer:
        """The model's tokenizer as a copy that cuts nothing; the model's own is given room for the special tokens."""
        from tokenizers import Tokenizer

        own = model.tokenizer
        backend = getattr(own, "backend_tokenizer", None)
        if backend is None:
            raise ModelSetupError(f"{self.source!r} has no tokenizer.json, which is needed to cut texts")
        special = int(own.num_special_tokens_to_add())
        wanted, allowed = self.settings.max_tokens + special, model.max_seq_length
        if allowed is not None and wanted > allowed:
            raise ModelSetupError(
                f"{self.source!r} reads {allowed} tokens; `max_tokens` is {self.settings.max_tokens}, with special "
                f"tokens {wanted}. Set it to {allowed - special} or less"
            )
        model.max_seq_length = wanted
        return JsonTokenizer(Tokenizer.from_str(backend.to_str()))


def model_folder(source: str) -> Path | None:
    """The folder that a model's name means; None for a hub id (``owner/name``).

    Raises:
        ModelSetupError: the name can only be a folder and there is none, or the folder is no model's.
    """
    folder = find_folder(source, "a sentence-transformers model")
    if folder is not None and not (folder / _MODULES_FILE).is_file():
        raise ModelSetupError(_no_modules_file(source))
    return folder


def _no_modules_file(source: str) -> str:
    return (
        f"{source!r} holds no {_MODULES_FILE}, so how it pools would be a guess; choose a model that is published for "
        "sentence-transformers"
    )
