"""One OpenAI-compatible endpoint: address and key from the environment, faults sorted into passing and final ones.

No message that leaves this module holds a key: errors quote the endpoint's own words with the key masked, and name
variables, never their values.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json import dumps
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

import httpx2
import openai

from lmev2.models.bounded_client import BoundedClient, ReplyTooLongError
from lmev2.models.fault_counts import FAULTS
from lmev2.models.retry import PASSING_STATUS, PassingFault, RetryPolicy, call_with_retry, parse_retry_after
from lmev2.models.text import well_formed
from lmev2.models.types import ModelCallError, ModelSetupError

Parsed = TypeVar("Parsed")

_CONNECT_TIMEOUT_S = 30.0
_QUOTED_CHARS = 500  # of an endpoint's error message
_MOST_REPLY_BYTES = 256 * 2**20  # more than the embeddings of the largest batches
_SHORTEST_QUERY_SECRET = 8  # characters; what stands after the address's question mark may be a key
_SHORTEST_PATH = 8  # characters; a path of the address that is hidden
_OVERFLOW = re.compile(
    r"context_length_exceeded|maximum context length|context window|max_model_len|prompt is too long"
    r"|exceed_context_size",
    re.IGNORECASE,
)

_NO_JSON = object()


@dataclass(frozen=True)
class Access:
    """Where an endpoint is and how to enter; read from the environment, never written anywhere."""

    base_url: str
    api_key: str
    host: str
    loopback: bool

    def __repr__(self) -> str:
        return f"Access({self.host})"


def read_access(endpoint: str, environment: Mapping[str, str] = os.environ) -> Access:
    """Address and key of an endpoint from ``{endpoint}_BASE_URL`` and ``{endpoint}_API_KEY``.

    A server on this machine needs no key.

    Raises:
        ModelSetupError: a variable is missing, the address is no http(s) URL that a request can go to, or the key fits
            into no header; names the variable.
    """
    url_name, key_name = f"{endpoint}_BASE_URL", f"{endpoint}_API_KEY"
    base_url = environment.get(url_name, "").strip()
    if not base_url:
        raise ModelSetupError(
            f"the environment variable {url_name} is not set; set it to the endpoint's address, "
            "e.g. http://127.0.0.1:8000/v1, or name other variables with the role's `endpoint`"
        )
    parts = _address(base_url)
    if parts is None or parts.hostname is None:
        raise ModelSetupError(
            f"the environment variable {url_name} does not hold an http or https address that a request can go to; "
            "check scheme, host and port, and look for invisible characters"
        )
    host, port = parts.hostname, parts.port
    loopback = _is_loopback(host)
    key = environment.get(key_name, "").strip()
    if not key and not loopback:
        raise ModelSetupError(
            f"the environment variable {key_name} is not set; the address in {url_name} is not this machine, so a key "
            "is expected (set it to 'none' if the server takes none)"
        )
    if not (key.isascii() and key.isprintable()):
        raise ModelSetupError(
            f"the environment variable {key_name} holds characters that no request can carry; a key is printable ASCII"
        )
    return Access(base_url, key or "none", host if port is None else f"{host}:{port}", loopback)


@dataclass(frozen=True)
class Look:
    """What came of one request that may fail.

    Attributes:
        status: of the HTTP reply; None if there was none.
        body: the reply's JSON object, where it is one and the status is 200.
        said: the server's words, or what kept them from coming; without key and address.
        retry_after_s: seconds that the server asks to wait, or None.
        connected: whether there was a connection, reply or not.
    """

    status: int | None
    body: dict[str, Any] | None
    said: str
    retry_after_s: float | None = None
    connected: bool = True


class Endpoint:
    """Posts JSON to one endpoint, so many requests at a time, and returns what a parser makes of the reply.

    The environment is read at the first request: a run that is answered by the cache needs no endpoint.
    """

    def __init__(self, name: str, served_name: str, timeout_s: float, concurrency: int, policy: RetryPolicy):
        self.name = name
        self.served_name = served_name
        self.timeout_s = timeout_s
        self.policy = policy
        self._slots = threading.BoundedSemaphore(concurrency)
        self._guard = threading.Lock()
        self._opened: tuple[openai.OpenAI, Access] | None = None

    def post(
        self, path: str, body: Mapping[str, Any], parse: Callable[[dict[str, Any]], Parsed]
    ) -> tuple[Parsed, float]:
        """Post a body and parse the reply; returns the parsed reply and the seconds of the attempt that succeeded.

        Waiting for a free slot and waiting between attempts are outside these seconds.

        Args:
            parse: turns the reply's JSON object into a value; raises :class:`PassingFault` for a malformed one.

        Raises:
            ModelCallError: the endpoint refused the request, or failed after all retries.
            ModelSetupError: address or key is missing.
        """
        client, access = self._open()

        def attempt() -> Parsed:
            return parse(self._post_once(client, access, path, body))

        return call_with_retry(attempt, self.policy, self._slots)

    def look(self, path: str, body: Mapping[str, Any] | None = None, at_root: bool = False) -> Look:
        """Ask once, without retries, and take whatever comes; a POST where there is a body, else a GET.

        Args:
            at_root: the path starts at the server's root, not below the ``/v1`` of its API.

        Raises:
            ModelSetupError: address or key is missing.
        """
        client, access = self._open()
        url = _at_root(access, path) if at_root else path
        try:
            if body is None:
                response = client.get(url, cast_to=httpx2.Response)
            else:
                response = client.post(url, cast_to=httpx2.Response, body=dict(body))
        except openai.APIStatusError as error:
            said = _cut(self.masked(_message(error.body) or error.message))
            return Look(error.status_code, None, said, _retry_after(error.response.headers))
        except openai.APITimeoutError as error:
            connected = not isinstance(error.__cause__, httpx2.ConnectTimeout)
            return Look(None, None, f"no reply within {self.timeout_s:g} s", connected=connected)
        except openai.OpenAIError as error:
            cause = error.__cause__
            connected = isinstance(cause, httpx2.ReadError | httpx2.RemoteProtocolError | ReplyTooLongError)
            what = "no whole reply" if connected else "no connection"
            return Look(None, None, f"{what} ({type(cause or error).__name__})", connected=connected)
        reply = _json_of(response)
        if not isinstance(reply, dict):
            return Look(response.status_code, None, "a reply that is no JSON object")
        if reply.get("error"):
            return Look(response.status_code, None, _cut(self.masked(_message(reply["error"]))))
        return Look(response.status_code, reply, "")

    def masked(self, text: str) -> str:
        """What an endpoint said, without what lets one in and without its address.

        Masked before it is cut or quoted: half a key, or one with escapes in it, would not be known.
        """
        if self._opened is None:  # nothing was asked
            return text
        return _without_address(text, self._opened[1])

    def _post_once(self, client: openai.OpenAI, access: Access, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            response = client.post(path, cast_to=httpx2.Response, body=dict(body))
        except openai.APIStatusError as error:
            raise self._status_fault(error, access) from None
        except openai.APITimeoutError:
            detail = f"no reply from endpoint {self.name} within {self.timeout_s:g} s"
            raise PassingFault("api_error", detail, name="time-out") from None
        except openai.APIConnectionError as error:
            raise self._connection_fault(error.__cause__) from None
        except openai.OpenAIError as error:
            FAULTS.add("failed", "api_error")
            raise ModelCallError("api_error", _mask(f"{type(error).__name__}: {error}", access)) from None
        reply = _json_of(response)
        if not isinstance(reply, dict):
            what = "no JSON" if reply is _NO_JSON else f"a JSON {type(reply).__name__}, not an object"
            raise PassingFault("malformed_reply", f"endpoint {self.name} replied with {what}", name="no JSON")
        if reply.get("error"):
            detail = f"endpoint {self.name}: {_mask(_message(reply['error']), access)}"
            raise PassingFault("malformed_reply", detail, name="error in reply")
        return reply

    def _connection_fault(self, cause: BaseException | None) -> PassingFault:
        if isinstance(cause, ReplyTooLongError):
            return PassingFault("malformed_reply", f"endpoint {self.name} replied with {cause}", name="reply too long")
        reason = type(cause).__name__ if cause else "connection error"
        name = "no connection" if isinstance(cause, httpx2.ConnectError | httpx2.ProxyError) else "connection lost"
        return PassingFault("api_error", f"no connection to endpoint {self.name} ({reason})", name=name)

    def _status_fault(self, error: openai.APIStatusError, access: Access) -> Exception:
        said = _mask(_message(error.body) or error.message, access)
        status = error.status_code
        detail = f"endpoint {self.name} answered {status} for model {self.served_name!r}: {said}"
        if status == 429 and error.code == "insufficient_quota":
            FAULTS.add("failed", "quota")
            return ModelCallError("api_error", f"{detail} (the account has no quota left; asking again cannot help)")
        if status in PASSING_STATUS or status >= 500:
            return PassingFault("api_error", detail, _retry_after(error.response.headers), str(status))
        FAULTS.add("failed", str(status))
        if 300 <= status < 400:
            detail += (
                f" (a redirect is not followed, so that prompts and key reach no other host; if it is meant, set "
                f"{self.name}_BASE_URL to where it leads)"
            )
        elif status in (401, 403):
            detail += f" (check the key in the environment variable {self.name}_API_KEY)"
        elif status == 404:
            detail += f" (check `served_name`, now {self.served_name!r}, and the path in {self.name}_BASE_URL)"
        overflow = status in (400, 413, 422) and (error.code == "context_length_exceeded" or _OVERFLOW.search(said))
        return ModelCallError("context_overflow" if overflow else "api_error", detail)

    def _open(self) -> tuple[openai.OpenAI, Access]:
        with self._guard:
            if self._opened is None:
                access = read_access(self.name)
                timeout = openai.Timeout(self.timeout_s, connect=min(self.timeout_s, _CONNECT_TIMEOUT_S))
                client = openai.OpenAI(
                    api_key=access.api_key,
                    base_url=access.base_url,
                    timeout=timeout,
                    max_retries=0,  # retried here, where the time of an attempt is known
                    # a proxy of the environment cannot reach a server on this machine
                    http_client=BoundedClient(timeout, self.timeout_s, _MOST_REPLY_BYTES, not access.loopback),
                )
                # The client reads these from variables that belong to another service than this endpoint, perhaps.
                client.organization = client.project = client.admin_api_key = None
                self._opened = (client, access)
            return self._opened


def _retry_after(headers: Mapping[str, str]) -> float | None:
    milliseconds = parse_retry_after(headers.get("retry-after-ms"))
    return milliseconds / 1000 if milliseconds is not None else parse_retry_after(headers.get("retry-after"))


def _message(body: object) -> str:
    """The words of an error body: its `message`, the same inside `error` or `detail`, or the text itself."""
    if isinstance(body, Mapping):
        for name in ("message", "error", "detail"):
            if body.get(name):
                return _message(body[name])
        return ""
    return "" if body is None else str(body)


def _json_of(response: httpx2.Response) -> Any:
    """The value that a reply's body is; :data:`_NO_JSON` for none, and for one that is nested beyond measure."""
    try:
        return response.json()
    except (ValueError, RecursionError):
        return _NO_JSON


