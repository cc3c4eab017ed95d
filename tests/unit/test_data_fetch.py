"""Fetching: only pinned revisions, and only what was published."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from dataroot import make_data_root

from lmev2.data.checksums import verify_checksums
from lmev2.data.errors import DataError
from lmev2.data.fetch import fetch_dataset

REVISION = "f152293e" * 5


def write_sums(root: Path) -> None:
    paths = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "checksums.sha256")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root).as_posix()}\n" for path in paths
    ]
    (root / "checksums.sha256").write_text("".join(lines), encoding="utf-8")


class Hub:
    """Stands for the hub: copies a folder."""

    def __init__(self, source: Path):
        self.source = source
        self.calls: list[dict[str, Any]] = []

    def __call__(self, **arguments: Any) -> str:
        self.calls.append(arguments)
        shutil.copytree(self.source, arguments["local_dir"], dirs_exist_ok=True)
        return str(arguments["local_dir"])


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    root = make_data_root(tmp_path / "published", trajectories=2, questions=2)
    write_sums(root.path)
    return Hub(root.path)


def test_downloads_the_pinned_revision_and_checks_it(hub: Hub, tmp_path: Path) -> None:
    target = tmp_path / "data/root"
    fetch_dataset("owner/name", REVISION, target, download=hub)
    assert hub.calls == [
        {
            "repo_id": "owner/name",
            "repo_type": "dataset",
            "revision": REVISION,
            "local_dir": target,
            "ignore_patterns": None,
        }
    ]
    assert verify_checksums(target) == []


@pytest.mark.parametrize("revision", [None, "", "main", "v1.0", "f152293e", REVISION.upper(), REVISION + "\n"])
def test_a_revision_that_can_move_is_refused_before_any_download(
    hub: Hub, tmp_path: Path, revision: str | None
) -> None:
    with pytest.raises(DataError, match="expected a full commit id of 40 hexadecimal digits"):
        fetch_dataset("owner/name", revision, tmp_path / "root", download=hub)
    assert not hub.calls


def test_wrong_and_missing_files_are_named(hub: Hub, tmp_path: Path) -> None:
    published = hub.source / "questions.jsonl"
    expected = hashlib.sha256(published.read_bytes()).hexdigest()
    published.write_bytes(b"other")
    (hub.source / "trajectories.jsonl").unlink()
    with pytest.raises(DataError, match="2 file") as caught:
        fetch_dataset("owner/name", REVISION, tmp_path / "root", download=hub)
    wrong, missing = caught.value.problems
    assert wrong == f"questions.jsonl: found SHA-256 {hashlib.sha256(b'other').hexdigest()}, expected {expected}"
    assert missing.startswith("trajectories.jsonl: found no such file")


def test_bundles_can_be_left_out(hub: Hub, tmp_path: Path) -> None:
    bundle = hub.source / "trajectory_screenshots/web.tar.gz"
    bundle.parent.mkdir()
    bundle.write_bytes(b"x")
    write_sums(hub.source)
    bundle.unlink()
    fetch_dataset("owner/name", REVISION, tmp_path / "root", bundles=False, download=hub)
    assert hub.calls[0]["ignore_patterns"] == ["trajectory_screenshots/*"]
    with pytest.raises(DataError, match=r"web\.tar\.gz: found no such file"):
        fetch_dataset("owner/name", REVISION, tmp_path / "root", download=hub)


def test_a_failed_download_says_what_was_tried(tmp_path: Path) -> None:
    def offline(**_: Any) -> str:
        raise ConnectionError("no route to host")

    with pytest.raises(DataError, match=r"'owner/name' at revision f152293e.*ConnectionError: no route to host"):
        fetch_dataset("owner/name", REVISION, tmp_path / "root", download=offline)


def test_missing_files_and_wrong_sums_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "right").write_bytes(b"1")
    (tmp_path / "wrong").write_bytes(b"2")
    one = hashlib.sha256(b"1").hexdigest()
    (tmp_path / "checksums.sha256").write_text(f"{one}  right\n{one.upper()} *wrong\n\n{one}  sub/gone\n")
    assert [(problem.path, problem.kind) for problem in verify_checksums(tmp_path)] == [
        ("wrong", "wrong"),
        ("sub/gone", "missing"),
    ]


@pytest.mark.parametrize("line", ["abc  file", "0" * 64, f"{'0' * 64}  ../outside", f"{'0' * 64}  /etc/hosts", "text"])
def test_a_checksum_file_that_is_none_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "checksums.sha256").write_text(f"{'0' * 64}  fine\n{line}\n")
    with pytest.raises(DataError, match=r"checksums\.sha256, line 2: found"):
        verify_checksums(tmp_path)


def test_without_a_checksum_file_nothing_is_verified(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found no .*checksums\.sha256"):
        verify_checksums(tmp_path)


def test_checksums_that_are_no_text_are_a_data_error(tmp_path: Path) -> None:
    (tmp_path / "checksums.sha256").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"checksums\.sha256: found no UTF-8 text"):
        verify_checksums(tmp_path)
