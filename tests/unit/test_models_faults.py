"""What the backends make of every kind of fault of the fault server, what they follow, wait, count and quote."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
import traceback
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from chatserver import Answer, Call, ChatServer, bags_of_words, completion
from faultserver import Fault, FaultSchedule, faults, redirected, with_object, with_status

import lmev2.models.openai_endpoint as openai_endpoint
from lmev2.failures import Failure, check_failures
from lmev2.memory.base import MemoryContext, MemoryQuery
from lmev2.memory.query import query_rows
from lmev2.models.bounded_client import BoundedClient, ReplyTooLongError
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.fault_counts import FAULTS, FaultCounts
from lmev2.models.openai_backend import OpenAIChat, OpenAIEmbedder
from lmev2.models.openai_endpoint import read_access
from lmev2.models.retry import RetryPolicy, call_with_retry, parse_retry_after
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.types import ChatReply, ChatRequest, Message, ModelCallError, ModelSetupError
from lmev2.models.wordllama_backend import package_folder
from lmev2.prompts import Prompt
from lmev2.scoring.judge import judge_answer

KEY, USER, PASSWORD = "sk-marker/0123456789", "user-marker-77", "p@ss marker:88"
DIMENSION = 8
PATIENCE_S = 1.0
TOKENIZER = str(package_folder() / "tokenizers" / "l2_supercat_tokenizer_config.json")
REQUEST = ChatRequest((Message.text("user", "hello"),))
VERDICT = '{"label": 1, "reason": "it says so"}'
ELSEWHERE = "http://127.0.0.1:9/v1"  # a port that nobody serves; where it matters, a real server is given
BY_NAME = {kind.name: kind for kind in faults(ELSEWHERE)}


@pytest.fixture(autouse=True)
def no_counts() -> None:
    FAULTS.clear()


@contextmanager
def served(reply: Callable[[Call], Answer], monkeypatch: pytest.MonkeyPatch, key: str = KEY) -> Iterator[ChatServer]:
    with ChatServer(reply) as server:
        monkeypatch.setenv("T_BASE_URL", server.url)
        monkeypatch.setenv("T_API_KEY", key)
        yield server


def right(call: Call) -> Answer:
    if call.task == "embedding":
        return Answer(bags_of_words(call.body, DIMENSION))
    return Answer(completion(VERDICT))


def once(fault: Callable[[Answer], Answer]) -> Callable[[Call], Answer]:
    """Answer the first of equal requests with a fault, the next ones rightly."""
    return lambda call: right(call) if call.repeat else fault(right(call))


def chat(waits: list[float] | None = None, retries: int = 2, **changes: Any) -> OpenAIChat:
    settings = ChatSettings(backend="openai", model="m", endpoint="T", **{"timeout_s": PATIENCE_S} | changes)
    seen: list[float] = [] if waits is None else waits
    return OpenAIChat(settings, RetryPolicy(retries=retries, jitter_s=0, sleep=seen.append))


def embedder() -> OpenAIEmbedder:
    settings = EmbedderSettings(
        backend="openai", model="e", endpoint="T", tokenizer=TOKENIZER, dimension=DIMENSION, timeout_s=PATIENCE_S
    )
    return OpenAIEmbedder(settings, RetryPolicy(retries=2, jitter_s=0, sleep=lambda _: None))


def kinds_of(role: str) -> list[Fault]:
    """The kinds that a role can meet; content that only a judge or the reader refuses is none of the backend's."""
    kinds = [kind for kind in BY_NAME.values() if role in kind.roles]
    return [
        kind for kind in kinds if kind.outcome != "asked again" and kind.logged not in ("length", "malformed_reply")
    ]


def check(kind: Fault, call: Callable[[], object], expected: Callable[[Any], bool]) -> int:
    """Make a call that meets a fault first; returns how many requests it must have taken."""
    if kind.outcome == "failed":
        with pytest.raises((ModelCallError, ModelSetupError)):
            call()
        # A wrong dimension is a fault of the settings, which ends the job and tells so itself.
        assert FAULTS.line() == ("none" if kind.name == "wrong dimension" else f"1 failed: {kind.logged} x1")
        assert expected(call())
        return 2
    assert expected(call())
    assert FAULTS.line() == ("none" if kind.outcome == "harmless" else f"1 retried: {kind.logged} x1")
    return 1 if kind.outcome == "harmless" else 2


