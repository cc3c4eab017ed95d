"""JSON objects in model replies: found, checked, and repaired by one more call."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any, Literal

import jsonschema
import pydantic

from lmev2.models.types import ChatBackend, ChatReply, ChatRequest, Message, ModelCallError

Origin = Literal["model", "repaired"]
Schema = dict[str, Any] | type[pydantic.BaseModel]

_STARTS = re.compile(r'\{\s*["}]')  # a brace in prose seldom looks like this
_SHOWN_CHARS = 300
_DEEPEST = 100  # lists and objects in each other; what is nested deeper can be read, but not written again
_NOTHING = "(no answer)"

_REPAIR = """Your last reply could not be used: {fault}.

Reply again with exactly one JSON object and nothing else, no code fence and no explanation. Keep what you meant to say.
The object must follow this JSON schema:
{schema}"""


class JsonReplyError(ValueError):
    """A reply that is not exactly one JSON object of the promised shape."""


class UnusableReplyError(ModelCallError):
    """Replies that came back but hold no valid object: ``malformed_reply``, or ``length`` when the last was cut.

    Tells them from calls that failed, which no fallback may hide.
    """


def find_json_objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects in a text, in order; prose and code fences around them are skipped.

    An object that is broken (cut off, a trailing comma, a repeated key, NaN) or nested too deeply is skipped whole:
    nothing inside it is taken for an answer.
    """
    found: list[dict[str, Any]] = []
    # Not strict: a line break inside a string is no doubt about what is meant, and constrained models do write them.
    decoder = json.JSONDecoder(
        object_pairs_hook=_distinct, parse_constant=_no_constant, parse_float=_finite, strict=False
    )
    position = 0
    while (start := _STARTS.search(text, position)) is not None:
        try:
            value, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position = _end_of_braces(text, start.start())
        else:
            if not _is_too_deep(value):
                found.append(value)
    return found


def parse_json_object(text: str, schema: Schema | None = None) -> dict[str, Any]:
    """The one JSON object of a reply, checked against a JSON schema or a pydantic model.

    A model's values are the checked ones: where it takes ``"1"`` for a number, the object holds 1.

    Raises:
        JsonReplyError: there is none, there are several, or it does not fit the schema; says which.
    """
    found = find_json_objects(text)
    if len(found) != 1:
        what = "no complete JSON object" if not found else f"{len(found)} JSON objects"
        raise JsonReplyError(f"it holds {what}, expected exactly one")
    value = found[0]
    try:
        if isinstance(schema, dict):
            jsonschema.validate(value, schema)
        elif schema is not None:
            value = schema.model_validate(value).model_dump(by_alias=True, exclude_unset=True)
    except jsonschema.ValidationError as error:
        where = ".".join(str(step) for step in error.absolute_path) or "the object"
        raise JsonReplyError(f"{where}: {error.message[:_SHOWN_CHARS]}") from error
    except pydantic.ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(step) for step in fault['loc']) or 'the object'}: {fault['msg']}"
            for fault in error.errors()
        )
        raise JsonReplyError(faults[:_SHOWN_CHARS]) from error
    return value


def ask_json(
    chat: ChatBackend, request: ChatRequest, schema: Schema, repair: bool = True, repair_cut: bool = False
) -> tuple[dict[str, Any], Origin]:
    """Ask for a JSON object of a given shape, with at most one repair call.

    The request carries the schema, so that a backend that can constrains its reply. If the reply still is not the
    object, the model is shown its own reply and what is wrong with it, with thinking off.

    Args:
        repair: whether there is a repair call.
        repair_cut: a first reply that was cut is repaired like any other; else it is an error at once.

    Returns:
        the object, and whether it came from the first reply (``model``) or from the repair (``repaired``).

    Raises:
        UnusableReplyError: a reply was cut (``length``), or there is no valid object after all (``malformed_reply``).
        ModelCallError: the call failed.
    """
    json_schema = schema if isinstance(schema, dict) else schema.model_json_schema()
    reply = chat.complete(replace(request, schema=json_schema))
    cut = reply.finish_reason == "length"
    if cut and not (repair and repair_cut):
        raise _cut(reply)
    try:
        if cut:
            raise JsonReplyError(f"it was cut after {reply.completion_tokens} tokens")
        return parse_json_object(reply.text, schema), "model"
    except JsonReplyError as error:
        if not repair:
            raise UnusableReplyError(
                "malformed_reply", f"the reply is not the JSON object asked for: {error}"
            ) from error
        fault = str(error)
    again = replace(
        request,
        messages=(
            *request.messages,
            # A reply that is all thinking has no text, and not every endpoint takes an empty message.
            Message.text("assistant", reply.text if reply.text.strip() else _NOTHING),
            Message.text("user", _REPAIR.format(fault=fault, schema=json.dumps(json_schema))),
        ),
        schema=json_schema,
        thinking=None if request.thinking is None else False,
    )
    second = chat.complete(again)
    if second.finish_reason == "length":
        raise _cut(second)
    try:
        return parse_json_object(second.text, schema), "repaired"
    except JsonReplyError as error:
        raise UnusableReplyError(
            "malformed_reply", f"neither the reply ({fault}) nor its repair ({error}) is usable"
        ) from error


def _cut(reply: ChatReply) -> UnusableReplyError:
    return UnusableReplyError("length", f"the reply was cut after {reply.completion_tokens} tokens")


def _end_of_braces(text: str, start: int) -> int:
    """The position behind the brace that closes the one at ``start``, else the text's end; strings are skipped."""
    depth, inside, position = 0, False, start
    while position < len(text):
        character = text[position]
        if inside and character == "\\":
            position += 1
        elif character == '"':
            inside = not inside
        elif not inside and character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return position + 1
        position += 1
    return len(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.40} is too large")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
