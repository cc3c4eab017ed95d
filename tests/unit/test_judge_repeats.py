"""Several verdicts on one answer, and that equal answers share them, whoever asks and however many at once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from unit.test_score_rows import ABSTENTION, GOTCHAS, PROMPTS, answer, context, question

from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.call_lock import locked
from lmev2.models.settings import MOST_ATTEMPTS, ChatSettings, JudgeSettings
from lmev2.models.types import ChatReply, ChatRequest, ModelCallError, TokenCounter
from lmev2.rows import SCORE, VERDICT, write_rows
from lmev2.scoring.judge import Decision, judge_answer, judge_repeatedly
from lmev2.scoring.score import Judge, ScoreInputError, score_rows
from lmev2.scoring.verdicts import verdict_rows

SETTINGS = ChatSettings(backend="scripted", model="judge")
PROMPT = PROMPTS["llm_abstention_checker"]
Script = Callable[[int], int | None]  # label by sample number; None: no usable reply


class SampleJudge:
    """Gives the label that its script has for the request's sample number, slowly."""

    model = "judge"
    supports_images = False
    context_length: int | None = None

    def __init__(self, script: Script, slow_s: float = 0.0, name: str = "one"):
        self.script, self.slow_s, self.name = script, slow_s, name
        self.requests: list[ChatRequest] = []
        self.lock = threading.Lock()

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    def counter(self) -> TokenCounter:
        raise NotImplementedError

    def complete(self, request: ChatRequest) -> ChatReply:
        with self.lock:
            self.requests.append(request)
        time.sleep(self.slow_s)
        label = self.script(request.sample)
        if label == 503:
            raise ModelCallError("api_error", "503")
        text = "no idea" if label is None else json.dumps({"label": label, "reason": f"sample {request.sample}"})
        return ChatReply(text, "stop", 1, 1, self.model, 0.0)

    @property
    def samples(self) -> list[int]:
        return [request.sample for request in self.requests]


def repeated(chat: SampleJudge, repeats: int, attempts: int = 3) -> Decision:
    return judge_repeatedly(chat, PROMPT, "Which?", "Save", "It is Save.", "Save", SETTINGS, attempts, repeats)


