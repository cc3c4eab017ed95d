"""The call cache: one file per model call that succeeded, outside the workflow's own bookkeeping.

A key is an object of JSON types that holds everything that can change the answer; its canonical JSON is hashed and the
hash names the file. A killed run loses at most the calls in flight, and a repeated run pays for nothing twice. Errors
are never stored: only a finished value is put.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import logging
import math
import os
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lmev2.files import StorageError
from lmev2.models.call_lock import locked
from lmev2.models.types import ChatReply, ChatRequest, ImagePart, Message

logger = logging.getLogger(__name__)

_FORMAT = 1
_CHAT = "chat"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SHOWN_CHARS = 240  # of a long string in a file's readable description
_temporary_number = itertools.count()


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: keys sorted, no spaces, ASCII only, and 1.0 written like 1.

    Raises:
        TypeError: the value holds something other than None, bool, int, float, str, list, tuple and dict with string
            keys; names where.
        ValueError: a number is not finite.
    """
    return json.dumps(_plain(value, "$"), sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256_text(text: str) -> str:
    """Hexadecimal sha256 of a text; lone surrogates, which real pages contain, are hashed as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def request_key(identity: Mapping[str, Any], request: ChatRequest) -> dict[str, Any]:
    """The cache key of a chat call: the backend's identity and the request, images by the hash of their bytes.

    `role` stays out: it changes no answer. The schema enters as text, because the order of its properties decides the
    order in which a constrained model writes them.
    """
    sampling = request.sampling
    return {
        "backend": dict(identity),
        "messages": [_message_key(message) for message in request.messages],
        "sampling": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed,
        },
        "schema": None if request.schema is None else json.dumps(request.schema),
        "grammar": request.grammar,
        "thinking": request.thinking,
        "reasoning_effort": request.reasoning_effort,
        "sample": request.sample,
    }


class CallCache:
    """A folder of finished calls, ``<folder>/<namespace>/<2 hex>/<sha256>.json``.

    Safe with many threads and processes: a file appears complete under its name or not at all. A file that cannot be
    read, or that belongs to another key, is named in a warning, moved aside (``….bad-…``) and treated as absent.

    Once a file could not be written, no further call is let through, since its reply could not be kept either.

    Attributes:
        hits, misses, writes: what this object has seen, over all namespaces.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.hits = 0
        self.misses = 0
        self.writes = 0
        self._guard = threading.Lock()
        self._key_locks: dict[str, tuple[threading.Lock, int]] = {}
        self._failed: StorageError | None = None

    def get(self, identity: Mapping[str, Any], request: ChatRequest) -> ChatReply | None:
        """The stored reply to a chat request, with ``replayed`` set and its times as first measured; None if absent."""
        stored = self.get_json(_CHAT, request_key(identity, request))
        return None if stored is None else ChatReply(**stored, replayed=True)

    def put(self, identity: Mapping[str, Any], request: ChatRequest, reply: ChatReply) -> None:
        """Store the reply to a chat request."""
        fields = {name: getattr(reply, name) for name in ChatReply.__dataclass_fields__ if name != "replayed"}
        self.put_json(_CHAT, request_key(identity, request), fields)

    def get_json(self, namespace: str, key: Any) -> dict[str, Any] | None:
        """The object stored under a key, or None.

        Raises:
            TypeError, ValueError: the key has no canonical JSON, or the namespace is not a plain name.
        """
        path, digest = self._locate(namespace, key)
        value = self._read(path, namespace, digest)
        with self._guard:
            if value is None:
                self.misses += 1
            else:
                self.hits += 1
        return value

    def put_json(self, namespace: str, key: Any, value: Mapping[str, Any]) -> None:
        """Store an object of JSON types under a key; a value that is already there is replaced.

        Raises:
            TypeError, ValueError: key or value has no canonical JSON, or the namespace is not a plain name.
            StorageError: the file cannot be written; says what to do.
        """
        path, digest = self._locate(namespace, key)
        content = {
            "format": _FORMAT,
            "namespace": namespace,
            "key_sha256": digest,
            "key": _describe(key),
            "value_sha256": sha256_text(canonical_json(value)),
            "value": dict(value),
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(content, indent=1, allow_nan=False).encode("ascii"))
        except OSError as error:
            self._failed = self._cannot_keep(error)
            raise self._failed from error
        with self._guard:
            self.writes += 1

    @contextmanager
    def only_one(self, namespace: str, key: Any) -> Iterator[None]:
        """Let one thread of this process at a time work on a key, so that equal requests make one call.

        Raises:
            StorageError: the value is not there, and a file could not be written before.
        """
        path, digest = self._locate(namespace, key)
        name = f"{namespace}/{digest}"
        with self._guard:
            lock, users = self._key_locks.get(name, (threading.Lock(), 0))
            self._key_locks[name] = (lock, users + 1)
        try:
            with lock:
                self._refuse_new(path)
                yield
        finally:
            with self._guard:
                users = self._key_locks[name][1] - 1
                if users:
                    self._key_locks[name] = (lock, users)
                else:
                    del self._key_locks[name]

    @contextmanager
    def only_one_across(self, namespace: str, key: Any, work_s: float = 0.0) -> Iterator[None]:
        """:meth:`only_one`, and one process at a time, so that jobs side by side share the work on a key too.

        A key whose value is stored waits for no other process.

        Args:
            work_s: seconds that the work may rightly take, see :func:`~lmev2.models.call_lock.locked`.

        Raises:
            StorageError: the value is not there, and a file could not be written before, or its lock's cannot be now.
        """
        path = self.path_of(namespace, key)
        with self.only_one(namespace, key), ExitStack() as stack:
            if not path.exists():
                try:
                    stack.enter_context(locked(path.with_name(f".{path.stem}.lock"), work_s))
                except OSError as error:
                    self._failed = self._cannot_keep(error)
                    raise self._failed from error
                self._refuse_new(path)  # what could not be written while this one waited
            yield

    def only_one_call(self, identity: Mapping[str, Any], request: ChatRequest) -> AbstractContextManager[None]:
        """:meth:`only_one_across` for a chat request."""
        return self.only_one_across(_CHAT, request_key(identity, request))

    def counts(self) -> str:
        """What this object has seen, for a log line."""
        return f"{self.hits} hits, {self.misses} misses, {self.writes} writes"

    def path_of(self, namespace: str, key: Any) -> Path:
        """Where the value of a key stands or would stand."""
        return self._locate(namespace, key)[0]

    def _refuse_new(self, path: Path) -> None:
        if self._failed is not None and not path.exists():
            raise self._failed

    def _cannot_keep(self, error: OSError) -> StorageError:
        remedy = (
            "make room on its disk, or set `cache` to another folder after copying this one"
            if error.errno in _NO_ROOM
            else "see that the folder can be written to, or set `cache` to another folder"
        )
        return StorageError(
            error.errno,
            f"cannot write to the call cache {self.folder} ({os.strerror(error.errno or 0)}); no further call is made, "
            f"since its reply would be lost. {remedy[0].upper()}{remedy[1:]}, and run again: finished calls are kept",
        )

    def _locate(self, namespace: str, key: Any) -> tuple[Path, str]:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", namespace):
            raise ValueError(f"cache namespace {namespace!r} must be lower-case letters, digits, '-' and '_'")
        digest = sha256_text(canonical_json(key))
        return self.folder / namespace / digest[:2] / f"{digest}.json", digest

    def _read(self, path: Path, namespace: str, digest: str) -> dict[str, Any] | None:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        fault = _fault(raw, namespace, digest)
        if isinstance(fault, str):
            self._move_aside(path, fault)
            return None
        return fault

    def _move_aside(self, path: Path, fault: str) -> None:
        aside = path.with_name(f"{path.name}.bad-{os.getpid()}-{next(_temporary_number)}")
        try:
            os.replace(path, aside)
        except FileNotFoundError:  # another process was faster
            return
        except OSError as error:
            logger.warning("cache file %s is unusable (%s) and cannot be moved aside (%s)", path, fault, error)
            return
        logger.warning("cache file %s is unusable (%s); moved to %s, the call is repeated", path, fault, aside.name)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that its name never shows part of the content, also after a crash of the machine."""
    # Random, because processes of other machines, whose numbers may be equal, may share the folder.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _message_key(message: Message) -> dict[str, Any]:
    parts = [
        {"image_sha256": hashlib.sha256(part.path.read_bytes()).hexdigest()}
        if isinstance(part, ImagePart)
        else {"text": part.text}
        for part in message.parts
    ]
    return {"role": message.role, "parts": parts}


def _fault(raw: bytes, namespace: str, digest: str) -> str | dict[str, Any]:
    """The value that a cache file holds, or what is wrong with the file."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        return f"not a cache file of format {_FORMAT}"
    if content.get("namespace") != namespace or content.get("key_sha256") != digest:
        return "it belongs to another key"
    value = content.get("value")
    try:
        found = sha256_text(canonical_json(value))
    except (ValueError, RecursionError) as error:  # numbers that are none, or nested beyond measure
        return f"its value has no canonical form: {error}"
    if not isinstance(value, dict) or content.get("value_sha256") != found:
        return "its value does not match its checksum"
    return value


def _plain(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}: only finite numbers have a canonical form")
        return int(value) if value == int(value) and abs(value) < 2**53 else float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"{where} has the key {name!r}: keys must be strings")
        return {name: _plain(item, f"{where}.{name}") for name, item in value.items()}
    raise TypeError(f"{where} is a {type(value).__name__}: only JSON types have a canonical form")


def _describe(key: Any) -> Any:
    """The key for a human reader: long strings are cut and followed by their length and hash."""
    if isinstance(key, str) and len(key) > _SHOWN_CHARS:
        return f"{key[:_SHOWN_CHARS]}… ({len(key)} characters, sha256 {sha256_text(key)})"
    if isinstance(key, (list, tuple)):
        return [_describe(item) for item in key]
    if isinstance(key, Mapping):
        return {name: _describe(item) for name, item in key.items()}
    return key
