"""Hashes of library code, by which rules know whether a change of the library concerns them."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = "lmev2"
_SOURCE = Path(__file__).resolve().parent


def code_fingerprint(*modules: str) -> str:
    """SHA-256 over the syntax trees, without docstrings, of library modules and all library modules they import.

    Args:
        modules: dotted names inside the package, such as ``lmev2.reader``.

    Raises:
        ModuleNotFoundError: there is no such module in the package.
    """
    digest = hashlib.sha256()
    for name in sorted(set().union(*(_import_closure(module) for module in modules))):
        digest.update(f"{name}\n{_syntax_digest(name)}\n".encode())
    return digest.hexdigest()[:16]


def _module_file(name: str) -> Path | None:
    path = _SOURCE.joinpath(*name.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if name.split(".")[0] == _PACKAGE and candidate.is_file():
            return candidate
    return None


@cache
def _tree(name: str) -> ast.Module:
    path = _module_file(name)
    if path is None:
        raise ModuleNotFoundError(f"no module {name} below {_SOURCE}")
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def _syntax_digest(name: str) -> str:
    return hashlib.sha256(_outline(_tree(name)).encode()).hexdigest()


def _outline(node: object) -> str:
    """A syntax tree as text: no positions, no docstrings, and no empty fields, which differ between Python versions."""
    if isinstance(node, list):
        return "[" + ",".join(_outline(item) for item in node) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if value is not None and value != []}
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        fields["body"] = [item for item in node.body if not _is_docstring(item)]
    return f"{type(node).__name__}({','.join(f'{name}={_outline(value)}' for name, value in fields.items())})"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def _direct_imports(name: str) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (module := _imported_from(name, node)):
            candidates = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found.update(candidate for candidate in candidates if _module_file(candidate) is not None)
    return frozenset(found)


def _imported_from(name: str, node: ast.ImportFrom) -> str | None:
    """The module that names are imported from; a relative one starts at the importing module's package."""
    if not node.level:
        return node.module
    path = _module_file(name)
    above = node.level - (path is not None and path.name == "__init__.py")
    package = name.split(".")[: -above or None]
    return ".".join([*package, node.module] if node.module else package)


def _import_closure(module: str) -> set[str]:
    todo, seen = [module], set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(_direct_imports(name))
    return seen
