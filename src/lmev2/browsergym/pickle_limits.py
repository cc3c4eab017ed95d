"""Limits on what a pickle may have its reader build: a few bytes of it can ask for any amount of memory."""

from __future__ import annotations

import io
import pickletools
from typing import Final

MOST_OPERATIONS: Final = 6_000_000
"""Of a pickle. An accessibility tree of 3 MB as BrowserGym's objects takes about a quarter of them; one as text, or the
pixels of a screenshot, takes one."""

MOST_CONTAINERS: Final = 1_000_000
"""Lists, dicts, sets, tuples and objects that these operations make; an empty set alone takes 216 bytes."""

_MAKES_CONTAINER: Final = frozenset(
    (
        *("EMPTY_LIST", "LIST", "EMPTY_DICT", "DICT", "EMPTY_SET", "FROZENSET"),
        *("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
        *("REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ"),
    )
)
_MEMO_INDEX: Final = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))


def operation_fault(data: bytes) -> str | None:
    """What a pickle's operations ask for that no step needs; None when they stay within the limits.

    They are only read, one at a time. Python keeps the objects that a pickle numbers in a table as long as the largest
    number, so that a number above that of the operations before it is refused.

    Raises:
        Exception: of any kind, for a damaged pickle.
    """
    containers = 0
    for number, (operation, argument, _) in enumerate(pickletools.genops(io.BytesIO(data)), start=1):
        if number > MOST_OPERATIONS:
            return f"the pickle holds over {MOST_OPERATIONS:,} operations, which no step does; it was not loaded"
        containers += operation.name in _MAKES_CONTAINER
        if containers > MOST_CONTAINERS:
            return (
                f"the pickle makes over {MOST_CONTAINERS:,} lists, dicts and other objects, which no step does; it was "
                "not loaded"
            )
        if operation.name in _MEMO_INDEX and isinstance(argument, int) and argument > number:
            return f"the pickle gives an object the number {argument:,} in operation {number:,}; it was not loaded"
    return None
