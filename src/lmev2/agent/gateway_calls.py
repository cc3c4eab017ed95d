"""Asking an endpoint patiently: failures that pass are repeated until the first byte of a reply is there.

What the repeating costs is kept apart, as in :mod:`lmev2.models.retry`: failed attempts and the waits after them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx2

from lmev2.models.retry import PASSING_STATUS, RetryPolicy, parse_retry_after

_MAX_FAILURE_BYTES = 64_000


class NoReply(Exception):
    """The endpoint could not be reached, or broke off before the first byte of its reply."""


@dataclass(frozen=True)
class Reply:
    """An endpoint's reply.

    Attributes:
        headers: by names in lower case.
        pieces: the body as it comes; of a failure, its beginning.
    """

    status: int
    headers: Mapping[str, str]
    pieces: Iterator[bytes]

    @property
    def success(self) -> bool:
        """Whether it is what was asked for."""
        return 200 <= self.status < 300


class PatientCaller:
    """Asks an endpoint, any number of requests at once.

    Args:
        client: closed by whoever made it.
        policy: how often and how patiently to repeat.
    """

    def __init__(self, client: httpx2.Client, policy: RetryPolicy):
        self._client, self._policy = client, policy
        self._over, self._guard = threading.Event(), threading.Lock()
        self._lost: list[list[float]] = []  # beginning and end of failed attempts with the waits after them
        self._stopped_at: float | None = None

    def stop(self) -> None:
        """Repeat nothing any more; waits end."""
        with self._guard:
            if self._stopped_at is None:
                self._stopped_at = time.perf_counter()
        self._over.set()

    @property
    def waited_s(self) -> float:
        """Seconds lost in failed attempts and waits so far; those of several requests at once count once."""
        with self._guard:
            now = time.perf_counter() if self._stopped_at is None else self._stopped_at
            lost = sorted((began, min(ended, now)) for began, ended in self._lost)
        total, reached = 0.0, float("-inf")
        for began, ended in lost:
            total += max(0.0, ended - max(began, reached))
            reached = max(reached, ended)
        return total

    @contextlib.contextmanager
    def ask(self, method: str, address: str, headers: Mapping[str, str], body: bytes) -> Iterator[Reply]:
        """The endpoint's reply, or the last one of a failure that did not pass.

        Raises:
            NoReply: there is none, however often it was asked.
            httpx2.HTTPError: the reply breaks off while it is read.
        """
        for attempt in range(1, self._policy.retries + 2):
            began = time.perf_counter()
            with contextlib.ExitStack() as stack:
                try:
                    asked = self._client.stream(method, address, headers=dict(headers), content=body)
                    reply = _begun(stack.enter_context(asked))
                    broken = None
                except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                    reply, broken = None, type(error).__name__
                last = attempt > self._policy.retries or self._over.is_set()
                passing = reply is None or _may_pass(reply)
                if passing:
                    lost = self._begin_loss(began, ended=time.perf_counter() if last else float("inf"))
                if reply is not None and (last or not passing):
                    yield reply.reply
                    return
            if last:
                raise NoReply(f"{broken}, after {attempt} attempt{'s' if attempt > 1 else ''}")
            self._over.wait(self._policy.wait_s(attempt, reply.retry_after_s if reply is not None else None))
            lost[1] = time.perf_counter()
            if self._over.is_set():
                raise NoReply("the attempt has ended")

    def _begin_loss(self, began: float, ended: float) -> list[float]:
        lost = [began, ended]
        with self._guard:
            self._lost.append(lost)
        return lost


@dataclass(frozen=True)
class _Begun:
    """A reply of which the first byte is there, or the beginning of a failure."""

    reply: Reply
    failure: bytes

    @property
    def retry_after_s(self) -> float | None:
        milliseconds = parse_retry_after(self.reply.headers.get("retry-after-ms"))
        return parse_retry_after(self.reply.headers.get("retry-after")) if milliseconds is None else milliseconds / 1000


def _begun(response: httpx2.Response) -> _Begun:
    pieces = response.iter_bytes()
    if response.is_success:
        first = next(pieces, b"")
        return _Begun(Reply(response.status_code, response.headers, itertools.chain([first], pieces)), b"")
    failure = b""
    while len(failure) < _MAX_FAILURE_BYTES and (piece := next(pieces, b"")):
        failure += piece
    return _Begun(Reply(response.status_code, response.headers, iter([failure])), failure)


def _may_pass(begun: _Begun) -> bool:
    """Whether asking again may help: not where an account has no quota left."""
    status = begun.reply.status
    if status != 429:
        return status in PASSING_STATUS or status >= 500
    try:
        code = json.loads(begun.failure)["error"]["code"]
    except (ValueError, RecursionError, TypeError, KeyError, IndexError):
        return True
    return bool(code != "insufficient_quota")
