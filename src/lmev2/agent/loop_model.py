"""The models of the agent loop: an endpoint's own tool calls, or tool calls as JSON from any chat backend.

Both record what was said and what it cost, also when the run fails later. The time of a failed request, and of the wait
after it, is accounted as waited, as for every other model call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import openai
from pydantic_ai import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings

from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import Usage
from lmev2.models.openai_endpoint import Access
from lmev2.models.retry import PASSING_STATUS, RetryPolicy
from lmev2.models.stopwatch import account
from lmev2.models.text import cut_middle, well_formed

_CONNECT_TIMEOUT_S = 30.0
_EVENT_CHARS = 4000
_PASSING = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError)


class Trace:
    """What happened in an attempt so far.

    Attributes:
        usage: of the model calls.
        events: in order, as JSON objects: ``model`` (text, thinking, calls) and ``result`` (of a tool, or what else the
            model was told); texts are cut.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self.events: list[Mapping[str, Any]] = []
        self._started = time.perf_counter()

    def spend(self, usage: Usage) -> None:
        """Add what a model call cost."""
        self.usage += usage

    def add(self, kind: str, **content: object) -> None:
        """Add an event with the seconds since the start."""
        at = round(time.perf_counter() - self._started, 3)
        self.events.append({"type": kind, "at_s": at, **{name: _cut(value) for name, value in content.items()}})


class WatchedModel(WrapperModel):
    """Records what the model is told and what it says, and asks no more when the time is up.

    Args:
        deadline: on the clock of :func:`time.monotonic`.
    """

    def __init__(self, wrapped: Model, trace: Trace, deadline: float):
        super().__init__(wrapped)
        self._trace, self._deadline = trace, deadline

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the model behind.

        Raises:
            TimeoutError: the deadline has passed.
        """
        if isinstance(messages[-1], ModelRequest):
            self._record_request(messages[-1])
        if time.monotonic() >= self._deadline:
            raise TimeoutError
        response = await super().request(messages, model_settings, model_request_parameters)
        self._record_response(response)
        return response

    def _record_request(self, request: ModelRequest) -> None:
        for part in request.parts:
            if isinstance(part, ToolReturnPart):
                self._trace.add("result", tool=part.tool_name, outcome=part.outcome, text=part.model_response_str())
            elif isinstance(part, UserPromptPart):
                self._trace.add("told", text=prompt_text(part))

    def _record_response(self, response: ModelResponse) -> None:
        parts = response.parts
        said: dict[str, object] = {
            "text": "\n".join(part.content for part in parts if isinstance(part, TextPart)),
            "thinking": "\n".join(part.content for part in parts if isinstance(part, ThinkingPart)),
            "calls": [
                {"tool": part.tool_name, "arguments": part.args_as_json_str()}
                for part in parts
                if isinstance(part, ToolCallPart)
            ],
        }
        self._trace.add("model", **{name: value for name, value in said.items() if value})


class RetryingModel(WrapperModel):
    """Repeats requests that failed in passing, as the policy says; a server's Retry-After is honoured."""

    def __init__(self, wrapped: Model, trace: Trace, policy: RetryPolicy):
        super().__init__(wrapped)
        self._trace, self._policy = trace, policy

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the model behind until it answers, or the retries are spent."""
        started = time.perf_counter()
        counted = 0.0
        try:
            for attempt in range(1, self._policy.retries + 2):
                begun = time.perf_counter()
                try:
                    response = await super().request(messages, model_settings, model_request_parameters)
                except (ModelAPIError, UnexpectedModelBehavior) as error:
                    if attempt > self._policy.retries or not _passes(error):
                        raise
                    await asyncio.sleep(self._policy.wait_s(attempt, getattr(error, "retry_after", None)))
                else:
                    counted = time.perf_counter() - begun
                    self._trace.spend(_usage(response))
                    return response
        finally:
            spent = time.perf_counter() - started
            account(spent, counted, spent - counted)
        raise AssertionError("the last attempt returns or raises")


def open_client(settings: AgentSettings, access: Access) -> openai.AsyncOpenAI:
    """A client of the endpoint, for one event loop. It never retries by itself: waits must be accounted."""
    timeout = openai.Timeout(settings.timeout_s, connect=min(settings.timeout_s, _CONNECT_TIMEOUT_S))
    client = openai.AsyncOpenAI(
        api_key=access.api_key,
        base_url=access.base_url,
        timeout=timeout,
        max_retries=0,
        # a proxy of the environment cannot reach a server on this machine
        http_client=openai.DefaultAsyncHttpx2Client(
            timeout=timeout,
            trust_env=not access.loopback,
            follow_redirects=False,  # a redirect would carry what is asked to a host that nobody configured
        ),
    )
    # The client reads these from variables that belong to another service than this endpoint, perhaps.
    client.organization = client.project = client.admin_api_key = None
    return client


def endpoint_model(settings: AgentSettings, client: openai.AsyncOpenAI) -> OpenAIChatModel:
    """The role's model behind an endpoint, with its sampling, thinking and effort."""
    profile = OpenAIModelProfile(
        # as everywhere here: the newer name of the limit goes to models with an effort, which know no other
        openai_chat_supports_max_completion_tokens=settings.reasoning_effort is not None,
        openai_supports_strict_tool_definition=False,
    )
    provider = OpenAICompatibleProvider(settings.endpoint, openai_client=client, profile=profile)
    sampling = settings.sampling
    extra: dict[str, object] = {
        "top_k": sampling.top_k,  # not of the original API; known to vLLM, SGLang and llama.cpp servers
        "chat_template_kwargs": None if settings.thinking is None else {"enable_thinking": settings.thinking},
    }
    chosen: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "openai_reasoning_effort": settings.reasoning_effort,
        "extra_body": {name: value for name, value in extra.items() if value is not None} or None,
    }
    options = OpenAIChatModelSettings(**{name: value for name, value in chosen.items() if value is not None})  # type: ignore[typeddict-item]
    return OpenAIChatModel(settings.served_name or settings.model, provider=provider, settings=options)


def prompt_text(part: UserPromptPart) -> str:
    """The text of a user's message; an image is a mark."""
    if isinstance(part.content, str):
        return part.content
    return "\n".join(
        item if isinstance(item, str) else "(an image)" if isinstance(item, BinaryContent) else str(item)
        for item in part.content
    )


def _passes(error: Exception) -> bool:
    """Whether asking again may cure a fault: rate limit, lost connection, server's error, reply without its parts."""
    if isinstance(error, ModelQuotaExceededError | ContentFilterError):
        return False
    if isinstance(error, ModelHTTPError):
        return error.status_code in PASSING_STATUS or error.status_code >= 500
    return isinstance(error, _PASSING) or (
        isinstance(error, UnexpectedModelBehavior) and type(error) is UnexpectedModelBehavior
    )


def _usage(response: ModelResponse) -> Usage:
    usage = response.usage
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cache_read_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.output_reasoning_tokens or usage.details.get("reasoning_tokens", 0),
    )


def _cut(value: object) -> object:
    if isinstance(value, str):
        return cut_middle(well_formed(value), _EVENT_CHARS)
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return value
