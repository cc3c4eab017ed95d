"""Writing pages: names, templates, and the data that scripts read."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lmev2.visible import visible

TEMPLATES: Final = Path(__file__).resolve().parents[1] / "templates"
ASSETS: Final = ("report.css", "report.js")
PAGES: Final = "pages"

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NOTHING: Final = "–"


def slug(name: str) -> str:
    """A file name for an id: the id where it is one in every file system, else a hash of it."""
    if _SAFE.fullmatch(name):
        return name
    return f"x-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def script_text(name: str, value: Any) -> str:
    """A script that sets a global name to a JSON value; nothing in it can end the script or a line of it."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)  # ASCII only: U+2028 and the like are escaped
    return f"var {name}={text.replace('<', chr(92) + 'u003c')};\n"


def cut(text: str, chars: int, tail: int = 0) -> tuple[str, int, str]:
    """A text's beginning, how many characters are left out, and its last ``tail`` characters."""
    if len(text) <= chars:
        return text, 0, ""
    end = text[len(text) - tail :] if tail else ""
    return text[: chars - tail], len(text) - chars, end


class Site:
    """A folder of pages below ``folder``: ``index.html`` is the caller's, everything else lies in ``pages``.

    Args:
        folder: the folder of all pages but the first.
        shared: values that every page may use.
    """

    def __init__(self, folder: Path, **shared: Any):
        self.folder = folder
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            finalize=_finalize,
        )
        self._environment.filters |= {"share": _share, "seconds": _seconds, "pretty": _pretty, "signed": _signed}
        self._environment.globals |= shared
        for name in ASSETS:
            shutil.copyfile(TEMPLATES / name, folder / name)

    def render(self, template: str, depth: int, **values: Any) -> str:
        """A page, or a part of one.

        Args:
            template: name without ending.
            depth: 0 for ``index.html``, 1 for a page in ``pages``, 2 for one in a folder of it.
            values: what the template shows; every text is escaped.
        """
        base = (f"{PAGES}/", "", "../")[depth]
        home = ("index.html", "../index.html", "../../index.html")[depth]
        return self._environment.get_template(f"{template}.html.j2").render(base=base, home=home, **values)

    def write(self, name: str, parts: Iterable[str]) -> None:
        """Write a page in ``pages`` from its parts, one at a time in memory."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="\n", errors="replace") as file:
            for part in parts:
                file.write(part)


def _finalize(value: Any) -> Any:
    """What is shown of a value: a dash for none, and no characters that act."""
    if value is None:
        return _NOTHING
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _share(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:+.3f}"


def _seconds(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)
