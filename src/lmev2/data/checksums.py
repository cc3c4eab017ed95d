"""Checking the files of a data root against its ``checksums.sha256``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmev2.data.errors import DataError
from lmev2.data.layout import CHECKSUMS_FILE, length_fault, path_fault
from lmev2.files import file_sha256

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


@dataclass(frozen=True)
class ChecksumProblem:
    """A listed file that is not there (``missing``) or not what was published (``wrong``).

    Attributes:
        path: below the data root.
        expected: the published SHA-256.
        found: the file's SHA-256; None when it is missing.
    """

    path: str
    kind: Literal["missing", "wrong"]
    expected: str
    found: str | None

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"{self.path}: found no such file, expected one with SHA-256 {self.expected}"
        return f"{self.path}: found SHA-256 {self.found}, expected {self.expected}"


def verify_checksums(root: Path) -> list[ChecksumProblem]:
    """Compare every file that ``checksums.sha256`` lists; an empty list means that all are there and right.

    Raises:
        DataError: there is no checksum file, or it is not one; names the line.
    """
    return [problem for path, expected in read_checksums(root).items() if (problem := _check(root, path, expected))]


def read_checksums(root: Path) -> dict[str, str]:
    """Published SHA-256 by path below the root, in the order of ``checksums.sha256``.

    Raises:
        DataError: there is no such file, or it is not a checksum file; names the line.
    """
    file = root / CHECKSUMS_FILE
    if not file.is_file():
        raise DataError(f"found no {file}, expected the SHA-256 sums of the published files there")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: found no UTF-8 text ({error}), expected a list of SHA-256 sums") from error
    sums: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.rstrip("\r"))
        path = match[2].removeprefix("./") if match is not None else ""
        if match is None or path_fault(path) is not None or length_fault(path) is not None:
            raise DataError(
                f"{file}, line {number}: found {line!r:.120}, expected a SHA-256 sum and a path below the root"
            )
        sums[path] = match[1].lower()
    return sums


def _check(root: Path, path: str, expected: str) -> ChecksumProblem | None:
    if not (root / path).is_file():
        return ChecksumProblem(path, "missing", expected, None)
    found = file_sha256(root / path)
    return None if found == expected else ChecksumProblem(path, "wrong", expected, found)
