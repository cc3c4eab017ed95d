"""Backends from settings: the one place that knows them all.

Each backend is imported when it is made: the client libraries take seconds to import, and most jobs need none or one.
"""

from __future__ import annotations

from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat, CachedEmbedder
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.types import ChatBackend, EmbeddingBackend, ModelSetupError, TokenCounter

_SORTED_BATCHES = 16
# Their vectors are not kept in the call cache: making one costs no more than reading a file.
UNCACHED_EMBEDDERS = ("wordllama", "scripted")


def make_chat(settings: ChatSettings, cache: CallCache, threads: int) -> ChatBackend:
    """The chat backend of a role, behind the cache.

    Nothing is loaded or connected before the first request that the cache cannot answer.

    Args:
        threads: CPU threads of a model in this process; those that the job was given, never more.

    Raises:
        ModelSetupError: a setting that the backend needs is missing, or the backend is ``rules``, which is no model.
    """
    return CachedChat(_bare_chat(settings, cache, threads), cache)


def make_embedder(settings: EmbedderSettings, cache: CallCache, threads: int) -> EmbeddingBackend:
    """The embedding backend of a role; behind the cache where a call costs more than reading a file.

    Args:
        threads: CPU threads of a model in this process; those that the job was given, never more.

    Raises:
        ModelSetupError: a setting that the backend needs is missing.
    """
    embedder = _bare_embedder(settings, cache, threads)
    if settings.backend in UNCACHED_EMBEDDERS:
        return embedder
    # Texts of like length can stand together only where many are known at once.
    at_once = settings.batch_size * (_SORTED_BATCHES if settings.padded_batches else 1)
    return CachedEmbedder(embedder, cache, at_once, settings.concurrency if settings.backend == "openai" else 1)


def make_counter(settings: ChatSettings, cache: CallCache) -> TokenCounter:
    """The token counter of a role, without loading its model.

    Raises:
        ModelSetupError: the role has no tokenizer.
    """
    return _bare_chat(settings, cache, threads=1).counter()


def _bare_chat(settings: ChatSettings, cache: CallCache, threads: int) -> ChatBackend:
    if settings.backend == "llama_cpp":
        from lmev2.models.llama import LlamaChat

        return LlamaChat(settings, cache, threads)
    if settings.backend == "transformers":
        from lmev2.models.transformers_backend import TransformersChat

        return TransformersChat(settings, cache, threads)
    if settings.backend == "openai":
        from lmev2.models.openai_backend import OpenAIChat

        return OpenAIChat(settings)
    if settings.backend == "scripted":
        if settings.script is None:
            raise ModelSetupError(f"model {settings.model!r}: backend scripted needs `script`, a JSON-lines file")
        from lmev2.models.scripted import ScriptedChat, read_script

        images = settings.image_tokens if settings.images else None
        counter = None
        if settings.file is not None:
            from lmev2.models.tokens import VocabularyCounter

            counter = VocabularyCounter(settings.file)
        script = read_script(settings.script)
        return ScriptedChat(script, settings.model, images, settings.context_length, tokens=counter)
    raise ModelSetupError(
        f"model {settings.model!r}: backend rules is a marker for decisions without a model; it cannot be called. "
        "Choose llama_cpp, transformers, openai or scripted for a role that needs replies"
    )


def _bare_embedder(settings: EmbedderSettings, cache: CallCache, threads: int) -> EmbeddingBackend:
    if settings.backend == "wordllama":
        from lmev2.models.wordllama_backend import WordLlamaEmbedder

        return WordLlamaEmbedder(settings)
    if settings.backend == "scripted":
        from lmev2.models.scripted import ScriptedEmbedder

        return ScriptedEmbedder(settings)
    if settings.backend == "llama_cpp":
        from lmev2.models.llama_embedder import LlamaEmbedder

        return LlamaEmbedder(settings, cache, threads)
    if settings.backend == "sentence_transformers":
        from lmev2.models.sentence_transformers_backend import SentenceTransformersEmbedder

        return SentenceTransformersEmbedder(settings, cache, threads)
    from lmev2.models.openai_backend import OpenAIEmbedder

    return OpenAIEmbedder(settings)
