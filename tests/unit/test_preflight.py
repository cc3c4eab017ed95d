"""What is said of endpoints before a run: against local servers that lack one thing after the other."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from chatserver import Answer, Call, ChatServer, bags_of_words, completion
from PIL import Image

from lmev2.config import load_config
from lmev2.endpoints import check_configured, check_planned, configured_roles, planned_roles
from lmev2.models import preflight_probe
from lmev2.models.cache import CallCache
from lmev2.models.preflight import holds_replies, look_at, require, table
from lmev2.models.preflight_probe import CHECK_TEXT, Finding, check_image
from lmev2.models.settings import (
    ChatSettings,
    ControllerSettings,
    EmbedderSettings,
    JudgeSettings,
    ReaderSettings,
    SamplingSettings,
)
from lmev2.models.types import ChatReply, ChatRequest, Message, ModelSetupError
from lmev2.plan import Plan

KEY = "key-5c1f8d90a2"
ENDPOINT = "PREFLIGHT_TEST"
DIMENSION = 16
GOOD_JSON = '{"label": 1, "reason": "ok"}'
WINDOW = 4096
MODELS = [{"id": name, "max_model_len": WINDOW} for name in ("m-reader", "m-judge", "m-controller", "m-embedder")]


def well(call: Call) -> Answer:
    return Answer(bags_of_words(call.body, DIMENSION) if call.task == "embedding" else completion(GOOD_JSON))


def unexpected(call: Call) -> Answer:
    raise AssertionError(f"no check: {call}")


def with_image(call: Call) -> bool:
    return bool(call.images)


def wants_json(call: Call) -> bool:
    return "response_format" in call.body


@contextmanager
def serving(
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Call], Answer] = well,
    models: list[dict[str, Any]] | None = MODELS,
    user: str = "",
) -> Iterator[ChatServer]:
    with ChatServer(unexpected, models, check) as server:
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", server.url.replace("//", f"//{user}"))
        monkeypatch.setenv(f"{ENDPOINT}_API_KEY", KEY)
        monkeypatch.setattr(preflight_probe, "_RETRY_WAIT_S", 0.0)
        monkeypatch.setattr(preflight_probe, "LONGEST_WAIT_S", 0.0)
        yield server


def chat(kind: type[ChatSettings], role: str, **values: Any) -> Any:
    settings = {"context_length": WINDOW, "endpoint": ENDPOINT, "sampling": {"max_tokens": 200}, **values}
    return kind.model_validate({"backend": "openai", "model": f"m-{role}", **settings})


def reader(**values: Any) -> Any:
    return chat(ReaderSettings, "reader", context_tokens=0, **values)


def judge(**values: Any) -> Any:
    return chat(JudgeSettings, "judge", **values)


def controller(**values: Any) -> Any:
    return chat(ControllerSettings, "controller", **values)


def embedder(**values: Any) -> EmbedderSettings:
    base = {"backend": "openai", "model": "m-embedder", "tokenizer": "t", "dimension": DIMENSION, "endpoint": ENDPOINT}
    return EmbedderSettings.model_validate(base | values)


def findings(settings: Any, role: str = "reader") -> dict[str, Finding]:
    return {one.capability: one for one in preflight_probe.probe(role, settings)}


def states(settings: Any, role: str = "reader") -> dict[str, str]:
    return {name: one.state for name, one in findings(settings, role).items()}


def test_endpoints_that_can_do_everything_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    roles = {
        "reader": reader(images=True),
        "judge": judge(json_mode="object"),
        "controller": controller(images=True),
        "embedder": embedder(),
    }
    with serving(monkeypatch) as server:
        checked = look_at(roles)
        assert require(checked, None) == []
    assert [one.role for one in checked] == list(roles)
    found = {one.role: {finding.capability: finding.value or "ok" for finding in one.findings} for one in checked}
    chats = {"served": "ok", "context": str(WINDOW), "chat": "ok"}
    assert found == {
        "reader": chats | {"images": "ok"},
        "judge": chats | {"json": "object"},
        "controller": chats | {"images": "ok", "json": "schema"},
        "embedder": {"served": "ok", "context": str(WINDOW), "vectors": str(DIMENSION)},
    }
    # One request for each capability at most, and the lists of models.
    assert sorted(server.looks) == sorted(["/v1/models"] * 4 + ["/v1/chat/completions"] * 5 + ["/v1/embeddings"])
    lines = table(checked).splitlines()
    assert lines[0].split() == ["role", "model", "endpoint", "served", "context", "chat", "images", "JSON", "vectors"]
    assert lines[1].split() == ["reader", "m-reader", ENDPOINT, "ok", str(WINDOW), "ok", "ok", "-", "-"]
    assert lines[4].split() == ["embedder", "m-embedder", ENDPOINT, "ok", str(WINDOW), "-", "-", "-", str(DIMENSION)]
    assert all(one.record()["ready"] for one in checked)


def test_the_check_asks_as_the_role_does(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[dict[str, Any]] = []

    def check(call: Call) -> Answer:
        bodies.append(call.body)
        assert call.headers["authorization"] == f"Bearer {KEY}"
        return well(call)

    sampling = SamplingSettings(temperature=0.6, top_k=20, max_tokens=2000)
    with serving(monkeypatch, check):
        findings(judge(thinking=True, sampling=sampling, served_name="m-judge"))
        findings(judge(reasoning_effort="high", sampling=sampling))
        findings(controller(json_mode="none", images=True))
    plain, forced, reasoned, reasoned_json, pictured = bodies
    assert (plain["temperature"], plain["top_k"], plain["max_tokens"]) == (0.6, 20, 1)
    assert plain["chat_template_kwargs"] == {"enable_thinking": True}
    assert forced["chat_template_kwargs"] == {"enable_thinking": False} and forced["max_tokens"] == 64
    assert forced["response_format"]["json_schema"]["strict"] is True
    assert (reasoned["reasoning_effort"], reasoned["max_completion_tokens"]) == ("high", 1)
    assert reasoned_json["max_completion_tokens"] == 1024
    assert [part["type"] for part in pictured["messages"][0]["content"]] == ["text", "image_url"]


def test_the_image_is_one(tmp_path: Path) -> None:
    import base64

    file = tmp_path / "image.png"
    file.write_bytes(base64.b64decode(check_image().partition(",")[2]))
    with Image.open(file) as image:
        image.load()
        assert (image.size, image.getpixel((3, 60))) == ((64, 64), 128)


def test_another_model_is_an_error_and_nothing_more_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, unexpected, [{"id": "small"}, {"id": "large"}]) as server:
        (found,) = findings(judge()).values()
        assert server.looks == ["/v1/models"]
    assert (found.state, found.found) == ("failed", "it serves 'small', 'large'")
    assert "models.reader.served_name" in found.todo and "--served-model-name" in found.todo


@pytest.mark.parametrize("name", ["m-reader", "models/m-reader"])
def test_names_of_a_list_may_have_a_prefix(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with serving(monkeypatch, models=[{"id": name, "max_model_len": WINDOW}]):
        assert states(reader()) == {"served": "ok", "context": "ok", "chat": "ok"}


@pytest.mark.parametrize("models", [None, []])
def test_a_server_without_a_list_is_asked_for_a_reply(
    monkeypatch: pytest.MonkeyPatch, models: list[dict[str, Any]] | None
) -> None:
    with serving(monkeypatch, models=models) as server:
        assert states(reader()) == {"served": "unknown", "context": "unknown", "chat": "ok"}
        assert server.looks.count("/v1/chat/completions") == 1
    missing = Answer({"error": {"message": "no model m-reader"}}, 404)
    with serving(monkeypatch, lambda call: missing, models=models):
        found = findings(reader())["chat"]
    assert found.state == "failed" and found.found == "it answered 404: no model m-reader"


@pytest.mark.parametrize(
    ("entry", "props", "state", "value"),
    [
        ({"max_model_len": 4096}, None, "ok", "4096"),
        ({"max_model_len": 4095}, None, "failed", "4095"),
        ({"context_length": 4095}, None, "failed", "4095"),
        ({"meta": {"n_ctx_train": 131072}}, 2048, "failed", "2048"),
        ({"meta": {"n_ctx_train": 2048}}, 8192, "ok", "8192"),
        ({"meta": {"n_ctx_train": 131072}}, None, "unknown", "<= 131072"),
        ({"meta": {"n_ctx_train": 2048}}, None, "failed", "2048"),
        ({"meta": None}, None, "unknown", ""),
        ({"max_model_len": True}, None, "unknown", ""),
    ],
)
def test_the_window_is_read_where_servers_tell_it(
    monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], props: int | None, state: str, value: str
) -> None:
    with serving(monkeypatch, models=[{"id": "m-reader", **entry}]) as server:
        if props is not None:
            server.pages["/props"] = Answer({"default_generation_settings": {"n_ctx": props}, "total_slots": 1})
        found = findings(reader())["context"]
    assert (found.state, found.value) == (state, value)
    if state == "failed":
        assert found.asked == "4096 tokens of context (context_length)" and "models.reader.context_length" in found.todo


def test_an_embedders_window_must_hold_its_longest_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, models=[{"id": "m-embedder", "max_model_len": 512}]):
        found = findings(embedder(), "embedder")
    assert found["context"].state == "failed" and "models.embedder.max_tokens" in found["context"].todo
    assert found["vectors"].state == "ok"


def test_refused_images_are_told_from_a_refused_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = Answer({"error": {"message": "this model reads no images"}}, 400)
    with serving(monkeypatch, lambda call: refusal if with_image(call) else well(call)) as server:
        found = findings(controller(images=True), "controller")
        assert server.looks.count("/v1/chat/completions") == 3
    assert {name: one.state for name, one in found.items()} == {
        "served": "ok",
        "context": "ok",
        "chat": "ok",
        "images": "failed",
        "json": "ok",
    }
    assert found["images"].found == "it answered 400: this model reads no images"
    assert "models.controller.images" in found["images"].todo
    with serving(monkeypatch, lambda call: refusal):
        assert states(controller(images=True))["chat"] == "failed"


JSON_REPLIES = {
    "good": (completion(GOOD_JSON), 200, "schema", "ok", ""),
    "fenced": (completion(f"```json\n{GOOD_JSON}\n```"), 200, "schema", "ok", ""),
    "prose": (completion("Yes."), 200, "schema", "failed", "no complete JSON object"),
    "another object": (completion('{"label": 7, "reason": "ok"}'), 200, "schema", "failed", "label: 7 is not one of"),
    "any object": (completion('{"yes": true}'), 200, "object", "ok", ""),
    "prose for an object": (completion("Yes."), 200, "object", "failed", "no complete JSON object"),
    "good by the schema of an object": (completion(GOOD_JSON), 200, "object_schema", "ok", ""),
    "against it": (completion('{"label": 1}'), 200, "object_schema", "failed", "'reason' is a required property"),
    "cut": (completion('{"label": 1, "rea', "length"), 200, "schema", "unknown", ""),
    "refused": ({"error": {"message": "json_schema?"}}, 400, "schema", "failed", "it answered 400: json_schema?"),
    "broken": ({"error": {"message": "literal_error"}}, 500, "schema", "failed", "it answered 500: literal_error"),
    "reasoned too long": (
        {"error": {"message": "Could not finish: max_tokens or model output limit was reached."}},
        400,
        "schema",
        "unknown",
        "",
    ),
    "empty": ({"choices": []}, 200, "schema", "failed", "the reply has no choices"),
}


@pytest.mark.parametrize("name", JSON_REPLIES)
def test_a_json_reply_must_be_one(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    body, status, mode, state, said = JSON_REPLIES[name]
    with serving(monkeypatch, lambda call: Answer(body, status) if wants_json(call) else well(call)):
        found = findings(judge(json_mode=mode), "judge")["json"]
    assert found.state == state and said in found.found
    if state == "failed":
        other = {"schema": "object, ", "object_schema": "object, ", "object": "none, "}[mode]
        assert f"models.judge.json_mode to {other}" in found.todo


def test_a_reply_that_reasoning_used_up_shows_that_the_model_chats(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Answer({"error": {"message": "max_tokens or model output limit was reached"}}, 400)
    with serving(monkeypatch, lambda call: limit):
        assert states(reader(reasoning_effort="high"))["chat"] == "ok"
    thinking = Answer(completion(None, "length", reasoning="Let me"))
    with serving(monkeypatch, lambda call: thinking):
        assert states(reader(thinking=True))["chat"] == "ok"


def vectors(*vector: object) -> Answer:
    return Answer({"data": [{"index": 0, "embedding": list(vector)}]})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (vectors(*[3.0] * DIMENSION), ""),  # of any length: they are normalised here
        (vectors(*[3.0] * 8), "a vector of 8"),
        (vectors(*[0.0] * DIMENSION), "zero vector"),
        (vectors(*[[0.1] * DIMENSION] * 2), "not finite vectors"),
        (Answer({"error": {"message": "it does not embed"}}, 404), "it answered 404: it does not embed"),
    ],
)
def test_vectors_must_have_the_dimension(monkeypatch: pytest.MonkeyPatch, answer: Answer, said: str) -> None:
    with serving(monkeypatch, lambda call: answer):
        found = findings(embedder(max_tokens=512), "embedder")["vectors"]
    assert (found.state == "ok") == (not said) and said in found.found
    if "8" in said:
        assert "models.embedder.dimension to 8" in found.todo


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
    503: (None, "it answered 503: who are you"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_an_absent_endpoint_is_an_error_unless_the_cache_has_replies_of_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str | int
) -> None:
    prepare, said = ABSENT[name]
    with serving(monkeypatch, unexpected) as server:
        server.pages["/v1/models"] = Answer(
            {"error": {"message": "who are you"}}, int(name) if prepare is None else 200
        )
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


def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_probe, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(f"{ENDPOINT}_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        (found,) = findings(reader()).values()
    assert (found.state, found.found) == ("absent", "no reply within 0.2 s")


# All roles


def test_every_problem_of_every_role_stands_in_one_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def check(call: Call) -> Answer:
        if call.task == "embedding":
            return vectors(1.0, 2.0)
        refused = with_image(call) or wants_json(call)
        return Answer({"error": {"message": "never heard of it"}}, 400) if refused else well(call)

    models = [{**one, "max_model_len": 1024} for one in MODELS if one["id"] != "m-reader"]
    roles = {"reader": reader(), "judge": judge(), "controller": controller(images=True), "embedder": embedder()}
    with serving(monkeypatch, check, models), pytest.raises(ModelSetupError) as raised:
        require(look_at(roles), tmp_path)
    lines = [line.strip() for line in str(raised.value).splitlines()]
    assert [line.split(": ")[0].split()[0] + " " + line.split(": ")[1] for line in lines[1:-1]] == [
        "reader served",
        "judge context",
        "judge json",
        "controller context",
        "controller images",
        "controller json",
        "embedder context",
        "embedder vectors",
    ]
    assert lines[2].startswith(
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


def test_the_servers_of_tests_know_a_check() -> None:
    asked = [{"role": "user", "content": preflight_probe.JSON_TEXT}]
    assert Call("/v1/chat/completions", {}, {"messages": asked}, 0).is_check
    assert Call("/v1/embeddings", {}, {"input": [CHECK_TEXT]}, 0).is_check
    assert not Call("/v1/embeddings", {}, {"input": ["a text"]}, 0).is_check
