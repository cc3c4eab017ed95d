"""Runs one application on loopback, always from the same snapshot of its data."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

REPOSITORY = Path(__file__).resolve().parents[1]
PORTS = {"shop": 8101, "forum": 8102, "desk": 8103}
START_TIMEOUT_S = 60.0


def default_work_folder() -> Path:
    """Where recordings and application data go unless told otherwise: ``.minibench/`` in the repository."""
    return REPOSITORY / ".minibench"


class AppServer:
    """An application served at ``http://127.0.0.1:<port>`` from a fresh copy of its snapshot.

    The first start migrates and seeds the application into ``<work>/snapshots/<app>-<hash>``, where the hash
    covers the application's sources: a changed seed makes a new snapshot. Every start then copies the snapshot
    to ``<work>/data/<app>`` (SQLite file, media, search index), so nothing that a trajectory writes reaches
    the next one. Applications find the folder in the environment variable ``MINIBENCH_DATA`` and must keep
    their database in ``<MINIBENCH_DATA>/<app>.sqlite3``.
    """

    def __init__(self, app: str, work: Path) -> None:
        self.app = app
        self.work = work.resolve()
        self.base_url = f"http://127.0.0.1:{PORTS[app]}"
        self.data = self.work / "data" / app
        self.log = self.work / "logs" / f"{app}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def database(self) -> Path:
        """The SQLite file that the running server writes."""
        return self.data / f"{self.app}.sqlite3"

    def __enter__(self) -> Self:
        self._check_port()
        snapshot = self._snapshot()
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(snapshot, self.data)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # --insecure serves static files also when an application's settings turn DEBUG off
        address = self.base_url.removeprefix("http://")
        command = [sys.executable, "-m", "django", "runserver", "--noreload", "--insecure", address]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, env=self._environment(self.data), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self._wait_until_up()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _check_port(self) -> None:
        # Without this, the wait for the first page would be answered by whatever listens there already
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORTS[self.app])) == 0:
                raise RuntimeError(f"{self.app}: port {PORTS[self.app]} is in use; end the other server first")

    def _environment(self, data: Path) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"minibench.apps.{self.app}.settings",
            "MINIBENCH_DATA": str(data),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONHASHSEED": "0",
        }

    def _source_hash(self) -> str:
        digest = hashlib.sha256()
        sources = sorted(path for path in (REPOSITORY / "minibench" / "apps" / self.app).rglob("*") if path.is_file())
        for path in [*sources, REPOSITORY / "minibench" / "clock.py"]:
            if path.suffix != ".pyc":
                digest.update(str(path.relative_to(REPOSITORY)).encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:12]

    def _snapshot(self) -> Path:
        snapshot = self.work / "snapshots" / f"{self.app}-{self._source_hash()}"
        if snapshot.is_dir():
            return snapshot
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        for old in snapshot.parent.glob(f"{self.app}-*"):
            shutil.rmtree(old)
        # Seeded in place of the served data, because paths to the search index or media may be stored in it
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True)
        for arguments in (["-m", "django", "migrate", "-v", "0"], ["-m", f"minibench.apps.{self.app}.seed"]):
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=REPOSITORY,
                env=self._environment(self.data),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise RuntimeError(f"{self.app}: `python {' '.join(arguments)}` failed:\n{done.stdout}{done.stderr}")
        shutil.copytree(self.data, snapshot)
        return snapshot

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"{self.app}: the server ended while starting; its log says:\n{self._log_tail()}")
            try:
                # The first page also compiles the templates, which would otherwise slow the first step down
                with urllib.request.urlopen(self.base_url + "/", timeout=30):
                    return
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    return
                message = f"{self.app}: the first page answers {error.code}; the log says:\n{self._log_tail()}"
                raise RuntimeError(message) from error
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        raise RuntimeError(f"{self.app}: no answer at {self.base_url} in {START_TIMEOUT_S:.0f} s:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else "(no log)"

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
