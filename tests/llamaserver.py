"""llama-cpp-python's own OpenAI-compatible server as a process on loopback, with a model from a GGUF file.

It knows no network: the file is on disk, and nothing else is loaded. What it was asked stands in its log. Known of it
(0.3.36): a model's name that it does not serve gets the first model; `response_format` may be `json_object`, with or
without a `schema` beside it, and `json_schema` is answered with 500; it tells no context length; it answers one request at
a time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_STARTED = re.compile(r"Uvicorn running on http://127\.0\.0\.1:(\d+)")
_ANSWERED = re.compile(r'"(GET|POST) (\S+) HTTP/1\.1" (\d+)')
_START_S = 180.0
_END_S = 20.0
# All settings of the server can be given by variables of their names, so it gets no others than these.
_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


class LlamaServer:
    """The server; a context manager, and its process ends with it, whatever happens.

    Args:
        model: GGUF file.
        alias: the name that it serves the model by.
        log: file that takes what it prints.
        options: further options by name, such as ``n_ctx``.
    """

    def __init__(self, model: Path, alias: str, log: Path, **options: object) -> None:
        given = {"model": model, "model_alias": alias, "host": "127.0.0.1", "port": 0, "verbose": "false", **options}
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        self.log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "llama_cpp.server", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={name: os.environ[name] for name in _VARIABLES if name in os.environ} | {"PYTHONUNBUFFERED": "1"},
            )
        self.pid = self._process.pid

    def __enter__(self) -> LlamaServer:
        try:
            self.url = f"http://127.0.0.1:{self._port()}/v1"
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def answered(self) -> Counter[tuple[str, int]]:
        """Requests by path and status."""
        return Counter((path, int(status)) for _, path, status in _ANSWERED.findall(self.text()))

    def text(self) -> str:
        """What it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def _port(self) -> int:
        for _ in _until(_START_S):
            found = _STARTED.search(self.text())
            if found is not None:
                return int(found[1])
            assert self._process.poll() is None, f"the server ended:\n{self.text()[-3000:]}"
        raise AssertionError(f"the server does not start:\n{self.text()[-3000:]}")


def _until(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.1)
