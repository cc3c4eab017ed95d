"""The call cache: keys, replay, damaged files, many processes, many threads."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.models.cache import CallCache, canonical_json, request_key
from lmev2.models.cached import CachedChat, CachedEmbedder
from lmev2.models.scripted import Rule, ScriptedChat
from lmev2.models.types import ChatReply, ChatRequest, ImagePart, Message, ModelCallError, Sampling, TextPart

REQUEST = ChatRequest((Message.text("user", "hello"),), Sampling(temperature=0.6, max_tokens=10))
REPLY = ChatReply("hi", "stop", 5, 2, "m", 1.25, thinking="hm")
IDENTITY = {"backend": "test"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: reordered(value[name]) for name in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(json_values)
def test_canonical_json_ignores_order_and_keeps_values(value: Any) -> None:
    text = canonical_json(value)
    assert canonical_json(reordered(value)) == text
    assert canonical_json(json.loads(text)) == text
    assert json.loads(text) == value
    assert text.isascii()


def test_canonical_json_of_numbers() -> None:
    assert canonical_json({"a": 1.0, "b": -0.0, "c": 0.1}) == canonical_json({"c": 0.1, "b": 0, "a": 1})
    assert canonical_json(True) != canonical_json(1)
    assert canonical_json((1, 2)) == "[1,2]"


@pytest.mark.parametrize("value", [float("nan"), {"a": [float("inf")]}])
def test_canonical_json_refuses_what_is_not_finite(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^\$"):
        canonical_json(value)


@pytest.mark.parametrize("value", [{1: "a"}, {"a": Path("x")}, {"a": {1, 2}}, b"x"])
def test_canonical_json_refuses_other_types(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^\$"):
        canonical_json(value)


def test_every_part_of_a_request_but_its_role_changes_the_key(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"one")
    variants = [
        REQUEST,
        replace(REQUEST, messages=(Message.text("system", "hello"),)),
        replace(REQUEST, messages=(Message("user", (TextPart("hello"), ImagePart(picture))),)),
        replace(REQUEST, schema={"type": "object"}),
        replace(REQUEST, grammar='root ::= "x"'),
        replace(REQUEST, schema={"properties": {"a": {}, "b": {}}}),
        replace(REQUEST, schema={"properties": {"b": {}, "a": {}}}),
        replace(REQUEST, thinking=True),
        replace(REQUEST, thinking=False),
        replace(REQUEST, reasoning_effort="low"),
        replace(REQUEST, sample=1),
        *(
            replace(REQUEST, sampling=replace(REQUEST.sampling, **change))
            for change in ({"temperature": 0.7}, {"top_p": 0.9}, {"top_k": 3}, {"max_tokens": 11}, {"seed": 0})
        ),
    ]
    keys = {canonical_json(request_key(IDENTITY, request)) for request in variants}
    assert len(keys) == len(variants)
    assert canonical_json(request_key({"backend": "other"}, REQUEST)) not in keys
    assert request_key(IDENTITY, replace(REQUEST, role="judge")) == request_key(IDENTITY, REQUEST)


def test_an_image_counts_by_its_bytes_not_its_path(tmp_path: Path) -> None:
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    first.write_bytes(b"one")
    second.write_bytes(b"one")

    def key(path: Path) -> dict[str, Any]:
        return request_key(IDENTITY, ChatRequest((Message("user", (ImagePart(path),)),)))

    before = key(first)
    assert key(second) == before
    first.write_bytes(b"two")
    assert key(first) != before


def test_replay_keeps_everything_as_first_measured(tmp_path: Path) -> None:
    cache = CallCache(tmp_path)
    assert cache.get(IDENTITY, REQUEST) is None
    cache.put(IDENTITY, REQUEST, REPLY)
    assert CallCache(tmp_path).get(IDENTITY, REQUEST) == replace(REPLY, replayed=True)
    assert cache.get(IDENTITY, replace(REQUEST, sample=1)) is None
    assert (cache.hits, cache.misses, cache.writes) == (0, 2, 1)


def test_a_value_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    cache, value = CallCache(tmp_path), {"x": [1.5, None, "\ud800 é \u2028"], "y": {"z": True}}
    cache.put_json("latency", {"q": 1}, value)
    assert cache.get_json("latency", {"q": 1.0}) == value
    assert cache.get_json("other", {"q": 1}) is None
    for namespace in ("", "../x", "A"):
        with pytest.raises(ValueError, match="namespace"):
            cache.get_json(namespace, {"q": 1})


def test_a_file_describes_its_key_without_long_texts(tmp_path: Path) -> None:
    cache = CallCache(tmp_path)
    cache.put_json("x", {"prompt": "begin" + "a" * 10_000, "k": 3}, {"v": 1})
    (file,) = tmp_path.rglob("*.json")
    shown = json.loads(file.read_text())["key"]
    assert shown["k"] == 3
    assert shown["prompt"].startswith("begin")
    assert "10005 characters" in shown["prompt"]
    assert len(file.read_bytes()) < 2_000


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_a_torn_file_is_noticed_and_the_call_repeated(
    tmp_path: Path, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    cache = CallCache(tmp_path)
    cache.put(IDENTITY, REQUEST, REPLY)
    path = cache.path_of("chat", request_key(IDENTITY, REQUEST))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    chat = ScriptedChat([Rule("again", times=1)])
    chat.identity = lambda: IDENTITY  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        assert CachedChat(chat, cache).complete(REQUEST).text == "again"
    assert str(path) in caplog.text
    assert len(list(tmp_path.rglob("*.bad-*"))) == 1
    assert CachedChat(chat, cache).complete(REQUEST).text == "again"
    assert len(chat.calls) == 1


def test_a_file_of_another_key_or_value_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = CallCache(tmp_path)
    cache.put_json("x", "mine", {"v": 1})
    cache.put_json("x", "other", {"v": 2})
    mine, other = cache.path_of("x", "mine"), cache.path_of("x", "other")
    mine.write_bytes(other.read_bytes())
    assert cache.get_json("x", "mine") is None
    assert "another key" in caplog.text
    other.write_text(other.read_text().replace('"v": 2', '"v": 3'))
    assert cache.get_json("x", "other") is None
    assert "checksum" in caplog.text
    other.write_text('{"hello": "world"}')
    assert cache.get_json("x", "other") is None


WORKER = """
import sys
from lmev2.models.cache import CallCache
cache = CallCache(sys.argv[1])
for turn in range(3):
    for number in range(20):
        value = cache.get_json("x", {"number": number})
        assert value is None or value == {"text": str(number) * 5000}, value
        cache.put_json("x", {"number": number}, {"text": str(number) * 5000})
