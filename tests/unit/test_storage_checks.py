"""Folders, locks, databases and manifests that look wrong and are not, or are wrong in another way than it looks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from bwrap import needs_bwrap

import lmev2.run_lock as run_lock
import lmev2.storage as storage
from lmev2.index import _MARK, PoolIndex, PoolIndexError
from lmev2.storage import from_the_future, read_only_cache, storage_problems
from lmev2.tables.opening import DatabaseError, open_database

usage = namedtuple("usage", "total used free")


# Folders


@pytest.mark.parametrize(("total", "free", "refused"), [(0, 0, False), (10**12, 0, True), (10**12, 10**9, False)])
def test_a_file_system_that_tells_no_sizes_is_not_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, free: int, refused: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(total, total - free, free))
    assert bool(storage_problems({"results": tmp_path})) == refused


def test_a_cache_is_read_only_only_if_it_is_there_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_only_cache(tmp_path) is None
    assert read_only_cache(tmp_path / "none") is None and not (tmp_path / "none").exists()
    denied = os.W_OK
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & denied)
    said = read_only_cache(tmp_path)
    assert said is not None and said.startswith(f"cache: the folder {tmp_path} cannot be written to")
    assert "replayed" in said and "first new one ends its job" in said
    denied |= os.R_OK
    assert read_only_cache(tmp_path) is None  # nothing can be replayed
    (problem,) = storage_problems({"cache": tmp_path})
    assert "cannot be written to" in problem


@needs_bwrap
def test_a_cache_on_a_read_only_mount_is_warned_of(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from lmev2.storage import read_only_cache as warning\n"
    code += "print(warning(Path(sys.argv[1]))); print(warning(Path(sys.argv[1]) / 'new'))"
    command = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(tmp_path), str(tmp_path), "--", sys.executable]
    said = subprocess.run([*command, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True).stdout
    warning, none = said.splitlines()
    assert f"{tmp_path} cannot be written to" in warning and none == "None"


class Entry:
    def __init__(self, folder: Path, name: str, error: OSError | None):
        self.name, self.path, self.error = name, str(folder / name), error

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        if self.error is not None:
            raise self.error
        return os.stat_result([0] * 8 + [int(time.time()) + 7200] * 2)


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), OSError(116, "Stale file handle"), OSError(5, "I/O")])
def test_files_that_cannot_be_looked_at_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    entries = [Entry(tmp_path, "a", error), Entry(tmp_path, "b", None)]
    monkeypatch.setattr(storage, "_entries", lambda folder: entries)
    said = from_the_future(tmp_path)
    assert said is not None and said.startswith("1 files") and str(tmp_path / "b") in said


# Databases


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE scores AS SELECT range AS n, md5(range::VARCHAR) AS text FROM range(50000)")
        connection.execute('CREATE SCHEMA "odd ""one"; CREATE TABLE "odd ""one"."a b" AS SELECT 1 AS x')
        connection.execute("CREATE VIEW seen AS SELECT * FROM scores")
    return path


@pytest.fixture
def held(database: Path) -> Iterator[Path]:
    code = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        yield database
        other.kill()


def test_a_database_that_another_program_has_open_is_not_to_be_deleted(held: Path) -> None:
    with (
        pytest.raises(DatabaseError, match=r"another program has the file open .*close it") as caught,
        open_database(held),
    ):
        pass
    assert "delete" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ('Cannot open file "x": Permission denied', "may not be read .*change its permissions"),
        ('Could not set lock on file "x": No locks available', "file system does not lock it"),
    ],
)
def test_a_database_that_cannot_be_opened_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, advice: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise duckdb.IOException(said)

    monkeypatch.setattr(duckdb, "connect", refuse)
    with pytest.raises(DatabaseError, match=advice) as caught, open_database(tmp_path / "x.duckdb"):
        pass
    assert "delete" not in str(caught.value)


def test_what_fails_in_the_context_is_not_called_a_damaged_database(database: Path) -> None:
    with pytest.raises(duckdb.IOException, match=r"/nonexistent/y\.csv"), open_database(database) as connection:
        connection.execute("COPY scores TO '/nonexistent/y.csv'")
    with open_database(database) as connection:
        assert connection.execute("SELECT count(*) FROM seen").fetchone() == (50000,)


def test_damage_anywhere_in_the_values_is_found_before_the_context(database: Path) -> None:
    whole = database.read_bytes()
    blocks = range(3 * 4096, len(whole), 262144)
    found = 0
    for start in blocks:
        database.write_bytes(
            whole[: start + 5000]
            + bytes(255 - one for one in whole[start + 5000 : start + 5100])
            + whole[start + 5100 :]
        )
        try:
            with open_database(database):
                pass
        except DatabaseError as error:
            assert "not a readable database" in str(error) and "delete it and run again" in str(error)
            found += 1
    assert found >= len(blocks) - 1  # a block may be free


# The lock of a run


def killed_run(folder: Path, host: bytes | None) -> None:
    (folder / ".snakemake" / "locks").mkdir(parents=True)
    (folder / ".snakemake" / "locks" / "0.output.lock").touch()
    if host is not None:
        (folder / ".snakemake" / "lmev2_run.lock").write_bytes(host)


@pytest.mark.parametrize("host", [None, b"", socket.gethostname().encode()])
def test_a_lock_of_this_machine_is_stale_for_certain(tmp_path: Path, host: bytes | None) -> None:
    killed_run(tmp_path, host)
    said = run_lock.stale_lock(tmp_path)
    assert said is not None and "unless" not in said and "Remove it with `snakemake --unlock`" in said


def test_a_lock_of_another_machine_is_stale_perhaps_until_a_run_begins_here(tmp_path: Path) -> None:
    killed_run(tmp_path, b"node-7.example")
    for _ in range(2):  # being looked at, as by a dry run, changes nothing
        said = run_lock.stale_lock(tmp_path)
        assert said is not None and "No run lives in this folder any more, unless one lives on node-7.example:" in said
        assert "If none lives on node-7.example, remove it with `snakemake --unlock`" in said
    run_lock.hold_soon(tmp_path)
    assert (tmp_path / ".snakemake" / "lmev2_run.lock").read_text() == socket.gethostname()
    said = run_lock.stale_lock(tmp_path)
    assert said is not None and "unless" not in said


def test_a_run_that_has_to_wait_for_the_lock_signs_it_later(tmp_path: Path) -> None:
    (tmp_path / ".snakemake").mkdir()
    code = "import sys; from pathlib import Path; from lmev2.run_lock import hold\n"
    code += "assert hold(Path.cwd()); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        run_lock.hold_soon(tmp_path)
        assert (tmp_path / ".snakemake" / "lmev2_run.lock").read_text() == ""
        other.kill()
    deadline = time.monotonic() + 10
    while (tmp_path / ".snakemake" / "lmev2_run.lock").read_text() != socket.gethostname():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can watch a process")
@pytest.mark.parametrize(("start", "ends"), [("", False), ("own", False), ("1", True)])
def test_a_run_whose_beginning_cannot_be_told_is_not_taken_for_gone(tmp_path: Path, start: str, ends: bool) -> None:
    place, number = run_lock._place(), os.getpid()
    value = " ".join([*place, str(number), run_lock._start_of(number) if start == "own" else start])
    code = "import time; from lmev2.run_lock import end_with_run; end_with_run(); time.sleep(0.5); print('went on')"
    environment = os.environ | {"LMEV2_RUN_PROCESS": value}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.stdout == "") == ends


# Manifests of indexes


@pytest.mark.parametrize("manifest", [{}, {"entries": 3}, {"digest": "x"}, [], 3, None])
def test_a_manifest_without_its_facts_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: object
) -> None:
    class Table:
        def open_table(self, name: str) -> Table:
            return self

        def count_rows(self) -> int:
            return 3

    monkeypatch.setattr("lmev2.index._connect", lambda folder: Table())
    index, path = tmp_path / "event.lance", tmp_path / "event.json"
    index.mkdir()
    path.write_text(json.dumps(manifest))
    (index / _MARK).write_text(path.read_text())
    with pytest.raises(PoolIndexError, match=r"cannot open the index .*event\.lance .*delete it and .*event\.json"):
        PoolIndex(index, path)
