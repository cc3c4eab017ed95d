"""Retries of passing faults, with the successful attempt timed alone.

A passing fault is one that asking again may cure: a rate limit, a time-out, a dropped connection, a server error, or a
reply without the promised parts. Everything else fails at once.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import tenacity

from lmev2.models.fault_counts import FAULTS
from lmev2.models.stopwatch import account
from lmev2.models.types import ErrorKind, ModelCallError

Reply = TypeVar("Reply")

PASSING_STATUS = frozenset({408, 409, 429})  # and every 5xx


class PassingFault(Exception):
    """A failed attempt that is worth repeating.

    Attributes:
        kind: the error kind if no attempt succeeds.
        detail: what happened, without headers or keys.
        retry_after_s: seconds that the server asks to wait, or None.
        name: a word or two for the count of faults in a job's log.
    """

    def __init__(self, kind: ErrorKind, detail: str, retry_after_s: float | None = None, name: str | None = None):
        super().__init__(detail)
        self.kind: ErrorKind = kind
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.name = name or kind


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently to ask again.

    Attributes:
        retries: attempts after the first.
        first_wait_s: wait before the second attempt; it doubles each time, up to ``longest_wait_s``.
        jitter_s: a random part on top of every wait, so that many clients do not return at the same moment.
        longest_retry_after_s: a server's own Retry-After is honoured up to here.
        sleep: called with the seconds to wait; tests pass one that returns at once.
    """

    retries: int = 3
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    jitter_s: float = 1.0
    longest_retry_after_s: float = 600.0
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of(cls, retries: int, wait_s: float) -> RetryPolicy:
        """A policy by a role's ``retries`` and ``retry_wait_s``, which bounds the random part too."""
        return cls(retries=retries, first_wait_s=wait_s, jitter_s=wait_s)

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Seconds to wait after the attempt of this number (from 1) failed."""
        jitter = random.uniform(0, self.jitter_s)
        backoff = min(self.first_wait_s * 2.0 ** (attempt - 1), self.longest_wait_s)
        if retry_after_s is None:
            return backoff + jitter
        return max(backoff, min(retry_after_s, self.longest_retry_after_s)) + jitter


def call_with_retry(
    attempt: Callable[[], Reply], policy: RetryPolicy, slots: AbstractContextManager[object] | None = None
) -> tuple[Reply, float]:
    """Run an attempt until it succeeds; return its value and the seconds that this one attempt took.

    The current ledger is told: what the attempt that succeeded took counts, all else was waited.

    Args:
        slots: a semaphore held during an attempt, not between attempts; waiting for it is outside the seconds.

    Raises:
        ModelCallError: the last attempt failed with a :class:`PassingFault`, or any attempt with this error itself.
    """

    def timed() -> tuple[Reply, float]:
        with slots or nullcontext():
            start = time.perf_counter()
            value = attempt()
            return value, time.perf_counter() - start

    def count(state: tenacity.RetryCallState) -> None:
        fault = state.outcome.exception() if state.outcome is not None else None
        if isinstance(fault, PassingFault):
            FAULTS.add("retried", fault.name)

    def wait(state: tenacity.RetryCallState) -> float:
        fault = state.outcome.exception() if state.outcome is not None else None
        return policy.wait_s(state.attempt_number, fault.retry_after_s if isinstance(fault, PassingFault) else None)

    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(policy.retries + 1),
        wait=wait,
        retry=tenacity.retry_if_exception_type(PassingFault),
        sleep=policy.sleep,
        before_sleep=count,
        reraise=True,
    )
    started = time.perf_counter()
    seconds = 0.0  # of the attempt that succeeds
    try:
        value, seconds = retrying(timed)
        return value, seconds
    except PassingFault as fault:
        FAULTS.add("failed", fault.name)
        tries = policy.retries + 1
        detail = f"{fault.detail} (after {tries} attempt{'s' if tries > 1 else ''})"
        raise ModelCallError(fault.kind, detail) from None
    finally:
        spent = time.perf_counter() - started
        account(spent, seconds, spent - seconds)


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks to wait (a number or an HTTP date); None if absent or unreadable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, TypeError, IndexError, OverflowError):  # a date that is none, or beyond any calendar
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