"""


def test_eight_processes_share_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
        assert errors == ""
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 20
    assert all(name.endswith(".json") and not name.startswith(".") for name in files)


def test_equal_requests_at_once_make_one_call(tmp_path: Path) -> None:
    chat = ScriptedChat([Rule("slow", match="hello", delay_s=0.2)])
    cached = CachedChat(chat, CallCache(tmp_path))
    barrier = threading.Barrier(6)

    def ask(number: int) -> ChatReply:
        barrier.wait()
        return cached.complete(replace(REQUEST, role=f"role {number}"))

    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(ask, range(6)))
    assert len(chat.calls) == 1
    assert sorted(reply.replayed for reply in replies) == [False] + [True] * 5
    assert len({reply.wall_s for reply in replies}) == 1
    assert cached.cache._key_locks == {}


def test_different_requests_do_not_wait_for_each_other(tmp_path: Path) -> None:
    barrier = threading.Barrier(2, timeout=10)

    def meet(request: ChatRequest) -> str:
        barrier.wait()
        return "met"

    cached = CachedChat(ScriptedChat(meet), CallCache(tmp_path))
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda sample: cached.complete(replace(REQUEST, sample=sample)), range(2)))
    assert [reply.text for reply in replies] == ["met", "met"]


def test_errors_are_never_stored(tmp_path: Path) -> None:
    chat = ScriptedChat([Rule("down", match="hello", error="api_error", times=1), Rule("up", match="hello")])
    cached = CachedChat(chat, CallCache(tmp_path))
    with pytest.raises(ModelCallError, match="down"):
        cached.complete(REQUEST)
    assert not list(tmp_path.rglob("*.json"))
    assert cached.complete(REQUEST).text == "up"
    assert cached.complete(REQUEST).replayed


class CountingEmbedder:
    """Embeds a text as its length, and records what it was sent."""

    model, dimension = "counting", 2

    def __init__(self) -> None:
        self.sent: list[list[str]] = []

    def identity(self) -> dict[str, Any]:
        return {"backend": "counting"}

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.sent.append(list(texts))
        return np.array([[len(text), 1 / 3] for text in texts], np.float32)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        vector: npt.NDArray[np.float32] = -self.embed_documents([text])[0]
        return vector


def test_only_unknown_texts_are_embedded_each_once(tmp_path: Path) -> None:
    backend = CountingEmbedder()
    embedder = CachedEmbedder(backend, CallCache(tmp_path), batch_size=2)
    expected = np.array([[1, 1 / 3], [2, 1 / 3], [1, 1 / 3], [3, 1 / 3]], np.float32)
    np.testing.assert_array_equal(embedder.embed_documents(["a", "bb", "a", "ccc"]), expected)
    assert backend.sent == [["a", "bb"], ["ccc"]]
    np.testing.assert_array_equal(embedder.embed_documents(["ccc", "dddd"])[0], expected[3])
    assert backend.sent[2:] == [["dddd"]]
    np.testing.assert_array_equal(embedder.embed_query("a"), -expected[0])
    np.testing.assert_array_equal(embedder.embed_query("a"), -expected[0])
    assert backend.sent[3:] == [["a"]]


class MeetingEmbedder(CountingEmbedder):
    """Answers the batches of one meeting when all of them are there; the one with `bad` fails before the others end."""

    def __init__(self, parties: int) -> None:
        super().__init__()
        self.together, self.failed = threading.Barrier(parties), threading.Event()

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.together.wait(timeout=20)
        if "bad" in texts:
            self.failed.set()
            raise ModelCallError("api_error", "no vectors today")
        assert self.failed.wait(timeout=20)
        return super().embed_documents(texts)


def test_batches_beside_one_that_fails_are_kept(tmp_path: Path) -> None:
    texts = ["a", "bb", "bad", "dddd", "eeeee", "ffffff"]
    embedder = CachedEmbedder(MeetingEmbedder(3), CallCache(tmp_path), batch_size=2, concurrency=3)
    with pytest.raises(ModelCallError, match="no vectors today"):
        embedder.embed_documents(texts)
    again = CountingEmbedder()
    vectors = CachedEmbedder(again, CallCache(tmp_path), batch_size=2, concurrency=3).embed_documents(texts)
    assert again.sent == [["bad", "dddd"]]
    np.testing.assert_array_equal(vectors[:, 0], [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("value", ["NaN", "1e999", "[" * 400 + "]" * 400, "[" * 2_000 + "]" * 2_000])
def test_a_file_whose_value_has_no_canonical_form_is_absent(tmp_path: Path, value: str) -> None:
    cache = CallCache(tmp_path)
    cache.put_json("calls", "key", {"value": "here"})
    path = cache.path_of("calls", "key")
    path.write_text(path.read_text(encoding="ascii").replace('"here"', value), encoding="ascii")
    assert cache.get_json("calls", "key") is None
    assert not path.exists()
