"""A Slurm cluster of one node on this machine: munge, controller and node, in a folder of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
NODE = "node1"
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_START_S = 20
_STOP_S = 15

# Without cgroups, systemd, accounting or a user of its own; nothing but loopback is listened on.
_CONFIGURATION = """\
ClusterName=onenode
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdParameters=config_overrides
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MinJobAge=86400
NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory_mb} State=UNKNOWN
PartitionName=main Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        folder: of configuration, logs, state and spool.
        environment: variables that Slurm's programs need to find it.
    """

    folder: Path
    environment: dict[str, str]

    def log(self, program: str) -> str:
        """What a daemon has said so far."""
        return (self.folder / f"{program}.log").read_text(encoding="utf-8", errors="replace")

    def ask(self, *command: str) -> str:
        """What a program of Slurm prints."""
        return _ask(command, self.environment)


def missing() -> str:
    """Why no cluster can be started here; empty where one can."""
    if os.geteuid() != 0:
        return "Slurm's daemons are started as root here, so that no user must be added"
    absent = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    return f"needs {', '.join(absent)} (Debian's packages slurm-wlm and munge)" if absent else ""


@contextmanager
def started(folder: Path, cores: int, memory_mb: int) -> Iterator[Cluster]:
    """Start a cluster whose node has so many cores and so much memory, whatever the machine has; at the end, stop what
    was started.

    Raises:
        RuntimeError: a daemon ended, or did not get ready; says what it logged.
    """
    for name in ("bin", "munge", "state", "spool"):
        (folder / name).mkdir(parents=True, mode=0o700)
    key = folder / "munge" / "key"
    key.touch(mode=0o400)
    key.write_bytes(os.urandom(1024))
    configuration = folder / "slurm.conf"
    controller_port, node_port = _free_ports(2)
    values = {"controller_port": controller_port, "node_port": node_port, "node": NODE}
    values |= {"folder": folder, "cores": cores, "memory_mb": memory_mb}
    configuration.write_text(_CONFIGURATION.format(**values), encoding="utf-8")
    # Snakemake's executor takes SLURM_CONF, as all of Slurm's variables, away from the `srun` inside a job.
    wrapper = folder / "bin" / "srun"
    wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={configuration} exec {shutil.which("srun", path=_PATH)} "$@"\n')
    wrapper.chmod(0o755)
    environment = {"SLURM_CONF": str(configuration), "PATH": f"{wrapper.parent}{os.pathsep}{_PATH}"}
    # --force: the folder need not be open to other users, who have no part in this.
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge/socket"]
    munge += [f"--{name}-file={folder}/munge/{name}" for name in ("pid", "seed")]
    with ExitStack() as running:
        cluster = Cluster(folder, environment)
        daemon = _start(running, cluster, munge)
        _wait(cluster, daemon, "munged", lambda: (folder / "munge" / "socket").is_socket())
        daemon = _start(running, cluster, ["slurmctld", "-D", "-i"])
        _wait(cluster, daemon, "slurmctld", lambda: "is UP" in cluster.ask("scontrol", "ping"))
        # Slurm is told the node's size; -D stays in the foreground, so that its number is the one to stop.
        daemon = _start(running, cluster, ["slurmd", "-D", "-N", NODE])
        _wait(cluster, daemon, "slurmd", lambda: cluster.ask("sinfo", "--noheader", "--format=%t").strip() == "idle")
        yield cluster


def _start(running: ExitStack, cluster: Cluster, command: list[str]) -> subprocess.Popen[bytes]:
    """Start a daemon in the foreground; it is stopped when ``running`` ends."""
    program = str(shutil.which(command[0], path=_PATH))
    with open(cluster.folder / f"{command[0]}.log", "wb") as log:
        daemon = subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **cluster.environment},
        )
    running.callback(_stop, daemon)
    return daemon


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _wait(cluster: Cluster, daemon: subprocess.Popen[bytes], name: str, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + _START_S
    while not ready():
        if daemon.poll() is not None or time.monotonic() > end:
            state = "ended" if daemon.poll() is not None else f"was not ready after {_START_S} s"
            raise RuntimeError(f"{name} {state}; it said:\n{cluster.log(name)[-2000:]}")
        time.sleep(0.1)


def _ask(command: tuple[str, ...], environment: dict[str, str]) -> str:
    asked = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)
    return asked.stdout


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
