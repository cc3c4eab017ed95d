"""Unpacking bundles of screenshots into ``screenshots/<trajectory id>/``, safely and so that it can be interrupted.

A bundle is unpacked into a folder of its own, member by member and each checked first; only a whole bundle is moved
into place, folder by folder, and then marked as done. A bundle without its mark is unpacked again from its start.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from lmev2.data.errors import DataError
from lmev2.files import file_sha256

MARKS_FOLDER = ".bundles"
BUNDLE_SUFFIX = ".tar.gz"
PATCH_SUFFIX = "_patch"

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.png")
_MOST_IMAGE_BYTES = 256_000_000  # of one image, unpacked; a screenshot has a few
_MOST_HEADER_BYTES = 1_000_000  # that stand between two members: names, and the archive's own notes
# PNGs hardly shrink. A bundle that grows by more holds no screenshots, and could fill any disk.
_MOST_GROWTH = 20
_GROWTH_SLACK = 256_000_000


class _Unpacked:
    """The unpacked bytes of a bundle, as far as they may be read: tarfile reads as much as a header says."""

    def __init__(self, bundle: Path, stream: gzip.GzipFile):
        self._bundle = bundle
        self._stream = stream
        self._left = bundle.stat().st_size * _MOST_GROWTH + _GROWTH_SLACK
        self._ahead = 0

    def allow(self, count: int) -> None:
        """Let so many bytes be read up to the next call."""
        self._ahead = count

    def read(self, size: int) -> bytes:
        """At most so many bytes.

        Raises:
            DataError: more are asked for than may be read.
        """
        content = self._stream.read(size)
        self._ahead -= len(content)
        self._left -= len(content)
        if self._ahead < 0:
            raise DataError(
                f"bundle {self._bundle}: found more than {_MOST_HEADER_BYTES:,} bytes between two members; "
                "do not use it"
            )
        if self._left < 0:
            raise DataError(
                f"bundle {self._bundle}: its {self._bundle.stat().st_size:,} bytes unpack to more than {_MOST_GROWTH} "
                "times as many, which screenshots do not; do not use it"
            )
        return content


class _Mark(BaseModel):
    """Written when a bundle is in place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    folders: list[str]
    images: int


@dataclass(frozen=True)
class UnpackReport:
    """What was done: bundles unpacked now, bundles that were in place already, and numbers over all of them."""

    unpacked: tuple[str, ...]
    unchanged: tuple[str, ...]
    folders: int
    images: int


def find_bundles(folder: Path) -> list[Path]:
    """Bundles in the order in which they apply: by name, patches last; empty without the folder."""
    paths = [path for path in folder.glob(f"*{BUNDLE_SUFFIX}") if path.is_file()]
    return sorted(paths, key=lambda path: (_is_patch(path), path.name))


def unpack_screenshots(bundles: Sequence[Path], target: Path) -> UnpackReport:
    """Unpack bundles, in the given order, into ``target/<trajectory id>/<name>.png``.

    The end of a member's path is what counts, whatever folders stand before it. A patch (``*_patch.tar.gz``) replaces
    folders of bundles before it as a whole. A bundle that is in place is left alone, and a patch is applied again when
    a bundle before it was. When a bundle has changed or is no longer given, everything is unpacked afresh.

    Raises:
        DataError: a member that is absolute, climbs with ``..``, is a link or a device or does not end in
            ``<trajectory id>/<name>.png``; a damaged bundle; or two bundles, neither a patch, with the same folder.
            Names bundle and member; nothing of this bundle is then in the target.
    """
    digests = {bundle.name: file_sha256(bundle) for bundle in bundles}
    done = _marks_in_place(target, digests)
    unpacked: list[str] = []
    for bundle in bundles:
        if bundle.name not in done or (_is_patch(bundle) and unpacked):
            done.pop(bundle.name, None)
            _mark_path(target, bundle.name).unlink(missing_ok=True)
            done[bundle.name] = _unpack(bundle, digests[bundle.name], target, done)
            _write_mark(_mark_path(target, bundle.name), done[bundle.name])
            unpacked.append(bundle.name)
    folders = {folder for mark in done.values() for folder in mark.folders}
    unchanged = tuple(name for name in digests if name not in unpacked)
    return UnpackReport(tuple(unpacked), unchanged, len(folders), sum(mark.images for mark in done.values()))


def _marks_in_place(target: Path, digests: Mapping[str, str]) -> dict[str, _Mark]:
    """Marks of the bundles that are in place. Removes all that was unpacked when a mark does not fit the bundles."""
    (target / MARKS_FOLDER).mkdir(parents=True, exist_ok=True)
    present = set(os.listdir(target))
    paths = list((target / MARKS_FOLDER).glob("*.json"))
    marks = {path.name.removesuffix(".json"): _read_mark(path) for path in paths}
    known = {name: mark for name, mark in marks.items() if mark is not None}
    if all(digests.get(name) == mark.sha256 and present.issuperset(mark.folders) for name, mark in known.items()):
        return known
    for path in paths:
        path.unlink()
    for folder in {folder for mark in known.values() for folder in mark.folders}:
        shutil.rmtree(target / folder, ignore_errors=True)
    return {}


