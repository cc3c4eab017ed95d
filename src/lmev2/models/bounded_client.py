"""An HTTP client that follows no redirect, and gives up on replies that take too long in all or never end.

A read timeout bounds the pause between two pieces of a reply, not the reply: a server that sends a space now and then
keeps a caller for ever. And a redirect would carry the prompt, and between some addresses the key, to a host that
nobody configured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx2

_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)


class ReplyTooLongError(httpx2.RequestError):
    """A reply of more bytes than any that is meant."""


class BoundedClient(httpx2.Client):
    """Reads each reply within bounds.

    Args:
        timeout: of a connection, and of each pause within a reply.
        total_s: seconds from the request after which no further piece of a reply's body is taken; with the last pause,
            a reply takes at most ``total_s`` and one read timeout from its first byte on.
        most_bytes: of a reply's body, as it comes over the network and, where it comes compressed, also unpacked.
        trust_env: take proxies from the environment.
    """

    def __init__(self, timeout: httpx2.Timeout, total_s: float, most_bytes: int, trust_env: bool):
        super().__init__(timeout=timeout, limits=_LIMITS, trust_env=trust_env, follow_redirects=False)
        self._total_s, self._most_bytes = total_s, most_bytes

    def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request and read its reply.

        Raises:
            httpx2.ReadTimeout: the reply took too long in all.
            ReplyTooLongError: it has too many bytes.
            httpx2.RequestError: there is no reply, or it broke off.
        """
        deadline = time.monotonic() + self._total_s
        response = super().send(request, stream=True, **options | {"follow_redirects": False})
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _BoundedStream(response.stream, request, deadline, self._most_bytes)
        if not stream:
            try:
                if "content-encoding" in response.headers:
                    return self._unpacked(response)
                response.read()
            except BaseException:
                response.close()
                raise
        return response

    def _unpacked(self, response: httpx2.Response) -> httpx2.Response:
        """A compressed reply as if it had come plain; a small one may unpack to a thousand times its size."""
        pieces, received = [], 0
        for piece in response.iter_bytes():  # of a mebibyte at most
            received += len(piece)
            if received > self._most_bytes:
                raise _too_long(response.request, self._most_bytes)
            pieces.append(piece)
        headers = response.headers.copy()
        for name in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(name, None)
        return httpx2.Response(
            response.status_code,
            headers=headers,
            content=b"".join(pieces),
            request=response.request,
            extensions=response.extensions,
        )


def _too_long(request: httpx2.Request, most_bytes: int) -> ReplyTooLongError:
    return ReplyTooLongError(f"more than {most_bytes:,} bytes", request=request)


class _BoundedStream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, request: httpx2.Request, deadline: float, most_bytes: int):
        self._stream, self._request, self._deadline, self._most_bytes = stream, request, deadline, most_bytes

    def __iter__(self) -> Iterator[bytes]:
        received = 0
        for piece in self._stream:
            received += len(piece)
            if received > self._most_bytes:
                raise _too_long(self._request, self._most_bytes)
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("the reply takes too long in all", request=self._request)
            yield piece

    def close(self) -> None:
        self._stream.close()
