"""A folder as a tarball whose bytes depend on names and contents alone."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from lmev2.files import replacing


def write_tarball(folder: Path, target: Path) -> None:
    """Write ``folder`` as a gzipped tar file: members sorted, without times, owners or modes of this machine."""
    with (
        replacing(target) as temporary,
        temporary.open("wb") as stream,
        # Without a name and a time in gzip's own header.
        gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        archive.addfile(_member(folder.name, folder))
        for path in sorted(folder.rglob("*")):
            member = _member(f"{folder.name}/{path.relative_to(folder).as_posix()}", path)
            if path.is_dir():
                archive.addfile(member)
            else:
                with path.open("rb") as content:
                    archive.addfile(member, content)


def _member(name: str, path: Path) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    if path.is_dir():
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    else:
        member.size, member.mode = path.stat().st_size, 0o644
    return member