def _mark_path(target: Path, bundle: str) -> Path:
    return target / MARKS_FOLDER / f"{bundle}.json"


def _is_patch(bundle: Path) -> bool:
    return bundle.name.removesuffix(BUNDLE_SUFFIX).endswith(PATCH_SUFFIX)


def _read_mark(path: Path) -> _Mark | None:
    try:
        return _Mark.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _write_mark(path: Path, mark: _Mark) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(mark.model_dump_json() + "\n", encoding="utf-8")
    os.replace(temporary, path)


def _unpack(bundle: Path, digest: str, target: Path, done: dict[str, _Mark]) -> _Mark:
    staging = target / f"{MARKS_FOLDER}/{bundle.name}.unpacking"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        images = _extract(bundle, staging)
        folders = sorted(os.listdir(staging))
        if not _is_patch(bundle):
            _refuse_overlap(bundle, folders, done)
        for folder in folders:
            shutil.rmtree(target / folder, ignore_errors=True)
            os.replace(staging / folder, target / folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return _Mark(sha256=digest, folders=folders, images=images)


def _refuse_overlap(bundle: Path, folders: Sequence[str], done: Mapping[str, _Mark]) -> None:
    for name, mark in done.items():
        if _is_patch(Path(name)):
            continue
        shared = sorted(set(folders) & set(mark.folders))
        if shared:
            raise DataError(
                f"bundle {bundle}: found folder {shared[0]!r}, which bundle {name} holds too ({len(shared)} such "
                f"folders), expected that only bundles named *{PATCH_SUFFIX}{BUNDLE_SUFFIX} replace folders"
            )


def _extract(bundle: Path, staging: Path) -> int:
    """Extract a bundle's images below ``staging`` and return their number."""
    count = 0
    try:
        with gzip.open(bundle) as packed:
            stream = _Unpacked(bundle, packed)
            stream.allow(_MOST_HEADER_BYTES)
            # Mode "r|" reads forward only, so that a large bundle is decompressed once.
            with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as archive:  # only read() is called
                for member in archive:
                    place = _place(bundle, member, staging)
                    stream.allow(member.size + _MOST_HEADER_BYTES)
                    if place is not None:
                        _write_member(bundle, archive, member, place)
                        count += 1
            # tarfile takes a cut archive for a finished one; gzip's own end mark and checksum tell them apart.
            stream.allow(_MOST_GROWTH * bundle.stat().st_size + _GROWTH_SLACK)
            while stream.read(1 << 20):
                pass
    except DataError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError) as error:
        # ValueError and OverflowError: numbers in the archive's headers that are none
        raise DataError(
            f"bundle {bundle} is damaged or cut ({type(error).__name__}: {error}); fetch it again"
        ) from error
    if not count:
        raise DataError(f"bundle {bundle}: found no image, expected members that end in <trajectory id>/<name>.png")
    return count


def _place(bundle: Path, member: tarfile.TarInfo, staging: Path) -> Path | None:
    """Where a member goes; None for folders and hidden files, which are passed over.

    Raises:
        DataError: the member is unsafe, or is not an image of a trajectory.
    """
    parts = PurePosixPath(member.name).parts
    if member.name.startswith(("/", "\\")) or ".." in parts or ".." in member.name.split("\\"):
        raise DataError(f"bundle {bundle}, member {member.name!r}: found a path that leaves the bundle; do not use it")
    if not (member.isreg() or member.isdir()):
        raise DataError(f"bundle {bundle}, member {member.name!r}: found a link or device, expected files only")
    if member.issparse():
        raise DataError(f"bundle {bundle}, member {member.name!r}: found a sparse file, expected a screenshot")
    if not 0 <= member.size <= _MOST_IMAGE_BYTES:
        raise DataError(
            f"bundle {bundle}, member {member.name!r}: found {member.size:,} bytes, expected at most "
            f"{_MOST_IMAGE_BYTES:,} of a screenshot"
        )
    try:
        tarfile.data_filter(member, str(staging))
    except tarfile.FilterError as error:
        raise DataError(f"bundle {bundle}, member {member.name!r}: {error}") from error
    if member.isdir() or (parts and parts[-1].startswith(".")):
        return None
    if len(parts) < 2 or not _FOLDER.fullmatch(parts[-2]) or not _IMAGE.fullmatch(parts[-1]):
        raise DataError(
            f"bundle {bundle}, member {member.name!r}: expected a path that ends in <trajectory id>/<name>.png"
        )
    place = staging / parts[-2] / parts[-1]
    if place.exists():
        raise DataError(f"bundle {bundle}, member {member.name!r}: found a second image for {parts[-2]}/{parts[-1]}")
    return place


def _write_member(bundle: Path, archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    source = archive.extractfile(member)
    place.parent.mkdir(exist_ok=True)
    with place.open("xb") as target:
        if source is not None:
            shutil.copyfileobj(source, target)
    if place.stat().st_size != member.size:
        raise DataError(f"bundle {bundle}, member {member.name!r}: the bundle is cut inside it; fetch it again")
