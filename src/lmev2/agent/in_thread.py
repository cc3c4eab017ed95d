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


async def in_thread(work: Callable[[], Value], *, end: Callable[[], None], wait: Callable[[], bool]) -> Value:
    """What ``work`` returns or raises, done in a thread of its own with this context.

    The event loop's own threads would be waited for before the process can end, however long their work takes. Only the
    main thread is told of signals; so it has to run the loop, and to pass on that this call was cancelled.

    Args:
        end: called when this call is cancelled, or a signal ends the process: has the work end soon, if it can.
        wait: asked then whether to wait until the work has ended; what is not waited for ends with the process.
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
    except asyncio.CancelledError:
        end()
        outcome.add_done_callback(lambda done: done.exception())  # else it is complained that nobody looked
        if wait():
            await asyncio.wait([outcome])
        raise
    except (KeyboardInterrupt, SystemExit):
        end()
        if thread.is_alive() and wait():
            thread.join()
        raise
