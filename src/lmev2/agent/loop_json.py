"""Tool calls as JSON: any chat backend as a model of the agent loop, so that a small local model can drive it.

The model is told its tools in the system prompt and must reply with one JSON object, under a grammar where the backend
has one: ``{"thought", "tool", "arguments"}`` to call a tool, ``{"thought", "final"}`` to end.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_ai import (
    BinaryContent,
    ModelMessage,
    ModelResponse,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai import TextPart as SaidPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from lmev2.agent.in_thread import in_thread
from lmev2.agent.loop_model import Trace, prompt_text
from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import Usage
from lmev2.models.json_reply import ask_json
from lmev2.models.request import make_request
from lmev2.models.text import well_formed
from lmev2.models.types import (
    ChatBackend,
    ChatReply,
    ChatRequest,
    ImagePart,
    Message,
    TextPart,
    TokenCounter,
)

_ROLE = "agent"
_THOUGHT_CHARS = 400
_LEFT_OUT = "(the result of an earlier call, left out to save room)"
_MARGIN_TOKENS = 256  # of the chat template around the messages
_FORMAT = """{instructions}

You have these tools:
{tools}

Reply with exactly one JSON object and nothing else.
To call a tool: {{"thought": "why", "tool": "NAME", "arguments": {{…}}}}
To end without a further call: {{"thought": "why", "final": "what you did"}}"""


def json_model(
    chat: ChatBackend, settings: AgentSettings, trace: Trace, scratch: Path, writing: threading.Lock
) -> FunctionModel:
    """A model for the agent loop that asks a chat backend for JSON.

    A reply that is not such an object is repaired by one more call; a second such reply ends the run. Where the
    backend's window is known, the oldest results are left out of a conversation that would not fit.

    Args:
        trace: is told what every call cost.
        scratch: a folder outside of the sandbox, where images lie while the model looks at them.
        writing: held while the model writes a reply, which goes on where nobody waits for it any more.
    """
    watched = _Watched(chat, trace)

    def ask(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tools = [*info.function_tools, *info.output_tools]
        turns = _turns(messages, scratch)
        system = _FORMAT.format(instructions=info.instructions or "", tools="\n".join(map(_described, tools)))
        if chat.context_length is not None:
            room = chat.context_length - settings.sampling.max_tokens - _MARGIN_TOKENS
            _fit(turns, room - chat.counter().count(system), chat.counter())
        conversation = [Message.text("system", system), *(turn.message() for turn in turns)]
        request = make_request(settings, conversation, role=_ROLE)
        reply, _ = ask_json(watched, request, reply_schema(tools), repair_cut=True)
        return _response(reply, watched.last_thinking)

    def ask_alone(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        with writing:
            return ask(messages, info)

    async def ask_apart(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return await in_thread(partial(ask_alone, messages, info))

    return FunctionModel(ask_apart, model_name=settings.model)


def reply_schema(tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The JSON schema of a reply: a call of one of the tools, or the end."""
    definitions: dict[str, Any] = {}
    forms = []
    for tool in tools:
        arguments = {name: value for name, value in tool.parameters_json_schema.items() if name != "$defs"}
        definitions |= tool.parameters_json_schema.get("$defs", {})
        forms.append(_form({"tool": {"const": tool.name}, "arguments": arguments}))
    forms.append(_form({"final": {"type": "string"}}))
    return {"anyOf": forms} | ({"$defs": definitions} if definitions else {})


def _form(properties: dict[str, Any]) -> dict[str, Any]:
    properties = {"thought": {"type": "string", "maxLength": _THOUGHT_CHARS}, **properties}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _described(tool: ToolDefinition) -> str:
    schema = json.dumps(tool.parameters_json_schema, ensure_ascii=False)
    return f"- {tool.name}: {tool.description or ''}\n  arguments: {schema}"


def _response(reply: Mapping[str, Any], thinking: str) -> ModelResponse:
    parts: list[ThinkingPart | SaidPart | ToolCallPart] = [ThinkingPart(thinking)] if thinking else []
    if "final" in reply:
        parts.append(SaidPart(reply["final"]))
    else:
        parts += [SaidPart(reply["thought"]), ToolCallPart(reply["tool"], reply["arguments"])]
    # Counted call by call in the trace; without a mark of its own, the library would estimate.
    return ModelResponse(parts, usage=RequestUsage(unmeasured_requests=1))


