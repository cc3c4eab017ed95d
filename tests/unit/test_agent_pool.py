"""The haystack as files: folders of trajectories, and the entries of the manifests."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from agentworld import RUNS, read_json, state, trajectory
from hypothesis import given
from hypothesis import strategies as st

from lmev2.agent.pool import (
    TrajectoryEntry,
    checked_folder_name,
    read_entries,
    trajectory_entry,
    write_entries,
    write_trajectory_folder,
)
from lmev2.data.errors import DataError
from lmev2.trajectory import Trajectory


def with_screenshots(tmp_path: Path) -> Trajectory:
    shots = [tmp_path / "shots" / name for name in ("17.PNG", "18.jpeg")]
    shots[0].parent.mkdir()
    for number, shot in enumerate(shots):
        shot.write_bytes(bytes([number]) * 10)
    states = (
        state("run", 0, "tree 0", screenshot=shots[0]),
        state("run", 1, "tree\u20281", screenshot=None, step=None),
        state("run", 2, "tree 2", screenshot=shots[1], action=None, action_annotated=None, thought=None),
    )
    return trajectory("run", [], states=states)


def test_a_folder_holds_the_whole_trajectory(tmp_path: Path) -> None:
    run = with_screenshots(tmp_path)
    write_trajectory_folder(run, tmp_path / "pool")
    found = read_json(tmp_path / "pool" / "run" / "trajectory.json")
    assert list(found) == ["id", "goal", "start_url", "outcome", "actions", "states"]
    assert found["actions"] == ["click('1') -> [1] button 'Go 1'", "(no action recorded)"]
    assert found["states"] == [
        {
            "state_index": index,
            "step": each.step,
            "url": each.url,
            "action": each.action,
            "thoughts": each.thought,
            "text": each.tree,
            "screenshot": shot,
        }
        for index, (each, shot) in enumerate(
            zip(run.states, ["screenshots/0000.png", None, "screenshots/0002.jpeg"], strict=True)
        )
    ]
    shown = {path.name: path for path in (tmp_path / "pool" / "run" / "screenshots").iterdir()}
    assert sorted(shown) == ["0000.png", "0002.jpeg"]
    assert os.path.samefile(shown["0000.png"], tmp_path / "shots" / "17.PNG"), "a hard link takes no space"
    assert [path.name for path in (tmp_path / "pool").iterdir()] == ["run"]


def test_no_screenshots_no_folder_for_them(tmp_path: Path) -> None:
    write_trajectory_folder(RUNS[0], tmp_path)
    assert [path.name for path in (tmp_path / "lamp-01").iterdir()] == ["trajectory.json"]


def test_a_linked_screenshot_does_not_lead_out(tmp_path: Path) -> None:
    run = with_screenshots(tmp_path)
    link = tmp_path / "link.png"
    link.symlink_to(tmp_path / "shots" / "17.PNG")
    states = (dataclasses.replace(run.states[0], screenshot=link), *run.states[1:])
    write_trajectory_folder(dataclasses.replace(run, states=states), tmp_path / "pool")
    shot = tmp_path / "pool" / "run" / "screenshots" / "0000.png"
    assert not shot.is_symlink()
    assert shot.read_bytes() == bytes(10)


def test_copies_where_links_are_impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    run = with_screenshots(tmp_path)
    monkeypatch.setattr(os, "link", refuse)
    write_trajectory_folder(run, tmp_path / "pool")
    shot = tmp_path / "pool" / "run" / "screenshots" / "0002.jpeg"
    assert shot.read_bytes() == bytes([1]) * 10
    assert not os.path.samefile(shot, tmp_path / "shots" / "18.jpeg")


def test_an_older_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_trajectory_folder(RUNS[0], tmp_path)
    (tmp_path / "lamp-01" / "left.txt").write_text("of an earlier run")
    write_trajectory_folder(dataclasses.replace(RUNS[0], goal="Another"), tmp_path)
    assert [path.name for path in (tmp_path / "lamp-01").iterdir()] == ["trajectory.json"]
    assert read_json(tmp_path / "lamp-01" / "trajectory.json")["goal"] == "Another"
    assert [path.name for path in tmp_path.iterdir()] == ["lamp-01"]


def test_a_missing_screenshot_is_named_and_leaves_what_was_there(tmp_path: Path) -> None:
    run = with_screenshots(tmp_path)
    pool = tmp_path / "pool"
    write_trajectory_folder(run, pool)
    (tmp_path / "shots" / "18.jpeg").unlink()
    (tmp_path / "shots" / "17.PNG").unlink()
    with pytest.raises(DataError, match=r"'run', state 0.*17\.PNG"):
        write_trajectory_folder(run, pool)
    assert [path.name for path in pool.iterdir()] == ["run"]
    assert (pool / "run" / "screenshots" / "0002.jpeg").is_file()


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../x", "a/b", "/etc", "-rf", ".git", "a\nb", "a b", "a\\b", "a:b", "ä", "x.", "x" * 101),
        *("TRAJECTORY_SUMMARY_FULL.md", "trajectory_summary_concise.MD"),
    ],
)
def test_unsafe_ids_are_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError) as caught:
        write_trajectory_folder(trajectory(name, ["tree"]), tmp_path / "pool")
    assert repr(name) in str(caught.value)
    assert not (tmp_path / "pool").exists()


@pytest.mark.parametrize("name", ["4ba5e9cb", "shop-01", "a_b.c-d", "x" * 100])
def test_plain_ids_are_kept(name: str) -> None:
    assert checked_folder_name(name) == name


def test_an_entry_says_what_the_trajectory_says() -> None:
    assert trajectory_entry(RUNS[1]) == TrajectoryEntry(
        trajectory_id="rope-01",
        goal="Find the price of ten fathoms of hemp rope",
        reward=0.0,
        states=2,
        start_url="http://shop/rope-01",
        actions=("click('1') -> [1] button 'Go 1'",),
        thoughts=("thought 1",),
    )
    assert trajectory_entry(RUNS[0]).reward == 1.0


def test_an_unknown_outcome_is_refused() -> None:
    with pytest.raises(DataError, match=r"'lamp-01'.*'half'"):
        trajectory_entry(dataclasses.replace(RUNS[0], outcome="half"))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    st.lists(
        st.builds(
            TrajectoryEntry,
            trajectory_id=TEXTS,
            goal=TEXTS,
            reward=st.sampled_from([0.0, 1.0]),
            states=st.integers(1, 9),
            start_url=TEXTS,
            actions=st.lists(TEXTS, max_size=3).map(tuple),
            thoughts=st.lists(st.none() | TEXTS, max_size=3).map(tuple),
        ),
        unique_by=lambda entry: entry.trajectory_id,
        max_size=4,
    )
)
def test_entries_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, entries: list[TrajectoryEntry]
) -> None:
    path = tmp_path_factory.mktemp("entries") / "entries.jsonl"
    write_entries(entries, path)
    assert read_entries(path) == {entry.trajectory_id: entry for entry in entries}
    assert list(read_entries(path)) == sorted(entry.trajectory_id for entry in entries)


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"actions": [], "thoughts": [], "extra": 1}'])
def test_a_broken_entry_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "entries.jsonl"
    write_entries([trajectory_entry(RUNS[0])], path)
    with path.open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(DataError, match=r"entries\.jsonl, line 2"):
        read_entries(path)


def test_missing_entries_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"entries\.jsonl"):
        read_entries(tmp_path / "entries.jsonl")
