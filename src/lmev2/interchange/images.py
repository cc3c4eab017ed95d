"""Images that run folders of others name: only files of the data root are taken."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from lmev2.data.layout import path_fault

# Stands before the name of an image of which there is no picture. No path of a file that a run has begins so.
NO_PICTURE: Final = "no picture: "
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def place_image(name: str, root: Path) -> str:
    """The absolute path of an image that a run names relative to the data root.

    A run of others may name any file of this machine; only regular files that lie inside the data root, links resolved,
    are taken. Else the result is the name behind :data:`NO_PICTURE`.
    """
    if path_fault(name) is None:
        try:
            inside = Path(os.path.realpath(root / name, strict=True)).is_relative_to(os.path.realpath(root))
            if inside and (root / name).is_file():
                return str(root / name)
        except (OSError, ValueError):
            pass  # no such file, a name too long for one, a circle of links
    return NO_PICTURE + told_name(name)


def told_name(value: str) -> str:
    """What the run called an image of which there is no picture; any other value as it stands."""
    return value.removeprefix(NO_PICTURE)


def is_elsewhere(name: str) -> bool:
    """An image that no data root can hold: an absolute path, an address, or one with ``..``."""
    return path_fault(name) is not None or _ADDRESS.match(name) is not None
