"""What a run does with endpoints that are not there, busy, or serve another model; and what it never tells of them."""

from __future__ import annotations

import base64
import json
import socket
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml
from chatserver import Answer, Call, completion
from preflight_roles import (
    ENDPOINT,
    GOOD_JSON,
    KEY,
    MODELS,
    WINDOW,
    controller,
    embedder,
    findings,
    judge,
    reader,
    serving,
    states,
    unexpected,
    vectors,
    wants_json,
    well,
    with_image,
)
from pydantic import ValidationError

from lmev2.agent.settings import AgentSettings
from lmev2.config import load_config
from lmev2.endpoints import check_configured, check_planned, configured_roles, planned_roles
from lmev2.models import preflight_probe
from lmev2.models.cache import CallCache
from lmev2.models.openai_endpoint import Endpoint, read_access
from lmev2.models.preflight import holds_replies, look_at, require, table
from lmev2.models.retry import PassingFault, RetryPolicy
from lmev2.models.settings import (
    ControllerSettings,
)
from lmev2.models.types import ChatReply, ChatRequest, Message, ModelSetupError
from lmev2.plan import Plan

# Endpoints that are not there


def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{ENDPOINT}_BASE_URL", raising=False)


def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", f"http://127.0.0.1:{free.getsockname()[1]}/v1")


