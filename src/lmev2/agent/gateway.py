"""The way from a sandbox to its model: a Unix socket whose host side adds the key.

What is inside speaks plain HTTP/1.1 to loopback, where a bridge passes it on to the socket; it knows neither the
endpoint's address nor its key. Three requests are let through, as an OpenAI-compatible endpoint with the base path
``/v1`` has them, and only with what :mod:`lmev2.agent.gateway_rules` lets through. Failures that pass are repeated
here, where their time can be told from the model's. Replies are passed on unchanged and as they come, so streams stay
streams; failures become a 400 with the endpoint's words, since clients would repeat most others once more.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import shutil
import socketserver
import tempfile
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx2

from lmev2.agent.gateway_calls import NoReply, PatientCaller, Reply
from lmev2.agent.gateway_rules import CHAT, MODELS, RESPONSES, Refused, checked_body
from lmev2.agent.masking import endpoint_mask
from lmev2.agent.types import Usage
from lmev2.agent.usage_meter import UsageMeter
from lmev2.models.retry import RetryPolicy
from lmev2.models.types import ModelSetupError

_log = logging.getLogger(__name__)

_ALLOWED = (("GET", MODELS), ("POST", CHAT), ("POST", RESPONSES))
_TO_ENDPOINT = ("accept", "user-agent")
_TO_AGENT = frozenset({"content-type", "x-request-id"})
_TO_AGENT_PREFIXES = ("x-ratelimit-", "openai-processing")
_MAX_BODY_BYTES = 64 << 20  # screenshots travel in it, every turn anew
_MAX_AT_ONCE = 8  # requests whose bodies are in memory
_KEPT_REFUSALS = 200
_LOGGED_REFUSALS = 20
_QUOTED_CHARS = 100
_MAX_SOCKET_PATH = 100  # the system's limit is 108 bytes
_CONNECT_TIMEOUT_S = 30.0
_IDLE_S = 600.0


class Gateway:
    """The host side of a model socket; a context manager that gives the socket's path.

    It ends with the context, with the process at the latest.

    Args:
        base_url: the endpoint's address; ``/v1`` inside stands for it, with whatever path it has.
        api_key: sent instead of whatever key the inside sends; ``none`` or empty: no key is sent.
        model: the only model that may be asked, by the name that the endpoint knows.
        policy: how often and how patiently failures that pass are repeated; None: never.
        folder: where the socket shall lie; a short temporary folder where its path would be too long.
        timeout_s: without a byte from the endpoint, until it counts as failed.

    Attributes:
        mask: hides key and address in what is written down.
        refused: requests that were not let through, so far.
        refusals: the first of these, as events of a trace.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        policy: RetryPolicy | None = None,
        folder: Path | None = None,
        timeout_s: float = 600.0,
    ):
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ModelSetupError("the address of the agent's model is no http or https address")
        self.mask = endpoint_mask(base_url, api_key)
        self.refused, self.refusals = 0, list[dict[str, Any]]()
        self._parts, self._folder, self._model = parts, folder, model
        self._key = "" if api_key == "none" else api_key
        self._client = httpx2.Client(
            timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            trust_env=not _is_loopback(parts.hostname),  # a proxy of the environment cannot reach this machine
        )
        self._caller = PatientCaller(self._client, policy or RetryPolicy(retries=0))
        self._meters: list[UsageMeter] = []
        self._slots = threading.BoundedSemaphore(_MAX_AT_ONCE)
        self._reading, self._guard = threading.Lock(), threading.Lock()
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
        self._caller.stop()
        self._cleanup.close()

    @property
    def usage(self) -> Usage:
        """Of all requests that the endpoint answered, failures left out; tokens as far as the replies told them."""
        known = (meter.usage for meter in list(self._meters))
        return sum((one or Usage(requests=1) for one in known), Usage())

    @property
    def unmetered(self) -> int:
        """Answered requests whose replies did not tell their tokens, such as one that was broken off."""
        return sum(meter.usage is None for meter in list(self._meters))

    @property
    def waited_s(self) -> float:
        """Seconds lost in failed attempts of requests, and in waits between them."""
        return self._caller.waited_s

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> contextlib.AbstractContextManager[Reply]:
        """Ask the endpoint; the reply's body is still to be read.

        Raises:
            Refused: the request is not let through.
            NoReply: when the context is entered: the endpoint cannot be reached.
        """
        if method == "POST":
            with self._reading:  # a body takes more room read than written
                body = checked_body(path, body, self._model)
            headers = {**headers, "content-type": "application/json"}
        if self._key:
            headers = {**headers, "authorization": f"Bearer {self._key}"}
        full = self._parts.path.rstrip("/") + path.removeprefix("/v1")
        return self._caller.ask(method, urlunsplit(self._parts._replace(path=full)), headers, body)

    def slot(self) -> threading.BoundedSemaphore:
        """Held while a request is under way."""
        return self._slots

    def new_meter(self) -> UsageMeter:
        """For the reply to a POST request."""
        meter = UsageMeter()
        self._meters.append(meter)
        return meter

    def note_refusal(self, method: str, path: str, reason: str) -> None:
        """Keep for the trace, and log, that a request was not let through; only the first ones of many."""
        event = {"type": "gateway.refused", "method": method, "path": path, "reason": reason}
        event = {name: self.mask(value) for name, value in event.items()}
        with self._guard:
            self.refused += 1
            number = self.refused
            if number <= _KEPT_REFUSALS:
                self.refusals.append(event)
        if number <= _LOGGED_REFUSALS:
            _log.warning("refused a request of a sandbox: %s %s: %s", event["method"], event["path"], event["reason"])
        if number == _LOGGED_REFUSALS:
            _log.warning("further refused requests of this attempt are counted, not logged")


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
        path = self.path.partition("?")[0]  # what stands behind it is for nobody
        if (self.command, path) not in _ALLOWED:
            allowed = ", ".join(" ".join(one) for one in _ALLOWED)
            self._refuse(403, f"this sandbox reaches {allowed} only")
            return
        length = self.headers.get("content-length", "0" if self.command == "GET" else "")
        if not length.isdecimal() or "transfer-encoding" in self.headers:
            self._refuse(411, "a request needs its Content-Length")
            return
        if int(length) > _MAX_BODY_BYTES:
            self._refuse(413, f"a request may have {_MAX_BODY_BYTES:,} bytes")
            return
        with self.server.gateway.slot():
            self._forward(path, int(length))

    def _forward(self, path: str, length: int) -> None:
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True  # the inside went away
            return
        headers = {name: self.headers[name] for name in _TO_ENDPOINT if name in self.headers}
        headers["accept-encoding"] = "identity"  # what it cost is read in passing
        try:
            with self.server.gateway.ask(self.command, path, headers, body) as reply:
                del body
                self._pass_on(reply) if reply.success else self._tell_failure(reply)
        except Refused as error:
            self._refuse(403, str(error))
        except NoReply as error:
            self._tell(400, f"the model's endpoint cannot be reached ({error})")
        except httpx2.HTTPError:
            self.close_connection = True  # the missing last chunk tells that the reply is not whole

    def _pass_on(self, reply: Reply) -> None:
        self._begin(reply.status, reply)
        chunked = self.request_version != "HTTP/1.0"
        self.send_header(*("Transfer-Encoding", "chunked") if chunked else ("Connection", "close"))
        self.end_headers()
        meter = self.server.gateway.new_meter() if self.command == "POST" else UsageMeter()
        try:
            for piece in reply.pieces:
                meter.feed(piece)  # first: the agent may end as soon as it has the last one
                if piece:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        finally:
            meter.finish()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _tell_failure(self, reply: Reply) -> None:
        """A failure: the endpoint's own words, without its key."""
        mask = self.server.gateway.mask
        said = mask(b"".join(reply.pieces).decode("utf-8", "replace"))
        if reply.status != 400:
            self._tell(400, f"the model's endpoint answered {reply.status}: {_message(said)}")
            return
        self._begin(400, reply)
        self._send_whole(said.encode())

    def _begin(self, status: int, reply: Reply) -> None:
        self.send_response(status)
        for name, value in reply.headers.items():
            if name in _TO_AGENT or name.startswith(_TO_AGENT_PREFIXES):
                self.send_header(name, self.server.gateway.mask(value))

    def _refuse(self, status: int, message: str) -> None:
        path = self.path if len(self.path) <= _QUOTED_CHARS else self.path[:_QUOTED_CHARS] + "…"
        self.server.gateway.note_refusal(self.command, ascii(path)[1:-1], message)
        self._tell(status, message)

    def _tell(self, status: int, message: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")  # what is left of the request may not have been read
        self._send_whole(json.dumps({"error": {"message": message, "type": "gateway_error", "code": status}}).encode())

    def _send_whole(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _message(said: str) -> str:
    """The message of an error's JSON, else the text itself."""
    try:
        message = json.loads(said)["error"]["message"]
    except (ValueError, RecursionError, TypeError, KeyError, IndexError):
        return said
    return message if isinstance(message, str) else said


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
