"""The agent loop over an endpoint and over a scripted backend, in a sandbox that is a plain folder."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bwrap import needs_bwrap
from chatserver import Answer, Call, ChatServer, completion
from PIL import Image

from lmev2.agent.loop import LoopAgent
from lmev2.agent.loop_tools import StateCounts, host_path, read_image
from lmev2.agent.output import read_answer, read_memory
from lmev2.agent.sandbox import Sandbox
from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import ANSWER_FILE, MEMORY_FILE, AgentRun, Box, Execution, Mount, Task, Usage
from lmev2.models.retry import RetryPolicy
from lmev2.models.scripted import Rule, ScriptedChat
from lmev2.models.settings import ImageTokenSettings
from lmev2.models.stopwatch import collect
from lmev2.models.types import ChatReply, ChatRequest, ImagePart, ModelSetupError

ENDPOINT = "LMEV2_LOOP_TEST"
KEY = "sk-secret-of-this-test"


class FolderBox:
    """A sandbox without isolation: commands run in the folder itself."""

    def __init__(self, folder: Path, mounts: Sequence[Mount]):
        self.folder, self.mounts, self.inside = folder, mounts, "/sandbox"
        self.timeouts: list[float] = []

    def path_inside(self, mount: Mount) -> str:
        return str(mount.source)

    def execute(self, command: Sequence[str], timeout_s: float, *, output_chars: int = 100_000, **_: Any) -> Execution:
        self.timeouts.append(timeout_s)
        started = time.perf_counter()
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return Execution(None, "", "", True, time.perf_counter() - started)
        wall_s = time.perf_counter() - started
        return Execution(done.returncode, done.stdout[:output_chars], done.stderr[:output_chars], False, wall_s)


@pytest.fixture
def box(tmp_path: Path) -> FolderBox:
    folder, pool = tmp_path / "sandbox", tmp_path / "pool"
    (folder / "trajectories" / "t1").mkdir(parents=True)
    (pool / "t1" / "screenshots").mkdir(parents=True)
    (pool / "t1" / "trajectory.json").write_text(json.dumps({"id": "t1", "states": [{}] * 4}))
    Image.new("RGB", (8, 6), "red").save(pool / "t1" / "screenshots" / "0000.png")
    Image.new("RGB", (8, 6), "blue").save(folder / "question_image.png")
    (tmp_path / "gold.json").write_text("the answer")
    return FolderBox(folder, [Mount(pool / "t1", "trajectories/t1")])


def task(output_file: str = MEMORY_FILE) -> Task:
    return Task("Find the evidence.", output_file, ("question_image.png",))


def call(tool: str, arguments: object, number: int = 0) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{number}", "type": "function", "function": {"name": tool, "arguments": text}}


def calls(*tools: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    reply = completion(text, "tool_calls", tool_calls=list(tools))
    details = {"prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1}}
    return reply | {"usage": reply["usage"] | details}


def span(first: object, last: object, trajectory_id: str = "t1") -> dict[str, object]:
    return {"trajectory_id": trajectory_id, "start_state_index": first, "end_state_index": last}


def result(*spans: object, markdown: str = "text") -> dict[str, object]:
    return {"memory_markdown": markdown, "trajectory_spans": list(spans)}


def scripted(*answers: object) -> Callable[[Call], Answer]:
    left = list(answers)

    def reply(_: Call) -> Answer:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer if isinstance(answer, Answer) else Answer(answer)

    return reply


def settings(**more: Any) -> AgentSettings:
    values = {"agent": "loop", "backend": "openai", "model": "m", "endpoint": ENDPOINT, "context_length": 32768, **more}
    return AgentSettings.model_validate(values)


def no_chat() -> ScriptedChat:
    raise AssertionError("an endpoint needs no backend of this process")


def ask(
    monkeypatch: pytest.MonkeyPatch,
    box: Box,
    reply: Callable[[Call], Answer],
    *,
    output_file: str = MEMORY_FILE,
    timeout_s: float = 30,
    **more: Any,
) -> tuple[AgentRun, ChatServer]:
    policy = RetryPolicy(retries=2, first_wait_s=0.01, jitter_s=0, longest_retry_after_s=0.4)
    with ChatServer(reply) as server:
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", server.url)
        monkeypatch.setenv(f"{ENDPOINT}_API_KEY", KEY)
        agent = LoopAgent(settings(**more), no_chat, policy)
        agent.check()
        run = agent.run(box, task(output_file), timeout_s)
    assert KEY not in repr(run)
    assert "127.0.0.1" not in repr(run)
    json.dumps(run.events)
    return run, server


def told(server: ChatServer, number: int) -> list[dict[str, Any]]:
    """What the model read new in a request."""
    messages = server.calls[number].body["messages"]
    last_said = max(place for place, message in enumerate(messages) if message["role"] == "assistant")
    return list(messages[last_said + 1 :])


def test_commands_then_a_result(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    answers = scripted(
        calls(call("shell", {"command": "echo seen; ls; echo oops >&2; exit 3"}), text="look"),
        calls(call("write_result", result(span(1, 2)))),
    )
    run, server = ask(monkeypatch, box, answers)
    assert (run.outcome, run.detail, run.commands) == ("finished", None, 1)
    assert run.usage == Usage(2, 14, 4, 6, 2)
    assert read_memory(box.folder, {"t1": 4}, 20).states == 2
    (output,) = told(server, 1)
    assert output["content"] == "exit code 3\nseen\nquestion_image.png\ntrajectories\n[standard error]\noops"
    assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"
    kinds = [event["type"] for event in run.events]
    assert kinds == ["told", "model", "result", "model"]
    (made,) = run.events[1]["calls"]
    assert (made["tool"], json.loads(made["arguments"])) == (
        "shell",
        {"command": "echo seen; ls; echo oops >&2; exit 3"},
    )
    assert run.events[1]["text"] == "look"


def test_the_model_is_told_what_stays(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    _, server = ask(monkeypatch, box, scripted(completion("x")))
    body = server.calls[0].body
    (system,) = [message["content"] for message in body["messages"] if message["role"] == "system"]
    shell = next(tool["function"]["description"] for tool in body["tools"] if tool["function"]["name"] == "shell")
    assert "/tmp and your home folder are new for every command" in system
    assert "/tmp and the home folder are new for every command" in " ".join(shell.split())


def test_the_run_ends_when_the_model_stops_calling(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    run, _ = ask(monkeypatch, box, scripted(completion("I am done.")))
    assert (run.outcome, run.usage.requests, run.events[-1]["text"]) == ("finished", 1, "I am done.")
    assert not (box.folder / MEMORY_FILE).exists()


def test_the_request_carries_the_roles_settings(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    sampling = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 99, "seed": 7}
    _, server = ask(monkeypatch, box, scripted(completion("x")), sampling=sampling, thinking=False, served_name="s")
    body = server.calls[0].body
    expected = {"model": "s", "temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 99, "seed": 7}
    assert {name: body[name] for name in expected} == expected
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "reasoning_effort" not in body and "max_completion_tokens" not in body
    assert [tool["function"]["name"] for tool in body["tools"]] == ["shell", "write_result"]
    _, server = ask(monkeypatch, box, scripted(completion("x")), reasoning_effort="high")
    body = server.calls[0].body
    assert (body["reasoning_effort"], body["max_completion_tokens"]) == ("high", 512)
    assert "max_tokens" not in body


def test_a_model_that_reads_images_gets_them(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    answers = scripted(
        calls(call("view_image", {"path": "trajectories/t1/screenshots/0000.png"})),
        calls(call("view_image", {"path": "../gold.json"})),
        completion("done"),
    )
    run, server = ask(monkeypatch, box, answers, images=True)
    assert run.outcome == "finished"
    assert [len(server.calls[number].images) for number in range(3)] == [1, 2, 2]
    assert server.calls[1].images[1].startswith("data:image/png;base64,")
    assert "leads out of the sandbox" in str(told(server, 2))
    _, server = ask(monkeypatch, box, scripted(completion("done")))
    assert not server.calls[0].images
    assert "view_image" not in json.dumps(server.calls[0].body)


def test_a_question_image_that_was_removed_is_a_crash(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    (box.folder / "question_image.png").unlink()
    run, server = ask(monkeypatch, box, scripted(completion("done")), images=True)
    assert (run.outcome, run.detail) == ("crashed", "LostImageError: question_image.png: there is no such file")
    assert not server.calls


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (result(markdown=""), "empty"),
        (result(span(0, 3), span(0, 3), span(0, 99)), "out_of_range"),
        (result(span(0, 1, "t9")), "unknown_trajectory"),
        (result(span(2, 1)), "reversed"),
        (result(span("one", 1)), "int_parsing"),
        ("{not json", "json_invalid"),
        ({"memory_markdown": "x"}, "missing"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_faulty_result_comes_back_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, box: FolderBox, written: object, words: str
) -> None:
    answers = scripted(calls(call("write_result", written)), calls(call("write_result", result(span(0, 0)))))
    run, server = ask(monkeypatch, box, answers)
    assert run.outcome == "finished"
    assert words in str(told(server, 1))
    assert read_memory(box.folder, {"t1": 4}, 20).states == 1


def test_too_many_states_can_be_mended(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    answers = scripted(calls(call("write_result", result(span(0, 3)))), completion("I give up"))
    run, server = ask(monkeypatch, box, answers, max_states=3)
    assert run.outcome == "finished"
    assert "too_many_states" in str(told(server, 1))
    assert not (box.folder / MEMORY_FILE).exists()


def test_dropped_spans_do_not_hold_a_result_up_for_ever(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    run, server = ask(monkeypatch, box, scripted(calls(call("write_result", result(span(0, 0), span(0, 0, "t9"))))))
    assert (run.outcome, len(server.calls)) == ("finished", 3)
    assert read_memory(box.folder, {"t1": 4}, 20).states == 1


def test_an_answer_for_the_pilot_study(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    answers = scripted(
        calls(call("write_result", {"answer": " "})), calls(call("write_result", {"answer": "\\boxed{A}"}))
    )
    run, server = ask(monkeypatch, box, answers, output_file=ANSWER_FILE)
    assert run.outcome == "finished"
    assert "no_answer" in str(told(server, 1))
    assert read_answer(box.folder) == "\\boxed{A}"


def test_unknown_tools_and_arguments_are_told_to_the_model(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    answers = scripted(
        calls(call("browse", {}), call("shell", {"cmd": "ls"}, 1), call("shell", {"command": "a\0b"}, 2)),
        completion("x"),
    )
    run, server = ask(monkeypatch, box, answers)
    assert (run.outcome, run.commands) == ("finished", 0)
    assert ["Unknown tool" in str(m) or "missing" in str(m) or "null" in str(m) for m in told(server, 1)] == [True] * 3


def test_long_outputs_are_cut_and_slow_commands_end(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    answers = scripted(
        calls(call("shell", {"command": "yes | head -c 100000"}), call("shell", {"command": "sleep 20"}, 1)),
        completion("x"),
    )
    run, server = ask(monkeypatch, box, answers, command_s=0.3)
    first, second = told(server, 1)
    assert len(first["content"]) == 20_000
    assert "the most it may take" in second["content"]
    assert (run.outcome, run.commands) == ("finished", 2)


def test_passing_faults_are_repeated_and_do_not_count(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    limited = Answer({"error": {"message": "slow down"}}, 429, {"retry-after": "60"})
    with collect() as ledger:
        run, server = ask(monkeypatch, box, scripted(limited, Answer({}, 500), completion("x")))
    assert (run.outcome, len(server.calls), run.usage.requests) == ("finished", 3, 1)
    assert ledger.waited_s >= 0.4
    assert ledger.honest_s < ledger.elapsed_s - 0.4


def test_malformed_replies_are_repeated(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    answers = scripted(
        Answer({"id": "x", "choices": []}), Answer(b"<html>", headers={"content-type": "text/html"}), completion("x")
    )
    run, server = ask(monkeypatch, box, answers)
    assert (run.outcome, len(server.calls)) == ("finished", 3)


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        (Answer({"error": {"message": f"bad key {KEY}"}}, 401), 1),
        (Answer({"error": {"message": "no such model"}}, 404), 1),
        (Answer({"error": {"message": "quota", "code": "insufficient_quota"}}, 429), 1),
        (Answer({"error": {"message": "down"}}, 503), 3),
        (Answer({}, reset=True), 3),
        (Answer({"id": "x", "choices": None}), 3),
    ],
    ids=["401", "404", "quota", "503", "reset", "malformed"],
)
def test_a_model_that_fails_for_good_is_a_crash(
    monkeypatch: pytest.MonkeyPatch, box: FolderBox, answer: Answer, requests: int
) -> None:
    first = calls(call("shell", {"command": "true"}))
    run, server = ask(monkeypatch, box, scripted(first, answer))
    assert run.outcome == "crashed"
    assert run.detail
    assert len(server.calls) == 1 + requests
    assert (run.usage.requests, run.commands) == (1, 1)
    assert run.events[-1]["type"] == "result"


def test_the_number_of_turns_is_bounded(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    run, server = ask(monkeypatch, box, scripted(calls(call("shell", {"command": "true"}))), max_turns=4)
    assert (run.outcome, run.commands, len(server.calls)) == ("crashed", 4, 4)
    assert "max_turns" in str(run.detail)
    faulty = scripted(calls(call("write_result", result(markdown=""))))
    run, server = ask(monkeypatch, box, faulty, max_turns=6)
    assert (run.outcome, len(server.calls)) == ("crashed", 6)


def test_an_attempt_ends_in_time(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    started = time.perf_counter()
    run, _ = ask(monkeypatch, box, scripted(Answer(completion("x"), delay_s=5)), timeout_s=0.5)
    assert run.outcome == "timeout"
    run, _ = ask(monkeypatch, box, scripted(calls(call("shell", {"command": "sleep 20"}))), timeout_s=0.8)
    assert (run.outcome, run.commands) == ("timeout", 1)
    assert box.timeouts[-1] <= 0.8
    assert time.perf_counter() - started < 5


def test_a_missing_address_is_a_fault_of_the_setup(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    monkeypatch.delenv(f"{ENDPOINT}_BASE_URL", raising=False)
    agent = LoopAgent(settings(), no_chat)
    for attempt in (agent.check, lambda: agent.run(box, task(), 5)):
        with pytest.raises(ModelSetupError, match=f"{ENDPOINT}_BASE_URL"):
            attempt()


def test_a_sandbox_that_cannot_be_made_is_a_fault_of_the_setup(monkeypatch: pytest.MonkeyPatch, box: FolderBox) -> None:
    def refuse(*_: object, **__: object) -> Execution:
        raise ModelSetupError("no bwrap")

    monkeypatch.setattr(box, "execute", refuse)
    with pytest.raises(ModelSetupError, match="no bwrap"):
        ask(monkeypatch, box, scripted(calls(call("shell", {"command": "true"}))))


@pytest.mark.parametrize("isolation", [pytest.param("bubblewrap", marks=needs_bwrap), "none"])
def test_a_memory_is_written_in_a_real_sandbox(
    monkeypatch: pytest.MonkeyPatch, box: FolderBox, tmp_path: Path, isolation: Any
) -> None:
    sandbox = Sandbox(box.folder, isolation, box.mounts)
    look = f"cat trajectories/t1/trajectory.json; cat {tmp_path}/gold.json; echo $LMEV2_LOOP_TEST_API_KEY.; pwd"
    answers = scripted(
        calls(
            call("shell", {"command": look}), call("view_image", {"path": "trajectories/t1/screenshots/0000.png"}, 1)
        ),
        calls(call("shell", {"command": f"ln -s {tmp_path}/gold.json link; touch trajectories/t1/new"})),
        calls(call("view_image", {"path": "link"}), call("view_image", {"path": f"{tmp_path}/gold.json"}, 1)),
        calls(call("write_result", result(span(1, 2)))),
    )
    run, server = ask(monkeypatch, sandbox, answers, images=True)
    assert (run.outcome, run.commands) == ("finished", 2)
    assert read_memory(box.folder, {"t1": 4}, 20).states == 2
    assert len(server.calls[1].images) == 2
    seen = told(server, 1)[0]["content"]
    assert '"id": "t1"' in seen and f".\n{sandbox.inside}" in seen
    assert ("the answer" in seen) == (isolation == "none")
    assert [str(message).count("leads out of the sandbox") for message in told(server, 3)] == [1, 1]
    assert (tmp_path / "pool/t1/new").exists() == (isolation == "none")


# A scripted backend, asked for JSON


def local(
    script: Sequence[Rule] | Callable[[ChatRequest], str | ChatReply], **more: Any
) -> tuple[LoopAgent, ScriptedChat]:
    chat = ScriptedChat(script, **more)
    return LoopAgent(settings(backend="scripted", model="scripted"), lambda: chat), chat


def said(tool: str | None = None, arguments: object = None, final: str = "done") -> str:
    return json.dumps(
        {"thought": "so", "tool": tool, "arguments": arguments} if tool else {"thought": "so", "final": final}
    )


def last(request: ChatRequest) -> str:
    return "".join(getattr(part, "text", "") for part in request.messages[-1].parts)


def test_a_backend_is_driven_through_json(box: FolderBox) -> None:
    replies = [said("shell", {"command": "echo seen"}), said("write_result", result(span(3, 3)))]
    agent, chat = local([Rule(text) for text in replies])
    run = agent.run(box, task(), 30)
    assert (run.outcome, run.commands, run.usage.requests) == ("finished", 1, 2)
    assert run.usage.input_tokens > run.usage.output_tokens > 0
    assert read_memory(box.folder, {"t1": 4}, 20).states == 1
    first, second = chat.calls
    system = "".join(part.text for part in first.messages[0].parts)  # type: ignore[union-attr]
    assert "- shell: Run a command" in system and "- write_result:" in system and "view_image" not in system
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "user"]
    assert json.loads(second.messages[2].parts[0].text) == json.loads(replies[0])  # type: ignore[union-attr]
    assert last(second) == "Result of shell:\nexit code 0\nseen"
    assert [event["type"] for event in run.events] == ["told", "model", "result", "model"]


def test_the_schema_admits_calls_of_the_tools_and_the_end_only(box: FolderBox) -> None:
    agent, chat = local([Rule(said())])
    agent.run(box, task(), 30)
    schema = chat.calls[0].schema
    assert schema is not None
    for text in (said(), said("shell", {"command": "ls"}), said("write_result", result(span(0, 1)))):
        jsonschema.validate(json.loads(text), schema)
    for text in (said("browse", {}), said("shell", {"cmd": "ls"}), said("write_result", result(span("0", 1))), "{}"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(text), schema)


def test_the_schema_becomes_a_grammar(box: FolderBox) -> None:
    grammar = pytest.importorskip("llama_cpp.llama_grammar")
    agent, chat = local([Rule(said())])
    agent.run(box, task(), 30)
    text = grammar.json_schema_to_gbnf(json.dumps(chat.calls[0].schema))
    assert "trajectory" in text and "shell" in text


def test_a_reply_that_is_no_json_is_repaired_once(box: FolderBox) -> None:
    agent, _ = local([Rule("I would look around."), Rule(said())])
    run = agent.run(box, task(), 30)
    assert (run.outcome, run.usage.requests) == ("finished", 2)
    agent, _ = local([Rule("I would look around."), Rule("Really.")])
    run = agent.run(box, task(), 30)
    assert (run.outcome, run.usage.requests) == ("crashed", 2)
    assert "malformed_reply" in str(run.detail)


def test_faulty_results_and_failed_calls_of_a_backend(box: FolderBox) -> None:
    agent, chat = local([Rule(said("write_result", result(markdown=""))), Rule("overloaded", error="api_error")])
    run = agent.run(box, task(), 30)
    assert (run.outcome, run.detail) == ("crashed", "ModelCallError: api_error: overloaded")
    assert "empty" in last(chat.calls[1])

    def broken(_: ChatRequest) -> str:
        raise ModelSetupError("no such file")

    agent, _ = local(broken)
    with pytest.raises(ModelSetupError, match="no such file"):
        agent.run(box, task(), 30)


def test_old_results_make_room_for_new_ones(box: FolderBox) -> None:
    def script(request: ChatRequest) -> str:
        number = sum(message.role == "assistant" for message in request.messages)
        return said("shell", {"command": f"seq {number}000 {number}300"}) if number < 6 else said()

    agent, chat = local(script, context_length=2500)
    assert agent.run(box, task(), 30).outcome == "finished"
    counter = chat.counter()
    sizes = [
        sum(counter.count(getattr(part, "text", "")) for message in call.messages for part in message.parts)
        for call in chat.calls
    ]
    assert max(sizes) <= 2500 - 512
    assert "left out" in str(chat.calls[-1].messages) and "5300" in last(chat.calls[-1])
    assert "Find the evidence." in str(chat.calls[-1].messages[1])


def test_images_reach_a_backend_that_reads_them(box: FolderBox, tmp_path: Path) -> None:
    seen: list[bytes] = []

    def script(request: ChatRequest) -> str:
        images = [part for message in request.messages for part in message.parts if isinstance(part, ImagePart)]
        seen[:] = [image.path.read_bytes() for image in images]
        assert not any(image.path.is_relative_to(tmp_path) for image in images)
        return said() if len(images) > 1 else said("view_image", {"path": "trajectories/t1/screenshots/0000.png"})

    agent, _ = local(script, images=ImageTokenSettings())
    assert agent.run(box, task(), 30).outcome == "finished"
    paths = [box.folder / "question_image.png", tmp_path / "pool/t1/screenshots/0000.png"]
    assert seen == [path.read_bytes() for path in paths]


def test_a_slow_backend_is_out_of_time_after_its_reply(box: FolderBox) -> None:
    agent, _ = local([Rule(said("shell", {"command": "true"}), delay_s=0.6), Rule(said())])
    run = agent.run(box, task(), 0.3)
    assert (run.outcome, run.usage.requests, run.commands) == ("timeout", 1, 0)


# Paths


def test_paths_stay_within_what_the_sandbox_shows(box: FolderBox, tmp_path: Path) -> None:
    pool = tmp_path / "pool/t1"
    shown = {
        "question_image.png": box.folder / "question_image.png",
        "./trajectories/../question_image.png": box.folder / "question_image.png",
        "/sandbox/question_image.png": box.folder / "question_image.png",
        "trajectories/t1/screenshots/0000.png": pool / "screenshots/0000.png",
        "/sandbox/trajectories/t1/trajectory.json": pool / "trajectory.json",
        "trajectories/t1": pool,
    }
    for path, expected in shown.items():
        assert host_path(box, path) == expected.resolve()
    (box.folder / "out").symlink_to(tmp_path / "gold.json")
    (box.folder / "up").symlink_to("..")
    (box.folder / "around").symlink_to("around")
    (box.folder / "in").symlink_to("question_image.png")
    assert host_path(box, "in") == (box.folder / "question_image.png").resolve()
    refused = [
        "out",
        "up/gold.json",
        "around",
        "../gold.json",
        "/etc/passwd",
        "/sandbox/../etc/passwd",
        "none.png",
        "a\0b",
    ]
    refused += [
        "trajectories/t1/../../../gold.json",
        "/sandboxed/x",
        "trajectories/t2/trajectory.json",
        "\ud800",
        "x" * 5000,
    ]
    for path in refused:
        with pytest.raises(ValueError):
            host_path(box, path)


def test_only_images_are_looked_at(box: FolderBox) -> None:
    def refused(path: str) -> str:
        with pytest.raises(ValueError) as error:
            read_image(box.folder / path)
        return str(error.value)

    (box.folder / "text.png").write_text("no image")
    whole = (box.folder / "question_image.png").read_bytes()
    (box.folder / "torn.png").write_bytes(whole[:40])
    (box.folder / "broken.png").write_bytes(whole[:50] + b"\xff" * 20 + whole[60:])
    Image.new("1", (6000, 6000)).save(box.folder / "huge.png")
    with open(box.folder / "giant.png", "wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(box.folder / "pipe.png")
    assert read_image(box.folder / "question_image.png") == (whole, "image/png")
    assert "broken" in refused("text.png") and "broken" in refused("torn.png") and "broken" in refused("broken.png")
    assert "pixels" in refused("huge.png") and "bytes" in refused("giant.png")
    assert "no file" in refused("pipe.png") and "no file" in refused("trajectories")


def test_state_counts_know_the_haystack_only(box: FolderBox) -> None:
    counts: Mapping[str, int] = StateCounts(box)
    assert dict(counts) == {"t1": 4}
    for other in ("t2", "", "..", "t1/screenshots", "../trajectories/t1"):
        assert other not in counts
