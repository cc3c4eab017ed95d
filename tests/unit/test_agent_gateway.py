"""The host side of the model socket: what it lets through, what it adds, and what it never says."""

from __future__ import annotations

import json
import logging
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from bwrap import needs_bwrap

from lmev2.agent.gateway import Gateway
from lmev2.agent.isolation import Isolation
from lmev2.agent.sandbox import Sandbox
from lmev2.agent.types import Usage
from lmev2.models.retry import RetryPolicy
from lmev2.models.types import ModelSetupError

KEY = "sk-test-key-8842"
MODEL = "test-model"
ASK = {"model": MODEL, "input": "é", "store": False}


@dataclass
class Asked:
    """A request as the endpoint saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Endpoint:
    """An endpoint on loopback; ``reply`` writes the whole answer."""

    reply: Callable[[BaseHTTPRequestHandler], None] | None = None
    asked: list[Asked] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    state = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.asked.append(Asked(self.command, self.path, headers, body))
            if state.reply is None:
                _send(self, 200, b'{"fine": true}')
            else:
                state.reply(self)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    state.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _client(path: Path) -> httpx2.Client:
    return httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), base_url="http://inside", timeout=20)


@pytest.fixture
def gateway(endpoint: Endpoint) -> Gateway:
    return Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, MODEL)


class TestRequests:
    @pytest.mark.parametrize(
        ("method", "path", "request_body"),
        [
            ("POST", "/v1/responses", ASK),
            ("POST", "/v1/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": "é"}]}),
            ("GET", "/v1/models", None),
        ],
    )
    def test_let_through_with_the_key(
        self, endpoint: Endpoint, gateway: Gateway, method: str, path: str, request_body: dict[str, Any] | None
    ) -> None:
        body = b"" if request_body is None else json.dumps(request_body).encode()
        sent = {
            "Authorization": "Bearer of-the-inside",
            "Cookie": "a=b",
            "X-Api-Key": "of-the-inside",
            "OpenAI-Organization": "other",
            "OpenAI-Beta": "of-the-inside",
            "Content-Type": "application/json",
        }
        with gateway as socket_path, _client(socket_path) as client:
            reply = client.request(method, path, content=body, headers=sent)
        assert (reply.status_code, reply.json()) == (200, {"fine": True})
        (asked,) = endpoint.asked
        assert (asked.method, asked.path) == (method, path)
        assert (json.loads(asked.body) if asked.body else None) == request_body
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.headers["host"] == f"127.0.0.1:{endpoint.port}"
        assert "of-the-inside" not in str(asked.headers)
        assert not {"cookie", "x-api-key", "openai-organization"} & set(asked.headers)
        assert gateway.usage == Usage(requests=int(method == "POST"))
        assert (gateway.unmetered, gateway.refused) == (int(method == "POST"), 0)

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/v1/responses"),
            ("POST", "/v1/models"),
            ("DELETE", "/v1/models"),
            ("GET", "/v1/models/x"),
            ("POST", "/v1/files"),
            ("POST", "/responses"),
            ("POST", "/v1/../v1/responses"),
            ("POST", "http://other.test/v1/responses"),
            ("POST", "/v1/responses/"),
            ("GET", "/"),
        ],
    )
    def test_not_let_through(self, endpoint: Endpoint, gateway: Gateway, method: str, path: str) -> None:
        request = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        with gateway as socket_path:
            reply = _raw(socket_path, request.encode())
        assert reply.startswith((b"HTTP/1.1 403", b"HTTP/1.1 501"))
        assert endpoint.asked == [] and gateway.usage == Usage()
        assert gateway.refused == int(b" 403 " in reply)

    @pytest.mark.parametrize(
        ("base", "path"),
        [
            ("/v1", "/v1/responses"),
            ("/v1/", "/v1/responses"),
            ("", "/responses"),
            ("/openai/v1?api-version=3", "/openai/v1/responses?api-version=3"),
        ],
    )
    def test_paths_of_the_address(self, endpoint: Endpoint, base: str, path: str) -> None:
        with (
            Gateway(f"http://127.0.0.1:{endpoint.port}{base}", KEY, MODEL) as socket_path,
            _client(socket_path) as client,
        ):
            client.post("/v1/responses?api-version=other", json=ASK)
        assert endpoint.asked[0].path == path

    @pytest.mark.parametrize("key", ["", "none"])
    def test_no_key(self, endpoint: Endpoint, key: str) -> None:
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", key, MODEL) as path, _client(path) as client:
            reply = client.post("/v1/responses", json=ASK, headers={"Authorization": "Bearer x"})
        assert reply.json() == {"fine": True} and "authorization" not in endpoint.asked[0].headers

    @pytest.mark.parametrize(
        ("request_head", "status"),
        [
            ("POST /v1/responses HTTP/1.1\r\nHost: x\r\n\r\n", b"411"),
            ("POST /v1/responses HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
            ("POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"411"),
            ("POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
            ("nonsense\r\n\r\n", b"400"),
        ],
    )
    def test_requests_that_cannot_be_read(
        self, endpoint: Endpoint, gateway: Gateway, request_head: str, status: bytes
    ) -> None:
        with gateway as path:
            assert status in _raw(path, request_head.encode()).split(b"\r\n")[0]
        assert endpoint.asked == []

    def test_request_that_breaks_off(self, endpoint: Endpoint, gateway: Gateway) -> None:
        with gateway as path:
            _raw(path, b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{}")
        assert endpoint.asked == []

    def test_one_connection_for_many(self, endpoint: Endpoint, gateway: Gateway) -> None:
        with gateway as path, _client(path) as client:
            for _ in range(5):
                assert client.post("/v1/responses", json=ASK).status_code == 200
        assert gateway.usage.requests == 5

    def test_old_client(self, gateway: Gateway) -> None:
        with gateway as path:
            reply = _raw(path, b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert reply.endswith(b'\r\n\r\n{"fine": true}') and b"chunked" not in reply

    def test_many_at_once(self, endpoint: Endpoint, gateway: Gateway) -> None:
        barrier = threading.Barrier(8)

        def reply(handler: BaseHTTPRequestHandler) -> None:
            barrier.wait(10)
            _send(handler, 200, endpoint.asked[-1].body)

        endpoint.reply = reply
        with gateway as path, _client(path) as client:
            threads = [
                threading.Thread(target=client.post, args=("/v1/responses",), kwargs={"json": ASK}) for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert gateway.usage.requests == 8


def _raw(path: Path, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


class TestReplies:
    @pytest.mark.parametrize("status", [301, 401, 404, 429, 500, 503])
    def test_failures_are_final(self, endpoint: Endpoint, gateway: Gateway, status: int) -> None:
        headers = {"Retry_After": "7", "Set_Cookie": "a=b", "Location": "http://other.test/", "Server": "own"}
        endpoint.reply = lambda handler: _send(handler, status, b'{"error": {"message": "slow"}}', **headers)
        with gateway as path, _client(path) as client:
            reply = client.post("/v1/responses", json=ASK)
        assert reply.status_code == 400 and len(endpoint.asked) == 1
        assert reply.json()["error"]["message"] == f"the model's endpoint answered {status}: slow"
        assert not {"retry-after", "set-cookie", "location"} & set(reply.headers)
        assert gateway.usage == Usage() and gateway.unmetered == 0

    def test_headers(self, endpoint: Endpoint, gateway: Gateway) -> None:
        headers = {"X_RateLimit_Remaining": "0", "X_Request_Id": f"r {KEY}", "Set_Cookie": "a=b"}
        endpoint.reply = lambda handler: _send(handler, 200, b"{}", **headers)
        with gateway as path, _client(path) as client:
            reply = client.post("/v1/responses", json=ASK)
        assert (reply.headers["x-ratelimit-remaining"], reply.headers["x-request-id"]) == ("0", "r [hidden]")
        assert "set-cookie" not in reply.headers

    def test_stream_comes_as_it_is_made(self, endpoint: Endpoint, gateway: Gateway) -> None:
        arrived = threading.Event()

        def reply(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for text in (b"data: one\n\n", b"data: two\n\n"):
                handler.wfile.write(b"%x\r\n%b\r\n" % (len(text), text))
                assert arrived.wait(10), "the first event was held back"
            handler.wfile.write(b"0\r\n\r\n")

        endpoint.reply = reply
        with gateway as path, _client(path) as client, client.stream("POST", "/v1/responses", json=ASK) as response:
            assert response.headers["content-type"] == "text/event-stream"
            pieces = response.iter_raw()
            assert next(pieces) == b"data: one\n\n"
            arrived.set()
            assert b"".join(pieces) == b"data: two\n\n"

    def test_stream_that_breaks_off(self, endpoint: Endpoint, gateway: Gateway) -> None:
        def reply(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b"data: one\n\n")
            handler.close_connection = True

        endpoint.reply = reply
        with gateway as path, _client(path) as client, pytest.raises(httpx2.RemoteProtocolError):
            client.post("/v1/responses", json=ASK)

    def test_no_connection(self, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        caplog.set_level(logging.DEBUG, "lmev2")
        with Gateway(f"http://127.0.0.1:{port}/secret/v1", KEY, MODEL) as path, _client(path) as client:
            reply = client.post("/v1/responses", json=ASK)
        assert reply.status_code == 400
        assert (
            reply.json()["error"]["message"] == "the model's endpoint cannot be reached (ConnectError, after 1 attempt)"
        )
        said = (
            reply.text
            + "".join(capfd.readouterr())
            + "".join(one.message for one in caplog.records if one.name != "httpx2")
        )
        assert KEY not in said and str(port) not in said and "secret" not in said

    def test_no_reply_in_time(self, endpoint: Endpoint) -> None:
        done = threading.Event()

        def reply(handler: BaseHTTPRequestHandler) -> None:
            done.wait(10)

        endpoint.reply = reply
        with (
            Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, MODEL, timeout_s=0.2) as path,
            _client(path) as client,
        ):
            reply = client.post("/v1/responses", json=ASK)
        done.set()
        assert reply.status_code == 400 and "ReadTimeout" in reply.json()["error"]["message"]

    @pytest.mark.parametrize("status", [400, 401])
    def test_key_in_a_failure(self, endpoint: Endpoint, gateway: Gateway, status: int) -> None:
        body = json.dumps({"error": {"message": f"no access with {KEY}, {KEY}"}}).encode()
        endpoint.reply = lambda handler: _send(handler, status, body)
        with gateway as path, _client(path) as client:
            reply = client.post("/v1/responses", json=ASK)
        assert reply.status_code == 400
        assert reply.json()["error"]["message"].endswith("no access with [hidden], [hidden]")

    def test_user_and_password_in_a_failure(self, endpoint: Endpoint) -> None:
        def echo(handler: BaseHTTPRequestHandler) -> None:
            told = f"not with {handler.headers['authorization']}, user-name:p@ss-word"
            _send(handler, 401, json.dumps({"error": {"message": told}}).encode())

        endpoint.reply = echo
        address = f"http://user-name:p%40ss-word@127.0.0.1:{endpoint.port}/v1"
        with Gateway(address, "none", MODEL) as path, _client(path) as client:
            reply = client.post("/v1/responses", json=ASK)
        assert reply.json()["error"]["message"].endswith("not with Basic [hidden], [hidden]:[hidden]")

    @pytest.mark.parametrize("key", ["token", "EMPTY", "function", "x", KEY])
    def test_a_reply_is_never_changed(self, endpoint: Endpoint, key: str) -> None:
        body = f'data: {{"type": "function_call", "input_tokens": 1, "text": "EMPTY x {KEY}"}}\n\n'.encode()
        endpoint.reply = lambda handler: _send(handler, 200, body, Content_Type="text/event-stream")
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", key, MODEL) as path, _client(path) as client:
            assert client.post("/v1/responses", json=ASK).content == body
            endpoint.reply = lambda handler: _send(handler, 401, b'{"error": {"message": "the token of function x"}}')
            said = client.post("/v1/responses", json=ASK).json()["error"]["message"]
        assert said.endswith("401: the token of function x")


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "body", "reason"),
        [
            ("/v1/responses", {"model": "other", "input": "x"}, "the model 'other'"),
            ("/v1/responses", {**ASK, "tools": [{"type": "web_search"}]}, "web_search"),
            ("/v1/chat/completions", {"model": MODEL, "messages": [], "web_search_options": {}}, "web_search_options"),
        ],
    )
    def test_refused_and_recorded(
        self,
        endpoint: Endpoint,
        gateway: Gateway,
        caplog: pytest.LogCaptureFixture,
        path: str,
        body: dict[str, Any],
        reason: str,
    ) -> None:
        with caplog.at_level("WARNING", "lmev2"), gateway as socket_path, _client(socket_path) as client:
            reply = client.post(path, json=body)
            assert client.get("/v1/models").status_code == 200
        assert reply.status_code == 403 and reason in reply.json()["error"]["message"]
        assert [asked.path for asked in endpoint.asked] == ["/v1/models"]
        (event,) = gateway.refusals
        assert (event["type"], event["method"], event["path"]) == ("gateway.refused", "POST", path)
        assert event["reason"] == reply.json()["error"]["message"]
        assert sum(event["reason"] in record.getMessage() for record in caplog.records) == 1

    def test_many_are_counted_and_not_all_kept(self, gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("WARNING", "lmev2"), gateway as path, _client(path) as client:
            for number in range(230):
                client.get(f"/v1/{number}/" + "y" * 300)
        assert (gateway.refused, len(gateway.refusals)) == (230, 200)
        assert len(caplog.records) == 21
        assert all(len(event["path"]) < 150 for event in gateway.refusals)

    def test_what_the_inside_sends_forges_no_log_line(self, gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("WARNING", "lmev2"), gateway as path, _client(path) as client:
            client.post("/v1/responses", json={"model": "a\nERROR forged", "input": "x"})
            _raw(path, b"GET /v1/\xff\x1b[2J HTTP/1.1\r\n\r\n")
        assert len(caplog.records) == 2
        assert all(record.getMessage().isprintable() for record in caplog.records)


class TestRepeating:
    """Failures that pass, until the first byte."""

    @staticmethod
    def _policy(retries: int = 2) -> RetryPolicy:
        return RetryPolicy(retries=retries, first_wait_s=0.1, jitter_s=0, longest_retry_after_s=0.3)

    def _gateway(self, endpoint: Endpoint, retries: int = 2, timeout_s: float = 5) -> Gateway:
        url = f"http://127.0.0.1:{endpoint.port}/v1"
        return Gateway(url, KEY, MODEL, self._policy(retries), timeout_s=timeout_s)

    @pytest.mark.parametrize(
        ("status", "headers", "waited_s"),
        [
            (429, {}, 0.3),
            (429, {"Retry_After": "60"}, 0.6),
            (503, {"Retry_After_Ms": "250"}, 0.5),
            (500, {}, 0.3),
            (529, {}, 0.3),
            (408, {}, 0.3),
        ],
    )
    def test_status(self, endpoint: Endpoint, status: int, headers: dict[str, str], waited_s: float) -> None:
        def reply(handler: BaseHTTPRequestHandler) -> None:
            _send(handler, *((status, b"{}") if len(endpoint.asked) < 3 else (200, b'{"fine": 1}')), **headers)

        endpoint.reply = reply
        gateway = self._gateway(endpoint)
        with gateway as path, _client(path) as client:
            assert client.post("/v1/responses", json=ASK).json() == {"fine": 1}
        assert len(endpoint.asked) == 3 and len({asked.body for asked in endpoint.asked}) == 1
        assert gateway.usage.requests == 1 and gateway.waited_s == pytest.approx(waited_s, abs=0.1)

    @pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"])
    def test_connection_that_breaks_before_the_first_byte(self, endpoint: Endpoint, head: bytes) -> None:
        def reply(handler: BaseHTTPRequestHandler) -> None:
            if len(endpoint.asked) == 3:
                return _send(handler, 200, b'{"fine": 1}')
            handler.wfile.write(head)
            handler.close_connection = True
            return None

        endpoint.reply = reply
        gateway = self._gateway(endpoint)
        with gateway as path, _client(path) as client:
            assert client.post("/v1/responses", json=ASK).json() == {"fine": 1}
        assert gateway.waited_s == pytest.approx(0.3, abs=0.1)

    def test_a_time_out_and_its_time(self, endpoint: Endpoint) -> None:
        def reply(handler: BaseHTTPRequestHandler) -> None:
            if len(endpoint.asked) == 1:
                threading.Event().wait(1)
            _send(handler, 200, b"{}")

        endpoint.reply = reply
        gateway = self._gateway(endpoint, timeout_s=0.4)
        with gateway as path, _client(path) as client:
            assert client.post("/v1/responses", json=ASK).status_code == 200
        assert gateway.waited_s == pytest.approx(0.5, abs=0.1)  # the failed attempt, and a wait of 0.1 s

    def test_not_after_the_first_byte(self, endpoint: Endpoint) -> None:
        def reply(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nd")
            handler.close_connection = True

        endpoint.reply = reply
        gateway = self._gateway(endpoint)
        with gateway as path, _client(path) as client, pytest.raises(httpx2.RemoteProtocolError):
            client.post("/v1/responses", json=ASK)
        assert len(endpoint.asked) == 1 and (gateway.unmetered, gateway.waited_s) == (1, 0)

    @pytest.mark.parametrize(
        ("status", "body"), [(400, b"{}"), (404, b"x"), (429, b'{"error": {"code": "insufficient_quota"}}')]
    )
    def test_not_what_does_not_pass(self, endpoint: Endpoint, status: int, body: bytes) -> None:
        endpoint.reply = lambda handler: _send(handler, status, body)
        gateway = self._gateway(endpoint)
        with gateway as path, _client(path) as client:
            assert client.post("/v1/responses", json=ASK).status_code == 400
        assert len(endpoint.asked) == 1 and gateway.waited_s == 0

    def test_up_to_the_retries(self, endpoint: Endpoint) -> None:
        endpoint.reply = lambda handler: _send(handler, 503, b'{"error": {"message": "busy"}}')
        gateway = self._gateway(endpoint)
        with gateway as path, _client(path) as client:
            said = client.post("/v1/responses", json=ASK).json()["error"]["message"]
        assert (len(endpoint.asked), said) == (3, "the model's endpoint answered 503: busy")

    def test_the_end_ends_waits(self, endpoint: Endpoint) -> None:
        endpoint.reply = lambda handler: _send(handler, 503, b"{}")
        gateway = Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, MODEL, RetryPolicy(first_wait_s=60))
        began = time.perf_counter()
        with gateway as path:
            thread = threading.Thread(target=lambda: _client(path).post("/v1/responses", json=ASK))
            thread.start()
            while not endpoint.asked or not gateway.waited_s:
                time.sleep(0.01)
            time.sleep(0.3)
        thread.join(10)
        assert not thread.is_alive() and time.perf_counter() - began < 5
        assert len(endpoint.asked) == 1 and gateway.waited_s == pytest.approx(0.3, abs=0.15)

    def test_waits_at_once_count_once(self, endpoint: Endpoint) -> None:
        barrier = threading.Barrier(4)

        def reply(handler: BaseHTTPRequestHandler) -> None:
            if len(endpoint.asked) <= 4:
                barrier.wait(5)
                return _send(handler, 503, b"{}")
            return _send(handler, 200, b"{}")

        endpoint.reply = reply
        gateway = self._gateway(endpoint)
        with gateway as path, _client(path) as client:
            threads = [
                threading.Thread(target=client.post, args=("/v1/responses",), kwargs={"json": ASK}) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert gateway.usage.requests == 4 and gateway.waited_s == pytest.approx(0.1, abs=0.1)


class TestUsage:
    def test_of_all_answered_requests(self, endpoint: Endpoint, gateway: Gateway) -> None:
        counts = {"input_tokens": 10, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}}
        whole = json.dumps({"usage": {**counts, "input_tokens_details": {"cached_tokens": 4}}}).encode()
        event = json.dumps({"type": "response.incomplete", "response": {"usage": counts}})
        replies = [(200, whole), (200, f"data: {event}\n\n".encode()), (200, b"{}"), (400, whole)]
        endpoint.reply = lambda handler: _send(handler, *replies[len(endpoint.asked) - 1])
        with gateway as path, _client(path) as client:
            for _ in replies:
                client.post("/v1/responses", json=ASK)
        assert (gateway.usage, gateway.unmetered) == (Usage(3, 20, 4, 10, 4), 1)

    def test_counted_before_the_last_byte_is_passed_on(self, endpoint: Endpoint, gateway: Gateway) -> None:
        """The agent may end, and its usage be read, as soon as it has it."""
        event = json.dumps({"type": "response.completed", "response": {"usage": {"input_tokens": 7}}})
        held = threading.Event()

        def reply(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.end_headers()
            handler.wfile.write(f"data: {event}\n\n".encode())
            held.wait(10)
            handler.close_connection = True

        endpoint.reply = reply
        with gateway as path, _client(path) as client, client.stream("POST", "/v1/responses", json=ASK) as response:
            assert b"completed" in next(response.iter_raw())
            assert gateway.usage == Usage(1, 7)
            held.set()

    def test_a_stream_of_chat_completions_is_asked_for_it(self, endpoint: Endpoint, gateway: Gateway) -> None:
        with gateway as path, _client(path) as client:
            client.post("/v1/chat/completions", json={"model": MODEL, "messages": [], "stream": True})
            client.post("/v1/chat/completions", json={"model": MODEL, "messages": []})
        assert json.loads(endpoint.asked[0].body)["stream_options"] == {"include_usage": True}
        assert "stream_options" not in json.loads(endpoint.asked[1].body)


class TestSocket:
    def test_place_and_end(self, endpoint: Endpoint, tmp_path: Path) -> None:
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, MODEL) as path:
            assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
        assert not path.parent.exists()
        deep = tmp_path / ("d" * 100)
        deep.mkdir()
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, MODEL, folder=deep) as path, _client(path) as client:
            assert not path.is_relative_to(deep) and len(bytes(path)) <= 100
            assert client.get("/v1/models").status_code == 200
        assert not path.parent.exists()

    def test_folder_of_the_caller(self, endpoint: Endpoint) -> None:
        with tempfile.TemporaryDirectory() as name:
            with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, MODEL, folder=Path(name)) as path:
                assert path.parent == Path(name)
            assert not path.exists() and Path(name).exists()

    def test_a_long_temporary_folder(self, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        deep = tmp_path / ("d" * 100)
        deep.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(deep))
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, MODEL) as path:
            assert len(bytes(path)) <= 100
        assert list(deep.iterdir()) == []

    def test_proxies_do_not_stand_before_this_machine(
        self, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, MODEL) as path, _client(path) as client:
            assert client.get("/v1/models").status_code == 200

    @pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "ftp://host/v1", "http://", ""])
    def test_no_address(self, address: str) -> None:
        with pytest.raises(ModelSetupError, match="no http or https address"):
            Gateway(address, KEY, MODEL)


@pytest.mark.parametrize("kind", [pytest.param("bubblewrap", marks=needs_bwrap), "none"])
def test_from_inside_a_sandbox(kind: Isolation, endpoint: Endpoint, gateway: Gateway, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    script = (
        "import json, urllib.request as u\n"
        f"request = u.Request('http://127.0.0.1:{port}/v1/responses', json.dumps({ASK}).encode())\n"
        "print(u.urlopen(request).read().decode())"
    )
    with gateway as path:
        done = Sandbox(tmp_path, kind).execute(["python", "-c", script], 20, model_socket=path, model_port=port)
    assert (done.stdout, done.stderr) == ('{"fine": true}\n', "")
    assert json.loads(endpoint.asked[0].body) == ASK and endpoint.asked[0].headers["authorization"] == f"Bearer {KEY}"
