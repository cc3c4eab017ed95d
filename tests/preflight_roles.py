"""Roles at an endpoint of a test, and what is found about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from chatserver import Answer, Call, ChatServer, bags_of_words, completion

from lmev2.models import preflight_probe
from lmev2.models.preflight_probe import Finding
from lmev2.models.settings import ChatSettings, ControllerSettings, EmbedderSettings, JudgeSettings, ReaderSettings

KEY = "key-5c1f8d90a2"
ENDPOINT = "PREFLIGHT_TEST"
DIMENSION = 16
GOOD_JSON = '{"label": 1, "reason": "ok"}'
WINDOW = 4096
MODELS = [{"id": name, "max_model_len": WINDOW} for name in ("m-reader", "m-judge", "m-controller", "m-embedder")]


def well(call: Call) -> Answer:
    return Answer(bags_of_words(call.body, DIMENSION) if call.task == "embedding" else completion(GOOD_JSON))


def unexpected(call: Call) -> Answer:
    raise AssertionError(f"no check: {call}")


def with_image(call: Call) -> bool:
    return bool(call.images)


def wants_json(call: Call) -> bool:
    return "response_format" in call.body


@contextmanager
def serving(
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Call], Answer] = well,
    models: list[dict[str, Any]] | None = MODELS,
    user: str = "",
) -> Iterator[ChatServer]:
    with ChatServer(unexpected, models, check) as server:
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", server.url.replace("//", f"//{user}"))
        monkeypatch.setenv(f"{ENDPOINT}_API_KEY", KEY)
        monkeypatch.setattr(preflight_probe, "_RETRY_WAIT_S", 0.0)
        monkeypatch.setattr(preflight_probe, "LONGEST_WAIT_S", 0.0)
        yield server


def chat(kind: type[ChatSettings], role: str, **values: Any) -> Any:
    settings = {"context_length": WINDOW, "endpoint": ENDPOINT, "sampling": {"max_tokens": 200}, **values}
    return kind.model_validate({"backend": "openai", "model": f"m-{role}", **settings})


def reader(**values: Any) -> Any:
    return chat(ReaderSettings, "reader", context_tokens=0, **values)


def judge(**values: Any) -> Any:
    return chat(JudgeSettings, "judge", **values)


def controller(**values: Any) -> Any:
    return chat(ControllerSettings, "controller", **values)


def embedder(**values: Any) -> EmbedderSettings:
    base = {"backend": "openai", "model": "m-embedder", "tokenizer": "t", "dimension": DIMENSION, "endpoint": ENDPOINT}
    return EmbedderSettings.model_validate(base | values)


def findings(settings: Any, role: str = "reader") -> dict[str, Finding]:
    return {one.capability: one for one in preflight_probe.probe(role, settings)}


def states(settings: Any, role: str = "reader") -> dict[str, str]:
    return {name: one.state for name, one in findings(settings, role).items()}


def vectors(*vector: object) -> Answer:
    return Answer({"data": [{"index": 0, "embedding": list(vector)}]})
