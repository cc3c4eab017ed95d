"""The real Codex CLI against a scripted Responses API, in a real sandbox; and what stands in the way of it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from bwrap import needs_bwrap
from PIL import Image
from responsesserver import ResponsesServer, Turn, say, shell

from lmev2.agent.codex import INSTALLED, CodexAgent, find_program, program_version
from lmev2.agent.output import read_memory
from lmev2.agent.sandbox import Sandbox
from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import MEMORY_FILE, AgentRun, Mount, Task, Usage
from lmev2.models.retry import RetryPolicy
from lmev2.models.stopwatch import collect
from lmev2.models.types import ModelSetupError

PIPELINE = Path(__file__).resolve().parents[2]
ENDPOINT = "LMEV2_CODEX_TEST"
KEY = "sk-secret-of-this-test"
OUTPUT = {
    "memory_markdown": "## Support Analysis\nState 1.",
    "trajectory_spans": [{"trajectory_id": "t1", "start_state_index": 1, "end_state_index": 1}],
}
WRITE = f"printf '%s' '{json.dumps(OUTPUT)}' > {MEMORY_FILE}"


def _installed() -> bool:
    return any((PIPELINE / INSTALLED).glob("@openai/codex*/vendor/*/codex/codex"))


needs_codex = pytest.mark.skipif(not _installed(), reason="needs the Codex CLI; `make codex` installs it")


def settings(**more: Any) -> AgentSettings:
    values = {"agent": "codex", "backend": "openai", "model": "gpt-5.4-mini", "endpoint": ENDPOINT, **more}
    return AgentSettings.model_validate(values)


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return make_box(tmp_path)


def make_box(tmp_path: Path, isolation: str = "bubblewrap") -> Sandbox:
    folder, pool = tmp_path / "box", tmp_path / "pool" / "t1"
    folder.mkdir()
    pool.mkdir(parents=True)
    (pool / "trajectory.json").write_text('{"id": "t1", "states": [{}, {}]}')
    (tmp_path / "gold.json").write_text("the gold answer")
    (folder / "trajectories" / "t1").mkdir(parents=True)
    Image.new("RGB", (8, 8), "red").save(folder / "question_image.png")
    return Sandbox(folder, isolation, [Mount(pool, "trajectories/t1")])  # type: ignore[arg-type]


def ask(
    monkeypatch: pytest.MonkeyPatch,
    box: Sandbox,
    turns: Sequence[Turn] | Callable[[int, dict[str, Any]], Turn],
    timeout_s: float = 60,
    **more: Any,
) -> tuple[AgentRun, ResponsesServer]:
    with ResponsesServer(turns) as server:
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", server.url)
        monkeypatch.setenv(f"{ENDPOINT}_API_KEY", KEY)
        policy = RetryPolicy(retries=2, first_wait_s=0.05, jitter_s=0, longest_retry_after_s=0.5)
        agent = CodexAgent(settings(isolation=box.isolation, retries=1, **more), PIPELINE, policy)
        agent.check()
        run = agent.run(box, Task("Look for the evidence.", MEMORY_FILE, ("question_image.png",)), timeout_s)
    assert KEY not in repr(run)
    assert str(server.port) not in repr(run)
    json.dumps(run.events)
    return run, server


def outputs(server: ResponsesServer) -> str:
    """What commands printed, as the model was told: the CLI's own events sometimes leave it out."""
    items = server.requests[-1].body["input"]
    return "\n".join(str(item["output"]) for item in items if item.get("type") == "function_call_output")


