"""What a reply cost, read in passing, wherever its pieces end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.agent import usage_meter
from lmev2.agent.types import Usage
from lmev2.agent.usage_meter import UsageMeter, usage_of

RESPONSES = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 400},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 1050,
}
CHAT = {
    "prompt_tokens": 1000,
    "prompt_tokens_details": {"cached_tokens": 400},
    "completion_tokens": 50,
    "completion_tokens_details": {"reasoning_tokens": 20},
}
EXPECTED = Usage(1, 1000, 400, 50, 20)
# A model that speaks of usage says nothing of its own.
SAYS = {"type": "response.output_text.delta", "delta": '\n\ndata: {"usage": {"input_tokens": 9}}', "usage": "é"}


def sse(*events: Any, end: str = "\n") -> bytes:
    return "".join(f"event: x{end}data: {json.dumps(event)}{end}{end}" for event in events).encode()


def last(kind: str = "response.completed", usage: Any = RESPONSES) -> dict[str, Any]:
    return {"type": kind, "response": {"usage": usage, "output": [{"text": "x" * 50}]}}


BEGINS = {"type": "response.created", "response": {"usage": {"input_tokens": 5}}}
STREAMS = [
    sse(BEGINS, SAYS, last()),
    sse(BEGINS, SAYS, last("response.incomplete"), end="\r\n"),
    b": comment\n\n" + sse(last()) + b"data: [DONE]\n\n",
    sse(last()).rstrip(b"\n"),
    sse({"choices": [{}], "usage": None}, {"choices": [], "usage": CHAT}) + b"data: [DONE]\n\n",
    json.dumps({"object": "response", "usage": RESPONSES}, indent=1).encode(),
    b"\n " + json.dumps({"object": "chat.completion", "usage": CHAT}).encode(),
    b'data: {"type": "response.completed",\ndata: "response": {"usage": ' + json.dumps(RESPONSES).encode() + b"}}\n\n",
]


def read(pieces: list[bytes]) -> Usage | None:
    meter = UsageMeter()
    for piece in pieces:
        meter.feed(piece)
    meter.finish()
    return meter.usage


@pytest.mark.parametrize("stream", STREAMS)
@given(data=st.data())
def test_pieces_may_end_anywhere(stream: bytes, data: st.DataObject) -> None:
    ends = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[begin:end] for begin, end in zip([0, *ends], [*ends, len(stream)], strict=True)]
    assert read(pieces) == EXPECTED


@pytest.mark.parametrize("stream", STREAMS)
def test_single_bytes(stream: bytes) -> None:
    assert read([stream[place : place + 1] for place in range(len(stream))]) == EXPECTED


def test_known_as_soon_as_the_event_has_ended() -> None:
    meter = UsageMeter()
    meter.feed(sse(last()))
    assert meter.usage == EXPECTED


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"   ",
        b"{",
        b'{"usage": null}',
        b'["usage"]',
        b"<html>usage</html>",
        sse(BEGINS, SAYS),
        sse(last(usage=None)),
        sse({"type": "response.completed", "response": "usage"}),
        sse(last())[:-20],
        b'data: {"usage": ' + b"[" * 100_000,
    ],
)
def test_no_usage(reply: bytes) -> None:
    assert read([reply]) is None


def test_counts_that_cannot_be_are_none() -> None:
    for value in (-1, True, 1.5, "7", None, [], 10**30):
        assert usage_of({"input_tokens": value, "output_tokens": value, "input_tokens_details": value}) == Usage(1)


def test_an_event_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_meter, "_MAX_BYTES", 1000)
    meter = UsageMeter()
    meter.feed(b'data: {"text": "')
    for _ in range(1000):
        meter.feed(b"x" * 100)
        assert sum(map(len, meter._held)) <= 1100
    meter.feed(b'"}\n\n' + sse(last()))
    assert meter.usage == EXPECTED
    pieces = [sse(SAYS)] * 20 + [sse(last())[:30], sse(last())[30:]]
    assert read(pieces) == EXPECTED  # the limit is one for each event
    assert read([b'{"text": "', *[b"x" * 100] * 20, b'", "usage": {"input_tokens": 1}}']) is None
