"""Retries: what is repeated, how long is waited, what is timed."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

import pytest

from lmev2.models.retry import PassingFault, RetryPolicy, call_with_retry, parse_retry_after
from lmev2.models.types import ModelCallError

NOW = datetime(2025, 10, 21, 7, 28, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Tue, 21 Oct 2025 07:28:30 GMT", 30.0),
        ("Tue, 21 Oct 2025 07:27:30 GMT", 0.0),
        ("Tue, 21 Oct 2025 09:28:10 +0200", 10.0),
    ],
)
def test_retry_after_header(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_waits_double_up_to_a_limit_and_honour_the_server() -> None:
    policy = RetryPolicy(first_wait_s=1, longest_wait_s=5, jitter_s=0, longest_retry_after_s=100)
    assert [policy.wait_s(attempt, None) for attempt in (1, 2, 3, 4, 9)] == [1, 2, 4, 5, 5]
    assert policy.wait_s(1, 30) == 30
    assert policy.wait_s(3, 0) == 4
    assert policy.wait_s(1, 5000) == 100
    jittered = [RetryPolicy(jitter_s=0.5).wait_s(1, None) for _ in range(50)]
    assert all(1 <= wait <= 1.5 for wait in jittered)
    assert len(set(jittered)) > 1


def test_only_the_successful_attempt_is_timed() -> None:
    attempts: list[None] = []
    waits: list[float] = []

    def attempt() -> str:
        attempts.append(None)
        if len(attempts) < 3:
            time.sleep(0.1)
            raise PassingFault("api_error", "busy", retry_after_s=9)
        return "done"

    value, seconds = call_with_retry(attempt, RetryPolicy(retries=2, jitter_s=0, sleep=waits.append))
    assert value == "done"
    assert seconds < 0.1
    assert waits == [9, 9]


@pytest.mark.parametrize(("retries", "words"), [(0, "after 1 attempt)"), (2, "after 3 attempts)")])
def test_a_fault_that_stays_becomes_an_error_of_its_kind(retries: int, words: str) -> None:
    attempts: list[None] = []

    def attempt() -> None:
        attempts.append(None)
        raise PassingFault("malformed_reply", "no choices")

    with pytest.raises(ModelCallError) as caught:
        call_with_retry(attempt, RetryPolicy(retries=retries, sleep=lambda _: None))
    assert caught.value.kind == "malformed_reply"
    assert words in caught.value.detail
    assert len(attempts) == retries + 1


def test_other_errors_are_not_repeated() -> None:
    attempts: list[None] = []

    def attempt() -> None:
        attempts.append(None)
        raise ModelCallError("context_overflow", "too long")

    with pytest.raises(ModelCallError, match="too long"):
        call_with_retry(attempt, RetryPolicy(sleep=lambda _: None))
    assert len(attempts) == 1


def test_a_slot_is_free_between_attempts() -> None:
    slots = threading.BoundedSemaphore(1)
    free = []

    def wait(_: float) -> None:
        free.append(slots.acquire(blocking=False))
        slots.release()

    def attempt() -> None:
        assert not slots.acquire(blocking=False)
        raise PassingFault("api_error", "busy")

    with pytest.raises(ModelCallError):
        call_with_retry(attempt, RetryPolicy(retries=1, sleep=wait), slots)
    assert free == [True]
