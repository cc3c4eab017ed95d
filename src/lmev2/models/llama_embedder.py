"""Embeddings by a GGUF model in this process, through llama.cpp.

The library's own wrapper for embeddings is not used: it adds no end token where the file leaves that open, keeps a
slot for each of 256 sequences, and needs a batch as long as the longest text. Here one sequence at a time is read in
pieces, all tokens' vectors come back, and pooling is done here in 64 bits. So a vector depends on its text alone.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lmev2.models.cache import CallCache
from lmev2.models.embedding_text import check_dimension, unit_vector, with_instruction
from lmev2.models.gguf import import_llama_cpp, llama_cpp_version, remembered_sha256, resolve_file
from lmev2.models.settings import EmbedderSettings
from lmev2.models.stopwatch import account
from lmev2.models.text import cut_middle, encode_prefix, well_formed
from lmev2.models.types import ModelCallError, ModelSetupError

Pooling = Literal["mean", "cls", "last"]
_POOLINGS: dict[str, Pooling] = {"1": "mean", "2": "cls", "3": "last"}  # llama.cpp's enum llama_pooling_type
_PIECE = 512  # tokens read at a time; the model's logits take room for so many, though nobody wants them
_PROBE = "a"


@dataclass(frozen=True)
class _Loaded:
    """A model that is ready: its handles, how it pools, and the special tokens before and behind a text."""

    context: Any
    memory: Any  # None for an encoder, which reads a text in one piece
    vocabulary: Any
    width: int
    piece: int
    pooling: Pooling
    before: tuple[int, ...]
    behind: tuple[int, ...]


class LlamaEmbedder:
    """An embedding model from a GGUF file.

    Texts are cut in the middle at ``max_chars`` characters, then at ``max_tokens`` tokens; the special tokens that the
    file asks for come on top. A model that pools at the last token was trained with an end token there. llama.cpp
    appends it where the file says ``tokenizer.ggml.add_eos_token``, as those of Qwen3-Embedding do that were converted
    since June 2025. Where the file does not say so, ``end_token`` must say it.

    Vectors are L2-normalised. A text without content gets the zero vector.
    """

    def __init__(self, settings: EmbedderSettings, cache: CallCache, threads: int):
        if settings.file is None:
            raise ModelSetupError(
                f"embedder {settings.model!r}: backend llama_cpp needs `file`, a GGUF path or package:NAME"
            )
        if threads < 1:
            raise ValueError(f"threads is {threads}, expected 1 or more")
        self.settings = settings
        self.model = settings.model
        self.dimension = settings.dimension
        self.threads = threads
        self._file = settings.file
        self._cache = cache
        self._lock = threading.Lock()  # llama.cpp is not re-entrant
        self._loaded: _Loaded | None = None
        self._identity: dict[str, Any] | None = None

    def identity(self) -> dict[str, Any]:
        """The file's hash, how texts are cut and pooled, the query's prefix, and the library's version."""
        if self._identity is None:
            names = ("pooling", "end_token", "dimension", "max_tokens", "max_chars", "query_instruction")
            self._identity = {
                "backend": "llama_cpp",
                "file_sha256": remembered_sha256(resolve_file(self._file), self._cache),
                **{name: getattr(self.settings, name) for name in names},
                "n_batch": _PIECE,
                "llama_cpp_python": llama_cpp_version(),
            }
        return self._identity

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension).

        Raises:
            ModelCallError: ``api_error`` when llama.cpp fails, ``malformed_reply`` when a vector has no direction.
            ModelSetupError: the file is missing, cannot be loaded, or does not fit the settings.
        """
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        with self._lock:
            for row, text in enumerate(texts):
                if text.strip():
                    loaded = self._load()
                    pooled = self._pooled(loaded, self._tokens(loaded, text))
                    vectors[row] = unit_vector(pooled, self.dimension, self.model)
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Vector of shape (dimension,) for a query, with the instruction before it."""
        vector: npt.NDArray[np.float32] = self.embed_documents(
            [with_instruction(self.settings.query_instruction, text)]
        )[0]
        return vector

    def _tokens(self, loaded: _Loaded, text: str) -> list[int]:
        cut = cut_middle(well_formed(text), self.settings.max_chars)
        limit = self.settings.max_tokens
        tokens = encode_prefix(cut, limit, lambda part: _tokenize(loaded.vocabulary, part))[:limit]
        return [*loaded.before, *tokens, *loaded.behind]

    def _pooled(self, loaded: _Loaded, tokens: list[int]) -> npt.NDArray[np.float64]:
        """Vector of shape (width,) of a sequence."""
        llama_cpp = import_llama_cpp()
        if loaded.memory is not None:
            llama_cpp.llama_memory_clear(loaded.memory, False)
        total = np.zeros(loaded.width)
        for start in range(0, len(tokens), loaded.piece):
            vectors = self._read(loaded, tokens[start : start + loaded.piece])
            if loaded.pooling == "mean":
                total += vectors.sum(axis=0, dtype=np.float64)
            elif loaded.pooling == "last":
                total[:] = vectors[-1]
            elif start == 0:
                total[:] = vectors[0]
        return total

    def _read(self, loaded: _Loaded, tokens: list[int]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(tokens), width) of the next tokens of a sequence; valid until the next call."""
        llama_cpp = import_llama_cpp()
        array = (llama_cpp.llama_token * len(tokens))(*tokens)  # named, since the batch holds only its address
        code = llama_cpp.llama_decode(loaded.context, llama_cpp.llama_batch_get_one(array, len(tokens)))
        if code != 0:
            raise ModelCallError("api_error", f"{self.model}: llama.cpp failed on {len(tokens)} tokens (code {code})")
        return np.ctypeslib.as_array(llama_cpp.llama_get_embeddings(loaded.context), (len(tokens), loaded.width))

    def _load(self) -> _Loaded:
        if self._loaded is None:
            started = time.perf_counter()
            self._loaded = self._loaded_anew()
            account(time.perf_counter() - started, 0.0)  # loading is no part of a query's time
        return self._loaded

    def _loaded_anew(self) -> _Loaded:
        llama_cpp = import_llama_cpp()
        path = resolve_file(self._file)
        model = llama_cpp.llama_model_load_from_file(os.fsencode(path), llama_cpp.llama_model_default_params())
        if model is None:
            raise ModelSetupError(f"llama.cpp cannot load {path}; is it a whole GGUF file of a known architecture?")
        weakref.finalize(self, llama_cpp.llama_model_free, model)
        width = int(llama_cpp.llama_model_n_embd_out(model))
        check_dimension(path.name, width, self.dimension, self.settings.matryoshka)
        vocabulary = llama_cpp.llama_model_get_vocab(model)
        pooling = self.settings.pooling or _pooling(model, path.name)
        before, behind = _special_tokens(vocabulary, pooling, self.settings.end_token, path.name)
        context, memory, piece = self._context(model, path.name, self.settings.max_tokens + len(before) + len(behind))
        return _Loaded(context, memory, vocabulary, width, piece, pooling, before, behind)

    def _context(self, model: Any, name: str, length: int) -> tuple[Any, Any, int]:
        """A context for sequences of up to ``length`` tokens, its memory, and how many tokens it reads at a time."""
        llama_cpp = import_llama_cpp()
        trained = llama_cpp.llama_model_n_ctx_train(model)
        if length > trained:
            raise ModelSetupError(
                f"{name} was trained for {trained} tokens; `max_tokens` is {self.settings.max_tokens}, with special "
                f"tokens {length}. Set it to {trained - length + self.settings.max_tokens} or less"
            )
        piece = min(_PIECE, length)
        context = self._new_context(model, name, length, piece)
        memory = llama_cpp.llama_get_memory(context)
        if not memory and piece < length:  # an encoder: each token sees all others, so all are read at once
            llama_cpp.llama_free(context)
            piece = length
            context = self._new_context(model, name, length, piece)
        weakref.finalize(self, llama_cpp.llama_free, context)  # made later than the model's, so called before it
        return context, memory or None, piece

    def _new_context(self, model: Any, name: str, length: int, piece: int) -> Any:
        llama_cpp = import_llama_cpp()
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = length
        parameters.n_batch = parameters.n_ubatch = piece
        parameters.n_seq_max = 1
        parameters.n_threads = parameters.n_threads_batch = self.threads
        parameters.embeddings = True
        parameters.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_NONE
        context = llama_cpp.llama_init_from_model(model, parameters)
        if context is None:
            raise ModelSetupError(f"llama.cpp cannot make a context of {length} tokens for {name}; is memory short?")
        return context


def _pooling(model: Any, name: str) -> Pooling:
    """How the file says that tokens' vectors become one."""
    architecture = _metadata(model, "general.architecture")
    found = _metadata(model, f"{architecture}.pooling_type")
    if found not in _POOLINGS:
        raise ModelSetupError(
            f"{name} does not name its pooling ({architecture}.pooling_type is {found or 'missing'}, expected one of "
            f"{_POOLINGS}); it may be no embedding model. Set `pooling` to mean, cls or last if you know it"
        )
    return _POOLINGS[found]