class _Watched:
    """A chat backend whose calls are counted; sees the repairs, too."""

    def __init__(self, chat: ChatBackend, trace: Trace):
        self._chat, self._trace = chat, trace
        self.model, self.supports_images = chat.model, chat.supports_images
        self.context_length = chat.context_length
        self.last_thinking = ""

    def identity(self) -> dict[str, Any]:
        return self._chat.identity()

    def complete(self, request: ChatRequest) -> ChatReply:
        reply = self._chat.complete(request)
        self._trace.spend(Usage(1, reply.prompt_tokens, 0, reply.completion_tokens, 0))
        self.last_thinking = reply.thinking
        return reply

    def counter(self) -> TokenCounter:
        return self._chat.counter()


@dataclass
class _Turn:
    """Successive messages of one side: texts and images; ``results`` are the places of texts that may be left out."""

    role: str
    parts: list[TextPart | ImagePart] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    def message(self) -> Message:
        texts = [replace(part, text=part.text + "\n\n") if isinstance(part, TextPart) else part for part in self.parts]
        if texts and isinstance(texts[-1], TextPart):
            texts[-1] = self.parts[-1]
        return Message("assistant" if self.role == "assistant" else "user", tuple(texts))


def _turns(messages: Sequence[ModelMessage], scratch: Path) -> list[_Turn]:
    """The conversation with alternating roles, as chat templates want it."""
    turns: list[_Turn] = []

    def turn(role: str) -> _Turn:
        if not turns or turns[-1].role != role:
            turns.append(_Turn(role))
        return turns[-1]

    for message in messages:
        if isinstance(message, ModelResponse):
            turn("assistant").parts.append(TextPart(_said(message)))
            continue
        for part in message.parts:
            current = turn("user")
            if isinstance(part, ToolReturnPart):
                current.results.append(len(current.parts))
                current.parts.append(TextPart(f"Result of {part.tool_name}:\n{_result_text(part)}"))
            elif isinstance(part, UserPromptPart):
                current.parts.append(TextPart(prompt_text(part)))
                current.parts += [ImagePart(_kept(image, scratch)) for image in _images(part)]
    return turns


def _result_text(part: ToolReturnPart) -> str:
    return part.content if isinstance(part.content, str) else part.model_response_str()


def _said(response: ModelResponse) -> str:
    text = "\n".join(part.content for part in response.parts if isinstance(part, SaidPart))
    for call in response.parts:
        if isinstance(call, ToolCallPart):
            value = {"thought": text, "tool": call.tool_name, "arguments": call.args_as_dict()}
            return json.dumps(value, ensure_ascii=False)
    return json.dumps({"final": text}, ensure_ascii=False)


def _images(part: UserPromptPart) -> list[BinaryContent]:
    return [] if isinstance(part.content, str) else [item for item in part.content if isinstance(item, BinaryContent)]


def _kept(image: BinaryContent, scratch: Path) -> Path:
    suffix = mimetypes.guess_extension(image.media_type) or ".png"
    path = scratch / (hashlib.sha256(image.data).hexdigest() + suffix)
    if not path.exists():
        path.write_bytes(image.data)
    return path


def _fit(turns: list[_Turn], room: int, counter: TokenCounter) -> None:
    """Leave out the oldest results, but never the newest, until the conversation has at most ``room`` tokens."""

    def tokens(part: TextPart | ImagePart) -> int:
        return counter.count_image(part.path) if isinstance(part, ImagePart) else counter.count(well_formed(part.text))

    total = sum(tokens(part) for turn in turns for part in turn.parts)
    places = [(turn, place) for turn in turns for place in turn.results]
    for turn, place in places[:-1]:
        if total <= room:
            return
        left_out = TextPart(_LEFT_OUT)
        total += tokens(left_out) - tokens(turn.parts[place])
        turn.parts[place] = left_out
