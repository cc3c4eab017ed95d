"""The way from a sandbox to its model: a Unix socket whose host side adds the key.

What is inside speaks plain HTTP/1.1 to loopback, where a bridge passes it on to the socket; it knows neither the
endpoint's address nor its key. Three requests are let through, as an OpenAI-compatible endpoint with the base path
``/v1`` has them; replies are passed on as they come, so streams stay streams.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

import httpx2

from lmev2.models.types import ModelSetupError

_ALLOWED = frozenset({("POST", "/v1/responses"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models")})
_TO_ENDPOINT = ("content-type", "content-encoding", "accept", "user-agent", "openai-beta")
_TO_AGENT = frozenset({"content-type", "retry-after", "retry-after-ms", "x-request-id"})
_TO_AGENT_PREFIXES = ("x-ratelimit-", "openai-processing")
_MAX_BODY_BYTES = 256 << 20  # screenshots travel in it, every turn anew
_MAX_SOCKET_PATH = 100  # the system's limit is 108 bytes
_CONNECT_TIMEOUT_S = 30.0
_IDLE_S = 600.0


class Gateway:
    """The host side of a model socket; a context manager that gives the socket's path.

    It ends with the context, with the process at the latest.

    Args:
        base_url: the endpoint's address; ``/v1`` inside stands for it, with whatever path it has.
        api_key: sent instead of whatever key the inside sends; ``none`` or empty: no key is sent.
        folder: where the socket shall lie; a short temporary folder where its path would be too long.
        timeout_s: without a byte from the endpoint, until it counts as failed.

    Attributes:
        requests: how many were passed on to the endpoint so far.
    """

    def __init__(self, base_url: str, api_key: str, folder: Path | None = None, timeout_s: float = 600.0):
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ModelSetupError("the address of the agent's model is no http or https address")
        self.requests = 0
        self._parts, self._folder = parts, folder
        self._key = "" if api_key == "none" else api_key
        self._client = httpx2.Client(
            timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            trust_env=not _is_loopback(parts.hostname),  # a proxy of the environment cannot reach this machine
        )
        self._guard = threading.Lock()
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Path:
        with contextlib.ExitStack() as stack:
            stack.callback(self._client.close)
            folder = self._folder
            if folder is None or len(bytes(folder / "model.sock")) > _MAX_SOCKET_PATH:
                folder = _short_folder()
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
            path = folder / "model.sock"
            path.unlink(missing_ok=True)
            server = _Server(self, path)
            stack.callback(path.unlink, missing_ok=True)
            stack.callback(server.server_close)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
            self._cleanup = stack.pop_all()
        return path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def address(self, path: str, query: str) -> str:
        """The endpoint's address of a path below ``/v1``."""
        full = self._parts.path.rstrip("/") + path.removeprefix("/v1")
        return urlunsplit(self._parts._replace(path=full, query="&".join(filter(None, (self._parts.query, query)))))

    @contextlib.contextmanager
    def forward(self, method: str, address: str, headers: dict[str, str], body: bytes) -> Iterator[httpx2.Response]:
        """Ask the endpoint; the reply's body is still to be read."""
        with self._guard:
            self.requests += 1
        if self._key:
            headers = {**headers, "authorization": f"Bearer {self._key}"}
        with self._client.stream(method, address, headers=headers, content=body) as response:
            yield response

    def masked(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces without the key, should the endpoint repeat it; held back is only what may be its beginning."""
        key = self._key.encode()
        held = b""
        for piece in pieces:
            held = (held + piece).replace(key, b"[key]") if key else piece
            possible = range(min(len(key) - 1, len(held)), 0, -1)
            keep = next((size for size in possible if held.endswith(key[:size])), 0)
            passed, held = held[: len(held) - keep], held[len(held) - keep :]
            if passed:
                yield passed
        if held:
            yield held


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, gateway: Gateway, path: Path):
        self.gateway = gateway
        super().__init__(str(path), _Handler)
        path.chmod(0o600)

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: the inside went away, or sent what is no HTTP; a report would quote addresses."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def address_string(self) -> str:
        return ""

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        if (self.command, path) not in _ALLOWED:
            self._refuse(404, f"this sandbox reaches {', '.join(sorted(' '.join(one) for one in _ALLOWED))} only")
            return
        length = self.headers.get("content-length", "0" if self.command == "GET" else "")
        if not length.isdecimal() or "transfer-encoding" in self.headers:
            self._refuse(411, "a request needs its Content-Length")
            return
        if int(length) > _MAX_BODY_BYTES:
            self._refuse(413, f"a request may have {_MAX_BODY_BYTES:,} bytes")
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True  # the inside went away
            return
        gateway = self.server.gateway
        headers = {name: self.headers[name] for name in _TO_ENDPOINT if name in self.headers}
        # A compressed reply could not be looked through for the key.
        headers["accept-encoding"] = "identity"
        begun = False
        try:
            with gateway.forward(self.command, gateway.address(path, query), headers, body) as response:
                begun = True
                self._pass_on(response)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            if begun:
                self.close_connection = True  # the missing last chunk tells that the reply is not whole
            else:
                self._refuse(502, f"the model's endpoint cannot be reached ({type(error).__name__})")

    def _pass_on(self, response: httpx2.Response) -> None:
        gateway = self.server.gateway
        self.send_response(response.status_code)
        for name, value in response.headers.items():
            if name in _TO_AGENT or name.startswith(_TO_AGENT_PREFIXES):
                kept = b"".join(gateway.masked([value.encode("latin-1", "replace")]))
                self.send_header(name, kept.decode("latin-1"))
        chunked = self.request_version != "HTTP/1.0"
        self.send_header(*("Transfer-Encoding", "chunked") if chunked else ("Connection", "close"))
        self.end_headers()
        for piece in gateway.masked(response.iter_bytes()):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, status: int, message: str) -> None:
        body = json.dumps({"error": {"message": message, "type": "gateway_error", "code": status}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")  # what is left of the request was not read
        self.end_headers()
        self.wfile.write(body)


def _short_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lmev2-"))
    if len(bytes(folder / "model.sock")) <= _MAX_SOCKET_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="lmev2-", dir="/tmp"))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
