"""Choosing among search results by a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmev2.memory.rerank import Reranker, worst_origin
from lmev2.memory.settings import RerankSettings
from lmev2.models.scripted import Rule, ScriptedChat, last_user_text
from lmev2.models.settings import ControllerSettings
from lmev2.models.types import ModelCallError
from lmev2.prompts import load_prompt

PROMPT = load_prompt(Path(__file__).resolve().parents[2] / "workflow" / "prompts" / "rerank.md")
SETTINGS = ControllerSettings(backend="scripted", model="scripted", script="none", thinking=True)
CANDIDATES = ["the order form", "the loan slip", "the register", "the playbook", "the ledger"]


def choice(*numbers: int) -> str:
    return json.dumps({"keep": numbers, "reason": "They show the field."})


def choose(
    *rules: Rule, table: str = "raw_state", candidates: list[str] = CANDIDATES
) -> tuple[list[int], ScriptedChat]:
    chat = ScriptedChat(rules)
    reranker = Reranker(chat, SETTINGS, PROMPT, RerankSettings())
    return list(reranker.choose("Which {field}?", table, candidates).positions), chat


def origin(*rules: Rule, candidates: list[str] = CANDIDATES) -> str | None:
    choice = Reranker(ScriptedChat(rules), SETTINGS, PROMPT, RerankSettings()).choose("Which?", "event", candidates)
    return choice.origin


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [((3, 1), [2, 0]), ((5,), [4]), ((2, 2, 1), [1, 0]), ((0, 2, 6, -1), [1]), ((1, 2, 3, 4, 5), [0, 1, 2, 3, 4])],
)
def test_the_model_keeps_and_orders(numbers: tuple[int, ...], kept: list[int]) -> None:
    found, chat = choose(Rule(choice(*numbers)))
    assert found == kept
    assert len(chat.calls) == 1


@pytest.mark.parametrize("numbers", ['["3", "1"]', "[3.0, 1.0]", '["3", 1.0]'])
def test_numbers_written_as_texts_or_decimals_count(numbers: str) -> None:
    found, chat = choose(Rule(f'{{"keep": {numbers}, "reason": "r"}}'))
    assert (found, len(chat.calls)) == ([2, 0], 1)
    assert [type(position) for position in found] == [int, int]


def test_the_prompt_shows_question_block_and_numbered_candidates() -> None:
    _, chat = choose(Rule(choice(1)), table="hint_note")
    (request,) = chat.calls
    text = last_user_text(request)
    assert "Question: Which {field}?\n\nCandidates (hint notes):\n\n[1] the order form\n\n[2] the loan slip" in text
    assert request.thinking is True and request.role == "controller" and request.usable is None


@pytest.mark.parametrize(("table", "kept"), [("raw_state", 2), ("event", 3), ("procedure_note", 3), ("hint_note", 3)])
@pytest.mark.parametrize(
    "rules",
    [
        [Rule("none of them"), Rule("sorry")],
        [Rule(choice()), Rule('{"keep": []}')],
        [Rule(choice(1), finish_reason="length"), Rule(choice(2), finish_reason="length")],
        [Rule("", finish_reason="length"), Rule("")],
        [Rule(choice(9, 0))],
    ],
)
def test_without_a_usable_choice_the_first_results_stay(rules: list[Rule], table: str, kept: int) -> None:
    found, chat = choose(*rules, table=table)
    assert found == list(range(kept))
    assert len(chat.calls) == len(rules)


def test_fewer_candidates_than_the_fallback_keeps() -> None:
    assert choose(Rule("no"), Rule("no"), table="event", candidates=CANDIDATES[:2])[0] == [0, 1]


def test_a_repaired_choice_counts_and_thinking_is_off_in_the_repair() -> None:
    found, chat = choose(Rule("the second"), Rule(f"```json\n{choice(2)}\n```"))
    assert found == [1]
    assert [request.thinking for request in chat.calls] == [True, False]


def test_a_choice_says_who_made_it() -> None:
    assert origin(Rule(choice(2))) == "model"
    assert origin(Rule("the second"), Rule(choice(2))) == "repaired"
    assert origin(Rule("no"), Rule("no")) == "fallback"
    assert origin(Rule("no"), Rule(choice(9))) == "fallback"
    assert origin(Rule(choice(9))) == "fallback"
    assert origin(candidates=CANDIDATES[:1]) is None


def test_the_worst_origin_stands_for_all() -> None:
    assert worst_origin([None, "model"]) == "model"
    assert worst_origin(["repaired", "model", None]) == "repaired"
    assert worst_origin(["repaired", "fallback", "model"]) == "fallback"
    assert worst_origin([None]) is worst_origin([]) is None


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_choose_costs_no_call(count: int) -> None:
    found, chat = choose(candidates=CANDIDATES[:count])
    assert (found, chat.calls) == (list(range(count)), [])


@pytest.mark.parametrize("rules", [[Rule("503", error="api_error")], [Rule("no"), Rule("503", error="api_error")]])
def test_a_failed_call_is_no_choice(rules: list[Rule]) -> None:
    with pytest.raises(ModelCallError, match="503"):
        choose(*rules)
