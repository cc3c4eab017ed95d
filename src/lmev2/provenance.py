"""What a run was made from, as one file to publish with its tables.

The file says nothing of the machine: no address, key, variable of the environment, user or host name, and of an
absolute path only its last part. It holds no time, so that the same commit and the same rows give the same bytes.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from lmev2 import __version__
from lmev2.files import file_sha256, replacing
from lmev2.models.cache import CallCache
from lmev2.models.gguf import remembered_sha256, resolve_file

# Libraries that can change a number of a table.
LIBRARIES = (
    "duckdb",
    "lancedb",
    "llama-cpp-python",
    "numpy",
    "pillow",
    "pyarrow",
    "scipy",
    "snakemake",
    "tokenizers",
    "wordllama",
)
_LIBRARIES_OF = {
    "sentence_transformers": ("sentence-transformers", "torch", "transformers"),
    "transformers": ("torch", "transformers"),
}
# What a run is made of; anything else in the checkout may change without making it another pipeline.
_PARTS = ("Snakefile", "config.yaml", "config", "rules", "workflow", "src", "profiles", "resources", "envs")
_FILE_SETTINGS = ("file", "tokenizer", "script")
_NO_CHECKOUT = "the pipeline's folder is no git checkout"


def git_state(pipeline: Path) -> dict[str, Any]:
    """The commit of the pipeline's checkout.

    Returns:
        ``commit``, and ``changed``: files of the pipeline, below the checkout's folder, that differ from the commit or
        are not in it. Or ``commit`` null and, as ``note``, why there is none.
    """
    try:
        tracked = _git(pipeline, "ls-files", "--error-unmatch", "Snakefile")
        if tracked.returncode != 0:
            foreign = "safe.directory" in tracked.stderr
            note = "git refuses the pipeline's folder, which belongs to another user" if foreign else _NO_CHECKOUT
            return {"commit": None, "note": note}
        head = _git(pipeline, "rev-parse", "--verify", "HEAD")
        if head.returncode != 0:
            return {"commit": None, "note": "the checkout has no commit yet"}
        changed = _git(pipeline, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *_PARTS)
        if changed.returncode != 0:
            return {"commit": None, "note": f"git status failed with code {changed.returncode}"}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"commit": None, "note": f"git could not be asked ({type(error).__name__})"}
    names = sorted(entry[3:] for entry in changed.stdout.split("\0") if entry)
    return {"commit": head.stdout.strip(), "changed": names}


def library_versions(backends: Iterable[str]) -> dict[str, str]:
    """Versions of the libraries that can change a number, by name.

    Args:
        backends: of the models; some need more libraries than the others.

    Raises:
        importlib.metadata.PackageNotFoundError: a library is not installed.
    """
    names = [*LIBRARIES, *(name for backend in sorted(set(backends)) for name in _LIBRARIES_OF.get(backend, ()))]
    return {name: importlib.metadata.version(name) for name in names}


def model_facts(settings: Mapping[str, Any], identity: Mapping[str, Any] | None, cache: CallCache) -> dict[str, Any]:
    """A model role: its settings, what the backend says it is, and hashes of the files that the settings name.

    Args:
        settings: without the mechanics of calling it; ``stamps`` are left out.
        identity: of the backend (file hashes, served name, …); None where no model is called.
        cache: remembers hashes of large files.

    Raises:
        ModelSetupError: the GGUF file that ``file`` names does not exist.
    """
    facts: dict[str, Any] = {"settings": {name: value for name, value in settings.items() if name != "stamps"}}
    if identity is not None:
        facts["identity"] = dict(identity)
    files = {}
    for name in _FILE_SETTINGS:
        if settings.get(name):
            path = resolve_file(settings[name]) if name == "file" else Path(settings[name])
            if path.is_file():  # a tokenizer may be a hub id
                files[name] = {"name": path.name, "sha256": remembered_sha256(path, cache)}
    return facts | ({"files": files} if files else {})


def file_hashes(paths: Iterable[Path], folder: Path | None = None) -> dict[str, str]:
    """SHA-256 of files by their path below ``folder``, or by their names without suffix."""
    named = {path.stem if folder is None else Path(os.path.relpath(path, folder)).as_posix(): path for path in paths}
    return {name: file_sha256(path) for name, path in sorted(named.items())}


def write_provenance(
    path: Path,
    git: Mapping[str, Any],
    manifest: Mapping[str, Any],
    goals: Mapping[str, Any],
    spec: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    hashes: Mapping[str, Mapping[str, str]],
) -> None:
    """Write the file: JSON with sorted keys.

    Args:
        git: what :func:`git_state` returned.
        manifest: of the ingested data: ``fingerprint`` and ``files``.
        goals: summary of goal sanitisation, of which ``mode`` and ``digest`` are told.
        spec: ``settings`` (sections of the configuration), ``code`` (hashes of the library by rule), ``hub`` (where
            the data was fetched from, or null) and ``imports`` (rows taken in from other runs, with hashes).
        models: what :func:`model_facts` returned, by role.
        hashes: SHA-256 of prompts, queries, published numbers and tables, by kind and name.
    """
    facts = {
        "lmev2": __version__,
        "git": git,
        "python": platform.python_version(),
        "libraries": library_versions(str(role["settings"]["backend"]) for role in models.values()),
        "data": {
            "fingerprint": manifest["fingerprint"],
            "files": manifest["files"],
            "hub": spec["hub"],
            "goals": {name: goals[name] for name in ("mode", "digest")},
        },
        "settings": spec["settings"],
        "models": models,
        "imports": spec["imports"],
        "code": spec["code"],
        **hashes,
    }
    text = json.dumps(without_folders(facts), indent=1, sort_keys=True, ensure_ascii=False)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def without_folders(value: Any) -> Any:
    """A JSON value in which every string that is an absolute path has become the path's last part."""
    if isinstance(value, Mapping):
        return {without_folders(name): without_folders(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(item) for item in value]
    if isinstance(value, str) and (value.startswith(("/", "~")) or PureWindowsPath(value).is_absolute()):
        return PureWindowsPath(value).name if "\\" in value else PurePosixPath(value).name
    return value


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Variables such as GIT_DIR, set inside git's hooks, would lead to another checkout.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return _run(["git", *arguments], folder, {**environment, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"})


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=dict(environment), capture_output=True, text=True, errors="replace", timeout=60
    )
