"""Reading pickles as data: whatever object they hold becomes an inert stand-in, and nothing is imported or called.

Loading a pickle the usual way runs code of its author's choice. Here each name that a pickle gives is looked up in a
list: plain containers are themselves, NumPy's arrays and the classes of the libraries that record runs become
:class:`Inert` objects, which only keep what they were given, and any other name is refused. What a pickle may make its
reader build is limited (:mod:`lmev2.browsergym.pickle_limits`).
"""

from __future__ import annotations

import gzip
import io
import math
import pickle
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np

from lmev2.browsergym.pickle_limits import MOST_OPERATIONS, operation_fault

MOST_BYTES = 1 << 29

# The agent's messages, kept beside a run's observations, are objects of these; none of them is looked at.
_INERT_PACKAGES = frozenset(
    ("agentlab", "browsergym", "bgym", "langchain", "langchain_core", "langchain_community", "openai", "anthropic")
)
_INERT_NAMES = frozenset(
    {
        "numpy.dtype",
        "numpy.ndarray",
        "numpy.core.multiarray._reconstruct",
        "numpy._core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "numpy._core.multiarray.scalar",
        "numpy.core.numeric._frombuffer",
        "numpy._core.numeric._frombuffer",
        "_codecs.encode",  # bytes of old protocols
        "builtins.bytes",  # and empty ones
        "collections.OrderedDict",
        "collections.defaultdict",
    }
)
_CONTAINERS = {f"builtins.{kind.__name__}": kind for kind in (dict, list, tuple, set, frozenset)}
_NUMBER = re.compile(r"[biuf][1248]")
_ORDER = {"<": "<", ">": ">", "|": "", "=": ""}


class PickleFault(ValueError):
    """A pickle that is damaged, or holds something that is not read."""


class _Budget:
    """How many entries the objects of one pickle may still be given by copying: a copy is one operation, however long
    what it copies."""

    def __init__(self) -> None:
        self._left = MOST_OPERATIONS

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise PickleFault("the pickle copies its objects over and over, which no step does; it was not loaded")


class Inert:
    """Stands for an object of a pickle.

    Attributes:
        origin: module and name that the pickle gives for its class.
        arguments: what it was made with.
        fields: its state by name; a state without names is at ``"state"``.
        items: what was set by key.
        entries: what was appended.
    """

    origin = ""
    _budget: ClassVar[_Budget | None] = None

    arguments: tuple[Any, ...]
    fields: dict[str, Any]
    items: dict[Any, Any]
    entries: list[Any]

    def __new__(cls, *arguments: Any, **named: Any) -> Inert:  # noqa: D102
        # Not __init__, which pickles that make an object by its class alone do not call.
        self = super().__new__(cls)
        self._take(len(arguments) + len(named))
        self.arguments = arguments
        self.fields = dict(named)
        self.items = {}
        self.entries = []
        return self

    def __init__(self, *arguments: Any, **named: Any):
        """Takes what the class is called with, which is kept already."""

    def _take(self, count: int) -> None:
        if self._budget is not None:
            self._budget.take(count)

    def __setstate__(self, state: Any) -> None:
        parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if all(part is None or isinstance(part, dict) for part in parts):
            for part in parts:
                self._take(len(part or {}))
                self.fields.update(part or {})
        else:
            self.fields["state"] = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def append(self, value: Any) -> None:
        """Keep an entry."""
        self.entries.append(value)

    def extend(self, values: Any) -> None:
        """Keep several entries."""
        self.entries.extend(values)

    def add(self, value: Any) -> None:
        """Keep an entry."""
        self.entries.append(value)


