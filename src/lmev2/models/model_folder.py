"""Models in the hub's format: a folder on disk, or a hub id. Which files decide about a model, and what it is."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from lmev2.models.cache import CallCache, canonical_json, sha256_text
from lmev2.models.gguf import remembered_sha256
from lmev2.models.types import ModelSetupError

# What a model's folder may hold that decides about its work; other files are documents or other formats' weights.
_MODEL_FILES = frozenset({".json", ".safetensors", ".bin", ".model", ".txt"})
CHAT_TEMPLATES = frozenset({".jinja"})
_OTHER_FORMATS = frozenset({"onnx", "openvino"})


def find_folder(source: str, wanted: str) -> Path | None:
    """The folder that a model's name means; None for a hub id (``owner/name``).

    Args:
        wanted: what the folder should hold, for the message.

    Raises:
        ModelSetupError: the name can only be a folder and there is none.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise ModelSetupError(
            f"no folder {folder.absolute()}; set `served_name` to a folder that holds {wanted}, or to a hub id"
        )
    return None


def model_files(folder: Path, more: frozenset[str] = frozenset()) -> list[Path]:
    """Files of a model's folder that decide about its work, sorted: configuration, tokenizer, weights.

    Args:
        more: further endings of names.
    """
    found = []
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part in _OTHER_FORMATS for part in parts)
        if path.suffix in _MODEL_FILES | more and not hidden and path.is_file():
            found.append(path)
    return sorted(found)


def folder_sha256(folder: Path, cache: CallCache, more: frozenset[str] = frozenset()) -> str:
    """One hash over names and contents of :func:`model_files`."""
    files = model_files(folder, more)
    return sha256_text(
        canonical_json({str(path.relative_to(folder)): remembered_sha256(path, cache) for path in files})
    )


def package_version(package: str, backend: str) -> str:
    """The version of a package of the extra ``gpu``.

    Raises:
        ModelSetupError: it is not installed.
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ModelSetupError(
            f"backend {backend} needs the package {package}, which is not installed; run `make gpu-env`, or install "
            "the extra `gpu`, or choose another backend"
        ) from None
