"""Commands in a sandbox, with and without isolation: what they get, what is kept of them, and how they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bwrap import needs_bwrap
from hypothesis import given
from hypothesis import strategies as st

from lmev2.agent.isolation import Isolation
from lmev2.agent.sandbox import Sandbox
from lmev2.agent.supervise import KeptFile, KeptText
from lmev2.agent.types import Box, Mount
from lmev2.models.types import ModelSetupError

KINDS = [pytest.param("bubblewrap", marks=needs_bwrap), "none"]


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    folder = tmp_path / "box"
    folder.mkdir()
    return Sandbox(folder, request.param)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "pool" / "t1"
    folder.mkdir(parents=True)
    (folder / "trajectory.json").write_text("a state")
    yield folder
    assert [path.name for path in folder.iterdir()] == ["trajectory.json"]


def _open(kind: Isolation, tmp_path: Path, *mounts: Mount) -> Sandbox:
    folder = tmp_path / "box"
    folder.mkdir(exist_ok=True)
    return Sandbox(folder, kind, mounts)


class TestCommands:
    def test_is_a_box(self, box: Sandbox) -> None:
        as_box: Box = box
        assert as_box.folder.is_dir()

    def test_output_and_exit_code(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "echo out; echo err >&2; exit 7"], 20)
        assert (done.returncode, done.stdout, done.stderr, done.timed_out) == (7, "out\n", "err\n", False)
        assert 0 < done.wall_s < 10

    def test_folder(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "pwd; echo new > file"], 20)
        assert done.stdout == box.inside + "\n"
        assert (box.folder / "file").read_text() == "new\n"

    def test_python(self, box: Sandbox) -> None:
        (box.folder / "script.py").write_text(
            "import sys, ssl, sqlite3; print(sys.version_info[:2], sys.prefix == sys.base_prefix)"
        )
        for name in ("python", "python3"):
            done = box.execute([name, "script.py"], 20)
            assert (done.stdout, done.stderr) == (f"{sys.version_info[:2]} True\n", "")
        done = box.execute(
            ["python", "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1)'])"], 20
        )
        assert (done.stdout, done.stderr) == ("1\n", "")

    def test_variables(self, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ONE_OF_OURS", "x")
        done = box.execute(["env"], 20, variables={"GIVEN": "a b=c", "USER": "me"})
        names = dict(line.split("=", 1) for line in done.stdout.splitlines())
        assert names["GIVEN"] == "a b=c" and names["USER"] == "me" and names["LOGNAME"] == "agent"
        assert set(names) <= {
            *("PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "PYTHONDONTWRITEBYTECODE"),
            *("PWD", "GIVEN", "LD_LIBRARY_PATH", "LMEV2_SANDBOX"),
        }

    def test_home_and_temporary_folder(self, box: Sandbox) -> None:
        done = box.execute(
            ["sh", "-c", 'echo x > ~/a && echo y > "$TMPDIR/b" && cat ~/a "$TMPDIR/b"; echo "$TMPDIR"'], 20
        )
        assert done.stdout.splitlines()[:2] == ["x", "y"]
        assert box.execute(["sh", "-c", 'ls -A ~ "$TMPDIR"'], 20).stdout.count("\n") == 3, "each command gets new ones"
        if box.isolation == "none":
            assert not Path(done.stdout.splitlines()[2]).exists()

    def test_cannot_be_started(self, box: Sandbox) -> None:
        (box.folder / "data").write_text("no program")
        cases: list[tuple[list[str], int, str]] = [
            (["no-such-program"], 127, "No such file"),
            (["./data"], 126, "Permission denied"),
            (["echo", "a\0b"], 126, "null character"),
            (["echo", "\ud800"], 126, "cannot be encoded"),
            (["echo", "x" * 3_000_000], 126, "Argument list too long"),
        ]
        for command, code, words in cases:
            done = box.execute(command, 20)
            assert (done.returncode, done.timed_out) == (code, False) and words in done.stderr

    def test_ended_by_a_signal(self, box: Sandbox) -> None:
        assert box.execute(["sh", "-c", "kill -TERM $$"], 20).returncode == 128 + signal.SIGTERM

    def test_signals_are_as_usual(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "yes | head -n 1; grep Sig[IB] /proc/self/status"], 20)
        assert done.stdout.splitlines()[0] == "y" and done.stderr == ""
        # Of the signals that programs know; those above belong to the C library, and whoever started the tests may have
        # set them.
        assert [int(line.split()[1], 16) & 0x7FFFFFFF for line in done.stdout.splitlines()[1:]] == [0, 0]

    def test_misuse(self, box: Sandbox) -> None:
        with pytest.raises(ValueError, match="expected a command"):
            box.execute([], 20)
        with pytest.raises(ValueError, match="together"):
            box.execute(["true"], 20, model_port=4000)

    def test_no_terminal(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "test -t 0 || test -t 1 || test -t 2 || echo none; : < /dev/tty"], 20)
        assert done.stdout == "none\n" and done.returncode != 0

    def test_two_at_once(self, box: Sandbox, pool: Path) -> None:
        box.mounts = (Mount(pool, "trajectories/t1"),)
        texts: list[str] = []

        def run(seconds: float) -> None:
            script = f"sleep {seconds}; cat trajectories/t1/trajectory.json"
            texts.append(box.execute(["sh", "-c", script], 20).stdout)

        threads = [threading.Thread(target=run, args=(0.1 * number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts == ["a state"] * 4


class TestStreams:
    def test_stdin(self, box: Sandbox) -> None:
        text = "zeile\nünïcode 漢字\n" * 50_000
        assert box.execute(["cat"], 30, stdin=text, output_chars=len(text)).stdout == text
        assert box.execute(["cat"], 20).stdout == ""

    def test_stdin_that_nobody_reads(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "exec 0<&-; echo on"], 20, stdin="x" * 2_000_000)
        assert (done.returncode, done.stdout) == (0, "on\n")

    def test_much_on_both_outputs(self, box: Sandbox) -> None:
        script = "import sys\nfor n in range(200): sys.stdout.write('o' * 10000); sys.stderr.write('e' * 10000)"
        done = box.execute(["python", "-c", script], 60, output_chars=100)
        for text, letter in ((done.stdout, "o"), (done.stderr, "e")):
            assert text == letter * 50 + "\n[… 1,999,900 characters cut …]\n" + letter * 50

    def test_invalid_utf8(self, box: Sandbox) -> None:
        assert box.execute(["printf", "a\\377b"], 20).stdout == "a\ufffdb"

    def test_closed_outputs_do_not_end_the_wait(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "exec 1>&- 2>&-; sleep 0.3; touch late; exit 4"], 20)
        assert done.returncode == 4 and (box.folder / "late").exists()

    def test_file_gets_it_as_it_comes(self, box: Sandbox, tmp_path: Path) -> None:
        path = tmp_path / "events.jsonl"
        seen: list[bytes] = []

        def watch() -> None:
            until = time.monotonic() + 10
            while time.monotonic() < until:
                if path.exists() and path.read_bytes():
                    seen.append(path.read_bytes())
                    (box.folder / "go").touch()
                    return
                time.sleep(0.01)

        watcher = threading.Thread(target=watch)
        watcher.start()
        script = "echo one; while ! test -e go; do sleep 0.01; done; printf 'two\\377'; echo err >&2"
        done = box.execute(["sh", "-c", script], 20, stdout_file=path)
        watcher.join()
        assert seen == [b"one\n"]
        assert path.read_bytes() == b"one\ntwo\xff"
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "err\n")

    def test_output_before_the_timeout_is_kept(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "echo begun; sleep 60"], 0.5)
        assert (done.returncode, done.stdout, done.timed_out) == (None, "begun\n", True)
        assert 0.5 <= done.wall_s < 5

    @given(st.lists(st.text(alphabet="aé漢😀\n", max_size=30)), st.integers(0, 40), st.integers(1, 7))
    def test_kept_text(self, parts: list[str], limit: int, size: int) -> None:
        text = "".join(parts)
        data = text.encode()
        kept = KeptText(limit)
        for at in range(0, len(data), size):
            kept.take(data[at : at + size])
        if len(text) <= limit:
            assert kept.text() == text
        else:
            tail = limit // 2
            cut = f"\n[… {len(text) - limit} characters cut …]\n"
            assert kept.text() == text[: limit - tail] + cut + text[len(text) - tail :]

    def test_kept_file_has_a_limit(self, tmp_path: Path) -> None:
        with (tmp_path / "out").open("wb") as stream:
            kept = KeptFile(stream, 5)
            for piece in (b"abc", b"def", b"ghi"):
                kept.take(piece)
        assert (tmp_path / "out").read_bytes() == b"abcde"


class TestLimits:
    def test_size_of_files(self, box: Sandbox) -> None:
        assert box.execute(["truncate", "-s", "255M", "small"], 20).returncode == 0
        assert box.execute(["truncate", "-s", "257M", "big"], 20).returncode != 0

    def test_open_files_and_core_dumps(self, box: Sandbox) -> None:
        script = "import resource as r; print(r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_NOFILE)[1] <= 4096)"
        assert box.execute(["python", "-c", script], 20).stdout == "(0, 0) True\n"


class TestEnd:
    def test_interrupt_ends_it(self, box: Sandbox) -> None:
        def interrupt() -> None:
            until = time.monotonic() + 10
            while not (box.folder / "beat").exists() and time.monotonic() < until:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            box.execute(["sh", "-c", "while :; do echo x >> beat; sleep 0.01; done"], 30)
        assert _grows(box.folder / "beat") is False

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_death_of_the_caller_ends_it(self, box: Sandbox, number: int, tmp_path: Path) -> None:
        script = (
            "import sys; from pathlib import Path; from lmev2.agent.sandbox import Sandbox\n"
            "command = 'setsid sh -c \"while :; do echo x >> beat; sleep 0.01; done\" & sleep 60'\n"
            "Sandbox(Path(sys.argv[1]), sys.argv[2]).execute(['sh', '-c', command], 60)"
        )
        beat = box.folder / "beat"
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        command = [sys.executable, "-c", script, str(box.folder), box.isolation]
        with subprocess.Popen(command, env=environment) as caller:
            until = time.monotonic() + 20
            while not beat.exists() and time.monotonic() < until:
                time.sleep(0.01)
            assert _grows(beat)
            caller.send_signal(number)
        until = time.monotonic() + 5
        while _grows(beat):
            assert time.monotonic() < until

    def test_something_that_holds_the_output(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "setsid sleep 60 & echo done"], 20)
        assert done.stdout == "done\n" and not done.timed_out and done.wall_s < 5

    def test_no_descriptor_and_no_process_is_left(self, box: Sandbox) -> None:
        box.execute(["true"], 20)
        before = sorted(os.listdir("/proc/self/fd"))
        for command in (["true"], ["no-such-program"], ["sleep", "60"], ["echo", "x" * 3_000_000]):
            box.execute(command, 0.3)
        assert sorted(os.listdir("/proc/self/fd")) == before
        with pytest.raises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_time_runs_out_at_once(self, box: Sandbox) -> None:
        done = box.execute(["sh", "-c", "sleep 0.2; touch late"], 0)
        assert done.timed_out
        time.sleep(0.4)
        assert not (box.folder / "late").exists()


def _grows(path: Path) -> bool:
    size = path.stat().st_size
    time.sleep(0.15)
    return path.stat().st_size > size


class TestMounts:
    @pytest.mark.parametrize("kind", KINDS)
    def test_folder_and_file(self, kind: Isolation, tmp_path: Path, pool: Path) -> None:
        one, two = Mount(pool, "trajectories/t1"), Mount(pool / "trajectory.json", "top.json")
        box = _open(kind, tmp_path, one)
        paths = [f"{box.path_inside(one)}/trajectory.json", box.path_inside(two)]
        assert paths == [f"{box.inside}/trajectories/t1/trajectory.json", f"{box.inside}/top.json"]
        assert box.execute(["cat", *paths], 20, mounts=[two]).stdout == "a state" * 2
        assert box.execute(["cat", *paths], 20).stdout == "a state", "the second was for one command"

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("target", ["/agent/t1", "/usr/local/share/codex", "/home/agent/.codex", "source"])
    def test_absolute_target(self, kind: Isolation, tmp_path: Path, pool: Path, target: str) -> None:
        mount = Mount(pool, str(pool) if target == "source" else target)
        box = _open(kind, tmp_path)
        path = box.path_inside(mount)
        assert path == (mount.target if kind == "bubblewrap" else str(pool))
        assert box.execute(["cat", f"{path}/trajectory.json"], 20, mounts=[mount]).stdout == "a state"

    def test_links_are_gone_without_isolation(self, tmp_path: Path, pool: Path) -> None:
        box = _open("none", tmp_path, Mount(pool, "trajectories/t1"), Mount(pool, "mine"))
        (box.folder / "mine").mkdir()
        (box.folder / "mine" / "note").write_text("kept")
        done = box.execute(["sh", "-c", "readlink trajectories/t1; exit 3"], 20)
        assert done.stdout.strip() == str(pool)
        box.execute(["sleep", "60"], 0.2)
        assert sorted(path.name[:6] for path in box.folder.iterdir()) == [".mine.", "trajec"]
        assert list((box.folder / "trajectories").iterdir()) == []
        assert [path.read_text() for path in box.folder.glob(".mine.*/note")] == ["kept"], "moved aside, not lost"

    def test_links_of_commands_that_overlap(self, tmp_path: Path, pool: Path) -> None:
        box = _open("none", tmp_path, Mount(pool, "trajectories/t1"))
        longer = threading.Thread(target=box.execute, args=(["sleep", "0.5"], 20))
        longer.start()
        done = box.execute(["cat", "extra/trajectory.json"], 20, mounts=[Mount(pool, "extra")])
        longer.join()
        assert done.stdout == "a state"
        assert [path.name for path in box.folder.rglob("*")] == ["trajectories"]

    @needs_bwrap
    def test_mount_in_a_mount(self, tmp_path: Path, pool: Path) -> None:
        (tmp_path / "outer" / "t1").mkdir(parents=True)
        box = _open("bubblewrap", tmp_path, Mount(pool, "trajectories/t1"), Mount(tmp_path / "outer", "trajectories"))
        assert box.execute(["cat", "trajectories/t1/trajectory.json"], 20).stdout == "a state"

    @needs_bwrap
    def test_the_folder_made_unusable_by_its_agent(self, tmp_path: Path, pool: Path) -> None:
        box = _open("bubblewrap", tmp_path, Mount(pool, "trajectories/t1"))
        box.execute(["chmod", "0", "."], 20)
        assert box.execute(["cat", "trajectories/t1/trajectory.json"], 20).stdout == "a state"

    @needs_bwrap
    def test_many(self, tmp_path: Path, pool: Path) -> None:
        """A large haystack: its options would not fit into a command line."""
        name = "t" * 200
        box = _open("bubblewrap", tmp_path, *(Mount(pool, f"trajectories/{name}{number}") for number in range(500)))
        done = box.execute(["sh", "-c", "cat trajectories/*/trajectory.json | wc -c"], 60)
        assert done.stdout.strip() == str(500 * len("a state"))

    @needs_bwrap
    def test_missing_source(self, tmp_path: Path) -> None:
        box = _open("bubblewrap", tmp_path, Mount(tmp_path / "gone", "trajectories/t1"))
        with pytest.raises(ModelSetupError, match="gone: No such file"):
            box.execute(["true"], 20)

    @pytest.mark.parametrize(
        "target", ["../x", "a/../b", ".", "a//b", "/", "/sandbox/x", "/proc/x", "/usr", "/python/bin/x", ""]
    )
    def test_impossible_targets(self, tmp_path: Path, pool: Path, target: str) -> None:
        with pytest.raises(ValueError, match="mount target"):
            _open("none", tmp_path, Mount(pool, target))

    def test_impossible_mounts(self, tmp_path: Path, pool: Path) -> None:
        with pytest.raises(ValueError, match="twice"):
            _open("none", tmp_path, Mount(pool, "a"), Mount(pool, "a"))
        with pytest.raises(ValueError, match="not absolute"):
            _open("none", tmp_path, Mount(Path("pool"), "a"))

    def test_folder_that_every_sandbox_shows(self) -> None:
        with pytest.raises(ModelSetupError, match="every sandbox shows"):
            Sandbox(Path("/usr/share"))


class TestModelSocket:
    @pytest.fixture
    def echo(self) -> Iterator[Path]:
        """A socket that says back what it hears, until the other side has said all."""
        with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as server:
            path = Path(name) / "s"
            server.bind(str(path))
            server.listen(8)

            def serve() -> None:
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

            def answer(connection: socket.socket) -> None:
                with connection:
                    while data := connection.recv(65536):
                        connection.sendall(data)
                    connection.sendall(b"!")

            threading.Thread(target=serve, daemon=True).start()
            yield path
            server.shutdown(socket.SHUT_RDWR)

    def test_reaches_it(self, box: Sandbox, echo: Path) -> None:
        port = _free_port()
        script = (
            "import socket\n"
            "for n in range(3):\n"
            f"    s = socket.create_connection(('127.0.0.1', {port}))\n"
            "    s.sendall(b'x' * 100000); s.shutdown(socket.SHUT_WR)\n"
            "    print(len(b''.join(iter(lambda: s.recv(65536), b''))))"
        )
        done = box.execute(["python", "-c", script], 20, model_socket=echo, model_port=port)
        assert (done.stdout, done.stderr) == ("100001\n" * 3, "")

    def test_nobody_behind_it(self, box: Sandbox, tmp_path: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "s"
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
            port = _free_port()
            script = f"import socket; s = socket.create_connection(('127.0.0.1', {port})); print(s.recv(1))"
            done = box.execute(["python", "-c", script], 20, model_socket=path, model_port=port)
        assert done.stdout == "b''\n" or "reset" in done.stderr.lower()

    def test_port_that_is_taken(self, tmp_path: Path, echo: Path) -> None:
        """Without isolation the port is one of this machine's."""
        with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ModelSetupError, match="cannot be opened"):
            _open("none", tmp_path).execute(["true"], 20, model_socket=echo, model_port=server.getsockname()[1])


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
