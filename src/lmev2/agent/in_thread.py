"""Blocking work beside an event loop, such that a signal to this process ends the loop and the work at once."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


async def in_thread(work: Callable[[], Value], on_cancel: Callable[[], None] | None) -> Value:
    """What ``work`` returns or raises in a thread of its own, in this context.

    The event loop's own threads would be waited for before the process can end, however long their work takes.

    Args:
        on_cancel: has the work end soon; when this call is cancelled, or a signal ends the process, it is called and
            the work waited for. None: the work cannot be ended; then it is left alone, and ends with the process.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Value] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Value | None, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, fault = None, None
        try:
            value = context.run(work)
        except BaseException as error:
            fault = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, fault)

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        return await outcome
    except BaseException:
        if on_cancel is not None:
            on_cancel()
            if thread.ident is not None:
                thread.join()
        raise
