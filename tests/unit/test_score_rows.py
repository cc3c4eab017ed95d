"""Score rows: errors, judge calls, evidence coverage and gold support."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2 import rows as contracts
from lmev2.models.settings import ChatSettings
from lmev2.models.types import ChatReply, ChatRequest, ModelCallError, TokenCounter
from lmev2.prompts import Prompt
from lmev2.scoring.score import Judge, ScoreInputError, evidence_covered, group_evidence, score_rows
from lmev2.scoring.spec import ScorerName

USER = "{question_text}|{reference_answer}|{model_full_response}|{model_final_answer}"
PROMPTS: dict[ScorerName, Prompt] = {
    "llm_abstention_checker": Prompt("abs", USER),
    "llm_gotchas_checker": Prompt("gotcha", USER),
}
PHRASES, ABSTENTION, GOTCHAS = "norm_phrase_set_match", "llm_abstention_checker", "llm_gotchas_checker"


class EchoJudge:
    """Gives label 1 when the predicted answer is the reference; obeys replies that begin with ``!``."""

    model = "judge"
    supports_images = False
    context_length: int | None = None

    def __init__(self, meet: int = 1):
        self.calls: list[tuple[str, str]] = []
        self.barrier = threading.Barrier(meet)
        self.lock = threading.Lock()

    def identity(self) -> dict[str, Any]:
        return {}

    def counter(self) -> TokenCounter:
        raise NotImplementedError

    def complete(self, request: ChatRequest) -> ChatReply:
        system, user = (message.parts[0].text for message in request.messages)  # type: ignore[union-attr]
        _, gold, reply, parsed = user.split("|")
        with self.lock:
            self.calls.append((system, parsed))
        self.barrier.wait(timeout=20)
        if reply == "!mute":
            return ChatReply("", "stop", 1, 0, self.model, 0.0)
        if reply == "!down":
            raise ModelCallError("api_error", "503")
        if reply == "!bug":
            raise KeyError("bug")
        return ChatReply(f'{{"label": {int(parsed == gold)}, "reason": "r"}}', "stop", 1, 1, self.model, 0.0)


def judge(chat: EchoJudge | None = None, attempts: int = 2) -> Judge:
    settings = ChatSettings(backend="scripted", model="judge")
    return Judge(chat or EchoJudge(), PROMPTS, settings, attempts)


def question(name: str, eval_function: str = PHRASES, **more: Any) -> dict[str, Any]:
    row = {
        "question_id": name,
        "domain": "web",
        "environment": "shop",
        "question_type": "procedure",
        "category": "workflow",
        "question": "Which button?",
        "image": None,
        "answer": "Save",
        "eval_function": eval_function,
    }
    return {**row, **more}


def answer(name: str, parsed: str = "Save", **more: Any) -> dict[str, Any]:
    row = {
        "question_id": name,
        "method": "rag",
        "tier": "small",
        "reply": parsed,
        "parsed": parsed,
        "unknown": parsed.upper() == "UNKNOWN",
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "context_tokens_before": 1,
        "context_tokens": 1,
        "items_before": 0,
        "items_dropped": 0,
        "images_shown": True,
        "images_left_out": 0,
        "wall_s": 0.1,
        "model": "reader",
        "finish_reason": "stop",
        "error": None,
        "error_detail": None,
    }
    return {**row, **more}


def item(value: str, trajectory: str | None, *states: int, kind: str = "text") -> dict[str, Any]:
    shown = {"trajectory_id": trajectory, "states": list(states)}
    return {"type": kind, "value": value, **shown, "pool": None, "score": None}


def context(name: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    row = {
        "question_id": name,
        "method": "rag",
        "tier": "small",
        "items": list(items),
        "queries": "{}",
        "latency_s": 0.0,
        "replayed": False,
        "error": None,
        "error_detail": None,
    }
    return {**row, **more}


def hop(name: str, number: int, trajectory: str, state: int) -> dict[str, Any]:
    return {"question_id": name, "hop": number, "trajectory_id": trajectory, "state_index": state}


def score_one(
    question_row: dict[str, Any],
    answer_row: dict[str, Any],
    context_row: dict[str, Any] | None = None,
    evidence: list[dict[str, Any]] | None = None,
    with_judge: Judge | None = None,
) -> dict[str, Any]:
    contexts = [context_row or context(answer_row["question_id"])]
    (row,) = score_rows([answer_row], [question_row], contexts, evidence or [], with_judge)
    return row


# Scores


def test_rows_follow_the_contract_and_the_order_of_the_answers(tmp_path: Path) -> None:
    names = ["d", "b", "a", "c"]
    scorers = {"a": PHRASES, "b": ABSTENTION, "c": GOTCHAS, "d": "mc_choice_match"}
    given_questions = [question(name, scorers[name]) for name in sorted(names)]
    contexts = [context(name) for name in sorted(names)]
    found = score_rows([answer(name) for name in names], given_questions, contexts, [], judge(), concurrency=2)
    assert [row["question_id"] for row in found] == names
    assert [row["scorer"] for row in found] == [scorers[name] for name in names]
    assert all(row["correct"] is True and row["error"] is None for row in found)
    assert [row["judge_label"] for row in found] == [None, 1, None, 1]
    contracts.write_rows(tmp_path / "scores.parquet", contracts.SCORE, found)
    assert list(contracts.read_rows(tmp_path / "scores.parquet", contracts.SCORE)) == [
        {name: row[name] for name in contracts.SCORE.names} for row in found
    ]


def test_wrong_answers_are_scored_wrong() -> None:
    assert score_one(question("q"), answer("q", "Close"))["correct"] is False
    row = score_one(question("q", GOTCHAS), answer("q", "Close"), with_judge=judge())
    assert (row["correct"], row["judge_label"], row["judge_reason"]) == (False, 0, "r")


def test_each_judge_scorer_has_its_prompt() -> None:
    chat = EchoJudge()
    for scorer in (ABSTENTION, GOTCHAS):
        score_one(question("q", scorer), answer("q"), with_judge=judge(chat))
    assert chat.calls == [("abs", "Save"), ("gotcha", "Save")]


@pytest.mark.parametrize("kind", ["length", "api_error", "memory_error", "malformed_reply", "context_overflow"])
@pytest.mark.parametrize("scorer", [PHRASES, ABSTENTION])
def test_errors_of_earlier_stages_stay_errors(kind: str, scorer: str) -> None:
    chat = EchoJudge()
    failed = answer("q", error=kind, error_detail="why")
    row = score_one(question("q", scorer), failed, with_judge=judge(chat))
    assert (row["error"], row["error_detail"]) == (kind, "why")
    assert (row["correct"], row["unknown"], row["judge_label"]) == (None, None, None)
    assert chat.calls == []


@pytest.mark.parametrize(
    ("parsed", "gold", "reason"),
    [("UNKNOWN", "Save", "UNKNOWN is always wrong"), (" ", "Save", "an empty answer"), ("x", "", "an empty reference")],
)
def test_unknown_and_empty_are_wrong_without_a_judge_call(parsed: str, gold: str, reason: str) -> None:
    row = score_one(question("q", ABSTENTION, answer=gold), answer("q", parsed))
    assert (row["correct"], row["unknown"], row["judge_label"]) == (False, parsed == "UNKNOWN", None)
    assert row["judge_reason"].startswith(reason)
    assert row["judge_reason"].endswith("the judge was not asked")


def test_unknown_is_wrong_even_when_it_is_the_gold() -> None:
    assert score_one(question("q", answer="unknown"), answer("q", "UNKNOWN"))["correct"] is False


def test_empty_answers_reach_the_judge_when_the_scorer_allows_them() -> None:
    chat = EchoJudge()
    score_one(question("q", f"{GOTCHAS}|require_non_empty=false"), answer("q", ""), with_judge=judge(chat))
    assert chat.calls == [("gotcha", "")]


def test_a_judge_without_verdict_makes_an_error_row() -> None:
    chat = EchoJudge()
    row = score_one(question("q", GOTCHAS), answer("q", reply="!mute"), with_judge=judge(chat, attempts=4))
    assert (row["correct"], row["judge_label"], row["error"]) == (None, None, "judge_error")
    assert row["error_detail"] == "the reply is empty"
    assert len(chat.calls) == 4
    row = score_one(question("q", GOTCHAS), answer("q", reply="!down"), with_judge=judge())
    assert (row["correct"], row["error"], row["error_detail"]) == (None, "judge_error", "api_error: 503")


def test_judge_calls_run_at_once_and_progress_is_reported() -> None:
    names = [f"q{number}" for number in range(4)]
    told: list[tuple[int, int]] = []
    found = score_rows(
        [answer(name) for name in (*names, "plain")],
        [*(question(name, GOTCHAS) for name in names), question("plain")],
        [context(name) for name in (*names, "plain")],
        [],
        judge(EchoJudge(meet=4)),  # each call waits until four are under way
        concurrency=4,
        progress=lambda done, total: told.append((done, total)),
    )
    assert [row["correct"] for row in found] == [True] * 5
    assert told == [(number, 5) for number in range(1, 6)]


def test_unexpected_failures_are_not_swallowed() -> None:
    with pytest.raises(KeyError, match="bug"):
        score_one(question("q", GOTCHAS), answer("q", reply="!bug"), with_judge=judge())


# Inputs that do not belong together


def test_judged_questions_need_a_judge() -> None:
    with pytest.raises(ScoreInputError, match=r"'q'.*llm_gotchas_checker.*configure models.judge"):
        score_one(question("q", GOTCHAS), answer("q"))


@pytest.mark.parametrize(
    ("answers", "questions", "contexts", "said"),
    [
        ([answer("q")], [], [context("q")], "unknown questions"),
        ([answer("q")], [question("q")], [], "no context row"),
        ([answer("q")], [question("q")], [context("q", tier="medium")], r"no context row.*\(rag, small\)"),
        ([answer("q"), answer("q")], [question("q")], [context("q")], "more than one answer row"),
        ([answer("q")], [question("q")], [context("q"), context("q")], "more than one context row"),
        ([answer("q", items_before=2)], [question("q")], [context("q")], "from 2 items, but its context has 0"),
        ([answer("q", items_dropped=1)], [question("q")], [context("q")], "1 of 0 context items"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    answers: list[dict[str, Any]], questions: list[dict[str, Any]], contexts: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(ScoreInputError, match=said):
        score_rows(answers, questions, contexts, [], None)


def test_contexts_and_questions_of_others_do_no_harm() -> None:
    found = score_rows([answer("q")], [question("q"), question("r")], [context("r"), context("q")], [], None)
    assert [row["question_id"] for row in found] == ["q"]
    assert score_rows([], [], [], [], None) == []


# Evidence and gold support


def test_evidence_before_and_after_truncation() -> None:
    items = [item("one", "t1", 0, 1), item("two", "t1", 2), item("a.png", "t2", 5, kind="image")]
    labels = [hop("q", 0, "t1", 1), hop("q", 0, "t9", 1), hop("q", 1, "t2", 5), hop("q", 1, "t2", 6)]
    covered = {}
    for dropped in range(4):
        row = score_one(question("q"), answer("q", items_before=3, items_dropped=dropped), context("q", *items), labels)
        assert row["evidence_covered_before"] is True
        covered[dropped] = row["evidence_covered"]
    assert covered == {0: True, 1: False, 2: False, 3: False}


def test_same_index_of_another_trajectory_is_no_evidence() -> None:
    items = [item("one", "t1", 5), item("heading", None)]
    row = score_one(question("q"), answer("q", items_before=2), context("q", *items), [hop("q", 0, "t2", 5)])
    assert (row["evidence_covered"], row["evidence_covered_before"]) == (False, False)


def test_without_labels_coverage_is_null() -> None:
    row = score_one(question("q"), answer("q"), evidence=[hop("other", 0, "t", 0)])
    assert (row["evidence_covered"], row["evidence_covered_before"]) == (None, None)


states = st.tuples(st.sampled_from("ab"), st.integers(0, 3))


@given(st.lists(st.sets(states, min_size=1), max_size=4), st.sets(states))
def test_coverage_equals_its_definition(hops: list[set[tuple[str, int]]], shown: set[tuple[str, int]]) -> None:
    expected = None
    if hops:
        expected = True
        for one in hops:
            expected = expected and any(state in shown for state in one)
    assert evidence_covered(hops, shown) is expected
    flat = [hop("q", number, *state) for number, one in enumerate(hops) for state in one]
    regrouped = group_evidence(reversed(flat)).get("q", [])
    assert sorted(map(sorted, regrouped)) == sorted(map(sorted, hops))


def test_gold_support_looks_at_the_kept_text_only() -> None:
    items = [item("nothing", "t", 0), item("[3] button 'Save'", "t", 1), item("save.png", "t", 1, kind="image")]
    supported = {}
    for dropped in range(4):
        row = score_one(question("q"), answer("q", items_before=3, items_dropped=dropped), context("q", *items))
        supported[dropped] = row["gold_supported"]
    assert supported == {0: True, 1: True, 2: False, 3: False}
    image = [item("Save", "t", 1, kind="image")]
    assert score_one(question("q"), answer("q", items_before=1), context("q", *image))["gold_supported"] is False


def test_gold_support_is_null_where_undefined() -> None:
    items = [item("Save", "t", 0)]
    for asked in (question("q", "mc_choice_match"), question("q", question="Is it Save?")):
        assert score_one(asked, answer("q", items_before=1), context("q", *items))["gold_supported"] is None


def test_facts_about_failed_rows() -> None:
    labels = [hop("q", 0, "t", 0)]
    items = [item("Save", "t", 0)]
    failed_memory = context("q", error="memory_error", error_detail="no output")
    row = score_one(question("q"), answer("q", error="memory_error"), failed_memory, labels)
    assert (row["evidence_covered"], row["evidence_covered_before"], row["gold_supported"]) == (None, None, None)
    row = score_one(question("q"), answer("q", error="length", items_before=1), context("q", *items), labels)
    assert (row["evidence_covered"], row["evidence_covered_before"], row["gold_supported"]) == (True, True, True)
    row = score_one(question("q"), answer("q", error="api_error", items_before=0), context("q", *items), labels)
    assert (row["evidence_covered"], row["evidence_covered_before"], row["gold_supported"]) == (None, True, None)
