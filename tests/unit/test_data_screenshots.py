"""Bundles of screenshots: safe, resumable, repeatable, patches last."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path

import pytest
from dataroot import make_bundle, png_bytes

from lmev2.data import screenshots
from lmev2.data.errors import DataError
from lmev2.data.screenshots import find_bundles, unpack_screenshots

OLD, NEW, OTHER = png_bytes(1), png_bytes(2), png_bytes(3)


@pytest.fixture
def bundles(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "trajectory_screenshots"
    make_bundle(folder / "web_screenshots.tar.gz", {"web_screenshots/w1/0.png": OTHER})
    base = {"base/deep/e1/0.png": OLD, "base/deep/e1/1.png": OLD, "base/deep/e2/0.png": OLD}
    make_bundle(folder / "enterprise_screenshots_base.tar.gz", base)
    make_bundle(folder / "enterprise_screenshots_patch.tar.gz", {"./e1/0.png": NEW})
    return find_bundles(folder)


def content(target: Path) -> dict[str, bytes]:
    return {
        path.relative_to(target).as_posix(): path.read_bytes()
        for path in target.rglob("*.png")
        if screenshots.MARKS_FOLDER not in path.parts
    }


EXPECTED = {"w1/0.png": OTHER, "e1/0.png": NEW, "e2/0.png": OLD}


def test_patches_come_last_whatever_their_names(tmp_path: Path) -> None:
    for name in ("b_patch.tar.gz", "a_patch.tar.gz", "c.tar.gz", "notes.txt"):
        make_bundle(tmp_path / name, {})
    assert [path.name for path in find_bundles(tmp_path)] == ["c.tar.gz", "a_patch.tar.gz", "b_patch.tar.gz"]
    assert find_bundles(tmp_path / "absent") == []


def test_a_patch_replaces_whole_folders_of_the_base(bundles: list[Path], tmp_path: Path) -> None:
    report = unpack_screenshots(bundles, tmp_path / "shots")
    assert content(tmp_path / "shots") == EXPECTED
    assert (len(report.unpacked), report.unchanged, report.folders, report.images) == (3, (), 3, 5)


def test_unpacking_again_does_nothing(bundles: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack_screenshots(bundles, tmp_path / "shots")
    monkeypatch.setattr(screenshots, "_extract", lambda *_: pytest.fail("unpacked again"))
    report = unpack_screenshots(bundles, tmp_path / "shots")
    assert (report.unpacked, len(report.unchanged)) == ((), 3)
    assert content(tmp_path / "shots") == EXPECTED


@pytest.mark.parametrize("survivors", range(4))
def test_interrupted_unpacking_starts_the_bundle_again(
    bundles: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survivors: int
) -> None:
    """Interrupted while a folder moves into place, at each place; a leftover of a killed run is in the way."""
    replace, moves = os.replace, 0

    def interrupt(source: Path, destination: Path) -> None:
        nonlocal moves
        if Path(source).is_dir():
            moves += 1
            if moves > survivors:
                raise KeyboardInterrupt
        replace(source, destination)

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        unpack_screenshots(bundles, tmp_path / "shots")
    monkeypatch.setattr(os, "replace", replace)
    leftover = tmp_path / "shots" / screenshots.MARKS_FOLDER / f"{bundles[-1].name}.unpacking" / "e1"
    leftover.mkdir(parents=True)
    (leftover / "9.png").write_bytes(OLD)
    unpack_screenshots(bundles, tmp_path / "shots")
    assert content(tmp_path / "shots") == EXPECTED
    assert not leftover.exists()


def test_the_patch_is_applied_again_after_its_base(bundles: list[Path], tmp_path: Path) -> None:
    unpack_screenshots(bundles, tmp_path / "shots")
    (tmp_path / "shots" / screenshots.MARKS_FOLDER / "enterprise_screenshots_base.tar.gz.json").unlink()
    report = unpack_screenshots(bundles, tmp_path / "shots")
    assert report.unpacked == ("enterprise_screenshots_base.tar.gz", "enterprise_screenshots_patch.tar.gz")
    assert content(tmp_path / "shots") == EXPECTED


def test_a_changed_bundle_leaves_nothing_of_the_old_one(bundles: list[Path], tmp_path: Path) -> None:
    unpack_screenshots(bundles, tmp_path / "shots")
    make_bundle(bundles[-1], {"e2/5.png": NEW})
    unpack_screenshots(bundles, tmp_path / "shots")
    assert content(tmp_path / "shots") == {"w1/0.png": OTHER, "e1/0.png": OLD, "e1/1.png": OLD, "e2/5.png": NEW}
    unpack_screenshots(bundles[:-1], tmp_path / "shots")
    assert content(tmp_path / "shots") == {"w1/0.png": OTHER, "e1/0.png": OLD, "e1/1.png": OLD, "e2/0.png": OLD}


def test_a_deleted_folder_comes_back(bundles: list[Path], tmp_path: Path) -> None:
    unpack_screenshots(bundles, tmp_path / "shots")
    (tmp_path / "shots/w1/0.png").unlink()
    (tmp_path / "shots/w1").rmdir()
    unpack_screenshots(bundles, tmp_path / "shots")
    assert content(tmp_path / "shots") == EXPECTED


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


UNSAFE: dict[str, tuple[dict[str, bytes], list[tarfile.TarInfo], str]] = {
    "absolute": ({"/t1/0.png": NEW}, [], "leaves the bundle"),
    "parent": ({"../t1/0.png": NEW}, [], "leaves the bundle"),
    "parent inside": ({"a/../../t1/0.png": NEW}, [], "leaves the bundle"),
    "backslashes": ({"..\\t1\\0.png": NEW}, [], "leaves the bundle"),
    "folder of dots": ({"a/../0.png": NEW}, [], "leaves the bundle"),
    "symbolic link": ({}, [member("t1/0.png", tarfile.SYMTYPE, "/etc/passwd")], "link or device"),
    "link to a folder": ({}, [member("t1", tarfile.SYMTYPE, "/etc")], "link or device"),
    "hard link": ({}, [member("t1/0.png", tarfile.LNKTYPE, "../../secret")], "link or device"),
    "character device": ({}, [member("t1/0.png", tarfile.CHRTYPE)], "link or device"),
    "pipe": ({}, [member("t1/0.png", tarfile.FIFOTYPE)], "link or device"),
    "no folder": ({"0.png": NEW}, [], "<trajectory id>/<name>.png"),
    "another file": ({"t1/run.sh": b"x"}, [], "<trajectory id>/<name>.png"),
    "odd folder": ({"t 1/0.png": NEW}, [], "<trajectory id>/<name>.png"),
    "twice": ({"a/t1/0.png": NEW, "b/t1/0.png": OLD}, [], "second image for t1/0.png"),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_unsafe_members_are_refused_before_anything_is_written(tmp_path: Path, case: str) -> None:
    files, others, text = UNSAFE[case]
    bundle = make_bundle(tmp_path / "in/evil.tar.gz", {"ok/0.png": OLD} | files, others)
    name = (list(files) + [info.name for info in others])[-1]
    before = set(tmp_path.rglob("*"))
    with pytest.raises(DataError) as caught:
        unpack_screenshots([bundle], tmp_path / "shots")
    assert str(bundle) in str(caught.value)
    assert repr(name) in str(caught.value)
    assert text in str(caught.value)
    added = set(tmp_path.rglob("*")) - before
    assert added == {tmp_path / "shots", tmp_path / "shots" / screenshots.MARKS_FOLDER}


def test_folders_and_hidden_files_are_passed_over(tmp_path: Path) -> None:
    files = {"x/._0.png": b"", "x/.DS_Store": b"", "x/t1/0.png": NEW}
    bundle = make_bundle(tmp_path / "a.tar.gz", files, [member("x/t1", tarfile.DIRTYPE)])
    assert unpack_screenshots([bundle], tmp_path / "shots").images == 1
    assert content(tmp_path / "shots") == {"t1/0.png": NEW}


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_a_cut_bundle_is_refused(tmp_path: Path, share: float) -> None:
    files = {f"t{number}/0.png": os.urandom(5000) for number in range(50)}
    bundle = make_bundle(tmp_path / "a.tar.gz", files)
    whole = bundle.read_bytes()
    bundle.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(DataError, match=r"a\.tar\.gz is damaged or cut"):
        unpack_screenshots([bundle], tmp_path / "shots")
    assert content(tmp_path / "shots") == {}


def test_a_bundle_with_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "a.tar.gz", {"t1/0.png": os.urandom(5000)})
    raw = bytearray(bundle.read_bytes())
    raw[len(raw) // 2] ^= 1
    bundle.write_bytes(bytes(raw))
    with pytest.raises(DataError, match="damaged or cut"):
        unpack_screenshots([bundle], tmp_path / "shots")
    assert content(tmp_path / "shots") == {}


@pytest.mark.parametrize("raw", [b"", b"not an archive"])
def test_what_is_no_archive_is_refused(tmp_path: Path, raw: bytes) -> None:
    bundle = tmp_path / "a.tar.gz"
    bundle.write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.tar\.gz"):
        unpack_screenshots([bundle], tmp_path / "shots")


def test_an_empty_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found no image"):
        unpack_screenshots([make_bundle(tmp_path / "a.tar.gz", {})], tmp_path / "shots")


def test_two_bundles_with_one_folder_are_refused_unless_one_is_a_patch(tmp_path: Path) -> None:
    first = make_bundle(tmp_path / "a.tar.gz", {"t1/0.png": OLD})
    second = make_bundle(tmp_path / "b.tar.gz", {"t1/1.png": NEW})
    with pytest.raises(DataError, match=r"b\.tar\.gz: found folder 't1', which bundle a\.tar\.gz holds too"):
        unpack_screenshots([first, second], tmp_path / "shots")
    assert content(tmp_path / "shots") == {"t1/0.png": OLD}


def test_bundles_are_read_forward_only(bundles: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzip.GzipFile, "seek", lambda *_: pytest.fail("decompressed again from the start"))
    unpack_screenshots(bundles, tmp_path / "shots")
    assert content(tmp_path / "shots") == EXPECTED


def packed(*headers: bytes, level: int = 6) -> bytes:
    return gzip.compress(b"".join(headers) + b"\0" * 1024, level)


def odd_member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, **records: str) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    member.pax_headers = {key.replace("_", "."): value for key, value in records.items()}
    return member.tobuf(tarfile.PAX_FORMAT if records else tarfile.GNU_FORMAT)


ODD_MEMBERS = {
    "a sparse file of a terabyte": odd_member(
        "b/t1/0.png", GNU_sparse_major="0", GNU_sparse_minor="1", GNU_sparse_name="b/t1/0.png", GNU_sparse_map="0,0",
        GNU_sparse_size=str(10**12),
    ),
    "an image of gigabytes": odd_member("b/t1/0.png", size=5_000_000_000),
    "a header of megabytes": odd_member("b/t1/0.png", tarfile.XHDTYPE, 9_000_000) + b"\0" * 9_000_000,
    "a name of megabytes": odd_member("b/t1/0.png", tarfile.GNUTYPE_LONGNAME, 9_000_000) + b"a" * 9_000_000,
    "no name": odd_member("./"),
    "a name that no file has": odd_member("b/t1/" + "a" * 300 + ".png"),
    "a folder that none has": odd_member("b/" + "a" * 300 + "/0.png"),
    "a record that is no number": odd_member("b/t1/0.png", GNU_sparse_map="x,y", GNU_sparse_size="z"),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD_MEMBERS)
def test_odd_members_are_refused_and_leave_nothing(tmp_path: Path, case: str) -> None:
    bundle = tmp_path / "odd.tar.gz"
    bundle.write_bytes(packed(ODD_MEMBERS[case]))
    with pytest.raises(DataError, match=r"odd\.tar\.gz"):
        unpack_screenshots([bundle], tmp_path / "shots")
    assert content(tmp_path / "shots") == {}


def test_a_bundle_that_grows_beyond_measure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screenshots, "_GROWTH_SLACK", 100_000)
    bundle = make_bundle(tmp_path / "some.tar.gz", {"b/t1/0.png": bytes(900_000)})
    with pytest.raises(DataError, match="unpack to more than 20 times as many"):
        unpack_screenshots([bundle], tmp_path / "shots")
    assert content(tmp_path / "shots") == {}
