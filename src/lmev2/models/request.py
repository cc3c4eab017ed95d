"""Requests from a role's settings. Apart from the backends, so that what only asks does not depend on all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lmev2.models.settings import ChatSettings
from lmev2.models.types import ChatRequest, Message, Sampling


def make_request(
    settings: ChatSettings,
    messages: Iterable[Message],
    *,
    schema: dict[str, Any] | None = None,
    thinking: bool | None = None,
    sample: int = 0,
    role: str = "",
) -> ChatRequest:
    """A request with the sampling, thinking and effort of a role's settings.

    Args:
        thinking: overrides the role's own setting if the role has one; a model that cannot switch is left alone.
    """
    sampling = settings.sampling
    return ChatRequest(
        messages=tuple(messages),
        sampling=Sampling(sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens, sampling.seed),
        schema=schema,
        thinking=settings.thinking if thinking is None or settings.thinking is None else thinking,
        reasoning_effort=settings.reasoning_effort,
        sample=sample,
        role=role,
    )
