"""Shards: every id in exactly one, names that parse back."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.shards import in_shard, parse_shard, shard_name, shard_names, shard_of


@given(st.text(), st.integers(1, 200))
def test_every_id_is_in_exactly_one_shard(identifier: str, count: int) -> None:
    holders = [name for name in shard_names(count) if in_shard(identifier, name)]
    assert holders == [shard_name(shard_of(identifier, count), count)]


@given(st.integers(1, 2000))
def test_names_parse_back_and_sort_in_order(count: int) -> None:
    names = shard_names(count)
    assert [parse_shard(name) for name in names] == [(index, count) for index in range(count)]
    assert sorted(names) == names


def test_the_bucket_is_the_hash_modulo_the_count() -> None:
    expected = int(hashlib.sha256(b"86cc5b7b").hexdigest(), 16) % 32
    assert shard_of("86cc5b7b", 32) == expected
    assert shard_name(7, 32) == "07of32"
    assert shard_names(2) == ["0of2", "1of2"]


@pytest.mark.parametrize("name", ["7of32", "32of32", "007of32", "07of032", "0of0", "07 of 32", "aof2", "-1of2", ""])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a shard name"):
        parse_shard(name)


def test_there_is_no_shard_of_none() -> None:
    for call in (lambda: shard_of("a", 0), lambda: shard_names(0), lambda: shard_name(2, 2)):
        with pytest.raises(ValueError, match="shard"):
            call()