@needs_codex
@needs_bwrap
def test_a_memory_is_written_in_a_sandbox(monkeypatch: pytest.MonkeyPatch, box: Sandbox, tmp_path: Path) -> None:
    look = f"ls; cat trajectories/t1/trajectory.json; rg -c states trajectories; cat {tmp_path}/gold.json; env; pwd"
    turns = [
        Turn((shell(look),), (1000, 100, 50, 20)),
        Turn((shell(WRITE), shell("python --version")), (2000, 1500, 60, 30)),
        Turn((say("Done"),), (3000, 2500, 10, 0)),
    ]
    run, server = ask(monkeypatch, box, turns, reasoning_effort="xhigh")
    assert (run.outcome, run.detail) == ("finished", None)
    assert read_memory(box.folder, {"t1": 2}, 20).states == 1
    assert run.commands == 3
    assert run.usage == Usage(3, 6000, 4100, 120, 50)
    assert run.events[0] == {
        "type": "pipeline",
        "isolation": "bubblewrap",
        "skipped_lines": 0,
        "calls_without_usage": 0,
        "refused_requests": 0,
        "waited_s": 0.0,
    }
    commands = [event["item"]["command"] for event in run.events if event["type"] == "item.started"]
    assert any(MEMORY_FILE in command for command in commands)
    assert not any(" -lc " in command for command in commands)
    seen = outputs(server)
    assert '"id": "t1"' in seen and "trajectory.json:1" in seen
    assert "the gold answer" not in seen and "/sandbox" in seen
    first = server.requests[0]
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert (first.body["model"], first.body["reasoning"]["effort"]) == ("gpt-5.4-mini", "xhigh")
    assert "Look for the evidence." in json.dumps(first.body["input"])
    assert "input_image" not in json.dumps(first.body["input"])
    tools = {tool.get("name") or tool["type"] for tool in first.body["tools"]}
    assert "exec_command" in tools and not {"web_search", "spawn_agent"} & tools
    assert "skills" not in json.dumps(first.body["input"])


