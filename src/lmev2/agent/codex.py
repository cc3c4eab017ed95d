"""The agent ``codex``: the Codex CLI in a sandbox, its model behind a gateway that adds the key.

The CLI gets a provider of its own at a port of the sandbox's loopback. It talks the Responses API only. Web search,
sub-agents, skills and plugins are off, and so is all that calls its maker: that would leave the machine without
isolation, and with it each run would wait five seconds for names that nobody resolves.

Inside Bubblewrap its own sandbox is off, since it would only be in the way. With ``isolation: none`` it is what there
is, and it hides nothing: commands can read whatever this user can, and write to the sandbox's folder and temporary
files. Sampling settings do not apply: the CLI sends none. Failures that pass are repeated by the gateway, which knows
the time that they cost; the CLI itself begins anew only where a stream breaks off.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from lmev2.agent.codex_events import CodexTrace, read_events
from lmev2.agent.gateway import Gateway
from lmev2.agent.masking import Mask
from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import AgentRun, Box, Execution, Mount, Task
from lmev2.models.openai_endpoint import read_access
from lmev2.models.retry import RetryPolicy
from lmev2.models.stopwatch import account
from lmev2.models.text import cut_middle, well_formed
from lmev2.models.types import ModelSetupError

INSTALLED = Path(".tools", "codex", "node_modules")  # below the pipeline's folder, by `make codex`
_PROGRAM_INSIDE = "/opt/codex/bin/codex"
_TOOLS_INSIDE = "/opt/codex/path"
_PORT_INSIDE = 8400  # free in a network of one's own
_PROVIDER = "pipeline"
_KEY_VARIABLE = "CODEX_PROVIDER_KEY"
# The gateway reads what is sent, so it must not be compressed.
_UNUSED_FEATURES = ("multi_agent", "plugins", "apps", "enable_request_compression")
_VERSION_S = 60
_DETAIL_CHARS = 500
# Ripgrep, which the CLI's instructions name, comes with it: after the sandbox's own programs.
_WITH_TOOLS = 'PATH="$PATH:$1"; shift; exec "$@"'
_PLATFORMS = {
    ("linux", "x86_64"): "x86_64-unknown-linux-musl",
    ("linux", "aarch64"): "aarch64-unknown-linux-musl",
    ("darwin", "x86_64"): "x86_64-apple-darwin",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}


class CodexAgent:
    """The Codex CLI, of exactly the version that the settings name.

    Args:
        settings: the role; ``served_name`` or ``model`` is the model's name, ``timeout_s`` the time without a byte, and
            ``retries`` how often a request is repeated. ``images`` says whether the question's image goes along.
        pipeline: folder of the Snakefile, below which ``make codex`` installs.
        policy: how patiently to repeat what the endpoint asked to repeat later.
    """

    def __init__(self, settings: AgentSettings, pipeline: Path, policy: RetryPolicy | None = None):
        self.settings = settings
        self.name = f"codex {settings.version}"
        self.model = settings.model
        self._pipeline = pipeline
        self._policy = policy or RetryPolicy.of(settings.retries, settings.retry_wait_s)

    def check(self) -> None:
        """Look for the program, its version, and the endpoint's address and key.

        Raises:
            ModelSetupError: something is missing, or the version is another one.
        """
        _ = self._program
        read_access(self.settings.endpoint)

    def run(self, box: Box, task: Task, timeout_s: float) -> AgentRun:
        """One attempt: ``codex exec`` until it ends its turn.

        Raises:
            ModelSetupError: program, address, key or sandbox is missing.
        """
        started = time.perf_counter()
        program, access = self._program, read_access(self.settings.endpoint)
        gateway = Gateway(
            access.base_url, access.api_key, self._asked_model, self._policy, timeout_s=self.settings.timeout_s
        )
        with tempfile.TemporaryDirectory(prefix="lmev2-codex-") as name, gateway as model_socket:
            printed = Path(name) / "events.jsonl"
            printed.touch()  # there also where nothing could be started
            mounts = _mounts(program)
            port = _PORT_INSIDE if self.settings.isolation == "bubblewrap" else _free_port()
            done = box.execute(
                self._command(box, task, mounts, port),
                timeout_s,
                stdin=task.prompt,
                variables={_KEY_VARIABLE: "none"},
                mounts=list(mounts.values()),
                model_socket=model_socket,
                model_port=port,
                stdout_file=printed,
                output_chars=_DETAIL_CHARS,
            )
            trace = read_events(printed, gateway.mask)
        account(gateway.waited_s, 0.0, gateway.waited_s)
        outcome, detail = _outcome(done, trace, timeout_s, gateway.mask)
        own = {
            "type": "pipeline",
            "isolation": self.settings.isolation,
            "skipped_lines": trace.skipped,
            "calls_without_usage": gateway.unmetered,
            "refused_requests": gateway.refused,
            "waited_s": round(gateway.waited_s, 3),
        }
        events = (own, *gateway.refusals, *trace.events)
        return AgentRun(outcome, detail, gateway.usage, trace.commands, time.perf_counter() - started, events)

    @property
    def _asked_model(self) -> str:
        """The model's name at the endpoint."""
        return self.settings.served_name or self.settings.model

    @functools.cached_property
    def _program(self) -> Path:
        program = find_program(self.settings.program, self._pipeline)
        found = program_version(program)
        if found != self.settings.version:
            raise ModelSetupError(
                f"{program} is Codex {found}, and `models.agent.version` asks for {self.settings.version}; install "
                "that version (`make codex` installs 0.117.0), or set `version` to the one that is there"
            )
        return program

    def _command(self, box: Box, task: Task, mounts: Mapping[str, Mount], port: int) -> list[str]:
        settings = self.settings
        provider = {
            "name": _PROVIDER,
            "base_url": f"http://127.0.0.1:{port}/v1",
            "env_key": _KEY_VARIABLE,
            "wire_api": "responses",
            # The gateway repeats requests. A stream that broke off halfway, only the CLI can begin anew.
            "request_max_retries": 0,
            "stream_max_retries": settings.retries,
            "stream_idle_timeout_ms": round(settings.timeout_s * 1000),
        }
        options: dict[str, object] = {
            "model_provider": _PROVIDER,
            **{f"model_providers.{_PROVIDER}.{name}": value for name, value in provider.items()},
            "web_search": "disabled",
            "skills.bundled.enabled": False,
            "allow_login_shell": False,  # it would forget the PATH
            "check_for_update_on_startup": False,
            "analytics.enabled": False,
            "otel.metrics_exporter": "none",
        }
        if settings.reasoning_effort is not None:
            options["model_reasoning_effort"] = settings.reasoning_effort
        own = ["--dangerously-bypass-approvals-and-sandbox"]
        if settings.isolation == "none":
            # Landlock: where its other sandbox works, Bubblewrap would have worked as well.
            own = ["--sandbox", "workspace-write", "--enable", "use_legacy_landlock"]
        command = [box.path_inside(mounts["program"]), "exec", "--json", "--ephemeral", "--skip-git-repo-check", *own]
        command += [word for feature in _UNUSED_FEATURES for word in ("--disable", feature)]
        command += ["-C", box.inside, "-m", self._asked_model]
        # A JSON string, number or boolean is one of TOML as well.
        command += [word for name, value in options.items() for word in ("-c", f"{name}={json.dumps(value)}")]
        command += [f"--image={image}" for image in task.images if settings.images]
        tools = ["sh", "-c", _WITH_TOOLS, "sh", box.path_inside(mounts["tools"])] if "tools" in mounts else []
        return [*tools, *command, "-"]


