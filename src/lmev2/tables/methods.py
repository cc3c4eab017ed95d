"""The effective settings of every method of a run, as a file to read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lmev2.files import replacing

_HEAD = """\
# Effective settings of every row of the run: inherited keys and defaults are filled in.
"""


def write_methods(path: Path, methods: Mapping[str, Mapping[str, Any]], render: Mapping[str, Any]) -> None:
    """Write the rows in table order, and how their contexts are rendered."""
    text = yaml.safe_dump({"methods": dict(methods), "render": dict(render)}, sort_keys=False, allow_unicode=True)
    with replacing(path) as temporary:
        temporary.write_text(_HEAD + text, encoding="utf-8")
