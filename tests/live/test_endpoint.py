"""One call to each real endpoint that the environment names: ``pytest -m live``."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from lmev2.models.cache import CallCache
from lmev2.models.factory import make_chat, make_embedder
from lmev2.models.settings import ChatSettings, EmbedderSettings, SamplingSettings
from lmev2.models.types import ChatRequest, Message, Sampling

pytestmark = pytest.mark.live


def served(endpoint: str) -> str:
    """The served model's name, from the environment; skips without an endpoint."""
    if f"{endpoint}_BASE_URL" not in os.environ:
        pytest.skip(f"set {endpoint}_BASE_URL and {endpoint}_MODEL (and {endpoint}_API_KEY) to call a real endpoint")
    return os.environ[f"{endpoint}_MODEL"]


@pytest.mark.parametrize("endpoint", ["LMEV2_READER", "LMEV2_JUDGE"])
def test_a_chat_endpoint_answers(endpoint: str, tmp_path: Path) -> None:
    sampling = SamplingSettings(max_tokens=400)
    settings = ChatSettings(backend="openai", model=served(endpoint), endpoint=endpoint, sampling=sampling)
    request = ChatRequest((Message.text("user", "Say the word yes."),), Sampling(max_tokens=400))
    reply = make_chat(settings, CallCache(tmp_path), threads=1).complete(request)
    assert "yes" in reply.text.lower() and reply.prompt_tokens > 0


def test_an_embedding_endpoint_answers(tmp_path: Path) -> None:
    endpoint = "LMEV2_EMBEDDER"
    model = served(endpoint)
    settings = EmbedderSettings(
        backend="openai",
        model=model,
        endpoint=endpoint,
        tokenizer=os.environ.get(f"{endpoint}_TOKENIZER", model),
        dimension=int(os.environ.get(f"{endpoint}_DIMENSION", "4096")),
    )
    vector = make_embedder(settings, CallCache(tmp_path), threads=1).embed_query("order status")
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-3)
