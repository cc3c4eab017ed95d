"""The reader stage: prompts, error kinds, and what a repeated run asks again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lmev2.failures import TooManyErrors, check_allowed
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.scripted import Rule, ScriptedChat
from lmev2.models.settings import ReaderSettings, SamplingSettings
from lmev2.prompts import Prompt, load_prompt
from lmev2.reader import answer_rows, line_grammar
from lmev2.rows import ANSWER, write_rows


@pytest.fixture(scope="module")
def prompts() -> dict[str, Prompt]:
    folder = Path(__file__).resolve().parents[2] / "workflow" / "prompts"
    return {domain: load_prompt(folder / f"reader_{domain}.md") for domain in ("web", "enterprise")}


def settings(**changes: Any) -> ReaderSettings:
    sampling = SamplingSettings(max_tokens=50)
    return ReaderSettings(backend="scripted", model="m", sampling=sampling, context_tokens=1000).model_copy(
        update=changes
    )


def question(name: str = "q1", domain: str = "web", image: str | None = None) -> dict[str, Any]:
    return {"question_id": name, "domain": domain, "question": f"What is {name}?", "image": image}


def context(name: str = "q1", items: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    row = {
        "question_id": name,
        "method": "rag",
        "tier": "small",
        "items": items or [],
        "error": None,
        "error_detail": None,
    }
    return row | changes


def read(
    chat: Any,
    prompts: dict[str, Prompt],
    questions: list[dict[str, Any]],
    contexts: list[dict[str, Any]],
    **changes: Any,
) -> list[dict[str, Any]]:
    by_id = {row["question_id"]: row for row in contexts}
    return answer_rows(questions, by_id, chat, settings(**changes), prompts, lambda done, total: None)


def test_rows_keep_reply_prediction_and_counts(prompts: dict[str, Prompt], tmp_path: Path) -> None:
    chat = ScriptedChat([Rule(text=r"So \boxed{Title, Forum}.", match="What is q1?")])
    items = [{"type": "text", "value": "the form"}, {"type": "image", "value": "x.png"}]
    rows = read(chat, prompts, [question()], [context(items=items)])
    assert rows[0]["parsed"] == "Title, Forum" and rows[0]["error"] is None and not rows[0]["unknown"]
    assert (rows[0]["items_before"], rows[0]["items_dropped"], rows[0]["images_left_out"]) == (2, 0, 1)
    assert 0 < rows[0]["context_tokens"] == rows[0]["context_tokens_before"]
    assert write_rows(tmp_path / "rows.parquet", ANSWER, rows) == 1


def test_the_prompt_is_the_domains_and_says_when_the_context_is_empty(prompts: dict[str, Prompt]) -> None:
    chat = ScriptedChat([Rule(text="x", regex=".", times=None)])
    read(
        chat,
        prompts,
        [question("q1", "web"), question("q2", "enterprise")],
        [context("q1"), context("q2")],
        concurrency=1,
    )
    systems = [call.messages[0].parts[0].text for call in chat.calls]
    assert "Magento" in systems[0] and "ServiceNow" in systems[1]
    user = chat.calls[0].messages[1].parts[0].text
    assert user.startswith("### Memory context:\n(the memory returned no evidence)") and user.endswith("What is q1?")


def test_three_kinds_of_failure_stay_apart(prompts: dict[str, Prompt]) -> None:
    chat = ScriptedChat(
        [
            Rule(text="cut off here", match="What is q1?", finish_reason="length"),
            Rule(text="503", match="What is q2?", error="api_error"),
        ]
    )
    contexts = [context("q1"), context("q2"), context("q3", error="memory_error", error_detail="no output")]
    rows = read(chat, prompts, [question("q1"), question("q2"), question("q3")], contexts)
    assert [row["error"] for row in rows] == ["length", "api_error", "memory_error"]
    assert not any(row["unknown"] for row in rows)
    with pytest.raises(
        TooManyErrors, match=r"3 rows failed \(1 api_error, 1 length, 1 memory_error\), errors.allow is 2"
    ):
        check_allowed(rows, 2, "read_answers")
    check_allowed(rows, 3, "read_answers")


def test_unknown_is_marked(prompts: dict[str, Prompt]) -> None:
    chat = ScriptedChat([Rule(text=r"\boxed{unknown}", regex=".")])
    assert read(chat, prompts, [question()], [context()])[0]["unknown"]


def test_a_repeated_run_asks_only_for_what_failed(prompts: dict[str, Prompt], tmp_path: Path) -> None:
    bare = ScriptedChat(
        [
            Rule(text="cut", match="What is q1?", finish_reason="length", times=1),
            Rule(text=r"\boxed{a}", match="What is q1?"),
            Rule(text=r"\boxed{b}", match="What is q2?"),
        ]
    )
    chat = CachedChat(bare, CallCache(tmp_path))
    questions, contexts = [question("q1"), question("q2")], [context("q1"), context("q2")]
    first = read(chat, prompts, questions, contexts, concurrency=1)
    assert [row["error"] for row in first] == ["length", None]
    second = read(chat, prompts, questions, contexts, concurrency=1)
    assert [row["parsed"] for row in second] == ["a", "b"]
    assert len(bare.calls) == 3  # q1 twice, q2 once


def test_a_line_is_asked_for_by_grammar(prompts: dict[str, Prompt]) -> None:
    chat = ScriptedChat([Rule(text="x", regex=".")])
    read(chat, prompts, [question()], [context()], reply_format="line", line_chars=120)
    assert chat.calls[0].grammar == line_grammar(120) == r"root ::= [^ \n] [^\n]{0,119}"


def test_a_reply_with_half_a_character_can_be_stored(prompts: dict[str, Prompt], tmp_path: Path) -> None:
    chat = ScriptedChat([Rule(text="So \\boxed{a\ud83d}", regex=".")])
    rows = read(chat, prompts, [question()], [context()])
    assert (rows[0]["reply"], rows[0]["parsed"]) == ("So \\boxed{a\ufffd}", "a\ufffd")
    assert write_rows(tmp_path / "rows.parquet", ANSWER, rows) == 1
