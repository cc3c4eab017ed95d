"""Where things lie in a data root."""

from __future__ import annotations

from pathlib import PurePosixPath

QUESTIONS_FILE = "questions.jsonl"
TRAJECTORIES_FILE = "trajectories.jsonl"
EVIDENCE_FILE = "evidence.jsonl"
CHECKSUMS_FILE = "checksums.sha256"
SCREENSHOTS_FOLDER = "screenshots"
BUNDLES_FOLDER = "trajectory_screenshots"
QUESTION_IMAGES_FOLDER = "question_screenshots"


def haystack_file(tier: str) -> str:
    """Path of a tier's haystacks below the data root."""
    return f"haystacks/lme_v2_{tier}.json"


def path_fault(path: str) -> str | None:
    """What is wrong with a path of the data root; None when it is relative and stays below the root."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        return f"found path {path!r}, expected one below the data root, without '..'"
    return None
