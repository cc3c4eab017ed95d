"""What a sandbox may ask: what an agent needs, and nothing that leads elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.agent import gateway_rules
from lmev2.agent.gateway_rules import CHAT, RESPONSES, Refused, checked_body

MODEL = "test-model"
IMAGE = "data:image/png;base64,AAAA"
FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "web_search", "image_url": "http://x"}}


def check(path: str, **request: Any) -> dict[str, Any]:
    needed = {RESPONSES: {"input": "x"}, CHAT: {"messages": []}}[path]
    body = json.dumps({"model": MODEL, **needed, **request}).encode()
    checked: dict[str, Any] = json.loads(checked_body(path, body, MODEL))
    return checked


def part(**content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [content]}]


RESPONSES_LET_THROUGH: list[dict[str, Any]] = [
    {
        "tools": [
            FUNCTION,
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
            {"type": "local_shell"},
        ]
    },
    {"tool_choice": "auto", "parallel_tool_calls": True, "stream": True, "store": False, "background": False},
    {"tool_choice": {"type": "function", "name": "look"}},
    {"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "xhigh", "summary": "auto"}},
    {
        "text": {"verbosity": "low"},
        "prompt_cache_key": "x",
        "instructions": "Look at http://x.",
        "service_tier": "flex",
    },
    {"previous_response_id": None, "conversation": None, "prompt": None},
    {"input": part(type="input_text", text="see http://x")},
    {"input": part(type="input_image", image_url=IMAGE, detail="high")},
    {"input": part(type="input_file", file_data="data:text/plain;base64,AA", filename="a.txt")},
    {
        "input": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}], "phase": "x"},
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "x"}],
                "encrypted_content": "a",
                "content": None,
            },
            {"type": "function_call", "name": "look", "arguments": '{"image_url": "http://x"}', "call_id": "1"},
            {"type": "function_call_output", "call_id": "1", "output": "http://x"},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_image", "image_url": IMAGE}]},
            {"type": "custom_tool_call", "name": "apply_patch", "input": "x", "call_id": "2", "status": "completed"},
            {"type": "custom_tool_call_output", "call_id": "2", "output": "x"},
            {"type": "local_shell_call", "call_id": "3", "action": {"type": "exec", "env": {"A": "b"}}},
        ]
    },
]
RESPONSES_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": "other"}, "model"),
    ({"model": MODEL + ":online"}, "model"),
    ({"model": None}, "model"),
    ({"model": [MODEL]}, "model"),
    *[
        ({"tools": [FUNCTION, {"type": kind}]}, "tool of type")
        for kind in (
            "web_search",
            "web_search_preview",
            "mcp",
            "code_interpreter",
            "file_search",
            "image_generation",
            "computer_use_preview",
            "shell",
            "tool_search",
            "Function",
            None,
            ["function"],
            {},
        )
    ],
    ({"tools": [{**FUNCTION, "server_url": "https://x"}]}, "server_url"),
    ({"tools": {"type": "web_search"}}, "list"),
    ({"tools": ["web_search"]}, "objects"),
    ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
    ({"tool_choice": {"type": "function", "server_label": "x"}}, "server_label"),
    ({"tool_choice": "web_search"}, "tool_choice"),
    ({"store": True}, "store"),
    ({"background": True}, "background"),
    ({"service_tier": "priority"}, "service_tier"),
    *[
        ({name: "x"}, name)
        for name in (
            "previous_response_id",
            "conversation",
            "prompt",
            "plugins",
            "models",
            "container",
            "Tools",
            "unheard_of",
            "context_management",
            "web_search_options",
        )
    ],
    ({"include": ["web_search_call.action.sources"]}, "include"),
    ({"include": [["reasoning.encrypted_content"]]}, "include"),
    ({"include": "reasoning.encrypted_content"}, "include"),
    ({"instructions": [{"type": "item_reference", "id": "x"}]}, "instructions"),
    *[
        ({"input": part(type="input_image", image_url=url)}, "data:")
        for url in (
            "http://x/a.png",
            "https://x/a.png",
            " data:x",
            "file:///etc/passwd",
            {"url": "http://x"},
            7,
            ["data:"],
        )
    ],
    ({"input": part(type="input_image", file_id="file-1")}, "file_id"),
    ({"input": part(type="input_file", file_url="https://x")}, "file_url"),
    ({"input": part(type="input_file", file_data="https://x")}, "data:"),
    ({"input": part(type="input_video", video_url="https://x")}, "input_video"),
    ({"input": part(type="input_image", image_url={"url": IMAGE, "URL": "http://x"})}, "URL"),
    ({"input": part(type="input_image", image_url=IMAGE, Image_Url="http://x")}, "Image_Url"),
    *[
        ({"input": [{"type": kind, "id": "x"}]}, "item of type")
        for kind in (
            "item_reference",
            "mcp_approval_response",
            "web_search_call",
            "code_interpreter_call",
            "compaction",
        )
    ],
    ({"input": [{"id": "msg_1"}]}, "item_reference"),
    ({"input": [{"type": "message", "role": "user", "content": "x", "file": "x"}]}, "file"),
    (
        {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": "http://x"}]}]},
        "data:",
    ),
    ({"input": {"type": "item_reference"}}, "list"),
    ({"input": [["x"]]}, "objects"),
    ({"input": part(text="no type")}, "content of type"),
]
CHAT_LET_THROUGH: list[dict[str, Any]] = [
    {
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
        "temperature": 0,
        "max_tokens": 5,
    },
    {"response_format": {"type": "json_schema", "json_schema": {}}, "n": 1, "stop": ["x"], "stream_options": None},
    {"messages": part(type="image_url", image_url={"url": IMAGE, "detail": "low"})},
    {"messages": part(type="image_url", image_url=IMAGE)},
    {"messages": part(type="file", file={"file_data": "data:x", "filename": "x"})},
    {
        "messages": [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {}}]},
            {"role": "tool", "tool_call_id": "1", "content": "http://x"},
        ]
    },
]
CHAT_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": "other"}, "model"),
    ({"tools": [{"type": "custom", "name": "x"}]}, "custom"),
    ({"tools": [{"type": "web_search"}]}, "web_search"),
    ({"messages": part(type="image_url", image_url={"url": "https://x"})}, "data:"),
    ({"messages": part(type="image_url", image_url="http://x")}, "data:"),
    ({"messages": part(type="file", file={"file_id": "x"})}, "file_id"),
    ({"messages": part(type="file", file={"file_data": "http://x"})}, "data:"),
    ({"messages": part(type="video_url", video_url={"url": "http://x"})}, "video_url"),
    ({"messages": part(type="input_audio", input_audio={"data": "http://x"})}, "input_audio"),
    ({"messages": [{"role": "assistant", "audio": {"id": "x"}}]}, "audio"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"type": "mcp", "server_url": "x"}]}]}, "server_url"),
    ({"stream": True, "stream_options": "x"}, "stream_options"),
    *[
        ({name: {}}, name)
        for name in (
            "web_search_options",
            "plugins",
            "models",
            "provider",
            "transforms",
            "extra_body",
            "input",
            "audio",
        )
    ],
]


@pytest.mark.parametrize("request_", RESPONSES_LET_THROUGH)
def test_responses_let_through(request_: dict[str, Any]) -> None:
    assert check(RESPONSES, **request_) == {"model": MODEL, "input": "x", **request_, "store": False}


@pytest.mark.parametrize(("request_", "said"), RESPONSES_REFUSED)
def test_responses_refused(request_: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        check(RESPONSES, **request_)


@pytest.mark.parametrize("request_", CHAT_LET_THROUGH)
def test_chat_let_through(request_: dict[str, Any]) -> None:
    assert check(CHAT, **request_) == {"model": MODEL, "messages": [], **request_}


@pytest.mark.parametrize(("request_", "said"), CHAT_REFUSED)
def test_chat_refused(request_: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        check(CHAT, **request_)


def test_nothing_is_kept_by_the_endpoint() -> None:
    assert check(RESPONSES)["store"] is False


def test_one_meaning_only() -> None:
    """Of two values of one name, endpoints may take the other one than this check."""
    body = b'{"model": "other", "model": "test-model", "input": "\xc3\xa9"}'
    assert checked_body(RESPONSES, body, MODEL) == '{"model":"test-model","input":"é","store":false}'.encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"not json",
        b'"text"',
        b"[" * 100_000,
        b'{"model": ' + b"[" * 100_000,
        b'\xff{"model": "test-model"}',
        '{"model": "test-model", "input": "x"}'.encode("utf-16"),
        b'{"model": "test-model", "input": "x", "seed": ' + b"9" * 5000 + b"}",
        b'{"model": "test-model", "input": "x", "top_p": NaN}',
        b'{"model": "test-model", "input": "x", "top_p": 1e999}',
        b'{"model": "test-model", "input": "\\ud800"}',
        b'{"model": "test-model", "input": "x", "metadata": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
    ],
)
def test_bodies_that_cannot_be_read_or_written(body: bytes) -> None:
    try:
        checked_body(RESPONSES, body, MODEL)
    except Refused:
        return
    assert b"metadata" in body  # deep, but not too deep


def test_a_body_of_too_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_rules, "_MAX_PARTS", 50)
    check(RESPONSES, metadata={"x": [0] * 30})
    with pytest.raises(Refused, match="more than 50 parts"):
        check(RESPONSES, metadata={"x": [[]] * 50})


def test_reasons_are_short_and_printable() -> None:
    values: list[Any] = ["x\n\x1b" * 1000, ["x" * 10**6], {"a": [[]]}, 10**100]
    for value in values:
        for request in ({"model": value}, {"tools": [{"type": value}]}, {"input": [{"type": value}]}):
            with pytest.raises(Refused) as caught:
                check(RESPONSES, **request)
            assert str(caught.value).isprintable() and len(str(caught.value)) < 700
    with pytest.raises(Refused) as caught:
        check(RESPONSES, **{"key\n" * 500: 1})
    assert str(caught.value).isprintable() and len(str(caught.value)) < 700


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.sampled_from(["function", "data:x", "message"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "content", "image_url", "output", "file", "summary", "role", "tool_calls"]), inner
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from([RESPONSES, CHAT]),
    st.dictionaries(
        st.sampled_from(["model", "input", "messages", "tools", "include", "store", "stream", "stream_options", "x"]),
        ANY,
    ),
)
def test_anything_is_refused_or_written_anew(path: str, request_: dict[str, Any]) -> None:
    body = json.dumps({"model": MODEL, **request_}).encode()
    try:
        checked = json.loads(checked_body(path, body, MODEL))
    except Refused:
        return
    assert checked["model"] == MODEL and checked.get("x") is None