@pytest.mark.parametrize("kind", kinds_of("reader"), ids=lambda kind: kind.name)
def test_a_chat_gets_over_each_fault(monkeypatch: pytest.MonkeyPatch, kind: Fault) -> None:
    with served(once(kind.make), monkeypatch) as server:
        expected = check(kind, lambda: chat().complete(REQUEST).text, lambda text: text == VERDICT)
        assert len(server.calls) == expected


@pytest.mark.parametrize("kind", kinds_of("embedder"), ids=lambda kind: kind.name)
def test_an_embedder_gets_over_each_fault(monkeypatch: pytest.MonkeyPatch, kind: Fault) -> None:
    texts = ["alpha beta", "gamma", "delta delta"]
    with served(right, monkeypatch):
        clean = embedder().embed_documents(texts)
    with served(once(kind.make), monkeypatch) as server:
        expected = check(kind, lambda: embedder().embed_documents(texts), lambda found: np.array_equal(found, clean))
        assert len(server.calls) == expected


@pytest.mark.parametrize("kind", [kind for kind in BY_NAME.values() if kind.roles == ("judge",)], ids=lambda k: k.name)
def test_a_judge_is_asked_again_for_a_label_and_a_useless_reply_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: Fault
) -> None:
    prompt = Prompt("You judge.", "{{question_text}}{{reference_answer}}{{model_full_response}}{{model_final_answer}}")
    with served(once(kind.make), monkeypatch) as server:
        judge = CachedChat(chat(), CallCache(tmp_path))
        verdict = judge_answer(judge, prompt, "q", "gold", "reply", "parsed", chat().settings)
        assert (verdict.label, verdict.attempts, len(server.calls)) == (1, 2, 2)
    assert FAULTS.line() == "1 asked again: no label x1"
    assert judge.cache.writes == 1


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_neither_prompt_nor_key_anywhere(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    with ChatServer(right) as elsewhere:
        with served(
            lambda _: redirected(status, elsewhere.url + "/chat/completions")(Answer({})), monkeypatch
        ) as server:
            with pytest.raises(ModelCallError, match=f"answered {status}.*redirect is not followed.*T_BASE_URL"):
                chat().complete(REQUEST)
            server.pages["/v1/models"] = Answer({}, status, {"location": elsewhere.url + "/models"})
            assert chat()._endpoint.look("/models").status == status
        assert (len(server.calls), elsewhere.calls, elsewhere.looks) == (1, [], [])


# Bounds


def test_a_reply_that_trickles_is_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(once(BY_NAME["slow trickle without end"].make), monkeypatch):
        started = time.monotonic()
        assert chat().complete(REQUEST).text == VERDICT
        assert time.monotonic() - started < 20 < openai_endpoint._CONNECT_TIMEOUT_S  # else it would last a minute


def test_a_reply_without_end_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_endpoint, "_MOST_REPLY_BYTES", 1_000_000)
    with served(once(BY_NAME["huge reply"].make), monkeypatch):
        assert chat().complete(REQUEST).text == VERDICT
    assert FAULTS.line() == "1 retried: reply too long x1"
    with (
        served(lambda call: BY_NAME["huge reply"].make(right(call)), monkeypatch),
        pytest.raises(ModelCallError, match="more than 1,000,000 bytes") as caught,
    ):
        chat().complete(REQUEST)
    assert caught.value.kind == "malformed_reply"


def packed(body: bytes, *encodings: str) -> Callable[[BoundedClient], httpx2.Response]:
    """Get a reply with this body, packed in each of these ways in turn."""
    pack = {"identity": bytes, "gzip": gzip.compress, "deflate": zlib.compress}
    for encoding in encodings:
        body = pack[encoding](body)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Encoding", ", ".join(encodings))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: object) -> None:
            pass

    def get(client: BoundedClient) -> httpx2.Response:
        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            try:
                return client.get(f"http://127.0.0.1:{server.server_port}/")
            finally:
                server.shutdown()

    return get


@pytest.mark.parametrize("encodings", [("identity",), ("gzip",), ("deflate",), ("deflate", "gzip")])
def test_a_packed_reply_is_bounded_unpacked(encodings: tuple[str, ...]) -> None:
    text = "\u00fc" * 400_000  # 800,002 bytes as JSON
    body = json.dumps(text, ensure_ascii=False).encode()
    get = packed(body, *encodings)
    with BoundedClient(httpx2.Timeout(5), 20, len(body), False) as client:
        reply = get(client)
        assert reply.json() == text and reply.content == body
        assert reply.headers["content-type"] == "application/json; charset=utf-8"
    with (
        BoundedClient(httpx2.Timeout(5), 20, len(body) - 1, False) as client,
        pytest.raises(ReplyTooLongError, match="more than 800,001 bytes"),
    ):
        get(client)


