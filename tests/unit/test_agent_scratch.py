"""Folders in which agents work: of one user, private, gone at the end, and gone also after a kill."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lmev2.agent.scratch import scratch_folder

HOLDS = """
import sys, time
from pathlib import Path
from lmev2.agent.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "inner").mkdir()
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextmanager
def holder(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a folder of its own."""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_nobody_else_can_enter_it_and_nothing_is_left(temporary: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with scratch_folder() as one, scratch_folder() as two:
        assert one != two and one.parent == two.parent and one.parent.parent == temporary
        for folder in (one, one.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (one / "file").touch()
    assert list(temporary.iterdir()) == []
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_its_path_says_nothing() -> None:
    with scratch_folder() as folder:
        assert folder.parent.name == f"lmev2-{os.geteuid()}"
        assert set(folder.name) <= set("0123456789abcdef")


def test_what_a_killed_process_left_goes_and_what_a_running_one_has_stays(temporary: Path) -> None:
    with holder(temporary) as (killed, left), holder(temporary) as (_, kept):
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "inner").is_dir()
        with scratch_folder() as own:
            names = {path.name for path in own.parent.iterdir()}
            assert names == {own.name, f"{own.name}.lock", kept.name, f"{kept.name}.lock"}
        assert (kept / "inner").is_dir()
    with scratch_folder():
        pass
    assert list(temporary.iterdir()) == []


def test_planted_names_lead_nowhere(temporary: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "file").write_text("kept")
    with scratch_folder() as folder:
        common = folder.parent
        (common / "a.lock").touch()
        (common / "a").symlink_to(outside)
        (common / "b.lock").symlink_to(outside / "file")
        (common / "b").mkdir()
        (common / "c.lock").mkdir()
        os.mkfifo(common / "d.lock")
        with scratch_folder():
            assert not os.path.lexists(common / "a") and (common / "b").is_dir()
        (common / "b.lock").unlink()
        shutil.rmtree(common / "b")
        (common / "c.lock").rmdir()
    assert (outside / "inner").is_dir() and (outside / "file").read_text() == "kept"


def test_a_name_that_is_taken_is_not_used(temporary: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "trap").mkdir(mode=0o755)
    (temporary / f"lmev2-{os.geteuid()}").symlink_to(tmp_path / "trap")
    with scratch_folder() as folder:
        assert folder.parent.parent == temporary and folder.parent.name != f"lmev2-{os.geteuid()}"
    assert list((tmp_path / "trap").iterdir()) == [] and "cannot be used" in caplog.text
    assert stat.S_IMODE((tmp_path / "trap").stat().st_mode) == 0o755
    assert [path.name for path in temporary.iterdir()] == [f"lmev2-{os.geteuid()}"]


def test_another_users_folder_is_not_used(temporary: Path, caplog: pytest.LogCaptureFixture) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's folder")
    (temporary / "lmev2-0").mkdir(mode=0o777)
    os.chown(temporary / "lmev2-0", 65534, 65534)
    with scratch_folder() as folder:
        assert folder.parent.name != "lmev2-0"
    assert "belongs to user 65534" in caplog.text
    assert list((temporary / "lmev2-0").iterdir()) == []


def test_many_at_once(temporary: Path) -> None:
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(40):
                with scratch_folder() as folder:
                    (folder / "file").touch()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == [] and list(temporary.iterdir()) == []


def test_an_error_passes_through(temporary: Path) -> None:
    with pytest.raises(ZeroDivisionError), scratch_folder():
        _ = 1 / 0
    assert list(temporary.iterdir()) == []
