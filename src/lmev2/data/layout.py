"""Where things lie in a data root."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

QUESTIONS_FILE = "questions.jsonl"
TRAJECTORIES_FILE = "trajectories.jsonl"
EVIDENCE_FILE = "evidence.jsonl"
CHECKSUMS_FILE = "checksums.sha256"
SCREENSHOTS_FOLDER = "screenshots"
BUNDLES_FOLDER = "trajectory_screenshots"
QUESTION_IMAGES_FOLDER = "question_screenshots"

IDENTIFIER = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
"""Ids become names of folders: in screenshots, and in the sandboxes of coding agents. File systems take 255 bytes."""

_MOST_NAME_BYTES = 255
_MOST_PATH_CHARS = 2_000


def haystack_file(tier: str) -> str:
    """Path of a tier's haystacks below the data root."""
    return f"haystacks/lme_v2_{tier}.json"


def path_fault(path: str) -> str | None:
    """What is wrong with a path of the data root; None when it is relative and stays below the root."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        return f"found path {path!r:.200}, expected one below the data root, without '..'"
    return None


def length_fault(path: str) -> str | None:
    """What is wrong with the length of a path of the data root or of a name in it; None when files can have it."""
    if len(path) > _MOST_PATH_CHARS or any(
        len(part.encode("utf-8", "surrogatepass")) > _MOST_NAME_BYTES for part in path.split("/")
    ):
        return f"found a path of {len(path):,} characters ({path!r:.80}), longer than file systems take"
    return None


def not_a_file(path: Path) -> str | None:
    """What stands at a path in place of a file; None when there is a file, or nothing at all."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "a link that leads to no file" if os.path.islink(path) else None
    if stat.S_ISREG(mode):
        return None
    return "a folder" if stat.S_ISDIR(mode) else "something that is no regular file"