ABSENT = {
    "unset": (unset, f"the environment variable {ENDPOINT}_BASE_URL is not set"),
    "closed": (closed, "no connection (ConnectError)"),
    401: (None, "it answered 401: who are you"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_an_absent_endpoint_is_an_error_unless_the_cache_has_replies_of_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str | int
) -> None:
    prepare, said = ABSENT[name]
    closed_door = Answer({"error": {"message": "who are you"}}, 401)
    with serving(monkeypatch, lambda call: closed_door) as server:
        server.pages["/v1/models"] = closed_door
        if prepare is not None:
            prepare(monkeypatch)
        checked = look_at({"judge": judge()})
        with pytest.raises(ModelSetupError) as raised:
            require(checked, tmp_path)
        keep_a_reply(tmp_path, "another model")
        with pytest.raises(ModelSetupError, match="judge"):
            require(checked, tmp_path)
        keep_a_reply(tmp_path, "m-judge")
        (remark,) = require(checked, tmp_path)
        with pytest.raises(ModelSetupError, match="judge"):
            require(checked, None)
    assert said in str(raised.value) and "To do: " in str(raised.value)
    assert said in remark and "Going on with the replies in the call cache" in remark


def keep_a_reply(cache: Path, model: str) -> None:
    identity = {"backend": "openai", "model": model, "served_name": model, "json_mode": "schema"}
    request = ChatRequest((Message.text("user", "x" * 5000),))
    CallCache(cache).put(identity, request, ChatReply("yes", "stop", 1, 1, model, 0.1))


def test_the_cache_of_vectors_is_the_embedders(tmp_path: Path) -> None:
    keep_a_reply(tmp_path, "m-embedder")
    assert not holds_replies(tmp_path, embedder())
    key = {"backend": {"backend": "openai", "model": "m-embedder"}, "kind": "document", "text": "x"}
    CallCache(tmp_path).put_json("embedding", key, {"float32": "", "wall_s": 0.0})
    assert holds_replies(tmp_path, embedder())


def test_another_model_is_an_error_whatever_the_cache_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keep_a_reply(tmp_path, "m-judge")
    with serving(monkeypatch, models=[{"id": "small"}]), pytest.raises(ModelSetupError, match="it serves 'small'"):
        require(look_at({"judge": judge()}), tmp_path)


def test_a_server_that_is_busy_lets_the_run_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down = Answer({"error": {"message": "slow down"}}, 429, {"retry-after": "3600"})
    with serving(monkeypatch, lambda call: slow_down) as server:
        checked = look_at({"judge": judge()})
        assert server.looks.count("/v1/chat/completions") == 2  # once again, then no more
    (remark,) = require(checked, None)
    assert "chat: asked for a reply of one token; it answered 429: slow down. It was not checked." in remark
    assert "BUSY: not now" in table(checked)


def test_a_passing_fault_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Answer({"error": {"message": "loading"}}, 503)]
    with serving(monkeypatch, lambda call: answers.pop() if answers else well(call)):
        assert states(reader())["chat"] == "ok"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_list_that_is_not_to_be_had_now_is_passed_over(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    with serving(monkeypatch) as server:
        server.pages["/v1/models"] = Answer({"error": {"message": "later"}}, status)
        checked = look_at({"judge": judge()})
        assert server.looks.count("/v1/models") == 2
    (remark,) = require(checked, None)
    assert f"it answered {status}: later. It was not checked." in remark
    assert {one.capability: one.state for one in checked[0].findings}["json"] == "ok"


def test_a_silent_server_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_probe, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(preflight_probe, "_RETRY_WAIT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        found = findings(reader())
        assert len(require(look_at({"reader": reader()}), None)) == 2
    assert {name: one.state for name, one in found.items()} == {"served": "busy", "context": "unknown", "chat": "busy"}
    assert found["chat"].found == "no reply within 0.2 s"


MALFORMED = [
    "http://256.256.256.256/v1",
    "http://[v1.a]/v1",
    "http://[::1/v1",
    "http://ex\u200bample.com/v1",
    "http://example.com/\x01v1",
    "http://exa\tmple.com/v1",
    f"http://{'x' * 64}.com/v1",
    "http://..../v1",
    "http://example.com:99999/v1",
    "ftp://example.com/v1",
]


@pytest.mark.parametrize("address", MALFORMED)
def test_a_malformed_address_is_a_finding_like_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    file = tmp_path / "endpoints.json"
    with serving(monkeypatch, lambda call: Answer({"error": {"message": "never"}}, 400)):
        monkeypatch.setenv("MALFORMED_BASE_URL", address)
        monkeypatch.setenv("MALFORMED_API_KEY", KEY)
        with pytest.raises(ModelSetupError) as raised:
            check_configured({"judge": judge(endpoint="MALFORMED"), "reader": reader()}, file)
        with pytest.raises(ModelSetupError, match="MALFORMED_BASE_URL does not hold") as refused:
            read_access("MALFORMED")
    assert "MALFORMED_BASE_URL does not hold an http or https address" in str(raised.value)
    assert "reader ('m-reader'" in str(raised.value) and "it answered 400: never" in str(raised.value)
    assert json.loads(file.read_text(encoding="utf-8"))["judge"]["findings"]["served"]["state"] == "absent"
    assert address not in "".join(traceback.format_exception(refused.value))
    assert address not in str(raised.value) + file.read_text(encoding="utf-8")


# All roles


def test_every_problem_of_every_role_stands_in_one_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def check(call: Call) -> Answer:
        if call.task == "embedding":
            return vectors(1.0, 2.0)
        refused = with_image(call) or wants_json(call) or call.body["model"] == "m-reader"
        return Answer({"error": {"message": "never heard of it"}}, 400) if refused else well(call)

    models = [{**one, "max_model_len": 1024} for one in MODELS if one["id"] != "m-reader"]
    roles = {"reader": reader(), "judge": judge(), "controller": controller(images=True), "embedder": embedder()}
    with serving(monkeypatch, check, models), pytest.raises(ModelSetupError) as raised:
        require(look_at(roles), tmp_path)
    lines = [line.strip() for line in str(raised.value).splitlines()]
    assert [line.split(": ")[0].split()[0] + " " + line.split(": ")[1] for line in lines[1:-1]] == [
        "reader served",
        "reader chat",
        "judge context",
        "judge json",
        "controller context",
        "controller images",
        "controller json",
        "embedder context",
        "embedder vectors",
    ]
    assert lines[3].startswith(
        f"judge ('m-judge' at {ENDPOINT}_BASE_URL): context: asked for 4096 tokens of context (context_length); "
        "1024 tokens. To do: start the server with more"
    )
    assert "check_endpoints" in lines[-1] and "preflight: false" in lines[-1]


def test_roles_are_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(3)

    def check(call: Call) -> Answer:
        if not wants_json(call):
            together.wait(timeout=20)
        return well(call)

    with serving(monkeypatch, check):
        checked = look_at({"reader": reader(), "judge": judge(), "controller": controller()})
    assert not [one for row in checked for one in row.findings if one.state != "ok"]


def test_no_secret_and_no_address_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def echo(call: Call) -> Answer:
        told = f"cannot serve {call.headers['authorization']} at http://user-name:pass-word@{call.headers['host']}/v1"
        return Answer({"error": {"message": told}}, 400)

    with serving(monkeypatch, echo, user="user-name:pass-word@") as server:
        checked = look_at({"reader": reader(images=True), "judge": judge(), "embedder": embedder()})
        with pytest.raises(ModelSetupError) as raised:
            require(checked, tmp_path)
    records = json.dumps([one.record() for one in checked])
    for told in (str(raised.value), table(checked), records):
        for secret in (KEY, "pass-word", "user-name", server.url, "127.0.0.1"):
            assert secret not in told
    assert "cannot serve" in str(raised.value) and "[host]" in records


HOST = "LocalHost"
QUOTED = [
    completion("TOLD"),  # what a reply says instead of JSON
    completion('{"label": "TOLD", "reason": "ok"}'),
    completion(GOOD_JSON) | {"usage": {"prompt_tokens": "TOLD"}},
    {"error": {"message": "TOLD"}},
]


@pytest.mark.parametrize("before", [0, 70, 110, 290, 490])
@pytest.mark.parametrize("body", QUOTED)
def test_nothing_that_is_quoted_holds_secret_or_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: dict[str, Any], before: int
) -> None:
    """Wherever a text is cut: a part of a key would tell as well."""
    with serving(monkeypatch) as server:
        port = server.url.rpartition(":")[2].removesuffix("/v1")
        told = f"{'.' * before}{KEY} http://{HOST.lower()}:{port}/x HTTP://{HOST.upper()}/y"
        answer = Answer(json.dumps(body).replace("TOLD", told).encode(), 400 if "error" in body else 200)
        server._check = lambda call: answer
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", f"http://{HOST}:{port}/v1")
        with pytest.raises(ModelSetupError) as raised:
            require(look_at({"judge": judge()}), tmp_path)
        server.models = [{"id": told}]
        with pytest.raises(ModelSetupError) as listed:
            require(look_at({"judge": judge()}), tmp_path)
    for shown in (str(raised.value), str(listed.value)):
        assert "connection" not in shown
        assert KEY[:6] not in shown and "localhost" not in shown.lower() and port not in shown, shown


def test_no_finding_leaves_unmasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*_: object) -> None:
        raise PassingFault("malformed_reply", f"never send {KEY}")

    monkeypatch.setattr(preflight_probe, "parse_completion", told)
    with serving(monkeypatch):
        assert findings(reader())["chat"].found == "never send [key]"


