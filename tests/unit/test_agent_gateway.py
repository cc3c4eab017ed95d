"""The host side of the model socket: what it lets through, what it adds, and what it never says."""

from __future__ import annotations

import json
import logging
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from bwrap import needs_bwrap
from hypothesis import given
from hypothesis import strategies as st

from lmev2.agent.gateway import Gateway
from lmev2.agent.isolation import Isolation
from lmev2.agent.sandbox import Sandbox
from lmev2.models.types import ModelSetupError

KEY = "sk-test-8842"
_NOWHERE = Gateway("http://127.0.0.1:1/v1", KEY)


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
    return Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY)


class TestRequests:
    @pytest.mark.parametrize(
        ("method", "path"), [("POST", "/v1/responses"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models")]
    )
    def test_let_through_with_the_key(self, endpoint: Endpoint, gateway: Gateway, method: str, path: str) -> None:
        body = b"" if method == "GET" else b'{"input": "\xc3\xa9"}'
        sent = {
            "Authorization": "Bearer of-the-inside",
            "Cookie": "a=b",
            "X-Api-Key": "of-the-inside",
            "OpenAI-Organization": "other",
            "Content-Type": "application/json",
        }
        with gateway as socket_path, _client(socket_path) as client:
            reply = client.request(method, path, content=body, headers=sent)
        assert (reply.status_code, reply.json()) == (200, {"fine": True})
        (asked,) = endpoint.asked
        assert (asked.method, asked.path, asked.body) == (method, path, body)
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.headers["host"] == f"127.0.0.1:{endpoint.port}"
        assert "of-the-inside" not in str(asked.headers)
        assert not {"cookie", "x-api-key", "openai-organization"} & set(asked.headers)
        assert gateway.requests == 1

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
        assert reply.startswith((b"HTTP/1.1 404", b"HTTP/1.1 501"))
        assert endpoint.asked == [] and gateway.requests == 0

    @pytest.mark.parametrize(
        ("base", "path"),
        [
            ("/v1", "/v1/responses?a=b"),
            ("/v1/", "/v1/responses?a=b"),
            ("", "/responses?a=b"),
            ("/openai/v1?api-version=3", "/openai/v1/responses?api-version=3&a=b"),
        ],
    )
    def test_paths_of_the_address(self, endpoint: Endpoint, base: str, path: str) -> None:
        with Gateway(f"http://127.0.0.1:{endpoint.port}{base}", KEY) as socket_path, _client(socket_path) as client:
            client.post("/v1/responses?a=b", json={})
        assert endpoint.asked[0].path == path

    @pytest.mark.parametrize("key", ["", "none"])
    def test_no_key(self, endpoint: Endpoint, key: str) -> None:
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", key) as path, _client(path) as client:
            reply = client.post("/v1/responses", json={}, headers={"Authorization": "Bearer x"})
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
                assert client.post("/v1/responses", json={}).status_code == 200
        assert gateway.requests == 5

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
            threads = [threading.Thread(target=client.post, args=("/v1/responses",)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert gateway.requests == 8


def _raw(path: Path, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


class TestReplies:
    def test_status_and_waiting_time(self, endpoint: Endpoint, gateway: Gateway) -> None:
        headers = {"Retry_After": "7", "Set_Cookie": "a=b", "X_RateLimit_Remaining": "0", "Server": "own"}
        endpoint.reply = lambda handler: _send(handler, 429, b'{"error": {"message": "slow"}}', **headers)
        with gateway as path, _client(path) as client:
            reply = client.post("/v1/responses", json={})
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "7")
        assert reply.headers["x-ratelimit-remaining"] == "0" and "set-cookie" not in reply.headers
        assert reply.json() == {"error": {"message": "slow"}}

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
        with gateway as path, _client(path) as client, client.stream("POST", "/v1/responses", json={}) as response:
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
            client.post("/v1/responses", json={})

    def test_no_connection(self, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        caplog.set_level(logging.DEBUG, "lmev2")
        with Gateway(f"http://127.0.0.1:{port}/secret/v1", KEY) as path, _client(path) as client:
            reply = client.post("/v1/responses", json={})
        assert reply.status_code == 502
        assert reply.json()["error"]["message"] == "the model's endpoint cannot be reached (ConnectError)"
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
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, timeout_s=0.2) as path, _client(path) as client:
            reply = client.post("/v1/responses", json={})
        done.set()
        assert reply.status_code == 502 and "ReadTimeout" in reply.json()["error"]["message"]

    def test_key_in_the_reply(self, endpoint: Endpoint, gateway: Gateway) -> None:
        body = json.dumps({"error": f"no access with {KEY}, {KEY}"}).encode()
        endpoint.reply = lambda handler: _send(handler, 401, body, X_Request_Id=f"r-{KEY}")
        with gateway as path, _client(path) as client:
            reply = client.post("/v1/responses", json={})
        assert reply.json() == {"error": "no access with [key], [key]"}
        assert reply.headers["x-request-id"] == "r-[key]"

    @given(st.lists(st.sampled_from([b"s", b"sk", b"-te", b"st-88", b"42", KEY.encode(), b"x", b"-"]), max_size=12))
    def test_masking_in_pieces(self, pieces: list[bytes]) -> None:
        gateway = _NOWHERE
        whole = b"".join(pieces).replace(KEY.encode(), b"[key]")
        assert b"".join(gateway.masked(pieces)) == whole
        assert list(gateway.masked([b"data: x\n\n"])) == [b"data: x\n\n"]


class TestSocket:
    def test_place_and_end(self, endpoint: Endpoint, tmp_path: Path) -> None:
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY) as path:
            assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
        assert not path.parent.exists()
        deep = tmp_path / ("d" * 100)
        deep.mkdir()
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, deep) as path, _client(path) as client:
            assert not path.is_relative_to(deep) and len(bytes(path)) <= 100
            assert client.get("/v1/models").status_code == 200
        assert not path.parent.exists()

    def test_folder_of_the_caller(self, endpoint: Endpoint) -> None:
        with tempfile.TemporaryDirectory() as name:
            with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY, Path(name)) as path:
                assert path.parent == Path(name)
            assert not path.exists() and Path(name).exists()

    def test_a_long_temporary_folder(self, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        deep = tmp_path / ("d" * 100)
        deep.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(deep))
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY) as path:
            assert len(bytes(path)) <= 100
        assert list(deep.iterdir()) == []

    def test_proxies_do_not_stand_before_this_machine(
        self, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        with Gateway(f"http://127.0.0.1:{endpoint.port}/v1", KEY) as path, _client(path) as client:
            assert client.get("/v1/models").status_code == 200

    @pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "ftp://host/v1", "http://", ""])
    def test_no_address(self, address: str) -> None:
        with pytest.raises(ModelSetupError, match="no http or https address"):
            Gateway(address, KEY)


@pytest.mark.parametrize("kind", [pytest.param("bubblewrap", marks=needs_bwrap), "none"])
def test_from_inside_a_sandbox(kind: Isolation, endpoint: Endpoint, gateway: Gateway, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    script = (
        "import json, urllib.request as u\n"
        f"request = u.Request('http://127.0.0.1:{port}/v1/responses', json.dumps({{'n': 1}}).encode())\n"
        "print(u.urlopen(request).read().decode())"
    )
    with gateway as path:
        done = Sandbox(tmp_path, kind).execute(["python", "-c", script], 20, model_socket=path, model_port=port)
    assert (done.stdout, done.stderr) == ('{"fine": true}\n', "")
    assert endpoint.asked[0].body == b'{"n": 1}' and endpoint.asked[0].headers["authorization"] == f"Bearer {KEY}"