def test_a_small_reply_that_unpacks_to_a_huge_one_fills_no_memory() -> None:
    get = packed(b'"' + b"a" * 200_000_000 + b'"', "gzip", "gzip")
    tracemalloc.start()
    try:
        with (
            BoundedClient(httpx2.Timeout(5), 20, 4_000_000, False) as client,
            pytest.raises(ReplyTooLongError, match="more than 4,000,000 bytes"),
        ):
            get(client)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_what_a_reply_says_of_itself_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = with_object(lambda body: (body.update(model="a\ud83d"), body["choices"][0].update(finish_reason="b\udc00")))
    refusal = Answer({"error": {"message": "no \ud83d"}}, 400)
    with served(lambda call: odd(right(call)) if not call.repeat else refusal, monkeypatch):
        reply = chat().complete(REQUEST)
        assert (reply.model, reply.finish_reason) == ("a\ufffd", "b\ufffd")
        with pytest.raises(ModelCallError) as caught:
            chat().complete(REQUEST)
    caught.value.detail.encode("utf-8")


# Waits


def test_retry_after_is_honoured_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def waited(value: str, name: str = "retry_after") -> float:
        waits: list[float] = []
        with served(once(with_status(429, **{name: value})), monkeypatch):
            chat(waits).complete(REQUEST)
        (wait,) = waits
        return wait

    assert waited("7") == 7
    assert waited("2500", "retry_after_ms") == 2.5
    assert waited("86400") == waited("1e9") == 600
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 30 < waited(soon) <= 90
    assert waited(format_datetime(datetime.now(UTC) + timedelta(days=3), usegmt=True)) == 600
    past = format_datetime(datetime.now(UTC) - timedelta(days=3), usegmt=True)
    assert waited(past) == waited("soon") == waited("-5") == waited("nan") == 1  # the back-off's own wait


@pytest.mark.parametrize(
    "value",
    ["Mon, 99 Foo 2025 99:99:99 GMT", "1 Jan 99999999999999999999 00:00:00 GMT", ",", " ", "\x00", "1 Jan", "9" * 5000],
)
def test_an_odd_retry_after_is_no_wait(value: str) -> None:
    assert parse_retry_after(value) is None


def test_the_first_wait_can_be_set() -> None:
    assert [RetryPolicy.of(3, 0).wait_s(attempt, None) for attempt in (1, 2, 3)] == [0, 0, 0]
    assert 2 <= RetryPolicy.of(3, 2).wait_s(1, None) <= 4
    assert RetryPolicy.of(3, 0).wait_s(1, 5) == 5