def test_a_host_is_masked_as_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint(ENDPOINT, "m", 1.0, 1, RetryPolicy(retries=0))
    assert endpoint.masked(f"{KEY} at mod") == f"{KEY} at mod"  # nothing was asked, so nothing can echo
    monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", "http://us%2Fer:p%40ss%22word@mod:9/tenants/blue/v1?sig=query/secret")
    monkeypatch.setenv(f"{ENDPOINT}_API_KEY", KEY)
    endpoint.look("/models")
    assert endpoint.masked("models at Mod:9, at mod") == "models at [host], at [host]"
    assert endpoint.masked("POST http://mod:9/tenants/blue/v1/x") == "POST http://[host][path]/v1/x"
    assert endpoint.masked('us/er us%2Fer p@ss"word p@ss\\"word p%40ss%22word') == (
        "[user] [user] [password] [password] [password]"
    )
    assert endpoint.masked("query/secret query%2Fsecret query\\/secret") == "[query] [query] [query]"
    assert endpoint.masked(base64.b64encode(b'us/er:p@ss"word').decode()) == "[user and password]"


@pytest.mark.parametrize("name", ["", "A-B", "1A", "A B", "A=B", "A\n", "http://host/v1"])
def test_an_endpoint_is_the_name_of_variables(name: str) -> None:
    for make in (reader, judge, controller, embedder):
        with pytest.raises(ValidationError, match="endpoint"):
            make(endpoint=name)
    with pytest.raises(ValidationError, match="endpoint"):
        AgentSettings(endpoint=name)