def _metadata(model: Any, key: str) -> str:
    """A value of the file's header as text; empty if it has none."""
    llama_cpp = import_llama_cpp()
    buffer = ctypes.create_string_buffer(256)
    length = llama_cpp.llama_model_meta_val_str(model, key.encode("utf-8"), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if length >= 0 else ""


def _special_tokens(
    vocabulary: Any, pooling: Pooling, end_token: str | None, name: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens before and behind a text, by the file or by the setting."""
    plain, whole = _tokenize(vocabulary, _PROBE), _tokenize(vocabulary, _PROBE, add_special=True)
    start = next(place for place in range(len(whole)) if whole[place : place + len(plain)] == plain)
    before, behind = tuple(whole[:start]), tuple(whole[start + len(plain) :])
    if end_token is not None:
        behind = tuple(_tokenize(vocabulary, end_token, parse_special=True))
        if len(behind) > 1:
            raise ModelSetupError(f"`end_token` {end_token!r} is {len(behind)} tokens to {name}, expected one")
    elif pooling == "last" and not behind:
        raise ModelSetupError(
            f"{name} does not say that an end token is appended to texts (tokenizer.ggml.add_eos_token), but pooling "
            "`last` takes the vector there. Set `end_token` to the token with which the model was trained "
            '(<|endoftext|> for Qwen3-Embedding), or to "" if it needs none'
        )
    return before, behind


def _tokenize(vocabulary: Any, text: str, add_special: bool = False, parse_special: bool = False) -> list[int]:
    """Token ids of a text; marks of special tokens inside it are plain text unless they are to be parsed."""
    llama_cpp = import_llama_cpp()
    data = text.encode("utf-8")
    room = len(data) + 8  # a token is a byte or more; special tokens come on top
    while True:
        buffer = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(vocabulary, data, len(data), buffer, room, add_special, parse_special)
        if count >= 0:
            return list(buffer[:count])
        room = -count