def without_secrets(text: str, access: Access) -> str:
    """What an endpoint said, fit for a row, without what lets one in."""
    text = well_formed(text)
    for secret, name in _longest_first(secret_forms(access.base_url, access.api_key)):
        text = text.replace(secret, name)
    return text


def secret_forms(base_url: str, api_key: str) -> dict[str, str]:
    """What lets one into an endpoint, in the forms that a server or a proxy's error page may echo, and what to say
    instead: ``[key]``, ``[user]``, ``[password]``, ``[user and password]`` or ``[query]``."""
    parts = urlsplit(base_url)
    secrets: dict[str, str] = {}
    for value, name in ((parts.username, "[user]"), (parts.password, "[password]")):
        if value:
            secrets |= dict.fromkeys((value, *_echoes(unquote(value))), name)
    if parts.username or parts.password:  # sent as a header
        both = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        secrets[base64.b64encode(both.encode()).decode("ascii")] = "[user and password]"
    for _, value in parse_qsl(parts.query):
        if len(value) >= _SHORTEST_QUERY_SECRET:
            secrets |= dict.fromkeys(_echoes(value), "[query]")
    if api_key not in ("", "none"):
        secrets |= dict.fromkeys(_echoes(api_key), "[key]")
    return secrets


def address_forms(base_url: str) -> list[str]:
    """An endpoint's address as it may be echoed: as it stands, and without user, password and query."""
    parts = urlsplit(base_url)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    lower = plain._replace(netloc=plain.netloc.lower())
    return list(dict.fromkeys([base_url, urlunsplit(plain), urlunsplit(lower)]))


