"""What is said of capabilities before a run: against local servers that lack one thing after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chatserver import Answer, Call, completion
from PIL import Image
from preflight_roles import (
    DIMENSION,
    ENDPOINT,
    GOOD_JSON,
    KEY,
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

from lmev2.models import preflight_probe
from lmev2.models.preflight import look_at, require, table
from lmev2.models.preflight_probe import CHECK_TEXT, check_image
from lmev2.models.settings import (
    SamplingSettings,
)


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
    with serving(monkeypatch, unexpected, [{"id": "small"}]) as server:
        (found,) = findings(judge()).values()
        assert server.looks == ["/v1/models"]
    assert (found.state, found.found) == ("failed", "it serves 'small'")
    assert "models.reader.served_name" in found.todo and "--served-model-name" in found.todo


@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("role", [judge, embedder])
def test_a_list_that_may_not_be_whole_leaves_it_to_the_reply(
    monkeypatch: pytest.MonkeyPatch, role: Callable[[], Any], more: bool
) -> None:
    settings = role()
    listed = {"data": [{"id": "a"}], "has_more": True} if more else {"data": [{"id": "a"}, {"id": "b"}]}
    names = "'a'" if more else "'a', 'b'"
    with serving(monkeypatch) as server:
        server.pages["/v1/models"] = Answer(listed)
        checked = look_at({"it": settings})
        (remark,) = require(checked, None)
    assert checked[0].findings[0].state == "unlisted" and checked[0].record()["ready"]
    assert f"asked for the model '{settings.model}'; its list names {names}, not this one" in remark
    assert "UNLISTED" in table(checked)
    unknown = Answer({"error": {"message": "no such model"}}, 404)
    with serving(monkeypatch, lambda call: unknown) as server:
        server.pages["/v1/models"] = Answer(listed)
        found = findings(settings)
    assert (found["served"].state, found["served"].value) == ("failed", "unknown name")
    assert f"{names}, not this one, and the request was refused" in found["served"].found


@pytest.mark.parametrize("name", ["m-reader", "models/m-reader", "m-reader:latest"])
def test_names_of_a_list_may_have_a_prefix_or_the_default_tag(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
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
    assert f"check the path in {ENDPOINT}_BASE_URL (does it end in /v1?) and models.reader.served_name" in found.todo


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_list_that_is_refused_leaves_it_to_the_reply(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    with serving(monkeypatch) as server:
        server.pages["/v1/models"] = Answer({"error": {"message": "not for you"}}, status)
        assert states(reader()) == {"served": "unknown", "context": "unknown", "chat": "ok"}


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


def test_the_servers_of_tests_know_a_check() -> None:
    asked = [{"role": "user", "content": preflight_probe.JSON_TEXT}]
    assert Call("/v1/chat/completions", {}, {"messages": asked}, 0).is_check
    assert Call("/v1/embeddings", {}, {"input": [CHECK_TEXT]}, 0).is_check
    assert not Call("/v1/embeddings", {}, {"input": ["a text"]}, 0).is_check
