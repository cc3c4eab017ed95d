"""Whether a folder can be made, before long work for it begins."""

from __future__ import annotations

import os
from pathlib import Path


def folder_fault(path: Path) -> str | None:
    """Why ``path`` cannot be, or become, a folder to write into; None when it can."""
    for place in (path, *path.absolute().parents):
        if not os.path.lexists(place):
            continue
        if not place.is_dir():
            return f"cannot make the folder {path}: {place} is not a folder"
        return None if os.access(place, os.W_OK | os.X_OK) else f"cannot write into {place}"
    return None
