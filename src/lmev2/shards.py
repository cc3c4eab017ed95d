"""Shards: hash buckets that spread trajectories and questions over jobs, named ``07of32``."""

from __future__ import annotations

import hashlib
import re

_NAME = re.compile(r"(\d+)of([1-9]\d*)")


def shard_of(identifier: str, count: int) -> int:
    """Bucket of an id, from 0 to ``count - 1``: its SHA-256, read as a number, modulo ``count``.

    Raises:
        ValueError: ``count`` is below 1.
    """
    if count < 1:
        raise ValueError(f"the number of shards must be at least 1, not {count}")
    return int.from_bytes(hashlib.sha256(identifier.encode()).digest(), "big") % count


def shard_name(index: int, count: int) -> str:
    """Name of bucket ``index`` of ``count``, zero-padded so that names sort: ``07of32``.

    Raises:
        ValueError: there is no such bucket.
    """
    if not 0 <= index < count:
        raise ValueError(f"there is no shard {index} of {count}; shards count from 0 to {count - 1}")
    return f"{index:0{len(str(count))}}of{count}"


def shard_names(count: int) -> list[str]:
    """Names of all buckets in order.

    Raises:
        ValueError: ``count`` is below 1.
    """
    if count < 1:
        raise ValueError(f"the number of shards must be at least 1, not {count}")
    return [shard_name(index, count) for index in range(count)]


def parse_shard(name: str) -> tuple[int, int]:
    """Bucket and number of buckets of a shard name; the inverse of :func:`shard_name`.

    Raises:
        ValueError: not the name of a shard.
    """
    match = _NAME.fullmatch(name)
    if match is not None:
        index, count = int(match[1]), int(match[2])
        if index < count and shard_name(index, count) == name:
            return index, count
    raise ValueError(f"{name!r} is not a shard name; expected something like '07of32', counting from 00of32 to 31of32")


def in_shard(identifier: str, name: str) -> bool:
    """Whether an id belongs to the shard of that name.

    Raises:
        ValueError: not the name of a shard.
    """
    index, count = parse_shard(name)
    return shard_of(identifier, count) == index
