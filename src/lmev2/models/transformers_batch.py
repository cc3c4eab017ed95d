"""Requests of several threads gathered into batches, for a model that answers many at once. Knows no PyTorch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lmev2.models.types import ModelSetupError

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.05, 2.0
_WAIT_SHARE = 0.05  # of the last batch's time

Work = TypeVar("Work")
Reply = TypeVar("Reply")


@dataclass(eq=False)
class _Waiting(Generic[Work, Reply]):
    work: Work
    group: Hashable
    tokens: int
    reply: Future[Reply] = field(default_factory=Future)


class Batcher(Generic[Work, Reply]):
    """Calls ``answer`` with up to ``limit`` works of one group, in the order in which they came.

    A thread of its own does so while there is work. Before a batch it waits a moment for more: as long as works keep
    coming, each within a twentieth of the time that the last batch took (at most two seconds).

    When memory runs out, the batch is answered in two halves, and no batch of as many padded tokens is tried again.
    When a batch fails otherwise, each of its works is tried alone, so that an error reaches the caller whose work makes
    it; a :class:`ModelSetupError` is everybody's.

    Args:
        answer: replies to works, in order.
        limit: works in a batch.
        exhausted: whether an error means that memory ran out.
        relieve: called before a smaller batch is tried.
        shortest_wait_s: the least time to wait for more.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Work]], Sequence[Reply]],
        limit: int,
        exhausted: Callable[[BaseException], bool],
        relieve: Callable[[], None],
        shortest_wait_s: float = _SHORTEST_WAIT_S,
    ):
        self._answer = answer
        self._limit = limit
        self._exhausted = exhausted
        self._relieve = relieve
        self._shortest_wait_s = shortest_wait_s
        self._changed = threading.Condition()
        self._waiting: list[_Waiting[Work, Reply]] = []
        self._running = False
        self._last_s = 0.0
        self._too_many_tokens: int | None = None  # of a padded batch that memory had no room for

    def submit(self, work: Work, group: Hashable, tokens: int) -> Reply:
        """The reply to a work; waits for it.

        Args:
            group: only works of equal group share a batch.
            tokens: how many tokens the work may need room for.

        Raises:
            Exception: what ``answer`` raised for this work.
        """
        waiting: _Waiting[Work, Reply] = _Waiting(work, group, tokens)
        with self._changed:
            self._waiting.append(waiting)
            if not self._running:
                self._running = True
                # daemon: a job that is ended must not wait for a model that writes
                threading.Thread(target=self._serve, name="batches", daemon=True).start()
            self._changed.notify_all()
        return waiting.reply.result()

    def _serve(self) -> None:
        while batch := self._next():
            started = time.perf_counter()
            self._settle(batch)
            self._last_s = time.perf_counter() - started

    def _next(self) -> list[_Waiting[Work, Reply]]:
        """The next batch; empty if there is nothing to do, and then this thread is to end."""
        wait_s = min(_LONGEST_WAIT_S, max(self._shortest_wait_s, _WAIT_SHARE * self._last_s))
        with self._changed:
            before = -1
            while before < len(self._waiting) < self._limit:
                before = len(self._waiting)
                self._changed.wait(wait_s)
            if not self._waiting:
                self._running = False
                return []
            group = self._waiting[0].group
            batch = [waiting for waiting in self._waiting if waiting.group == group][: self._limit]
            taken = set(map(id, batch))
            self._waiting = [waiting for waiting in self._waiting if id(waiting) not in taken]
            return batch

    def _settle(self, batch: list[_Waiting[Work, Reply]]) -> None:
        tokens = len(batch) * max(waiting.tokens for waiting in batch)
        if len(batch) > 1 and self._too_many_tokens is not None and tokens >= self._too_many_tokens:
            self._settle_halves(batch)
            return
        try:
            replies = list(self._answer([waiting.work for waiting in batch]))
            if len(replies) != len(batch):
                raise RuntimeError(f"{len(replies)} replies to {len(batch)} requests")
        except BaseException as error:  # it belongs to the callers, who wait in other threads
            fault = error
        else:
            for waiting, reply in zip(batch, replies, strict=True):
                waiting.reply.set_result(reply)
            return
        if len(batch) == 1 or isinstance(fault, ModelSetupError):
            for waiting in batch:
                waiting.reply.set_exception(fault)
        elif self._exhausted(fault):
            self._too_many_tokens = tokens if self._too_many_tokens is None else min(tokens, self._too_many_tokens)
            fault.__traceback__ = None  # its frames hold the batch's tensors
            self._relieve()
            self._settle_halves(batch)
        else:
            for waiting in batch:
                self._settle([waiting])

    def _settle_halves(self, batch: list[_Waiting[Work, Reply]]) -> None:
        half = len(batch) // 2
        self._settle(batch[:half])
        self._settle(batch[half:])