def test_faults_and_waits_are_no_latency(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a query counts for is at most what is left of the whole time without the time that the faults took."""
    wait, held = 0.3, 0.2

    def reply(call: Call) -> Answer:
        if call.repeat == 0:
            return BY_NAME["stall"].make(right(call))
        if call.repeat == 1:
            return Answer({"error": {"message": "slow down"}}, 429, {"retry-after": str(wait)}, delay_s=held)
        return right(call)

    class Asking:
        def __init__(self, model: CachedChat) -> None:
            self.model = model

        def prepare(self, haystack: tuple[str, ...]) -> None:
            pass

        def query(self, query: MemoryQuery) -> MemoryContext:
            self.model.complete(ChatRequest((Message.text("user", query.text),)))
            return MemoryContext([])

    questions = [
        {"question_id": f"{n:08x}", "question": f"question {n}", "image": None, "question_type": "x"} for n in (1, 2)
    ]
    haystacks = {question["question_id"]: ["t1"] for question in questions}
    spec = {"name": "a", "tier": "small", "shard": "0of1", "method": {"family": "plugin"}}
    with served(reply, monkeypatch):
        settings = ChatSettings(backend="openai", model="m", endpoint="T", timeout_s=PATIENCE_S, retry_wait_s=0)
        cache = CallCache(tmp_path)
        memory = Asking(CachedChat(OpenAIChat(settings), cache))
        started = time.perf_counter()
        rows = query_rows(memory, questions, haystacks, spec, {}, cache, lambda *_: None)
        elapsed = time.perf_counter() - started
    faulty = PATIENCE_S + held + wait
    assert all(row["waited_s"] >= faulty - 0.02 for row in rows)
    assert sum(row["latency_s"] for row in rows) <= elapsed - 2 * faulty + 0.04
    assert all(row["latency_s"] > 0 and row["error"] is None for row in rows)
    assert FAULTS.line() == "4 retried: 429 x2, time-out x2"


# Counts


def test_counts_tell_what_became_of_each_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(lambda _: Answer({}, 503), monkeypatch), pytest.raises(ModelCallError):
        chat().complete(REQUEST)
    with served(lambda _: Answer({}, 401), monkeypatch), pytest.raises(ModelCallError):
        chat().complete(REQUEST)
    monkeypatch.setenv("T_BASE_URL", ELSEWHERE)
    with pytest.raises(ModelCallError):
        chat().complete(REQUEST)
    assert FAULTS.line() == "4 retried: 503 x2, no connection x2; 3 failed: 401 x1, 503 x1, no connection x1"
    FAULTS.clear()
    assert FAULTS.line() == FaultCounts().line() == "none"
    assert call_with_retry(lambda: 3, RetryPolicy())[0] == 3
    assert FAULTS.line() == "none"


def test_failures_that_are_let_through_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    failures = [Failure("a", "length", "cut"), Failure("b", "api_error", "503")]
    check_failures(failures, 2, "read_answers/x", "rows with an error kind")
    assert (
        "read_answers/x: 2 rows failed (1 api_error, 1 length), let through as rows with an error kind" in caplog.text
    )
    caplog.clear()
    check_failures([], 2, "read_answers/x", "rows with an error kind")
    assert caplog.text == ""


def test_the_schedule_deals_every_kind_and_tells_what_is_lost() -> None:
    schedule = FaultSchedule(right, faults(ELSEWHERE), seed=3, most=2)
    path, headers = "/v1/embeddings", dict[str, str]()
    calls = [Call(path, headers, {"input": [f"text {number}"]}, 0) for number in range(40)]
    for call in calls:
        schedule(call)
    embedder_kinds = {kind.name for kind in faults(ELSEWHERE) if "embedder" in kind.roles}
    assert schedule.injected.total() > schedule.survived.total()  # what is not asked again is lost
    assert not [role for role, _ in schedule.undealt() if role == "embedder"]
    for call in calls * 2:
        schedule(call)
    assert {name for _, name in schedule.injected} == embedder_kinds
    assert schedule.survived == schedule.injected
    assert "| all | " in schedule.table() and schedule.table().endswith(" 0 |")
    again = FaultSchedule(right, faults(ELSEWHERE), seed=3, most=2)
    assert [again(call).status for call in calls] != [200] * 40


# Keys


def quoting(call: Call) -> Answer:
    """A server that tells all that it was sent."""
    sent = call.headers["authorization"]
    return Answer({"error": {"message": f"refused {sent} of {KEY} {USER} {PASSWORD} {call.path}"}}, 401)


def shown_of(call: Callable[[], ChatReply]) -> str:
    with pytest.raises(ModelCallError) as caught:
        call()
    return "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caught.value.detail


def test_what_a_server_echoes_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(quoting, monkeypatch) as server:
        plain = shown_of(lambda: chat().complete(REQUEST))
        assert "Bearer [key] of [key]" in plain and KEY not in plain
        address = server.url.replace("//", "//user-marker-77:p%40ss%20marker%3A88@")
        monkeypatch.setenv("T_BASE_URL", f"{address}?token=query-marker-99")
        shown = shown_of(lambda: chat().complete(REQUEST))
        # With user and password in the address these are sent, and no key.
        credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        assert server.calls[-1].headers["authorization"] == f"Basic {credentials}"
    for secret in (credentials, KEY, USER, PASSWORD, "p%40ss%20marker%3A88", "query-marker-99"):
        assert secret not in shown, secret
    assert "Basic [user and password]" in shown


def test_a_key_that_fits_into_no_header_is_refused_and_not_quoted() -> None:
    for key in ("sk-marker\u2026", "sk-marker\nX-More: 1", "sk-mark\x00er"):
        with pytest.raises(ModelSetupError, match="X_API_KEY holds characters") as caught:
            read_access("X", {"X_BASE_URL": "https://example.org/v1", "X_API_KEY": key})
        assert "sk-mark" not in "".join(traceback.format_exception(caught.value))
