"""A coding agent's answers from oracle files: what it is given, what becomes of its answer, and of none."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.agentworld import PROMPTS, RUNS
from unit.test_agent_runner import FakeBox, ScriptedAgent

from lmev2.agent.pool import trajectory_entry, write_trajectory_folder
from lmev2.agent.runner import AgentRunner
from lmev2.agent.types import ANSWER_FILE, AgentRun, Usage
from lmev2.memory.agent import Files
from lmev2.memory.settings import RenderSettings
from lmev2.models.cache import CallCache
from lmev2.pilots.contexts import context_rows
from lmev2.pilots.files import AGENT_ERROR, file_answers
from lmev2.pilots.oracle import Oracle
from lmev2.rows import AGENT_RUN, ANSWER, write_rows
from lmev2.scoring.score import score_rows

IMAGE_QUESTION = "Which wick does the page show?"
QUESTIONS = [
    {"question_id": "q1", "question": "Which wick?", "image": None},
    {"question_id": "q2", "question": IMAGE_QUESTION, "image": "wick.png"},
]
ORACLES = {"q1": Oracle(((("lamp-01", 1),), (("rope-01", 0),))), "q2": Oracle(((("staff-01", 2),),))}
Seen = list[tuple[list[str], dict[str, Any], str]]


def ignore(done: int, total: int) -> None:
    pass


class World:
    """A pool, a cache and an agent that does the same in every attempt."""

    def __init__(self, folder: Path, answer: str | None):
        self.folder, self.seen = folder, []  # type: tuple[Path, Seen]
        for run in RUNS:
            write_trajectory_folder(run, folder / "pool")
        (folder / "wick.png").write_bytes(b"picture")
        self.agent = ScriptedAgent(self._step(answer))

    def _step(self, answer: str | None) -> Callable[[Path], AgentRun]:
        def step(box: Path) -> AgentRun:
            names = sorted(path.name for path in (box / "trajectories").iterdir())
            question = json.loads((box / "question.json").read_text(encoding="utf-8"))
            self.seen.append((names, question, (box / ANSWER_FILE).read_text(encoding="utf-8")))
            if answer is not None:
                (box / ANSWER_FILE).write_text(json.dumps({"answer": answer}), encoding="utf-8")
            return AgentRun("finished", None, Usage(2, 100, 40, 10, 5), 3, 1.5, ())

        return step

    def ask(self, data: str = "d1") -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        runner = AgentRunner(
            self.agent, {"agent": "x"}, 2, 10, "none", FakeBox, CallCache(self.folder / "cache"), self.agent.check
        )
        questions = [{**row, "image": str(self.folder / row["image"]) if row["image"] else None} for row in QUESTIONS]
        entries = {run.trajectory_id: replace(trajectory_entry(run), digest=data) for run in RUNS}
        files = Files({run.trajectory_id: self.folder / "pool" / run.trajectory_id for run in RUNS}, entries, PROMPTS)
        traces = self.folder / "traces"
        return file_answers(questions, ORACLES, contexts(), runner, files, traces, ignore)


def contexts() -> dict[str, dict[str, Any]]:
    class Store:
        def trajectory(self, name: str) -> Any:
            return next(run for run in RUNS if run.trajectory_id == name)

    full = RenderSettings(mode="full")
    rows, _ = context_rows("oracle_trajectory_files", QUESTIONS, ORACLES, Store(), {}, full, None, ignore)  # type: ignore[arg-type]
    return {row["question_id"]: row for row in rows}


def scores_of(answers: Sequence[dict[str, Any]], tmp_path: Path) -> list[dict[str, Any]]:
    kept = {"domain": "web", "question_type": "procedure", "category": "workflow", "eval_function": "mc_choice_match"}
    questions = [{**row, **kept, "answer": "B"} for row in QUESTIONS]
    evidence = [
        {"question_id": name, "hop": number, "trajectory_id": run, "state_index": state}
        for name, oracle in ORACLES.items()
        for number, hop in enumerate(oracle.hops)
        for run, state in hop
    ]
    return score_rows(answers, questions, contexts().values(), evidence, None)


def test_the_agent_sees_the_oracle_and_its_answer_is_the_answer(tmp_path: Path) -> None:
    world = World(tmp_path, r" I take \boxed{B} ")
    answers, runs = world.ask()
    assert [names for names, _, _ in world.seen] == [["lamp-01", "rope-01"], ["staff-01"]]
    assert [question for _, question, _ in world.seen] == [
        {"question": "Which wick?"},
        {"question": IMAGE_QUESTION, "image": "question_image.png"},
    ]
    assert all(json.loads(text) == {"answer": ""} for _, _, text in world.seen)
    assert [(row["reply"], row["parsed"], row["error"]) for row in answers] == [(r"I take \boxed{B}", "B", None)] * 2
    assert [(row["prompt_tokens"], row["completion_tokens"], row["model"]) for row in answers] == [
        (100, 10, "none")
    ] * 2
    assert [(row["method"], row["tier"], row["spans"], row["commands"]) for row in runs] == (
        [("oracle_trajectory_files", "oracle", 0, 3)] * 2
    )
    write_rows(tmp_path / "answers.parquet", ANSWER, answers)
    write_rows(tmp_path / "runs.parquet", AGENT_RUN, runs)
    scores = scores_of(answers, tmp_path)
    assert [(row["correct"], row["evidence_covered"]) for row in scores] == [(True, True)] * 2
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == ["q1", "q2"]


def test_answers_come_again_from_the_cache_unless_the_data_changed(tmp_path: Path) -> None:
    world = World(tmp_path, "A")
    first, _ = world.ask()
    again, runs = world.ask()
    assert again == first and len(world.seen) == 2 and all(row["replayed"] for row in runs)
    world.ask("d2")
    assert len(world.seen) == 4


@pytest.mark.parametrize("answer", [None, "  "])
def test_no_answer_is_an_error_and_no_zero(tmp_path: Path, answer: str | None) -> None:
    world = World(tmp_path, answer)
    answers, runs = world.ask()
    assert [row["error"] for row in answers] == [AGENT_ERROR] * 2 and len(world.seen) == 4  # two attempts each
    assert all("no_answer" in row["error_detail"] and row["parsed"] == "" for row in answers)
    assert all("no usable output in 2 attempts" in row["fault"] for row in runs)
    scores = scores_of(answers, tmp_path)
    assert [(row["correct"], row["error"]) for row in scores] == [(None, AGENT_ERROR)] * 2


def test_unknown_is_an_answer_and_wrong(tmp_path: Path) -> None:
    answers, _ = World(tmp_path, "UNKNOWN").ask()
    assert all(row["unknown"] and row["error"] is None for row in answers)
    assert [row["correct"] for row in scores_of(answers, tmp_path)] == [False, False]