def test_roles_without_an_endpoint_are_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(monkeypatch, unexpected) as server:
        assert look_at({"controller": ControllerSettings()}) == []
        check_planned({}, tmp_path)
        assert server.looks == []
    assert table([]) == "role  model  endpoint"


# Which roles


def make_plan(project: Path, **changes: Any) -> Plan:
    raw = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    tokenizer = {"tokenizer": "t"}
    at = {"backend": "openai", "file": None, "quantize": None, "reply_format": "free"}
    unused = ("quantize", "reply_format")
    raw["models"]["reader"] |= at | tokenizer
    raw["models"]["judge"] |= {name: value for name, value in at.items() if name != "reply_format"}
    raw["models"]["controller"] = {key: at[key] for key in at if key not in unused} | {"model": "m"}
    raw["models"]["embedder"] |= {"backend": "openai", **tokenizer}
    plain = {**raw["models"]["reader"], "model": "another"}
    raw["pilots"] |= {"readers": {"far": plain, "near": {**plain, "backend": "scripted"}, "idle": plain}}
    raw["pilots"]["figure4"] |= {"readers": ["reader", "far", "near"]}
    raw["judges"] = {"second": {**raw["models"]["judge"], "model": "second"}}
    return Plan(load_config(raw | changes), project)


def test_planned_jobs_tell_the_roles(project: Path) -> None:
    plan = make_plan(project)

    def roles(*jobs: tuple[str, dict[str, str]]) -> list[str]:
        return list(planned_roles(plan, jobs))

    assert roles(("ingest_dataset", {}), ("export_table2", {}), ("check_endpoints", {})) == []
    assert roles(("generate_note", {"shard": "a"}), ("generate_event", {})) == ["controller"]
    assert roles(("query_memory", {"method": "rag_slice"})) == ["embedder"]
    assert roles(("query_memory", {"method": "agentrunbook_r"})) == ["embedder", "controller"]
    assert roles(("query_memory", {"method": "no_retrieval"}), ("query_agent_memory", {"method": "codex"})) == []
    assert roles(("read_answers", {"method": "codex"}), ("score_answers", {})) == ["reader", "judge"]
    assert roles(("read_pilot_answers", {"reader": "far"}), ("score_pilot_answers", {"reader": "far"})) == [
        "far",
        "judge",
    ]
    assert roles(("read_pilot_answers", {"reader": "near"})) == []  # scripted
    assert roles(("judge_again", {"judge": "second", "method": "codex"})) == ["judges.second"]


def test_configured_roles_are_all_that_some_study_asks(project: Path) -> None:
    roles = configured_roles(make_plan(project).config)
    assert list(roles) == ["reader", "judge", "controller", "embedder", "judges.second", "far"]


def test_the_target_writes_what_was_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results" / "endpoints.json"
    models = [one for one in MODELS if one["id"] == "m-judge"]
    with serving(monkeypatch, models=models) as server:
        check_configured({"judge": judge()}, file)
        with pytest.raises(ModelSetupError, match="reader"):
            check_configured({"judge": judge(), "reader": reader()}, file)
    record = json.loads(file.read_text(encoding="utf-8"))
    assert (record["judge"]["ready"], record["reader"]["ready"]) == (True, False)
    assert record["judge"]["findings"]["context"] == {"state": "ok", "value": str(WINDOW)}
    assert record["reader"]["findings"]["served"]["found"] == "it serves 'm-judge'"
    assert server.url not in file.read_text(encoding="utf-8")
    assert "FAILED: another model" in capsys.readouterr().err