class _DataUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes):
        super().__init__(io.BytesIO(data))
        self._classes: dict[str, type] = {}
        self._budget = _Budget()

    def find_class(self, module: str, name: str) -> Any:
        module = "builtins" if module == "__builtin__" else module  # its name in old protocols
        origin = f"{module}.{name}"
        if origin in _CONTAINERS:
            return self._maker(_CONTAINERS[origin])
        if origin not in _INERT_NAMES and module.partition(".")[0] not in _INERT_PACKAGES:
            raise PickleFault(
                f"found {origin!r:.120}, which is neither plain data nor of a library that records runs; it was not "
                "loaded. A run that holds it can be given as a neutral run folder"
            )
        # A class a load, so that nothing that a pickle sets on it outlives the load.
        return self._classes.setdefault(origin, type("Inert", (Inert,), {"origin": origin, "_budget": self._budget}))

    def _maker(self, kind: Callable[..., Any]) -> Callable[..., Any]:
        """Makes a container, and charges what it copies."""

        def make(*contents: Any) -> Any:
            self._budget.take(sum(len(content) for content in contents if hasattr(content, "__len__")))
            return kind(*contents)

        return make

    def persistent_load(self, pid: Any) -> NoReturn:
        raise PickleFault("found a reference to an object outside the pickle")


def read_pickle(path: Path) -> Any:
    """The content of a gzipped pickle as plain data and :class:`Inert` objects.

    Raises:
        PickleFault: the file is damaged, unpacks to over 512 MiB or to too many objects, or names something that is
            neither plain data nor of a library that records runs; it says which.
        OSError: the file cannot be read.
    """
    try:
        with gzip.open(path) as stream:
            data = stream.read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise PickleFault(f"the file is damaged or cut ({type(error).__name__}: {error})") from error
    if len(data) > MOST_BYTES:
        raise PickleFault(f"the file unpacks to over {MOST_BYTES >> 20} MiB, which no step does")
    return load_data(data)


def load_data(data: bytes) -> Any:
    """The content of a pickle as plain data and :class:`Inert` objects.

    Raises:
        PickleFault: the pickle is damaged, makes too many objects, or names something that is not read.
    """
    try:
        fault = operation_fault(data)
        if fault is not None:
            raise PickleFault(fault)
        return _DataUnpickler(data).load()
    except PickleFault:
        raise
    except Exception as error:  # a damaged pickle can fail in any way
        raise PickleFault(f"the pickle is damaged ({type(error).__name__}: {error!s:.120})") from error


def field_of(value: Any, name: str) -> Any:
    """A field of a dict or a stand-in; None when it has none."""
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, Inert):
        return value.fields.get(name, value.items.get(name))
    return None


def array_of(value: Any) -> np.ndarray[Any, Any] | None:
    """A NumPy array or number of plain numbers that a stand-in describes; None when it does not describe one."""
    if not isinstance(value, Inert):
        return None
    parts = _array_parts(value)
    if parts is None:
        return None
    shape, kind, fortran, held = parts
    dtype, data = _number_type(kind), _bytes_of(held)
    if dtype is None or data is None or not isinstance(shape, tuple):
        return None
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        return None
    if math.prod(shape) * dtype.itemsize != len(data):
        return None
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _bytes_of(value: Any) -> bytes | None:
    if isinstance(value, Inert) and value.origin == "_codecs.encode" and len(value.arguments) == 2:
        text = value.arguments[0]
        return text.encode("latin-1", "replace") if isinstance(text, str) else None
    if isinstance(value, Inert) and value.origin == "builtins.bytes" and not value.arguments:
        return b""
    return bytes(value) if isinstance(value, bytes | bytearray) else None


def _array_parts(value: Inert) -> tuple[Any, Any, bool, Any] | None:
    """Shape, type, whether columns come first, and bytes."""
    function = value.origin.rpartition(".")[2] if value.origin.startswith("numpy.") else ""
    state, arguments = value.fields.get("state"), value.arguments
    if function == "_reconstruct" and isinstance(state, tuple) and len(state) == 5:
        return state[1], state[2], bool(state[3]), state[4]
    if function == "_frombuffer" and len(arguments) == 4:
        return arguments[2], arguments[1], arguments[3] == "F", arguments[0]
    if function == "scalar" and len(arguments) == 2:
        return (), arguments[0], False, arguments[1]
    return None


def _number_type(value: Any) -> np.dtype[Any] | None:
    if not isinstance(value, Inert) or value.origin != "numpy.dtype" or not value.arguments:
        return None
    name, state = value.arguments[0], value.fields.get("state")
    order = state[1] if isinstance(state, tuple) and len(state) > 1 else "="
    if not isinstance(name, str) or _NUMBER.fullmatch(name) is None or order not in _ORDER:
        return None
    try:
        return np.dtype(_ORDER[order] + name)
    except TypeError:
        return None
