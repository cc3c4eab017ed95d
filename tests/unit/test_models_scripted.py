"""Scripted backends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmev2.models.scripted import Rule, ScriptedChat, ScriptedEmbedder, last_user_text, read_script
from lmev2.models.settings import EmbedderSettings
from lmev2.models.types import ChatReply, ChatRequest, Message, ModelCallError, ModelSetupError


def ask(text: str) -> ChatRequest:
    return ChatRequest((Message.text("system", "alpha"), Message.text("user", text), Message.text("assistant", "beta")))


def write(path: Path, *rules: dict[str, Any]) -> Path:
    path.write_text("\n".join(json.dumps(rule) for rule in rules) + "\n\n", encoding="utf-8")
    return path


def test_rules_of_a_file_answer_by_match_then_in_order(tmp_path: Path) -> None:
    script = write(
        tmp_path / "script.jsonl",
        {"text": "first"},
        {"match": "cat", "text": "a cat"},
        {"regex": r"\bdogs?\b", "text": "a dog", "finish_reason": "length", "times": 1},
        {"text": "second", "times": 2},
    )
    chat = ScriptedChat(read_script(script))
    texts = ["the cat", "x", "two dogs", "cat", "dogs", "y"]
    assert [chat.complete(ask(text)).text for text in texts] == ["a cat", "first", "a dog", "a cat", "second", "second"]
    with pytest.raises(ModelCallError, match="no reply left for: 'z'"):
        chat.complete(ask("z"))
    assert [last_user_text(request) for request in chat.calls] == [*texts, "z"]
    assert chat.complete(ask("cat")).finish_reason == "stop"


def test_only_the_last_user_message_counts() -> None:
    chat = ScriptedChat([Rule("wrong", match="alpha"), Rule("wrong", match="beta"), Rule("right")])
    assert chat.complete(ask("gamma")).text == "right"


def test_errors_and_delays(tmp_path: Path) -> None:
    chat = ScriptedChat([Rule("gone", match="a", error="context_overflow"), Rule("late", delay_s=0.05)])
    with pytest.raises(ModelCallError, match="gone") as caught:
        chat.complete(ask("a"))
    assert caught.value.kind == "context_overflow"
    assert chat.complete(ask("b")).wall_s >= 0.05


def test_a_callable_sees_the_request() -> None:
    reply = ChatReply("whole", "length", 1, 2, "m", 3.0)
    chat = ScriptedChat(lambda request: reply if request.sample else last_user_text(request).upper())
    assert chat.complete(ask("hi")).text == "HI"
    assert chat.complete(ChatRequest((), sample=1)) == reply
    assert chat.complete(ask("two words!")).completion_tokens == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("not json", "line 2"),
        ('{"txet": "x"}', "line 2"),
        ('{"regex": "("}', "line 2"),
        ('{"error": "bad_kind"}', "unknown error kind 'bad_kind'"),
        ("[]", "line 2"),
    ],
)
def test_a_bad_script_names_file_and_line(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('{"text": "x"}\n' + line, encoding="utf-8")
    with pytest.raises(ModelSetupError, match=words):
        read_script(path)
    with pytest.raises(ModelSetupError, match=r"none\.jsonl"):
        read_script(tmp_path / "none.jsonl")


def test_the_rules_are_in_the_identity() -> None:
    identities = [
        ScriptedChat([Rule("a")]).identity(),
        ScriptedChat([Rule("b")]).identity(),
        ScriptedChat([Rule("a")], model="other").identity(),
        ScriptedChat(lambda _: "a", name="one").identity(),
        ScriptedChat(lambda _: "a", name="two").identity(),
    ]
    assert all(identities.count(identity) == 1 for identity in identities)
    assert ScriptedChat([Rule("a")]).identity() == identities[0]


def test_embeddings_are_the_same_everywhere_and_similar_for_shared_words() -> None:
    embedder = ScriptedEmbedder(EmbedderSettings(backend="scripted", model="s", dimension=64))
    vectors = embedder.embed_documents(["open the incident list", "the incident list", "buy a red shirt", ""])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0], atol=1e-6)
    similarity = vectors @ embedder.embed_query("incident list")
    assert similarity[1] > similarity[0] > similarity[2]
    # where "list" and "incident" stand: a change would change every test that relies on these vectors
    assert np.flatnonzero(embedder.embed_query("incident list")).tolist() == [17, 28]
