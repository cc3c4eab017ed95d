"""Row contracts: what does not fit is named, and a reader never sees part of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lmev2 import rows as contracts
from lmev2.rows import CONTEXT, EVIDENCE, HAYSTACK, SCORE, RowError, read_rows, write_rows

CONTRACTS = {name: value for name, value in vars(contracts).items() if isinstance(value, pa.Schema)}
ITEM = {"type": "text", "value": "v", "trajectory_id": "t", "states": [0, 2], "pool": "raw_state", "score": 0.5}


def context(**changes: Any) -> dict[str, Any]:
    row = {
        "question_id": "q",
        "method": "m",
        "tier": "small",
        "items": [ITEM, ITEM],
        "queries": "{}",
        "latency_s": 1.5,
        "waited_s": 0.0,
        "replayed": False,
    }
    return row | changes


def label(number: int = 0, **changes: Any) -> dict[str, Any]:
    return {"question_id": f"q{number}", "hop": number, "trajectory_id": f"t{number}", "state_index": 3} | changes


def sample(kind: pa.DataType) -> Any:
    """A value of a type."""
    if pa.types.is_struct(kind):
        return {kind.field(n).name: sample(kind.field(n).type) for n in range(kind.num_fields)}
    if pa.types.is_list(kind):
        return [sample(kind.value_type)] * 2
    return {pa.string(): "tëxt\n", pa.int32(): -7, pa.float64(): 0.1, pa.float32(): 0.5, pa.bool_(): True}[kind]


def with_item(**changes: Any) -> dict[str, Any]:
    return context(items=[ITEM, ITEM | changes])


def without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_what_fits_a_contract_comes_back(tmp_path: Path, name: str) -> None:
    schema = CONTRACTS[name]
    full = {field.name: sample(field.type) for field in schema}
    bare = {field.name: sample(field.type) for field in schema if not field.nullable}
    assert write_rows(tmp_path / "a.parquet", schema, [full, bare]) == 2
    expected = [full, dict.fromkeys(schema.names) | bare]
    assert list(read_rows(tmp_path / "a.parquet", schema)) == expected


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_every_required_field_is_missed_and_every_type_is_checked(tmp_path: Path, name: str) -> None:
    schema = CONTRACTS[name]
    full = {field.name: sample(field.type) for field in schema}
    for field in schema:
        if not field.nullable:
            for broken in (without(full, field.name), full | {field.name: None}):
                with pytest.raises(RowError, match=rf"a\.parquet: row 1 lacks '{field.name}'"):
                    write_rows(tmp_path / "a.parquet", schema, [full, broken])
        with pytest.raises(RowError, match=rf"a\.parquet: row 1 has '{field.name}' = <object object"):
            write_rows(tmp_path / "a.parquet", schema, [full, full | {field.name: object()}])
    with pytest.raises(
        RowError, match=r"a\.parquet: row 0 has unknown fields \['colour', 'size'\]; the contract is \["
    ):
        write_rows(tmp_path / "a.parquet", schema, [full | {"size": 1, "colour": None}])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("schema", "row", "message"),
    [
        (EVIDENCE, label(hop=1.5), r"row 0 has 'hop' = 1\.5, expected int32"),
        (EVIDENCE, label(hop=True), "row 0 has 'hop' = True, expected int32"),
        (EVIDENCE, label(hop="1"), "row 0 has 'hop' = '1', expected int32"),
        (EVIDENCE, label(hop=2**40), "rows 0 to 0: .* too large"),
        (EVIDENCE, label(hop=2**80), "rows 0 to 0: .* too large"),
        (EVIDENCE, label(question_id=5), "row 0 has 'question_id' = 5, expected string"),
        (EVIDENCE, label(question_id=b"q"), "row 0 has 'question_id' = b'q', expected string"),
        (EVIDENCE, label(question_id="\ud800"), "rows 0 to 0: .*surrogates not allowed"),
        (CONTEXT, context(replayed=1), "row 0 has 'replayed' = 1, expected bool"),
        (CONTEXT, context(latency_s=True), "row 0 has 'latency_s' = True, expected double"),
        (CONTEXT, context(latency_s="1"), "row 0 has 'latency_s' = '1', expected double"),
        (CONTEXT, context(items=["text"]), r"row 0 has 'items\[0\]' = 'text', expected struct"),
        (CONTEXT, context(items=[ITEM, None]), r"row 0 has 'items\[1\]' = None, expected struct"),
        (CONTEXT, with_item(value=None), r"row 0 lacks 'items\[1\]\.value'"),
        (CONTEXT, context(items=[without(ITEM, "states")]), r"row 0 lacks 'items\[0\]\.states'"),
        (CONTEXT, with_item(states=[0, "2"]), r"row 0 has 'items\[1\]\.states\[1\]' = '2', expected int32"),
        (CONTEXT, with_item(rank=1), r"row 0 has unknown fields \['items\[1\]\.rank'\]; the contract is \['type',"),
        (HAYSTACK, {"question_id": "q", "tier": "small", "trajectory_ids": "abc"}, "'trajectory_ids' = 'abc', expected list"),
        (HAYSTACK, {"question_id": "q", "tier": "small", "trajectory_ids": ["a", None]}, r"'trajectory_ids\[1\]' = None"),
        (SCORE, dict.fromkeys(SCORE.names[:7], "x") | {"correct": 1}, "row 0 has 'correct' = 1, expected bool"),
    ],
)  # fmt: skip
def test_wrong_values_are_named_with_file_row_and_place(
    tmp_path: Path, schema: pa.Schema, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(RowError, match=rf"a\.parquet: .*{message}"):
        write_rows(tmp_path / "a.parquet", schema, [row])
    assert list(tmp_path.iterdir()) == []


def test_vectors_hold_numbers_only(tmp_path: Path) -> None:
    row = {field.name: sample(field.type) for field in contracts.EMBEDDING}
    with pytest.raises(RowError, match=r"a\.parquet: rows 0 to 0"):
        write_rows(tmp_path / "a.parquet", contracts.EMBEDDING, [row | {"vector": [0.5, "x"]}])


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9])
def test_batches_change_nothing(tmp_path: Path, count: int) -> None:
    rows = [label(number) for number in range(count)]
    assert write_rows(tmp_path / "deep" / "a.parquet", EVIDENCE, iter(rows), batch_size=4) == count
    assert list(read_rows(tmp_path / "deep" / "a.parquet", EVIDENCE, batch_size=3)) == rows
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.parquet"]


def test_the_row_of_a_later_batch_is_named(tmp_path: Path) -> None:
    rows = [label(number) for number in range(9)] + [label(9, hop=None)]
    with pytest.raises(RowError, match="row 9 lacks 'hop'"):
        write_rows(tmp_path / "a.parquet", EVIDENCE, rows, batch_size=4)
    rows[9] = label(9, hop=2**31)
    with pytest.raises(RowError, match="rows 8 to 9: "):
        write_rows(tmp_path / "a.parquet", EVIDENCE, rows, batch_size=4)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield label(1)
        yield label(2)
        raise KeyError("the source failed")

    with pytest.raises(KeyError, match="the source failed"):
        write_rows(tmp_path / "a.parquet", EVIDENCE, rows(), batch_size=1)
    assert list(tmp_path.iterdir()) == []
    write_rows(tmp_path / "a.parquet", EVIDENCE, [label(7)])
    with pytest.raises(KeyError):
        write_rows(tmp_path / "a.parquet", EVIDENCE, rows(), batch_size=1)
    assert list(read_rows(tmp_path / "a.parquet", EVIDENCE)) == [label(7)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_no_file_stands_under_its_name_before_it_is_whole(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for number in range(3):
            assert not (tmp_path / "a.parquet").exists()
            yield label(number)

    write_rows(tmp_path / "a.parquet", EVIDENCE, rows(), batch_size=1)
    assert (tmp_path / "a.parquet").is_file()


def test_a_torn_file_is_named_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_rows(path, EVIDENCE, [label(number) for number in range(300)])
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 61), len(whole) - 8, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(RowError, match=r"a\.parquet: not a readable Parquet file .*; delete it and run again"):
            list(read_rows(path, EVIDENCE))


def test_damaged_pages_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_rows(path, EVIDENCE, [label(number) for number in range(300)])
    whole = path.read_bytes()
    refused = 0
    for place in range(4, len(whole) // 2, 23):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            list(read_rows(path, EVIDENCE))
        except RowError as error:
            refused += 1
            assert "a.parquet: not a readable Parquet file" in str(error)
    assert refused > 10


def test_a_missing_file_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_rows(tmp_path / "gone.parquet", EVIDENCE))


def test_other_columns_or_types_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_rows(path, EVIDENCE, [label()])
    with pytest.raises(
        RowError, match=r"a\.parquet: expected columns \[.*'trajectory_ids: nested'\], found \['hop: int32'"
    ):
        list(read_rows(path, HAYSTACK))
    columns = {"question_id": ["q"], "hop": ["first"], "trajectory_id": ["t"], "state_index": [1]}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(RowError, match=r"expected columns \['hop: int32', .*found \['hop: string'"):
        list(read_rows(path, EVIDENCE))
