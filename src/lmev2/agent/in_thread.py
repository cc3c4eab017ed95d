"""Blocking work beside an event loop, such that a signal to this process ends the loop and the work at once."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

Value = TypeVar("Value")


async def in_thread(work: Callable[[], Value], end: Callable[[], None] | None = None) -> Value:
    """What ``work`` returns or raises, done in a thread of its own with this context.

    The event loop's own threads would be waited for before the process can end, however long their work takes. Only the
    main thread is told of signals; so it has to run the loop, and to pass on that this call was cancelled.

    Args:
        end: has the work end at once; called when this call is cancelled or a signal ends the process, and then the
            work's end is waited for. None: work that cannot be ended; it goes on alone, at most as long as the process.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Value] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        settle: Callable[[], None]
        try:
            settle = partial(outcome.set_result, context.run(work))
        except BaseException as error:
            settle = partial(outcome.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle)

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        return await asyncio.shield(outcome)
    except BaseException:
        outcome.add_done_callback(_look)
        if end is not None:
            end()
            if thread.is_alive():
                thread.join()  # not a wait of the loop, which would be cancelled again
        raise


def _look(outcome: asyncio.Future[Value]) -> None:
    """Else it is complained that nobody looked at a fault."""
    if not outcome.cancelled():
        outcome.exception()
