"""The state store: what was ingested comes back, cheaply, from any thread."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from dataroot import DataRoot, make_data_root

from lmev2.data.errors import DataError
from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.data.tables import read_haystacks
from lmev2.data.writer import StateWriter
from lmev2.rows import STATE, TRAJECTORY, RowError, read_rows, write_rows


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    root = make_data_root(tmp_path / "root", trajectories=10, states=5)
    ingest_dataset(root.path, tmp_path / "out", ["small", "medium"])
    return root


@pytest.fixture
def out(root: DataRoot) -> Path:
    return root.path.parent / "out"


@pytest.fixture
def store(out: Path) -> Iterator[StateStore]:
    with StateStore(out / "states.parquet", out / "trajectories.parquet", keep=3) as store:
        yield store


def test_trajectories_come_back_whole(store: StateStore, root: DataRoot) -> None:
    for raw in root.trajectories:
        run = store.trajectory(raw["id"])
        assert (run.goal, run.domain, run.environment, run.outcome, run.start_url) == tuple(
            raw[key] for key in ("goal", "domain", "environment", "outcome", "start_url")
        )
        assert [state.tree for state in run.states] == [state["accessibility_tree"] for state in raw["states"]]
        assert [state.state_index for state in run.states] == list(range(5))
        assert run.states[3].screenshot == root.path / raw["states"][3]["screenshot"]
        assert run.action_sequence()[0].startswith("click('a0') -> [a0] link")
        assert run.states[2].title == raw["states"][2]["accessibility_tree"].split("'")[1]
    assert store.trajectory_ids == sorted(raw["id"] for raw in root.trajectories)
    assert root.trajectories[0]["id"] in store
    assert "ghost" not in store


def test_states_are_inclusive_and_bounded(store: StateStore, root: DataRoot) -> None:
    name = root.trajectories[0]["id"]
    assert [state.state_index for state in store.states(name, 1, 3)] == [1, 2, 3]
    for first, last in ((-1, 2), (3, 5), (3, 2)):
        with pytest.raises(IndexError, match=f"has 5 states, not {first} to {last}"):
            store.states(name, first, last)


def test_facts_of_a_trajectory_need_no_states(store: StateStore, root: DataRoot) -> None:
    for raw in root.trajectories:
        facts = store.facts(raw["id"])
        assert (facts["goal"], facts["outcome"], facts["state_count"]) == (raw["goal"], raw["outcome"], 5)
        with pytest.raises(TypeError):
            facts["goal"] = "another"  # type: ignore[index]
    with pytest.raises(KeyError, match="no trajectory 'absent' among the 10 that were ingested"):
        store.facts("absent")


def test_unknown_trajectories_are_refused(store: StateStore) -> None:
    with pytest.raises(KeyError, match="no trajectory 'ghost' among the 10"):
        store.trajectory("ghost")


def test_a_trajectory_is_one_row_group_read_and_the_latest_stay(
    store: StateStore, root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = store._file.read_row_group

    def counted(group: int, *args: Any) -> Any:
        reads.append(group)
        return read(group, *args)

    monkeypatch.setattr(store._file, "read_row_group", counted)
    names = [raw["id"] for raw in root.trajectories]
    for name in (names[0], names[1], names[0], names[2], names[0], names[3], names[0]):
        store.states(name, 0, 4)
    assert reads == [0, 1, 2, 3]
    store.trajectory(names[1])
    assert reads == [0, 1, 2, 3, 1]


def test_threads_see_the_same(store: StateStore, root: DataRoot) -> None:
    expected = {raw["id"]: [state["url"] for state in raw["states"]] for raw in root.trajectories}
    names = list(expected) * 30
    with ThreadPoolExecutor(8) as pool:
        for name, run in zip(names, pool.map(store.trajectory, names), strict=True):
            assert [state.url for state in run.states] == expected[name]


def test_missing_and_damaged_files_are_named(out: Path) -> None:
    with pytest.raises(DataError, match=r"found no .*absent\.parquet"):
        StateStore(out / "absent.parquet", out / "trajectories.parquet")
    (out / "states.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"states\.parquet: not a readable Parquet file"):
        StateStore(out / "states.parquet", out / "trajectories.parquet")


def test_tables_that_do_not_fit_are_refused(out: Path) -> None:
    rows = list(read_rows(out / "trajectories.parquet", TRAJECTORY))
    more = [*rows, rows[0] | {"trajectory_id": "extra"}]
    write_rows(out / "trajectories.parquet", TRAJECTORY, more)
    with pytest.raises(DataError, match=r"found no states of trajectories \['extra'\]"):
        StateStore(out / "states.parquet", out / "trajectories.parquet")
    write_rows(out / "trajectories.parquet", TRAJECTORY, [row | {"state_count": 4} for row in rows])
    with pytest.raises(DataError, match=r"found 5 states of trajectory .* expected 4"):
        StateStore(out / "states.parquet", out / "trajectories.parquet")


def test_other_row_groups_are_refused(out: Path) -> None:
    pq.write_table(pq.read_table(out / "states.parquet"), out / "other.parquet", row_group_size=7)
    with pytest.raises(DataError, match="row group 0 holds"):
        StateStore(out / "other.parquet", out / "trajectories.parquet")


def test_an_unknown_tier_is_named(out: Path) -> None:
    with pytest.raises(KeyError, match=r"no haystacks of tier 'large', only of \['medium', 'small'\]"):
        read_haystacks(out / "haystacks.parquet", "large")


def test_the_writer_checks_its_rows(out: Path, tmp_path: Path) -> None:
    rows = list(read_rows(out / "states.parquet", STATE))[:5]
    bad: dict[str, list[dict[str, Any]]] = {
        "two trajectories": [rows[0], rows[1] | {"trajectory_id": "other"}],
        "not from 0": rows[1:],
        "not in order": [rows[1], rows[0]],
        "lack tree": [rows[0] | {"tree": None}],
        "mistyped": [rows[0] | {"url": 5}],
        "none": [],
    }
    for states in bad.values():
        with StateWriter(tmp_path / "x.parquet") as writer, pytest.raises(RowError, match=r"x\.parquet: row"):
            writer.write(states)