@needs_codex
@needs_bwrap
def test_the_questions_image_goes_to_a_model_that_reads_images(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> None:
    run, server = ask(monkeypatch, box, [Turn((say("Done"),))], images=True)
    assert run.outcome == "finished"
    assert "data:image/png;base64," in json.dumps(server.requests[0].body["input"])


@needs_codex
@needs_bwrap
def test_a_rate_limit_is_waited_for_and_does_not_count(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> None:
    limited = Turn(status=429, headers={"retry-after": "60"})
    with collect() as ledger:
        run, server = ask(monkeypatch, box, [limited, limited, Turn((say("Done"),))])
    assert (run.outcome, run.usage.requests, len(server.requests)) == ("finished", 1, 3)
    assert ledger.waited_s == pytest.approx(1.0, abs=0.2)
    assert ledger.honest_s <= ledger.elapsed_s - 1.0
    run, server = ask(monkeypatch, box, [limited])
    assert (run.outcome, len(server.requests)) == ("crashed", 3)


@needs_codex
@needs_bwrap
@pytest.mark.parametrize(("status", "error"), [(500, "broken"), (400, "no such model"), (401, f"wrong key {KEY}")])
def test_an_endpoint_that_fails_is_a_crash(
    monkeypatch: pytest.MonkeyPatch, box: Sandbox, status: int, error: str
) -> None:
    turns = [Turn((shell("true"),)), Turn(status=status, error=error)]
    run, server = ask(monkeypatch, box, turns)
    assert run.outcome == "crashed"
    assert run.detail is not None and run.detail.startswith("exit code 1: ")
    assert (run.commands, run.usage.requests) == (1, 1)
    assert 2 <= len(server.requests) <= 4
    assert run.events[-1]["type"] == "turn.failed"


@needs_codex
@needs_bwrap
def test_an_attempt_that_runs_out_of_time_or_crashes_costs_what_it_used(
    monkeypatch: pytest.MonkeyPatch, box: Sandbox
) -> None:
    first = Turn((shell("true"),), (100_000, 90_000, 5000, 4000))
    hanging = Turn((shell("sleep 60"),), (200_000, 150_000, 700, 300))
    run, _ = ask(monkeypatch, box, [first, hanging], timeout_s=6)
    assert (run.outcome, run.usage) == ("timeout", Usage(2, 300_000, 240_000, 5700, 4300))
    run, _ = ask(monkeypatch, box, [first, Turn(status=400, error="too long")])
    assert (run.outcome, run.usage) == ("crashed", Usage(1, 100_000, 90_000, 5000, 4000))


@needs_codex
@needs_bwrap
def test_failures_that_pass_are_waited_for_and_do_not_count(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> None:
    """Also without a Retry-After, and where the connection breaks: the CLI's own pauses would count."""
    for failure in (Turn(status=503), Turn(status=500), Turn(hang_up=True)):
        with collect() as ledger:
            run, server = ask(monkeypatch, box, [failure, failure, Turn((say("Done"),))])
        assert (run.outcome, run.usage.requests, len(server.requests)) == ("finished", 1, 3)
        # policy: 0.05 s, then 0.1 s
        assert ledger.waited_s == pytest.approx(0.15, abs=0.1)
        assert run.events[0]["waited_s"] == pytest.approx(ledger.waited_s, abs=0.001)
        assert not any(event["type"] == "error" for event in run.events)


@needs_codex
@needs_bwrap
@pytest.mark.parametrize(("status", "asked"), [(500, 3), (503, 3), (429, 3), (401, 1), (403, 1), (404, 1), (400, 1)])
def test_only_the_gateway_repeats(monkeypatch: pytest.MonkeyPatch, box: Sandbox, status: int, asked: int) -> None:
    run, server = ask(monkeypatch, box, [Turn(status=status, error="these words")])
    assert (run.outcome, len(server.requests)) == ("crashed", asked)
    assert str(status) in str(run.detail) or status == 400
    assert "these words" in str(run.detail)


@needs_codex
@needs_bwrap
def test_a_stream_that_breaks_off_is_begun_anew_by_the_cli(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> None:
    broken = Turn((say("Lo"),), break_off=True)
    with collect() as ledger:
        run, server = ask(monkeypatch, box, [broken, Turn((say("Done"),), (10, 0, 5, 0))])
    assert (run.outcome, run.usage, len(server.requests)) == ("finished", Usage(2, 10, 0, 5, 0), 2)
    assert run.events[0]["calls_without_usage"] == 1 and ledger.waited_s == 0
    run, server = ask(monkeypatch, box, [broken])
    # `retries` is 1
    assert (run.outcome, len(server.requests)) == ("crashed", 2)


@needs_codex
@needs_bwrap
def test_commands_get_nothing_else_from_the_endpoint(
    monkeypatch: pytest.MonkeyPatch, box: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = [
        {"model": "gpt-5.4-mini", "input": "x", "tools": [{"type": "web_search"}]},
        {"model": "gpt-other", "input": "x"},
        {"model": "gpt-5.4-mini", "input": "mine"},
    ]
    (box.folder / "ask.py").write_text(
        "import json, urllib.error, urllib.request as u\n"
        f"for body in json.loads({json.dumps(json.dumps(bodies))}):\n"
        "    request = u.Request('http://127.0.0.1:8400/v1/responses', json.dumps(body).encode())\n"
        "    try:\n"
        "        print('status', u.urlopen(request).status)\n"
        "    except urllib.error.HTTPError as error:\n"
        "        print('status', error.code, error.read().decode())\n"
    )
    turns = [
        Turn((shell("python ask.py > statuses.txt"),), (10, 0, 5, 0)),
        Turn((say("For a command"),), (1000, 0, 500, 0)),
        Turn((say("Done"),), (10, 0, 5, 0)),
    ]
    with caplog.at_level("WARNING", "lmev2.agent"):
        run, server = ask(monkeypatch, box, turns)
    assert (run.outcome, len(server.requests), run.usage) == ("finished", 3, Usage(3, 1020, 0, 510, 0))
    assert not any("web_search" in json.dumps(one.body.get("tools", [])) for one in server.requests)
    seen = (box.folder / "statuses.txt").read_text()  # the CLI does not always tell what a command printed
    assert seen.count("status 403") == 2 and seen.count("status 200") == 1
    refused = [event for event in run.events if event["type"] == "gateway.refused"]
    assert [event["path"] for event in refused] == ["/v1/responses"] * 2
    assert "web_search" in refused[0]["reason"] and "gpt-other" in refused[1]["reason"]
    assert sum("gpt-other" in record.getMessage() for record in caplog.records) == 1


@needs_codex
@needs_bwrap
@pytest.mark.parametrize("key", ["token", "EMPTY", "function", "type"])
def test_a_key_that_is_a_word_changes_nothing(monkeypatch: pytest.MonkeyPatch, box: Sandbox, key: str) -> None:
    turns = [Turn((shell("echo the token of type function is EMPTY"),), (10, 4, 5, 2)), Turn((say("Done"),))]
    with ResponsesServer(turns) as server:
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", server.url)
        monkeypatch.setenv(f"{ENDPOINT}_API_KEY", key)
        agent = CodexAgent(settings(), PIPELINE, RetryPolicy(retries=0))
        run = agent.run(box, Task("Look.", MEMORY_FILE), 60)
    assert (run.outcome, run.usage) == ("finished", Usage(2, 1010, 104, 55, 22))
    assert "the token of type function is EMPTY" in outputs(server)
    assert {one.headers["authorization"] for one in server.requests} == {f"Bearer {key}"}


@needs_codex
@needs_bwrap
def test_everything_that_the_cli_asks_is_let_through(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> None:
    """Every kind of item that a conversation can hold, and the summary that it makes of one that grew too long."""
    patch = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch\n"
    look = {"type": "function_call", "name": "view_image", "arguments": json.dumps({"path": "question_image.png"})}
    plan = {"plan": [{"step": "Look", "status": "in_progress"}]}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "abc"}
    turns = [
        Turn((thought, say("I look."), shell("ls"))),
        Turn((thought, {"type": "custom_tool_call", "name": "apply_patch", "input": patch})),
        Turn((look, {"type": "function_call", "name": "update_plan", "arguments": json.dumps(plan)})),
        Turn((shell("true"),), (10_000_000, 0, 50, 0)),
        Turn((say("A summary."),)),
        Turn((say("Done"),)),
    ]
    for model in ("gpt-5.4-mini", "unknown-model"):
        run, server = ask(monkeypatch, box, turns, images=True, model=model, reasoning_effort="low")
        kinds = {item.get("type") for one in server.requests for item in one.body["input"]}
        assert (run.outcome, run.events[0]["refused_requests"]) == ("finished", 0), run.events
        assert {"message", "reasoning", "function_call", "function_call_output", "custom_tool_call"} <= kinds
        assert len(server.requests) == 6
        assert (box.folder / "new.txt").exists()


@needs_codex
@needs_bwrap
def test_an_attempt_ends_in_time_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> None:
    started = time.perf_counter()
    turns = [Turn((shell("(while true; do date +%s%N > beat; sleep 0.05; done) & sleep 60"),))]
    run, _ = ask(monkeypatch, box, turns, timeout_s=3)
    assert (run.outcome, run.commands) == ("timeout", 1)
    assert time.perf_counter() - started < 20
    beat = (box.folder / "beat").read_text()
    time.sleep(0.3)
    assert (box.folder / "beat").read_text() == beat


@needs_codex
@needs_bwrap
def test_a_slow_endpoint_is_a_timeout(monkeypatch: pytest.MonkeyPatch, box: Sandbox) -> None:
    run, _ = ask(monkeypatch, box, [Turn((say("Done"),), delay_s=8)], timeout_s=2)
    assert run.outcome == "timeout"


@needs_codex
def test_without_isolation_its_own_sandbox_keeps_it_from_writing_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    if PIPELINE.is_relative_to(Path(tempfile.gettempdir()).resolve()):
        pytest.skip("this checkout lies below the temporary folder, which Codex's own sandbox lets commands write to")
    box = make_box(tmp_path, "none")
    outside = PIPELINE / ".tools" / "written-by-an-agent"
    turns = [Turn((shell(f"{WRITE}; touch {outside}; cat {tmp_path}/gold.json"),)), Turn((say("Done"),))]
    run, server = ask(monkeypatch, box, turns)
    try:
        assert run.outcome == "finished"
        assert read_memory(box.folder, {"t1": 2}, 20).states == 1
        assert not outside.exists()
        assert "the gold answer" in outputs(server)
    finally:
        outside.unlink(missing_ok=True)


# Without the real program


def fake(path: Path, says: str, code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_another_version_is_refused(tmp_path: Path) -> None:
    program = fake(tmp_path / "codex", "codex-cli 0.118.0")
    with pytest.raises(ModelSetupError, match=r"Codex 0\.118\.0.*0\.117\.0.*make codex"):
        CodexAgent(settings(program=str(program)), tmp_path).check()
    assert program_version(program) == "0.118.0"


@pytest.mark.parametrize(
    ("says", "code"), [("", 0), ("codex-cli 0.117.0", 1), ("Usage: codex", 0), ("one two three", 0)]
)
def test_a_program_that_names_no_version_is_refused(tmp_path: Path, says: str, code: int) -> None:
    with pytest.raises(ModelSetupError, match="expected a name and a version"):
        program_version(fake(tmp_path / "codex", says, code))


def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "codex").write_text("\x7fELF but not really")
    (tmp_path / "codex").chmod(0o755)
    with pytest.raises(ModelSetupError, match="cannot be run"):
        program_version(tmp_path / "codex")


def test_no_program_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelSetupError, match=r"make codex.*models\.agent\.program"):
        find_program(None, tmp_path)
    with pytest.raises(ModelSetupError, match="no executable file or command"):
        find_program(str(tmp_path / "none"), tmp_path)


def test_the_address_is_checked_before_any_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(f"{ENDPOINT}_BASE_URL", raising=False)
    program = fake(tmp_path / "codex", "codex-cli 0.117.0")
    with pytest.raises(ModelSetupError, match=f"{ENDPOINT}_BASE_URL"):
        CodexAgent(settings(program=str(program)), tmp_path).check()


def _package(modules: Path) -> tuple[Path, Path]:
    """Launcher and programs of an npm package, for every platform."""
    launcher = modules / "@openai/codex/bin/codex.js"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("#!/usr/bin/env node\n")
    launcher.chmod(0o755)
    for triple in (
        "x86_64-unknown-linux-musl",
        "aarch64-unknown-linux-musl",
        "x86_64-apple-darwin",
        "aarch64-apple-darwin",
    ):
        fake(modules / f"@openai/codex-x/vendor/{triple}/codex/codex", f"codex-cli {triple}")
    return launcher, modules / "@openai/codex-x/vendor"


def test_the_program_is_found_where_it_was_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pipeline, elsewhere = tmp_path / "pipeline", tmp_path / "elsewhere"
    launcher, vendor = _package(elsewhere / "node_modules")
    (elsewhere / "bin").mkdir()
    (elsewhere / "bin" / "codex").symlink_to(launcher)
    monkeypatch.setenv("PATH", str(elsewhere / "bin"))
    assert find_program(None, pipeline).is_relative_to(vendor)
    assert find_program(str(launcher), pipeline).is_relative_to(vendor)
    _, installed = _package(pipeline / INSTALLED)
    assert find_program(None, pipeline).is_relative_to(installed)
    plain = fake(tmp_path / "plain", "codex-cli 0.117.0")
    assert find_program(str(plain), pipeline) == plain


def test_a_launcher_without_its_program_is_refused(tmp_path: Path) -> None:
    launcher = fake(tmp_path / "node_modules/@openai/codex/bin/codex.js", "")
    with pytest.raises(ModelSetupError, match="launcher of an npm package"):
        find_program(str(launcher), tmp_path)