def by_repeat(labels: Sequence[int | None]) -> Script:
    """A judge whose repeats give these labels at the first attempt, or nothing usable at any."""
    return lambda sample: labels[sample // MOST_ATTEMPTS]


@given(
    st.integers(0, 4).flatmap(
        lambda half: st.lists(st.sampled_from([0, 1, None]), min_size=2 * half + 1, max_size=2 * half + 1)
    )
)
def test_the_label_of_more_than_half_of_all_repeats_decides(labels: list[int | None]) -> None:
    decision = repeated(SampleJudge(by_repeat(labels)), len(labels))
    votes = Counter(labels)
    wanted = next((label for label in (0, 1) if 2 * votes[label] > len(labels)), None)
    assert decision.label == wanted
    if wanted is None:
        assert decision.reason is None and decision.detail is not None and "no idea" in decision.detail
    else:
        first = labels.index(wanted)
        assert (decision.reason, decision.detail) == (f"sample {first * MOST_ATTEMPTS}", None)
        assert list(decision.labels) == [label for label in labels if label is not None]


def test_every_repeat_is_made_also_where_the_first_ones_decide() -> None:
    chat = SampleJudge(by_repeat([1, 1, 0, 1, 0]))
    assert repeated(chat, 5) == Decision(1, "sample 0", (1, 1, 0, 1, 0))
    assert chat.samples == [0, 100, 200, 300, 400]


def test_a_judge_that_is_down_is_not_asked_in_vain() -> None:
    chat = SampleJudge(lambda sample: 503)
    decision = repeated(chat, 5)
    assert (decision.label, decision.labels, len(chat.requests)) == (None, (), 3)
    assert decision.detail == "no label has a majority of 5 repeats (found none): api_error: 503"


def test_attempts_of_one_repeat_are_no_verdicts_of_another() -> None:
    chat = SampleJudge(lambda sample: None if sample % MOST_ATTEMPTS < 2 else 1)
    assert repeated(chat, 3).labels == (1, 1, 1)
    assert chat.samples == [0, 1, 2, 100, 101, 102, 200, 201, 202]
    with pytest.raises(ValueError, match=f"at most {MOST_ATTEMPTS}"):
        judge_answer(chat, PROMPT, "q", "g", "r", "p", SETTINGS, attempts=MOST_ATTEMPTS + 1)


def test_one_verdict_is_the_call_that_it_always_was() -> None:
    once, first = SampleJudge(lambda sample: 1), SampleJudge(lambda sample: 1)
    repeated(once, 1)
    repeated(first, 3)
    assert once.requests == first.requests[:1]  # more repeats replay the verdict that is there


@pytest.mark.parametrize("repeats", [0, 2, 4, -1])
def test_a_tie_is_impossible(repeats: int) -> None:
    with pytest.raises(ValueError, match="odd"):
        repeated(SampleJudge(lambda sample: 1), repeats)
    with pytest.raises(ValidationError, match=r"odd|greater than or equal to 1"):
        JudgeSettings(backend="scripted", model="judge", repeats=repeats)


def score(answers: list[dict[str, Any]], judge: Judge, concurrency: int = 4) -> list[dict[str, Any]]:
    questions = {row["question_id"]: question(row["question_id"], GOTCHAS) for row in answers}
    contexts = [context(row["question_id"], method=row["method"], tier=row["tier"]) for row in answers]
    return score_rows(answers, questions.values(), contexts, [], judge, concurrency)


def test_scores_keep_all_labels_and_follow_the_majority(tmp_path: Path) -> None:
    chat = SampleJudge(by_repeat([0, 1, 1]))
    rows = score([answer("q"), answer("empty", " "), answer("u", "UNKNOWN")], Judge(chat, PROMPTS, SETTINGS, 2, 3))
    assert [(row["correct"], row["judge_label"], row["judge_labels"]) for row in rows] == (
        [(True, 1, [0, 1, 1]), (False, None, None), (False, None, None)]
    )
    broken = score([answer("q")], Judge(SampleJudge(by_repeat([0, 1, None])), PROMPTS, SETTINGS, 2, 3))[0]
    assert (broken["correct"], broken["judge_label"], broken["judge_labels"]) == (None, None, [0, 1])
    assert broken["error"] == "judge_error" and "found 0, 1" in broken["error_detail"]
    assert write_rows(tmp_path / "s.parquet", SCORE, [*rows, broken]) == 4


def test_further_judges_are_asked_about_the_same_answers(tmp_path: Path) -> None:
    answers = [
        answer("a"),
        answer("b", "UNKNOWN"),
        answer("c", " "),
        answer("d", error="length"),
        answer("e"),
        answer("f"),
    ]
    questions = [question(row["question_id"], ABSTENTION if row["question_id"] == "e" else GOTCHAS) for row in answers]
    questions[-1]["eval_function"] = "mc_choice_match"
    own = Judge(SampleJudge(lambda sample: 1), PROMPTS, SETTINGS)
    scored = score_rows(answers, questions, [context(row["question_id"]) for row in answers], [], own)
    seen: list[tuple[int, int]] = []
    second = Judge(SampleJudge(by_repeat([1, 0, 0])), PROMPTS, SETTINGS, 1, 3)
    rows = verdict_rows(answers, questions, "second", second, 2, lambda done, total: seen.append((done, total)))
    asked = [(row["question_id"], row["scorer"]) for row in scored if row["judge_labels"] is not None]
    assert [(row["question_id"], row["scorer"]) for row in rows] == asked == [("a", GOTCHAS), ("e", ABSTENTION)]
    assert {(row["judge"], row["label"], tuple(row["labels"]), row["error"]) for row in rows} == (
        {("second", 0, (1, 0, 0), None)}
    )
    assert seen == [(1, 2), (2, 2)] and write_rows(tmp_path / "v.parquet", VERDICT, rows) == 2
    failed = verdict_rows(answers, questions, "s", Judge(SampleJudge(lambda sample: 503), PROMPTS, SETTINGS))
    assert {(row["label"], row["error"], row["error_detail"]) for row in failed} == {
        (None, "judge_error", "api_error: 503")
    }
    with pytest.raises(ScoreInputError, match="'x'"):
        verdict_rows([answer("x")], questions, "second", second)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_equal_answers_pay_once_whoever_gave_them(tmp_path: Path, concurrency: int) -> None:
    chat = SampleJudge(lambda sample: 1, slow_s=0.05)
    judge = Judge(CachedChat(chat, CallCache(tmp_path)), PROMPTS, SETTINGS)
    cells = [(method, tier) for method in ("rag", "none", "agent") for tier in ("small", "medium")]
    rows = score([answer("q", method=method, tier=tier) for method, tier in cells], judge, concurrency)
    assert len(chat.requests) == 1 and [row["correct"] for row in rows] == [True] * len(cells)
    # A later job replays it with any concurrency, and under names that it has never seen.
    again = SampleJudge(lambda sample: 0)
    later = Judge(CachedChat(again, CallCache(tmp_path)), PROMPTS, SETTINGS)
    rows = score([answer("q", method="new", tier="medium")], later, 9 - concurrency)
    assert again.requests == [] and rows[0]["correct"]


def test_another_reply_question_gold_prompt_or_judge_pays_again(tmp_path: Path) -> None:
    calls: list[str] = []

    def ask(
        name: str = "one", text: str = "Which?", gold: str = "Save", reply: str = "Save", system: str = "abs"
    ) -> None:
        chat = SampleJudge(lambda sample: 1, name=name)
        prompt = type(PROMPT)(system, PROMPT.user)
        judge_answer(CachedChat(chat, CallCache(tmp_path)), prompt, text, gold, reply, "Save", SETTINGS)
        calls.append(str(len(chat.requests)))

    ask()
    ask()
    for change in ({"name": "two"}, {"text": "Where?"}, {"gold": "Saved"}, {"reply": "I say Save"}, {"system": "x"}):
        ask(**change)
    assert "".join(calls) == "1011111"


JOB = """
import os, sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from unit.test_judge_repeats import PROMPTS, SETTINGS, Judge, SampleJudge, answer, score

folder, method = Path(sys.argv[1]), sys.argv[2]

class Slow(SampleJudge):
    def complete(self, request):
        with (folder / "calls").open("a") as file:
            file.write(f"{{method}}\\n")
        return super().complete(request)

(folder / f"ready-{{method}}").touch()
while len(list(folder.glob("ready-*"))) < 2:
    time.sleep(0.01)
judge = Judge(CachedChat(Slow(lambda sample: 1, slow_s=0.5), CallCache(folder / "cache")), PROMPTS, SETTINGS)
rows = score([answer("q", method=method, tier=tier) for tier in ("small", "medium")], judge)
print([row["correct"] for row in rows])
"""


def test_two_jobs_at_once_pay_once(tmp_path: Path) -> None:
    program = JOB.format(path=[*sys.path, str(Path(__file__).resolve().parents[1])])
    jobs = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name], stdout=subprocess.PIPE, text=True)
        for name in ("rag", "none")
    ]
    assert [job.communicate(timeout=60)[0] for job in jobs] == ["[True, True]\n"] * 2
    assert len((tmp_path / "calls").read_text().splitlines()) == 1
    assert [path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()] == [".json"]  # no lock is left


def test_a_lock_is_held_by_one_at_a_time_and_survives_its_file(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "folder" / ".a.lock", [0], [0]

    def work() -> None:
        for _ in range(20):
            with locked(path):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1 and not path.exists()
    path.touch()  # of a process that was killed
    with locked(path):
        assert path.exists()
    assert not path.exists()


def test_a_failing_call_lets_the_next_one_try(tmp_path: Path) -> None:
    labels = iter([503, 1])
    chat = CachedChat(SampleJudge(lambda sample: next(labels)), CallCache(tmp_path))
    assert score([answer("q")], Judge(chat, PROMPTS, SETTINGS))[0]["error"] == "judge_error"
    assert score([answer("q")], Judge(chat, PROMPTS, SETTINGS))[0]["correct"]


def test_a_folder_without_locks_is_worked_in_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    chat = SampleJudge(lambda sample: 1)
    judge = Judge(CachedChat(chat, CallCache(tmp_path)), PROMPTS, SETTINGS)
    assert score([answer("q"), answer("q", method="b")], judge)[1]["correct"] and len(chat.requests) == 1