def _echoes(secret: str) -> tuple[str, ...]:
    """A secret as it stands, as it stands in an address, and as it stands in JSON."""
    in_json = dumps(secret)[1:-1]
    addressed = (quote(secret), quote(secret, safe=""), quote_plus(secret))
    return (secret, *addressed, in_json, in_json.replace("/", r"\/"))


def _longest_first(names: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(names.items(), key=lambda pair: -len(pair[0]))


def _mask(text: str, access: Access) -> str:
    return _cut(without_secrets(text, access))


def _cut(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"


def _without_address(text: str, access: Access) -> str:
    """What an endpoint said, without secrets, host, and a path that is more than ``/v1``."""
    url, parts = httpx2.URL(access.base_url), urlsplit(access.base_url)
    hosts = {url.host, url.raw_host.decode("ascii"), parts.hostname or ""}
    names = dict.fromkeys([*hosts, *(f"[{host}]" for host in hosts)], "[host]")
    if parts.port is not None:
        names |= dict.fromkeys([f"{name}:{parts.port}" for name in names], "[host]")
    path = parts.path.rstrip("/").removesuffix("/v1")
    if len(path) >= _SHORTEST_PATH:
        names |= dict.fromkeys((path, unquote(path)), "[path]")
    shown = {name.lower(): instead for name, instead in names.items() if name}
    words = "|".join(_word(name) for name, _ in _longest_first(shown))
    found = re.compile(words, re.IGNORECASE)
    return found.sub(lambda match: shown.get(match[0].lower(), "[host]"), without_secrets(text, access))


def _word(name: str) -> str:
    """A pattern that does not find a name inside of another word, which a short host name could be a part of."""
    before, after = (r"\b" if re.match(r"\w", name[end]) else "" for end in (0, -1))
    return f"{before}{re.escape(name)}{after}"


def _address(text: str) -> SplitResult | None:
    """The parts of an http or https address; None: no request can go there."""
    try:
        parts = urlsplit(text)
        _ = parts.port
        # What the client refuses, and what the system's look-up of names would refuse only when it is asked.
        httpx2.URL(text).raw_host.decode("ascii").encode("idna")
    except (ValueError, httpx2.InvalidURL):
        return None
    return parts if parts.hostname and parts.scheme in ("http", "https") else None


def _at_root(access: Access, path: str) -> str:
    parts = urlsplit(access.base_url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/").removesuffix("/v1") + path))


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
