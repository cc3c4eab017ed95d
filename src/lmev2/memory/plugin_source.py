"""Where the code of a memory of the user's own lies, found without running it.

Planning needs this: the code's hash belongs to what decides about reruns, and a plan must not import what it plans.
"""

from __future__ import annotations

import hashlib
import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any


class PluginError(ValueError):
    """A plugin's code that cannot be found; the message says what was looked up, where, and what to do."""


def find_source(class_name: str, folder: Path | None) -> Path:
    """File of the module that a plugin's class is imported from: in ``folder`` first, else in the environment.

    Args:
        class_name: ``package.module:Class``.
        folder: the folder of the method's key ``path``, None without one.

    Raises:
        PluginError: the folder does not exist, or no such module is in it or in the environment.
    """
    return _locate(class_name, folder)[1]


def source_stamp(class_name: str, folder: Path | None) -> dict[str, Any]:
    """The module's name, and SHA-256 over names and content of all Python files of its top-level package, or of its one
    file if it belongs to none.

    Raises:
        PluginError: as :func:`find_source`.
    """
    package, source = _locate(class_name, folder)
    root = source.parent if package is None else package
    digest = hashlib.sha256()
    for path in [source] if package is None else sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\n{len(content)}\n".encode() + content)
    return {"file": class_name.partition(":")[0], "sha256": digest.hexdigest()}


def _locate(class_name: str, folder: Path | None) -> tuple[Path | None, Path]:
    """Folder of the top-level package, None for a module of its own, and the module's file."""
    module = class_name.partition(":")[0]
    top, *rest = module.split(".")
    if folder is not None and not folder.is_dir():
        raise PluginError(f"plugin {class_name!r}: its path {folder.absolute()} is no folder; correct the key `path`")
    parents = [] if folder is None else [folder]
    found = [file for parent in parents for file in _candidates(parent, top, rest) if file.is_file()]
    if not found:
        spec = _top_level_spec(top)
        places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
        parents += [place.parent for place in places]
        found = [file for place in places for file in _candidates(place.parent, place.name, rest) if file.is_file()]
        if not found and spec is not None and not rest and spec.origin and Path(spec.origin).is_file():
            found = [Path(spec.origin)]
    if not found:
        tried = [str(file) for parent in parents for file in _candidates(parent, top, rest)]
        raise PluginError(
            f"plugin {class_name!r}: found no module {module!r}; tried {', '.join(tried) or 'the environment'}"
            f"{' and the environment' if tried else ''}. Give the folder that holds {top!r} as the method's key `path`"
            ", or install the package into the environment of the run"
        )
    source = found[0]
    levels = len(rest) if source.name == "__init__.py" else len(rest) - 1
    return (source.parents[levels] if levels >= 0 else None), source


def _candidates(parent: Path, top: str, rest: list[str]) -> list[Path]:
    base = parent.joinpath(top, *rest)
    return [base / "__init__.py", base.with_name(f"{base.name}.py")]


def _top_level_spec(top: str) -> ModuleSpec | None:
    """Only the top-level name is looked up: looking for a submodule would run its package's code."""
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module that was made without a spec, such as __main__
        return None
