"""The agent ``loop``: a plain loop over a chat model with three tools, for any endpoint and for local models."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import AgentRunError, BinaryContent, UsageLimits, UserContent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models import Model

from lmev2.agent.loop_json import json_model
from lmev2.agent.loop_model import RetryingModel, Trace, WatchedModel, endpoint_model, open_client
from lmev2.agent.loop_tools import RESULT_TOOL, Toolbox, host_path, read_image
from lmev2.agent.scratch import scratch_folder
from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import AgentRun, Box, Task
from lmev2.models.openai_endpoint import Access, read_access, without_secrets
from lmev2.models.retry import RetryPolicy
from lmev2.models.text import cut_middle, well_formed
from lmev2.models.types import ChatBackend, ModelCallError

_OUTPUT_CHARS = 20_000
_DETAIL_CHARS = 500
_UNUSABLE_REPLIES = 3  # replies in a row without text or call, until the run is given up
_INSTRUCTIONS = f"""You work in a sandbox, in the folder {{folder}}. You see its files through your tools only.
The trajectories are read-only, and there is no network. /tmp and your home folder are new for every command: what a \
later command needs, keep in {{folder}}. When you are done, call {RESULT_TOOL}, which writes \
{{output_file}}; if it is refused, mend what is wrong and call it again."""


class _LostImageError(Exception):
    """The question's image is no longer there."""


class LoopAgent:
    """A loop over a chat model: it calls tools until it writes a result or stops calling.

    With backend ``openai`` the model calls tools as its endpoint defines it; any other backend is asked for JSON.
    Requests that fail in passing are repeated as often as ``retries`` says.

    Args:
        settings: the role; ``max_turns`` bounds the model calls of an attempt, ``command_s`` a command's seconds.
        chat: makes the chat backend where it is not ``openai``; called at the first attempt.
        policy: how patiently to repeat requests to an endpoint.
    """

    def __init__(self, settings: AgentSettings, chat: Callable[[], ChatBackend], policy: RetryPolicy | None = None):
        self.settings = settings
        self.name = "loop"
        self.model = settings.model
        self._make_chat = chat
        self._chat: ChatBackend | None = None
        self._writing = threading.Lock()  # held while the chat backend is at work
        self._policy = policy or RetryPolicy.of(settings.retries, settings.retry_wait_s)

    def check(self) -> None:
        """Look for the endpoint's address and key; a model in this process is checked when it is loaded.

        Raises:
            ModelSetupError: a variable is missing.
        """
        if self.settings.backend == "openai":
            read_access(self.settings.endpoint)

    def run(self, box: Box, task: Task, timeout_s: float) -> AgentRun:
        """One attempt. Commands are ended at the deadline, and so is a request to an endpoint; a model in this process
        finishes the reply that it is writing.

        Raises:
            ModelSetupError: address, key, model file or sandbox is missing.
        """
        started = time.perf_counter()
        deadline = time.monotonic() + timeout_s
        trace = Trace()
        settings = self.settings
        # A result of that many characters takes about a third of the model's window.
        output_chars = min(_OUTPUT_CHARS, settings.context_length)
        toolbox = Toolbox(
            box,
            task.output_file,
            settings.max_states,
            settings.command_s,
            output_chars,
            deadline,
            faulty_calls=settings.max_turns,
        )
        outcome: Literal["finished", "timeout", "crashed"] = "finished"
        detail: str | None = None
        access = read_access(settings.endpoint) if settings.backend == "openai" else None
        with scratch_folder() as scratch:
            try:
                asyncio.run(self._attempt(box, task, toolbox, trace, deadline, access, scratch))
            except TimeoutError:
                outcome, detail = "timeout", f"no end within {timeout_s:g} s"
                with self._writing:  # here a signal to this process still ends the wait
                    pass
            except UsageLimitExceeded:
                outcome, detail = "crashed", f"no end within {settings.max_turns} model calls (`max_turns`)"
            except (AgentRunError, ModelCallError, _LostImageError) as error:
                outcome, detail = "crashed", _told(error, access)
        wall_s = time.perf_counter() - started
        return AgentRun(outcome, detail, trace.usage, toolbox.commands, wall_s, tuple(trace.events))

    async def _attempt(
        self,
        box: Box,
        task: Task,
        toolbox: Toolbox,
        trace: Trace,
        deadline: float,
        access: Access | None,
        scratch: Path,
    ) -> None:
        async with AsyncExitStack() as stack:
            agent = PydanticAgent(
                WatchedModel(await self._open_model(trace, access, scratch, stack), trace, deadline),
                output_type=[toolbox.result(), str],
                instructions=_INSTRUCTIONS.format(folder=box.inside, output_file=task.output_file),
                tools=toolbox.tools(self._reads_images()),
                retries={"tools": self.settings.max_turns, "output": _UNUSABLE_REPLIES},
            )
            async with asyncio.timeout(deadline - time.monotonic()):
                await agent.run(
                    self._prompt(box, task), usage_limits=UsageLimits(request_limit=self.settings.max_turns)
                )

    async def _open_model(self, trace: Trace, access: Access | None, scratch: Path, stack: AsyncExitStack) -> Model:
        if access is None:
            return json_model(self._backend(), self.settings, trace, scratch, self._writing)
        client = await stack.enter_async_context(open_client(self.settings, access))
        return RetryingModel(endpoint_model(self.settings, client), trace, self._policy)

    def _backend(self) -> ChatBackend:
        if self._chat is None:
            self._chat = self._make_chat()
        return self._chat

    def _reads_images(self) -> bool:
        return self.settings.images if self.settings.backend == "openai" else self._backend().supports_images

    def _prompt(self, box: Box, task: Task) -> list[UserContent]:
        """The invocation, and the question's images for a model that reads them."""
        if not self._reads_images():
            return [task.prompt]
        prompt: list[UserContent] = [task.prompt]
        for image in task.images:
            try:
                data, kind = read_image(host_path(box, image))
            except ValueError as error:  # an earlier attempt could write to the sandbox
                raise _LostImageError(f"{image}: {error}") from None
            prompt.append(BinaryContent(data, media_type=kind))
        return prompt


def _told(error: Exception, access: Access | None) -> str:
    """What went wrong, without the key and without the address."""
    text = str(error)
    if access is not None:
        text = without_secrets(text.replace(access.base_url, "[hidden]"), access)
    return cut_middle(well_formed(f"{type(error).__name__.strip('_')}: {text}"), _DETAIL_CHARS)
