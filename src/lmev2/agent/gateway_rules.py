"""What a sandbox may ask its model's endpoint.

Any command in a sandbox can reach the gateway, and the endpoint trusts what comes from there: with another model, a
hosted tool or an address to fetch, a request would be a way to the internet. What is not known to be harmless is
refused. A body is read and written anew, so that the endpoint cannot understand it in another way than it was checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any

RESPONSES, CHAT, MODELS = "/v1/responses", "/v1/chat/completions", "/v1/models"

_MAX_PARTS = 4_000_000  # so that a body cannot fill the memory: each part takes some 70 bytes when it is read
_QUOTED_CHARS = 80


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHARED = _words(
    "model stream stream_options tools tool_choice parallel_tool_calls reasoning temperature top_p top_k min_p seed "
    "presence_penalty frequency_penalty repetition_penalty top_logprobs metadata user safety_identifier "
    "prompt_cache_key prompt_cache_retention service_tier store"
)
_KEYS = {
    RESPONSES: _SHARED
    | _words("input instructions include text max_output_tokens max_tool_calls truncation background client_metadata"),
    CHAT: _SHARED
    | _words(
        "messages functions function_call n stop stop_token_ids logprobs logit_bias max_tokens max_completion_tokens "
        "min_tokens response_format reasoning_effort verbosity ignore_eos skip_special_tokens"
    ),
}
# A reply that the endpoint keeps could be asked for later; another tier has another price.
_VALUES: Mapping[str, tuple[object, ...]] = {
    "store": (False,),
    "background": (False,),
    "service_tier": ("auto", "default", "flex"),
}
_INCLUDES = _words("reasoning.encrypted_content message.output_text.logprobs")
_TOOLS = {RESPONSES: _words("function custom local_shell"), CHAT: _words("function")}
_TOOL_KEYS = _words("type name description parameters strict format function")
_ITEMS = _words(
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call "
    "local_shell_call_output"
)
_ITEM_KEYS = _words(
    "type id status role phase end_turn content summary encrypted_content name namespace call_id arguments input "
    "output action"
)
_MESSAGE_KEYS = _words("role content name refusal reasoning reasoning_content tool_calls tool_call_id function_call")
_CALL_KEYS = _words("id index type function custom")
_PARTS = _words("text input_text output_text summary_text reasoning_text refusal image_url input_image file input_file")
_PART_KEYS = _words("type text refusal annotations logprobs image_url detail file file_data filename")


class Refused(Exception):
    """A request that is not passed on; says why."""


def checked_body(path: str, body: bytes, model: str) -> bytes:
    """The body of a POST request, written anew.

    Args:
        path: :data:`RESPONSES` or :data:`CHAT`.
        model: the only model that may be asked.

    Raises:
        Refused: the body asks for something that is not known to be harmless, or cannot be read.
    """
    request = _parsed(body)
    _only(request, _KEYS[path], "the request")
    if request.get("model") != model:
        raise Refused(f"the model {_quoted(request.get('model'))} is not the one of this sandbox, {model!r}")
    for name, allowed in _VALUES.items():
        if request.get(name) is not None and request[name] not in allowed:
            raise Refused(f"{name}: {_quoted(request[name])} is not let through")
    if not isinstance(request.get("instructions"), str | None):
        raise Refused("`instructions` must be a text")
    for include in _listed(request.get("include"), "include"):
        if not _among(include, _INCLUDES):
            raise Refused(f"include: {_quoted(include)} is not let through")
    _check_tools(request, _TOOLS[path])
    if path == RESPONSES:
        _check_items(request.get("input"))
        request["store"] = False  # left out, it would be true
    else:
        _check_messages(request.get("messages"))
        _ask_for_usage(request)
    try:
        return json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body cannot be written anew: {error}") from error


def _parsed(body: bytes) -> dict[str, Any]:
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > _MAX_PARTS:
        raise Refused(f"the body has more than {_MAX_PARTS:,} parts")
    try:
        request = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused("the body is no JSON") from error
    if not isinstance(request, dict):
        raise Refused("the body is no JSON object")
    return request


def _check_tools(request: Mapping[str, Any], types: Set[str]) -> None:
    for tool in _objects(request.get("tools"), "tools"):
        if not _among(tool.get("type"), types):
            raise Refused(f"a tool of type {_quoted(tool.get('type'))} is not let through, only {_names(types)}")
        _only(tool, _TOOL_KEYS, "a tool")
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        if not _among(choice.get("type"), types):
            raise Refused(f"tool_choice of type {_quoted(choice.get('type'))} is not let through")
        _only(choice, _TOOL_KEYS, "tool_choice")
    elif choice not in (None, "auto", "none", "required"):
        raise Refused(f"tool_choice: {_quoted(choice)} is not let through")


def _check_items(items: object) -> None:
    """The input of the Responses API."""
    if isinstance(items, str):
        return
    for item in _objects(items, "input"):
        kind = item.get("type", "message" if "role" in item else "item_reference")
        if not _among(kind, _ITEMS):
            raise Refused(f"an input item of type {_quoted(kind)} is not let through")
        _only(item, _ITEM_KEYS, f"an item of type {kind}")
        for name in ("content", "summary", "output"):
            _check_parts(item.get(name))


def _check_messages(messages: object) -> None:
    """The messages of chat completions."""
    for message in _objects(messages, "messages"):
        _only(message, _MESSAGE_KEYS, "a message")
        _check_parts(message.get("content"))
        for call in _objects(message.get("tool_calls"), "tool_calls"):
            _only(call, _CALL_KEYS, "a tool call")


def _check_parts(parts: object) -> None:
    """Content: a text, or texts, images and files; the latter as ``data:`` addresses only."""
    if isinstance(parts, str):
        return
    for part in _objects(parts, "content"):
        if not _among(part.get("type"), _PARTS):
            raise Refused(f"content of type {_quoted(part.get('type'))} is not let through")
        _only(part, _PART_KEYS, "content")
        _check_source(part.get("image_url"), "image_url", {"url", "detail"}, "url")
        _check_source(part.get("file"), "file", {"file_data", "filename"}, "file_data")
        _check_source(part.get("file_data"), "file_data", frozenset(), "")


def _check_source(source: object, name: str, keys: Set[str], inner: str) -> None:
    """A picture or file, by itself or in an object."""
    if isinstance(source, dict):
        _only(source, keys, f"`{name}`")
        source = source.get(inner)
    if source is not None and not (isinstance(source, str) and source.startswith("data:")):
        raise Refused(f"`{name}` must be a data: address, not {_quoted(source)}")


def _ask_for_usage(request: dict[str, Any]) -> None:
    """A stream of chat completions says what it cost only when asked."""
    if request.get("stream"):
        options = request.get("stream_options")
        if not isinstance(options, dict | None):
            raise Refused("`stream_options` must be an object")
        request["stream_options"] = {**(options or {}), "include_usage": True}


def _only(value: Mapping[str, Any], allowed: Set[str], what: str) -> None:
    """Refuse an object with other names; null is as good as absent."""
    for name, item in value.items():
        if name not in allowed and item is not None:
            raise Refused(f"{_quoted(name)} in {what} is not let through")


def _objects(value: object, what: str) -> list[dict[str, Any]]:
    objects = _listed(value, what)
    if not all(isinstance(one, dict) for one in objects):
        raise Refused(f"`{what}` must be a list of objects")
    return objects


def _listed(value: object, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused(f"`{what}` must be a list")
    return value


def _among(value: object, allowed: Set[str]) -> bool:
    return isinstance(value, str) and value in allowed


def _names(values: Set[str]) -> str:
    return ", ".join(sorted(values))


def _quoted(value: object) -> str:
    """What the inside sent, short and without control characters, as it goes to logs."""
    if isinstance(value, str):
        return ascii(value) if len(value) <= _QUOTED_CHARS else ascii(value[:_QUOTED_CHARS]) + "…"
    if value is None or isinstance(value, bool | float):
        return json.dumps(value)
    return f"of type {type(value).__name__}"