def find_program(program: str | None, pipeline: Path) -> Path:
    """The CLI's executable: the one that is named, else the one that ``make codex`` installed, else on PATH.

    The npm package's launcher is a script for node; the program beside it needs no node, and a sandbox has none.

    Raises:
        ModelSetupError: there is none; says where it was looked for.
    """
    if program is not None:
        found = shutil.which(os.path.expanduser(program))
        if found is None:
            raise ModelSetupError(f"`models.agent.program` names {program!r}, which is no executable file or command")
        return _behind_launcher(Path(found))
    installed = _packaged(pipeline / INSTALLED)
    if installed is not None:
        return installed
    on_path = shutil.which("codex")
    if on_path is None:
        raise ModelSetupError(
            f"agent 'codex' needs the Codex CLI: found none below {pipeline / INSTALLED} and no `codex` on PATH; "
            "`make codex` installs it (needs npm), or set `models.agent.program`"
        )
    return _behind_launcher(Path(on_path))


def program_version(program: Path) -> str:
    """What the program says that its version is.

    Raises:
        ModelSetupError: it cannot be run, or says nothing of the kind.
    """
    with tempfile.TemporaryDirectory(prefix="lmev2-codex-") as home:
        environment = {"HOME": home, "PATH": os.defpath}
        try:
            done = subprocess.run(
                [program, "--version"],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ModelSetupError(f"{program} --version cannot be run: {error}") from error
    words = done.stdout.decode("utf-8", "replace").split()
    if done.returncode != 0 or len(words) != 2 or not words[1][0].isdigit():
        raise ModelSetupError(f"{program} --version says {' '.join(words)[:100]!r}, expected a name and a version")
    return words[1]


def _behind_launcher(program: Path) -> Path:
    """The program of the npm package that a launcher belongs to, or the file itself."""
    real = program.resolve()
    if real.name != "codex.js":
        return real
    package = real.parent.parent
    found = _packaged(package / "node_modules") or _packaged(package.parent.parent)
    if found is None:
        raise ModelSetupError(
            f"{program} is the launcher of an npm package without a program for this machine; `make codex` installs one"
        )
    return found


def _packaged(modules: Path) -> Path | None:
    """The program for this machine in a folder of npm packages."""
    triple = _PLATFORMS.get((sys.platform, platform.machine()), "unknown")
    return next(iter(sorted(modules.glob(f"@openai/codex*/vendor/{triple}/codex/codex"))), None)


def _mounts(program: Path) -> dict[str, Mount]:
    """The program, and the folder of tools that comes with it in its package."""
    mounts = {"program": Mount(program, _PROGRAM_INSIDE)}
    tools = program.parent.parent / "path"
    if program.parent.name == "codex" and (tools / "rg").is_file():
        mounts["tools"] = Mount(tools, _TOOLS_INSIDE)
    return mounts


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _outcome(
    done: Execution, trace: CodexTrace, timeout_s: float, mask: Mask
) -> tuple[Literal["finished", "timeout", "crashed"], str | None]:
    if done.timed_out:
        return "timeout", f"no end within {timeout_s:g} s"
    if done.returncode == 0 and trace.completed:
        return "finished", None
    said = trace.failure or done.stderr.strip() or "it did not complete its turn"
    return "crashed", cut_middle(well_formed(mask(f"exit code {done.returncode}: {said}")), _DETAIL_CHARS)
