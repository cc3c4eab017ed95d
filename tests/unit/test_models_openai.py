"""The OpenAI-compatible backends against a local server that fails on schedule."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chatserver
import numpy as np
import pytest
from chatserver import Call, ChatServer, completion
from PIL import Image
from pydantic import ValidationError

from lmev2.models.cache import CallCache
from lmev2.models.factory import make_chat
from lmev2.models.openai_backend import OpenAIChat, OpenAIEmbedder, is_closed, parse_completion, parse_embeddings
from lmev2.models.openai_endpoint import read_access
from lmev2.models.retry import PassingFault, RetryPolicy
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.thinking import split_thinking
from lmev2.models.types import ChatRequest, ImagePart, Message, ModelCallError, ModelSetupError, Sampling, TextPart
from lmev2.models.wordllama_backend import package_folder

KEY = "sk-marker-0123456789"
REQUEST = ChatRequest((Message.text("user", "hello"),), Sampling(max_tokens=10))
TOKENIZER = str(package_folder() / "tokenizers" / "l2_supercat_tokenizer_config.json")


@dataclass
class Answer(chatserver.Answer):
    """An answer that is a plain completion unless it says otherwise."""

    body: object = field(default_factory=completion)


class ScheduledServer(ChatServer):
    """Answers each request with the next scheduled answer."""

    def __init__(self) -> None:
        self.schedule: list[Answer | Callable[[dict[str, Any]], Answer]] = []
        super().__init__(self._next)

    def _next(self, call: Call) -> Answer:
        step = self.schedule.pop(0) if self.schedule else Answer()
        return step(call.body) if callable(step) else step

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [call.body for call in self.calls]

    @property
    def paths(self) -> list[str]:
        return [call.path for call in self.calls]

    @property
    def headers(self) -> list[dict[str, str]]:
        return [call.headers for call in self.calls]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScheduledServer]:
    fake = ScheduledServer()
    monkeypatch.setenv("T_BASE_URL", fake.url)
    monkeypatch.setenv("T_API_KEY", KEY)
    yield fake
    fake.close()


def settings(**changes: Any) -> ChatSettings:
    return ChatSettings(backend="openai", model="m", endpoint="T", timeout_s=10, **changes)


def chat(waits: list[float] | None = None, retries: int = 3, **changes: Any) -> OpenAIChat:
    seen: list[float] = [] if waits is None else waits
    return OpenAIChat(settings(**changes), RetryPolicy(retries=retries, jitter_s=0, sleep=seen.append))


def test_a_plain_request_sends_only_what_is_set(server: ScheduledServer) -> None:
    reply = chat(served_name="served").complete(REQUEST)
    assert (reply.text, reply.finish_reason, reply.thinking, reply.replayed) == ("hi", "stop", "", False)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.model) == (7, 3, "served-snapshot")
    assert 0 < reply.wall_s < 5
    assert server.paths == ["/v1/chat/completions"]
    assert server.requests == [
        {"model": "served", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 10}
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_all_settings_reach_the_endpoint(server: ScheduledServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "another-service")
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    sampling = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_tokens=99, seed=5)
    request = ChatRequest(REQUEST.messages, sampling, schema, thinking=False, reasoning_effort="medium", sample=2)
    chat().complete(request)
    assert server.requests[0] == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_completion_tokens": 99,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "seed": 7,
        "reasoning_effort": "medium",
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}},
    }
    assert "openai-organization" not in server.headers[0]
    chat(json_mode="object").complete(request)
    assert server.requests[1]["response_format"] == {"type": "json_object"}
    chat(json_mode="none").complete(request)
    assert "response_format" not in server.requests[2]
    chat(json_mode="object_schema").complete(request)
    assert server.requests[3]["response_format"] == {"type": "json_object", "schema": schema}


def test_strict_mode_only_for_closed_schemas() -> None:
    closed: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "string"}}},
        "required": ["a"],
    }
    assert not is_closed(closed)
    closed["additionalProperties"] = False
    assert is_closed(closed)
    assert not is_closed({**closed, "required": []})
    nested = {
        "type": "object",
        "properties": {"b": {"type": "object"}},
        "required": ["b"],
        "additionalProperties": False,
    }
    assert not is_closed(nested)


def test_images_are_sent_as_data_urls(server: ScheduledServer, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    Image.new("RGB", (2, 2)).save(picture)
    request = ChatRequest((Message("user", (TextPart("see"), ImagePart(picture), TextPart("this"))),))
    chat(images=True).complete(request)
    first, image, last = server.requests[0]["messages"][0]["content"]
    assert (first, last) == ({"type": "text", "text": "see"}, {"type": "text", "text": "this"})
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    with pytest.raises(ModelSetupError, match="images: true"):
        chat(images=False).complete(request)


def test_lone_surrogates_are_sent_as_replacement_characters(server: ScheduledServer) -> None:
    chat().complete(ChatRequest((Message.text("user", "a\ud83db \U0001f600"),)))
    assert server.requests[0]["messages"][0]["content"] == "a\ufffdb \U0001f600"


def test_a_grammar_is_refused(server: ScheduledServer) -> None:
    with pytest.raises(ModelSetupError, match="reply_format: free"):
        chat().complete(ChatRequest(REQUEST.messages, grammar='root ::= "x"'))
    assert server.requests == []


HTTP_DATE = "Fri, 31 Dec 2100 23:59:59 GMT"
PASSING = [
    Answer({"error": {"message": "slow down"}}, 429, {"retry-after": "17"}),
    Answer({"error": {"message": "slow down"}}, 429, {"retry-after": HTTP_DATE}),
    Answer({"error": {"message": "slow down"}}, 429, {"retry-after-ms": "2500"}),
    Answer({"error": "late"}, 408),
    Answer({"detail": "conflict"}, 409),
    Answer(b"<html>oops</html>", 500, {"content-type": "text/html"}),
    Answer({}, 503),
    Answer(reset=True),
    Answer(b'{"choices": [', 200),
    Answer(b"<html>login</html>", 200, {"content-type": "text/html"}),
    Answer([1, 2]),
    Answer({"error": {"message": "upstream failed"}}),
    Answer({"choices": None}),
    Answer({"choices": []}),
    Answer({"choices": [{"index": 0, "finish_reason": "stop", "message": None}]}),
    Answer(completion(None)),
]
WAITS = [17, 600, 2.5, *[1] * 13]


@pytest.mark.parametrize(("fault", "wait"), list(zip(PASSING, WAITS, strict=True)))
def test_a_passing_fault_is_retried(server: ScheduledServer, fault: Answer, wait: float) -> None:
    waits: list[float] = []
    server.schedule = [fault, Answer()]
    assert chat(waits).complete(REQUEST).text == "hi"
    assert waits == [wait]
    assert len(server.requests) == 2


def test_retries_do_not_inflate_the_time(server: ScheduledServer) -> None:
    server.schedule = [Answer(status=500, delay_s=0.5), Answer(delay_s=0.1)]
    reply = chat().complete(REQUEST)
    assert 0.1 <= reply.wall_s < 0.5


def test_a_timeout_is_retried_and_named(server: ScheduledServer) -> None:
    slow = settings().model_copy(update={"timeout_s": 0.1})
    backend = OpenAIChat(slow, RetryPolicy(retries=1, sleep=lambda _: None))
    server.schedule = [Answer(delay_s=0.6), Answer(delay_s=0.6)]
    with pytest.raises(ModelCallError, match=r"within 0\.1 s \(after 2 attempts\)") as caught:
        backend.complete(REQUEST)
    assert caught.value.kind == "api_error"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Answer(status=502), "api_error"),
        (Answer({"choices": []}), "malformed_reply"),
        (Answer(reset=True), "api_error"),
    ],
)
def test_a_fault_that_stays_is_an_error(server: ScheduledServer, fault: Answer, kind: str) -> None:
    server.schedule = [fault] * 3
    with pytest.raises(ModelCallError, match="after 3 attempts") as caught:
        chat(retries=2).complete(REQUEST)
    assert caught.value.kind == kind
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer({"error": {"message": "bad"}}, 401), "api_error", "T_API_KEY"),
        (Answer({"error": {"message": "bad"}}, 403), "api_error", "T_API_KEY"),
        (Answer({"error": {"message": "no such model"}}, 404), "api_error", "served_name.*'m'"),
        (Answer({"error": {"message": "bad field"}}, 400), "api_error", "bad field"),
        (
            Answer({"error": {"message": "x", "code": "insufficient_quota"}}, 429),
            "api_error",
            "quota",
        ),
        (Answer({"error": {"message": "x", "code": "context_length_exceeded"}}, 400), "context_overflow", "400"),
        (Answer({"message": "This model's maximum context length is 10 tokens"}, 400), "context_overflow", "maximum"),
    ],
)
def test_a_final_fault_fails_at_once(server: ScheduledServer, answer: Answer, kind: str, words: str) -> None:
    server.schedule = [answer]
    with pytest.raises(ModelCallError, match=words) as caught:
        chat().complete(REQUEST)
    assert caught.value.kind == kind
    assert len(server.requests) == 1


def test_a_cut_reply_is_returned_as_such(server: ScheduledServer) -> None:
    server.schedule = [
        Answer(completion("half a", "length")),
        Answer(completion(None, "length", reasoning_content="hm")),
    ]
    reply = chat().complete(REQUEST)
    assert (reply.text, reply.finish_reason) == ("half a", "length")
    reply = chat().complete(REQUEST)
    assert (reply.text, reply.thinking, reply.finish_reason) == ("", "hm", "length")
    assert len(server.requests) == 2


def test_thinking_is_kept_apart(server: ScheduledServer) -> None:
    server.schedule = [
        Answer(completion("answer", reasoning_content="because")),
        Answer(completion("<think>because</think>\n\n{answer}")),
        Answer(completion("so </think> is a tag")),
        Answer(completion([{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}])),
        Answer(completion(None, refusal="I must not")),
    ]
    replies = [chat().complete(REQUEST) for _ in range(5)]
    assert [(reply.thinking, reply.text) for reply in replies] == [
        ("because", "answer"),
        ("<think>because</think>", "{answer}"),
        ("", "so </think> is a tag"),
        ("", "in parts"),
        ("", "I must not"),
    ]


def test_split_thinking() -> None:
    assert split_thinking("because</think>\nanswer", opened=True) == ("because</think>", "answer")
    assert split_thinking("because</think>\nanswer", opened=False) == ("", "because</think>\nanswer")
    assert split_thinking("<think>never ends", opened=False) == ("<think>never ends", "")
    assert split_thinking("say <think>x</think>", opened=True) == ("", "say <think>x</think>")
    assert split_thinking("plain", opened=True) == ("", "plain")


def test_no_more_requests_at_once_than_configured(server: ScheduledServer) -> None:
    server.schedule = [Answer(delay_s=0.05) for _ in range(8)]
    backend = chat(concurrency=2)
    threads = [threading.Thread(target=backend.complete, args=(REQUEST,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 8
    assert server.most_running == 2


def test_the_key_stays_out_of_cache_errors_and_logs(
    server: ScheduledServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    backend = chat(retries=1)
    server.schedule = [
        Answer({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401),
        *[Answer({"error": f"never send {KEY}"}, 500)] * 2,
        *[Answer({"error": {"message": f"odd {KEY}"}})] * 2,
    ]
    shown = []
    for _ in range(3):
        try:
            backend.complete(REQUEST)
        except ModelCallError as error:
            shown.append("".join(traceback.format_exception(error)) + repr(error) + error.detail)
    assert len(shown) == 3
    assert all("[key]" in text for text in shown)
    cached = make_chat(settings(), CallCache(tmp_path), threads=1)
    assert not cached.complete(REQUEST).replayed
    assert cached.complete(REQUEST).replayed
    stored = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(stored) == 1
    for text in [*shown, *stored, caplog.text, repr(read_access("T"))]:
        assert KEY not in text


def test_a_cached_run_needs_no_endpoint(
    server: ScheduledServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CallCache(tmp_path)
    first = make_chat(settings(), cache, threads=1).complete(REQUEST)
    monkeypatch.delenv("T_BASE_URL")
    again = make_chat(settings(), cache, threads=1).complete(REQUEST)
    assert (again.text, again.wall_s, again.replayed) == (first.text, first.wall_s, True)
    other = make_chat(settings(served_name="other"), cache, threads=1)
    with pytest.raises(ModelSetupError, match="T_BASE_URL"):
        other.complete(REQUEST)


def test_access_from_the_environment() -> None:
    local = read_access("X", {"X_BASE_URL": "http://127.0.0.1:8000/v1"})
    assert (local.api_key, local.loopback, local.host) == ("none", True, "127.0.0.1:8000")
    assert read_access("X", {"X_BASE_URL": "http://[::1]:80/v1"}).loopback
    assert read_access("X", {"X_BASE_URL": "https://example.org/v1", "X_API_KEY": "k"}).api_key == "k"
    for environment, words in [
        ({}, "X_BASE_URL is not set"),
        ({"X_BASE_URL": "example.org/v1"}, "X_BASE_URL does not hold"),
        ({"X_BASE_URL": "http://x:notaport/v1"}, "X_BASE_URL does not hold"),
        ({"X_BASE_URL": "https://example.org/v1"}, "X_API_KEY is not set"),
    ]:
        with pytest.raises(ModelSetupError, match=words):
            read_access("X", environment)


def embedder(**changes: Any) -> OpenAIEmbedder:
    values = {"dimension": 3, "batch_size": 2, "max_tokens": 8, "max_chars": 1000, "tokenizer": TOKENIZER, **changes}
    return OpenAIEmbedder(
        EmbedderSettings(backend="openai", model="e", endpoint="T", timeout_s=10, **values),
        RetryPolicy(retries=1, sleep=lambda _: None),
    )


def embeddings(body: dict[str, Any]) -> Answer:
    """Vectors that tell the texts apart, in reverse order, as an endpoint may send them."""
    data = [
        {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0, 2.0]}
        for index, text in enumerate(body["input"])
    ]
    return Answer({"object": "list", "data": data[::-1], "model": "e"})


def test_embeddings_are_ordered_and_normalised(server: ScheduledServer) -> None:
    server.schedule = [embeddings]
    vectors = embedder().embed_documents(["a", "bb", "", "ccc", "dddd", "eeeee"])
    expected = np.array([[length, 1, 2] for length in (1, 2, 0, 3, 4, 5)], np.float64)
    expected[2] = 0
    expected[expected.any(axis=1)] /= np.linalg.norm(expected[expected.any(axis=1)], axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert vectors.dtype == np.float32
    assert [len(request["input"]) for request in server.requests] == [5]
    assert server.paths[0] == "/v1/embeddings"


def test_documents_are_cut_by_tokens_and_queries_carry_the_instruction(server: ScheduledServer) -> None:
    server.schedule = [embeddings] * 2
    backend = embedder(query_instruction="Find it.", max_tokens=16)
    backend.embed_documents([" ".join(f"word{number}" for number in range(500))])
    (sent,) = server.requests[0]["input"]
    assert sent.startswith("word0 word1")
    assert 30 < len(sent) < 80
    backend.embed_query("who?")
    assert server.requests[1]["input"] == ["Instruct: Find it.\nQuery:who?"]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        [{"index": 0, "embedding": [1, 2, 3]}],
        [{"index": 0, "embedding": [1, 2, 3]}] * 2,
        [{"index": 1, "embedding": [1, 2, 3]}, {"index": 2, "embedding": [1, 2, 3]}],
        [{"index": 0, "embedding": [1, 2, 3]}, {"index": None, "embedding": [1, 2, 3]}],
        [{"index": 0, "embedding": [1, 2, 3]}, {"index": 1, "embedding": [1, 2]}],
        [{"index": 0, "embedding": [1, 2, 3]}, {"index": 1, "embedding": [0, 0, 0]}],
        [{"index": 0, "embedding": [1, 2, 3]}, {"index": 1, "embedding": "abc"}],
        [{"index": 0, "embedding": [1, 2, 3]}, {"index": 1}],
    ],
)
def test_malformed_embeddings_are_refused(server: ScheduledServer, data: object) -> None:
    server.schedule = [Answer({"data": data})] * 2
    with pytest.raises(ModelCallError) as caught:
        embedder().embed_documents(["a", "b"])
    assert caught.value.kind == "malformed_reply"
    assert len(server.requests) == 2


def test_a_wrong_dimension_is_a_fault_of_the_settings(server: ScheduledServer) -> None:
    server.schedule = [embeddings]
    with pytest.raises(ModelSetupError, match=r"of 3 numbers.*`dimension` is 4"):
        embedder(dimension=4).embed_documents(["a"])


def test_an_embedder_needs_its_tokenizer() -> None:
    with pytest.raises(ValidationError, match="tokenizer"):
        EmbedderSettings(backend="openai", model="e", endpoint="T")


@pytest.mark.parametrize("tokens", ["many", [], {}, True, -1, 1.5, float("inf"), float("nan"), 10**400])
def test_tokens_that_are_no_number_are_a_fault(tokens: Any) -> None:
    answer = {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": tokens}}
    with pytest.raises(PassingFault, match=r"usage\.prompt_tokens"):
        parse_completion(answer, "m", False)


def test_names_and_parts_that_are_no_text_are_left_out() -> None:
    deep: Any = []
    for _ in range(2_000):
        deep = [deep]
    choice = {"message": {"content": [{"text": None}, {"text": "a"}, {"text": deep}]}, "finish_reason": deep}
    fields = parse_completion({"choices": [choice], "model": deep, "usage": {"prompt_tokens": 3.0}}, "m", False)
    assert (fields["text"], fields["finish_reason"], fields["model"], fields["prompt_tokens"]) == (
        "a",
        "unknown",
        "m",
        3,
    )


def test_embeddings_too_large_for_their_squares_keep_their_direction() -> None:
    vectors = parse_embeddings({"data": [{"index": 0, "embedding": [3e30, 4e30]}]}, 1)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[0.6, 0.8]], rtol=1e-6)
    with pytest.raises(PassingFault, match="embeddings"):
        parse_embeddings({"data": [{"index": 0, "embedding": [10**400, 1]}]}, 1)
