"""Measured times count a model call for the attempt that first answered it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat, CachedEmbedder
from lmev2.models.retry import PassingFault, RetryPolicy, call_with_retry
from lmev2.models.scripted import Rule, ScriptedChat, ScriptedEmbedder
from lmev2.models.settings import EmbedderSettings
from lmev2.models.stopwatch import account, collect
from lmev2.models.types import ChatReply, ChatRequest, Message, ModelCallError


class Clock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock.read)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return clock


def test_without_calls_the_time_is_the_clocks() -> None:
    with collect() as ledger:
        time.sleep(0.05)
    assert ledger.honest_s == pytest.approx(0.05)
    account(5, 1)  # outside of any ledger: nothing happens
    assert ledger.honest_s == pytest.approx(0.05)


def test_ledgers_nest() -> None:
    with collect() as outer:
        with collect() as inner:
            account(spent_s=0.0, counted_s=3.0)
        account(spent_s=0.0, counted_s=1.0)
    assert inner.honest_s == pytest.approx(3.0)
    assert outer.honest_s == pytest.approx(4.0)


def test_waits_and_failed_attempts_do_not_count(clock: Clock) -> None:
    attempts = iter([PassingFault("api_error", "503"), PassingFault("api_error", "503"), None])

    def attempt() -> str:
        fault = next(attempts)
        time.sleep(0.1)
        if fault is not None:
            raise fault
        return "done"

    with collect() as ledger:
        call_with_retry(attempt, RetryPolicy(first_wait_s=0.2, jitter_s=0.0, sleep=clock.sleep))
    assert ledger.elapsed_s == pytest.approx(0.9)  # three attempts, waits of 0.2 and 0.4 s
    assert ledger.honest_s == pytest.approx(0.1)
    assert ledger.waited_s == pytest.approx(0.8)


def test_a_call_that_fails_for_good_was_all_waiting(clock: Clock) -> None:
    def attempt() -> str:
        time.sleep(0.1)
        raise PassingFault("api_error", "503")

    with collect() as outer, collect() as inner, pytest.raises(ModelCallError):
        call_with_retry(attempt, RetryPolicy(retries=1, first_wait_s=0.2, jitter_s=0.0, sleep=clock.sleep))
    for ledger in (inner, outer):
        assert (ledger.honest_s, ledger.waited_s) == (pytest.approx(0.0), pytest.approx(0.4))


class SlowEmbedder(ScriptedEmbedder):
    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        time.sleep(0.25)
        return super().embed_query(text)


def test_a_replayed_query_vector_counts_as_long_as_it_first_took(tmp_path: Path) -> None:
    settings = EmbedderSettings(backend="scripted", model="m", dimension=8)
    embedder = CachedEmbedder(SlowEmbedder(settings), CallCache(tmp_path), batch_size=4)
    times = []
    for _ in range(2):
        with collect() as ledger:
            embedder.embed_query("which method asks first must not matter")
        times.append(ledger.honest_s)
    assert ledger.elapsed_s == 0
    assert times == pytest.approx([0.25, 0.25])


def test_a_replayed_reply_counts_as_long_as_it_first_took(tmp_path: Path) -> None:
    chat = CachedChat(ScriptedChat([Rule(text="x", regex=".", delay_s=0.25)]), CallCache(tmp_path))
    request = ChatRequest((Message.text("user", "hi"),))
    for _ in range(2):
        with collect() as ledger:
            chat.complete(request)
        assert ledger.honest_s == pytest.approx(0.25)
    assert ledger.elapsed_s == 0


def test_loading_a_model_counts_neither_now_nor_when_replayed(tmp_path: Path) -> None:
    class Loading(ScriptedChat):
        def complete(self, request: ChatRequest) -> ChatReply:
            time.sleep(30.0)  # the weights
            return super().complete(request)

    chat = CachedChat(Loading([Rule(text="x", delay_s=0.25)]), CallCache(tmp_path))
    request = ChatRequest((Message.text("user", "hi"),))
    for spent in (31.25, 1.0):
        with collect() as ledger:
            time.sleep(1.0)
            chat.complete(request)
        assert ledger.elapsed_s == pytest.approx(spent)
        assert (ledger.honest_s, ledger.waited_s) == (pytest.approx(1.25), 0.0)


def test_waits_before_a_reply_are_told_once_and_not_when_it_is_replayed(tmp_path: Path, clock: Clock) -> None:
    class Failing(ScriptedChat):
        failed = False

        def complete(self, request: ChatRequest) -> ChatReply:
            def attempt() -> ChatReply:
                time.sleep(0.5)
                if not self.failed:
                    self.failed = True
                    raise PassingFault("api_error", "503")
                return ChatReply("x", "stop", 1, 1, "m", 0.5)

            policy = RetryPolicy(first_wait_s=2.0, jitter_s=0.0, sleep=clock.sleep)
            return call_with_retry(attempt, policy)[0]

    chat = CachedChat(Failing([]), CallCache(tmp_path))
    request = ChatRequest((Message.text("user", "hi"),))
    for waited in (2.5, 0.0):
        with collect() as ledger:
            chat.complete(request)
        assert (ledger.honest_s, ledger.waited_s) == (pytest.approx(0.5), pytest.approx(waited))
