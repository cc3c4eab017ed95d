"""Removing what an agent left: deep, locked, linked, huge; nothing outside is touched."""

from __future__ import annotations

import itertools
import logging
import os
import resource
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxworld import as_user

from lmev2.agent import removal
from lmev2.agent.removal import remove_at, remove_tree, remove_tree_or_warn

_NOBODY = 65534


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that every user can pass through and write to, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="lmev2-removal-"))
    folder.chmod(0o777)
    yield folder
    remove_tree(folder)


def as_somebody(function: object) -> None:
    """Run without root's rights, to which modes are nothing."""
    if os.geteuid() == 0:
        as_user(_NOBODY, function)  # type: ignore[arg-type]
    else:
        function()  # type: ignore[operator]


def make_deep(folder: Path, levels: int, name: str = "d") -> None:
    """Folders in folders, deeper than any path can name."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=descriptor)
        inner = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


def test_deep_folders(tmp_path: Path) -> None:
    make_deep(tmp_path, 3000)
    before = sorted(os.listdir("/proc/self/fd"))
    remove_tree(tmp_path / "d")
    assert list(tmp_path.iterdir()) == []
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_few_descriptors_do(tmp_path: Path) -> None:
    make_deep(tmp_path, 300, "x" * 200)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 6, hard))
    try:
        remove_tree(tmp_path / ("x" * 200))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_everything_that_can_lie_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_BATCH", 7)
    folder = tmp_path / "f"
    for number in range(40):
        (folder / f"a{number}" / "b" / "c").mkdir(parents=True)
        (folder / f"a{number}" / "b" / f"file{number}").touch()
    os.mkfifo(folder / "pipe")
    (folder / "gone").symlink_to("nowhere")
    (folder / "round").symlink_to(".")
    (folder / "new\nline").mkdir()
    os.mkdir(os.fsencode(folder) + b"/\xff")
    (folder / "x").write_text("x")
    os.link(folder / "x", folder / "a0" / "y")
    with (folder / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


def test_files_links_and_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "file").touch()
    for name in ("link", "file", "missing", "missing/inner"):
        remove_tree(tmp_path / name)
    assert list(tmp_path.iterdir()) == [outside] and list(outside.iterdir()) == [outside / "inner"]


def test_modes_are_no_obstacle(common: Path) -> None:
    def work() -> None:
        folder = common / "f"
        (folder / "a" / "b" / "c").mkdir(parents=True)
        (folder / "a" / "b" / "file").touch(0)
        (folder / "a" / "empty").mkdir(0)
        for name, mode in (("a/b/c", 0o500), ("a/b", 0), ("a", 0o400), (".", 0o300)):
            (folder / name).chmod(mode)
        remove_tree(folder)
        assert not folder.exists()

    as_somebody(work)


def test_modes_behind_links_stay(common: Path) -> None:
    """The standard library of Python 3.11.7 changes them (CVE-2023-6597)."""

    def work() -> None:
        (common / "victim").touch(0o444)
        (common / "folder").mkdir(0o755)
        (common / "folder" / "x").touch()
        for number, target in enumerate(("victim", "folder", "folder/x")):
            (common / "f" / f"d{number}").mkdir(parents=True)
            (common / "f" / f"d{number}" / "link").symlink_to(common / target)
            (common / "f" / f"d{number}").chmod(0o555)
        modes = {
            path: stat.S_IMODE(path.stat().st_mode) for path in (common / "victim", *(common / "folder").rglob("*"))
        }
        remove_tree(common / "f")
        assert not (common / "f").exists()
        assert {path: stat.S_IMODE(path.stat().st_mode) for path in modes} == modes
        remove_tree(common / "folder")
        remove_tree(common / "victim")

    as_somebody(work)


def test_what_cannot_be_removed_stays_alone(common: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another user's folder, with a file in it, in the midst of one's own."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's folder")
    (common / "f" / "theirs").mkdir(parents=True)
    (common / "f" / "theirs" / "file").touch()
    os.chown(common / "f", _NOBODY, _NOBODY)

    def work() -> None:
        (common / "f" / "mine" / "inner").mkdir(parents=True)
        with pytest.raises(PermissionError):
            remove_tree(common / "f")
        remove_tree_or_warn(common / "f")

    as_somebody(work)
    assert [path.name for path in (common / "f").iterdir()] == ["theirs"]
    with caplog.at_level(logging.WARNING):
        remove_tree_or_warn(common / "f")
    assert not (common / "f").exists() and caplog.messages == []


def test_a_fault_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f" / "g").mkdir(parents=True)

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk failed")

    monkeypatch.setattr(os, "rmdir", fail)
    remove_tree_or_warn(tmp_path / "f")
    assert "the disk failed" in caplog.text


def test_it_ends_where_files_are_added_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "file0").touch()
    monkeypatch.setattr(removal, "_MOST_S", 0.1)
    unlink, numbers = os.unlink, itertools.count(1)

    def unlink_and_add(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        (tmp_path / "f" / f"file{next(numbers)}").touch()

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink_and_add)
        with pytest.raises(TimeoutError, match=r"not empty after 0\.1 s"):
            remove_tree(tmp_path / "f")
    remove_tree(tmp_path / "f")


def test_in_an_open_folder(tmp_path: Path) -> None:
    make_deep(tmp_path, 1500, "memory_module_output.json")
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        remove_at(directory, "memory_module_output.json")
        remove_at(directory, "memory_module_output.json")
    finally:
        os.close(directory)
    assert list(tmp_path.iterdir()) == []
