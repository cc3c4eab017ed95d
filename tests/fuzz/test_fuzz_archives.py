"""Bundles of screenshots from anyone: nothing is ever written beside their folder, and only DataError is raised."""

from __future__ import annotations

import gzip
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from fuzz.fuzz_profile import fuzzed
from hypothesis import given
from hypothesis import strategies as st
from unit.dataroot import png_bytes

from lmev2.data.errors import DataError
from lmev2.data.screenshots import MARKS_FOLDER, unpack_screenshots

PNG = png_bytes(1)
_PART = st.sampled_from(
    ["t1", "T1", "0.png", "0.PNG", "..", ".", "", " ", "a\\..\\b", "C:", "e\u0301", "\u00e9", "con.png", "\x00", "x" * 300,
     ".hidden", "._0.png", "\ud800", "t1.png", "\u202e", "..png", "~", "-rf", "\n"]
)  # fmt: skip
_NAMES = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/", "./", "//", "\\", "../"]),
    st.lists(_PART, max_size=4),
    st.sampled_from(["", "/", "/0.png"]),
)
_TYPES = [
    tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE,
    tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE, tarfile.XGLTYPE,
    b"Z",
]  # fmt: skip


@st.composite
def members(draw: st.DrawFn) -> tarfile.TarInfo:
    """A member of any kind, name and declared size, with records of its own."""
    member = tarfile.TarInfo(draw(_NAMES))
    member.type = draw(st.sampled_from(_TYPES))
    member.linkname = draw(st.sampled_from(["", "/etc/passwd", "../../x", "t1/0.png", "."]))
    member.mode = draw(st.sampled_from([0o644, 0o4777, 0, 0o7777]))
    member.size = draw(st.sampled_from([0, 1, len(PNG), 511, 513, 10_000, 8**11 - 1]))
    member.pax_headers = draw(
        st.dictionaries(
            st.sampled_from(
                [
                    "path",
                    "linkpath",
                    "size",
                    "GNU.sparse.size",
                    "GNU.sparse.map",
                    "GNU.sparse.major",
                    "GNU.sparse.name",
                    "x",
                ]
            ),
            st.sampled_from(
                ["../../evil.png", "/tmp/evil.png", "t1/1.png", "-1", "1" * 25, "1", "0,5,9", "é", "x", ""]
            ),
            max_size=2,
        )
    )
    return member


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """A tar file: members with their content or without, some good ones, then bytes that are changed or cut."""
    buffer = io.BytesIO()
    form = draw(st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]))
    content = draw(st.sampled_from([PNG, b"", b"\0" * 1_024, b"30 path=../../../evil.png\n" * 20]))
    for member in draw(st.lists(members(), max_size=3)):
        try:
            header = member.tobuf(form, "utf-8", "surrogateescape")
        except (ValueError, UnicodeEncodeError):
            continue
        buffer.write(header)
        padded = content[: min(member.size, 20_000)]
        buffer.write(padded + b"\0" * (-len(padded) % 512))
    good = tarfile.TarInfo("base/ok/0.png")
    good.size = len(PNG)
    buffer.write(good.tobuf() + PNG + b"\0" * (-len(PNG) % 512) + b"\0" * 1_024)
    raw = bytearray(buffer.getvalue())
    for _ in range(draw(st.integers(0, 3))):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(raw)


def unpack(packed: bytes) -> None:
    """Unpack a bundle inside a folder of its own; whatever it says, only the target holds something new."""
    with tempfile.TemporaryDirectory() as name:
        outer = Path(name)
        bundle, target = outer / "some.tar.gz", outer / "below" / "deep" / "shots"
        bundle.write_bytes(packed)
        target.mkdir(parents=True)
        try:
            report = unpack_screenshots([bundle], target)
        except DataError as error:
            assert str(bundle) in str(error)
            assert sorted(os.listdir(target)) == [MARKS_FOLDER], "a refused bundle leaves nothing"
            assert os.listdir(target / MARKS_FOLDER) == []
        else:
            files = [path for path in target.rglob("*") if path.is_file() and MARKS_FOLDER not in path.parts]
            assert len(files) == report.images
            assert all(path.suffix == ".png" and path.parent.parent == target for path in files)
        assert not any(path.is_symlink() for path in outer.rglob("*"))
        beside = {path.relative_to(outer).as_posix() for path in outer.rglob("*") if not path.is_relative_to(target)}
        assert beside == {"some.tar.gz", "below", "below/deep"}


@fuzzed(4)
@given(raw=archives(), level=st.sampled_from([0, 9]))
def test_members_of_every_kind(raw: bytes, level: int) -> None:
    unpack(gzip.compress(raw, level))


@fuzzed()
@given(raw=archives(), data=st.data())
def test_gzip_that_is_cut_or_changed(raw: bytes, data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(raw))
    for _ in range(data.draw(st.integers(0, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    unpack(bytes(packed[: data.draw(st.integers(0, len(packed)))]) + data.draw(st.binary(max_size=30)))


def _bomb(kind: str) -> bytes:
    """A small bundle that declares or unpacks to gigabytes."""
    head = tarfile.TarInfo("base/t1/0.png")
    head.size = 3_000_000_000
    if kind in ("pax", "longname"):
        head.type = tarfile.XHDTYPE if kind == "pax" else tarfile.GNUTYPE_LONGNAME
    if kind == "hidden":
        head.name = "base/t1/.0.png"
        head.size = 100_000_000
    if kind == "sparse":
        header = tarfile.TarInfo("base/t1/0.png")
        header.pax_headers = {
            "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "base/t1/0.png", "GNU.sparse.map": "0,0",
            "GNU.sparse.size": str(10**12),
        }  # fmt: skip
        return gzip.compress(header.tobuf(tarfile.PAX_FORMAT) + b"\0" * 1_024)
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as stream:
        if kind == "tail":
            good = tarfile.TarInfo("base/t1/0.png")
            good.size = len(PNG)
            stream.write(good.tobuf() + PNG + b"\0" * (-len(PNG) % 512))
            head = None  # type: ignore[assignment]
        repeats = 3 if kind == "hidden" else 1
        for _ in range(repeats):
            if head is not None:
                stream.write(head.tobuf(tarfile.GNU_FORMAT))
            for _ in range({"hidden": 100, "tail": 300}.get(kind, 90)):
                stream.write(b"\0" * 1_000_000)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["size", "pax", "longname", "sparse", "hidden", "tail"])
def test_bombs_take_little_memory_disk_and_time(kind: str, tmp_path: Path) -> None:
    bundle = tmp_path / "some.tar.gz"
    bundle.write_bytes(_bomb(kind))
    program = (
        "import sys, resource\nfrom pathlib import Path\nfrom lmev2.data.screenshots import unpack_screenshots\n"
        "from lmev2.data.errors import DataError\nstart = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    unpack_screenshots([Path(sys.argv[1])], Path(sys.argv[2]))\nexcept DataError as error:\n"
        "    print('refused', error)\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start)\n"
    )
    limits = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000_000, 300_000_000))  # noqa: E731
    done = subprocess.run(
        [sys.executable, "-c", program, str(bundle), str(tmp_path / "shots")],
        capture_output=True, text=True, timeout=60, preexec_fn=limits, check=True,
    )  # fmt: skip
    *said, grown = done.stdout.splitlines()
    assert said and said[0].startswith("refused"), done.stdout
    assert int(grown) < 60_000, "KiB"
