"""The rule-based agent: what it hands in for each row, that it finds evidence, and that nothing upsets it."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from agentworld import ALL, PROMPTS, ROOT, ROWS, RUNS, FolderBox, read_json, sandbox, state, trajectory

from lmev2.agent.inside.search_agent import __main__ as program
from lmev2.agent.inside.search_agent.choose import Span, choose
from lmev2.agent.inside.search_agent.files import Found, open_trajectory, parse_helper
from lmev2.agent.inside.search_agent.question import analyse
from lmev2.agent.inside.search_agent.rank import Scored, score_states
from lmev2.agent.package import build_package
from lmev2.agent.pool import trajectory_entry, write_trajectory_folder
from lmev2.agent.search import PROGRAM, SearchAgent, read_events
from lmev2.agent.types import AgentRun, PartName, Task, Usage
from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.trajectory import Trajectory

WICK = 'I am using our custom shop website. On the page of the harbour lamp, which "Wick size" is selected by default?'
States = list[tuple[str, int]]


def run(box: FolderBox, task: Task, timeout_s: float = 60) -> AgentRun:
    return SearchAgent().run(box, task, timeout_s)


def spans(folder: Path) -> States:
    """States of the output in order; the output's shape is checked."""
    output = read_json(folder / "memory_module_output.json")
    assert set(output) == {"memory_markdown", "trajectory_spans"}
    assert "## Support Analysis\n" in output["memory_markdown"]
    assert "## Relevant Procedure and Hint Notes\n" in output["memory_markdown"]
    found: States = []
    for span in output["trajectory_spans"]:
        assert set(span) == {"trajectory_id", "start_state_index", "end_state_index"}
        trajectory_file = read_json(folder / "trajectories" / span["trajectory_id"] / "trajectory.json")
        assert 0 <= span["start_state_index"] <= span["end_state_index"] < len(trajectory_file["states"])
        found += [
            (span["trajectory_id"], index) for index in range(span["start_state_index"], span["end_state_index"] + 1)
        ]
    assert len(set(found)) == len(found)
    return found


@pytest.mark.parametrize("row", ROWS)
def test_every_row_finds_the_state(tmp_path: Path, row: str) -> None:
    box, task = sandbox(tmp_path, WICK, ROWS[row])
    done = run(box, task)
    assert (done.outcome, done.detail, done.usage) == ("finished", None, Usage())
    assert spans(box.folder)[0] == ("lamp-01", 1)
    assert (
        "combobox 'Wick size' value='Narrow'" in read_json(box.folder / "memory_module_output.json")["memory_markdown"]
    )


@pytest.mark.parametrize("row", ROWS)
def test_each_row_works_with_what_it_has(tmp_path: Path, row: str) -> None:
    parts = ROWS[row]
    box, task = sandbox(tmp_path, WICK, parts)
    done = run(box, task)
    commands = [event["command"] for event in done.events if event["type"] == "command"]
    reads = [event["what"] for event in done.events if event["type"] == "read"]
    assert done.commands == len(commands) == (len(RUNS) if "helper" in parts else 0), "programs that were started"
    assert all("inspect_trajectory.py" in command for command in commands)
    assert ("SUMMARY_FULL" in reads[0]) == ("manifest" in parts)
    assert len(reads) == (1 if "helper" in parts else 1 + len(RUNS))
    assert all(event.get("exit_code", 0) == 0 for event in done.events)
    question = next(event for event in done.events if event.get("what") == "question")
    assert question["workflow"] == ("workflow" in parts)


def test_it_writes_nothing_but_its_output(tmp_path: Path) -> None:
    box, task = sandbox(tmp_path, WICK)
    before = set(box.folder.rglob("*"))
    program_files = sorted(PROGRAM.iterdir())
    run(box, task)
    assert set(box.folder.rglob("*")) - before == {box.folder / "memory_module_output.json"}
    assert sorted(PROGRAM.iterdir()) == program_files


def test_two_runs_agree_whatever_the_hash_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = set()
    for seed in ("1", "2"):
        box, task = sandbox(tmp_path, WICK)
        monkeypatch.setattr(box, "added", {"PYTHONHASHSEED": seed})
        run(box, task)
        outputs.add((box.folder / "memory_module_output.json").read_text())
    assert len(outputs) == 1


@pytest.mark.parametrize("row", ["codex", "agentrunbook_c"])
@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "What is it?",
        "Qu'est-ce que c'est ? 灯 \u2028 \x00 \\ ` ' \" [a-z] (((",
        "-" * 300,
        "compare a and b",
        "Which of both `Berth` and `Keeper`, vs. the order, do I see after I void order 12?\nA. x\nB. y",
        "lamp " * 5000,
        " ".join(f"word{number}" for number in range(20_000)),
        "`" + "x" * 3000,
        "\ud800 wick",
    ],
)
def test_odd_questions_are_no_failure(tmp_path: Path, question: str, row: str) -> None:
    box, task = sandbox(tmp_path, "?", ROWS[row])
    (box.folder / "question.json").write_text(json.dumps({"question": question}))
    done = run(box, task)
    assert done.outcome == "finished", done.detail
    assert spans(box.folder)


@pytest.mark.parametrize("row", ["no_helper", "agentrunbook_c"])
def test_odd_trajectories_are_no_failure(tmp_path: Path, row: str) -> None:
    trees = [
        "",
        "\n\n",
        "wick\rstate 7: http://x",
        "RootWebArea 'wick\n    wick",
        "[1] wick" * 5000,
        "## wick\n\u2028wick",
    ]
    odd = trajectory("odd-01", trees, goal="## wick\n- Goal: | `wick`", start_url="http://[::1")
    other = trajectory("odd-02", [], states=(state("odd-02", 0, "wick", url="wick\nstate 5: x", thought=None),))
    box, task = sandbox(tmp_path, WICK, ROWS[row], runs=(odd, other))
    done = run(box, task)
    assert done.outcome == "finished", done.detail
    assert {name for name, _ in spans(box.folder)} == {"odd-01", "odd-02"}


def test_the_helper_and_the_file_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for parts in (ALL, ("workflow", "manifest")):
        box, _ = sandbox(tmp_path, WICK, parts)
        monkeypatch.chdir(box.folder)
        found.append(
            [open_trajectory(run.trajectory_id, ["crat", "wick", "go"], lambda *_, **__: None) for run in RUNS]
        )
    assert found[0] == found[1]
    assert [len(each.states) for each in found[0]] == [3, 1, 2]


def test_a_damaged_helper_is_reported_and_survived(tmp_path: Path) -> None:
    box, task = sandbox(tmp_path, WICK)
    (box.folder / "scripts" / "inspect_trajectory.py").write_text("raise SystemExit('no')")
    done = run(box, task)
    assert done.outcome == "finished"
    assert [event["exit_code"] for event in done.events if "exit_code" in event] == [1] * len(RUNS)
    assert spans(box.folder)


def test_states_beyond_the_count_are_not_believed() -> None:
    opened = parse_helper("a", "states: 2 (0 to 1)\nstate 1: u\n  title: T\n    line\nstate 7: v\n")
    assert opened.states == [Found("a", 1, "u", "T", "", ["line"])]


def test_the_limit_of_the_instruction_holds(tmp_path: Path) -> None:
    for parts in ROWS.values():
        box, task = sandbox(tmp_path, "Put order 12 and the lamp in a crate", parts, max_states=2)
        run(box, task)
        assert 0 < len(spans(box.folder)) <= 2


def test_a_label_that_is_nowhere_is_reported(tmp_path: Path) -> None:
    box, task = sandbox(tmp_path, "In the order's ledger, what stands between `Berth` and `Tide table`?")
    run(box, task)
    text = read_json(box.folder / "memory_module_output.json")["memory_markdown"]
    assert "Not found in any state that was looked at: `Tide table`." in text


def test_a_crash_is_an_outcome(tmp_path: Path) -> None:
    box, task = sandbox(tmp_path, WICK)
    (box.folder / "question.json").write_text("{")
    done = run(box, task)
    assert done.outcome == "crashed"
    assert "exit code 1" in str(done.detail)
    assert "JSONDecodeError" in str(done.detail)


def test_a_timeout_is_an_outcome(tmp_path: Path) -> None:
    box, task = sandbox(tmp_path, WICK)
    done = run(box, task, timeout_s=0.001)
    assert (done.outcome, done.detail) == ("timeout", "not finished after 0.001 s")


def test_a_line_that_is_nested_too_deeply_is_kept() -> None:
    assert [event["type"] for event in read_events("[" * 200_000)] == ["output"]


def test_lines_that_are_no_events_are_kept() -> None:
    assert read_events('{"type": "command"}\n\nbang\n[1]\n{"type": 3}\n') == (
        {"type": "command"},
        {"type": "output", "text": "bang"},
        {"type": "output", "text": "[1]"},
        {"type": "output", "text": '{"type": 3}'},
    )


def test_its_program_needs_nothing_but_the_standard_library() -> None:
    SearchAgent().check()
    for path in PROGRAM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {each.name.split(".")[0] for each in node.names} <= sys.stdlib_module_names, path
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert (node.module or "").split(".")[0] in sys.stdlib_module_names, path


# Questions


@pytest.mark.parametrize(
    ("text", "image", "kind"),
    [
        ("Which column stands to the right of Berth?", False, "lookup"),
        ("After I void an order, which banner shows up?", False, "change"),
        ("What do I have to fill in to void an order?", False, "procedure"),
        ("Comparing the lamp page with the rope page, which has more buttons?", False, "comparison"),
        ("Which column stands to the right of Berth?", True, "image"),
    ],
)
def test_kinds(text: str, image: bool, kind: str) -> None:
    assert analyse(text, image).kind == kind


def test_words_on_the_answers_form_do_not_count() -> None:
    question = analyse(
        "I am working with our ServiceNow portal. Which wicks are there?\n\nMark your final answer (should be one or more "
        "short phrases) in \\boxed{}.",
        False,
    )
    assert question.text == "Which wicks are there?"
    assert list(question.weights) == ["wick"]


def test_choices_count_less_than_the_question() -> None:
    weights = analyse("Which lamp is it?\nA. brass\nB. lamp", False).weights
    assert weights["brass"] < weights["lamp"]


def ranked(question: str, *states: Found) -> list[str]:
    best = score_states(analyse(question, False).weights, analyse(question, False), list(states), 50, {})
    return [each.state.trajectory_id for each in best]


def test_words_in_a_row_count_more_than_apart() -> None:
    apart = Found("apart", 0, lines=["[1] button 'Lamp for a harbour'"])
    together = Found("together", 0, lines=["[1] button 'For a harbour lamp'"])
    assert ranked("Where is the harbour lamp?", apart, together) == ["together", "apart"]


def test_a_quoted_label_counts_as_a_whole() -> None:
    other = Found("other", 0, lines=["[1] button 'Wick size, size in brass'"])
    same = Found("same", 0, lines=["[1] button 'Size of wick size in brass'"])
    assert ranked("Where is `Wick size in brass`?", other, same) == ["same", "other"]


def test_what_is_new_on_a_page_counts_more() -> None:
    line = "[3] alert 'Order voided'"
    states = (Found("a", 3, lines=[line]), Found("a", 4, lines=[line.replace("3", "8")]), Found("b", 1, lines=["x"]))
    before = (Found("a", 2, lines=["[3] button 'Void order'"]),)
    question = analyse("What is voided?", False)
    scores = {
        each.state.index: each.score for each in score_states(question.weights, question, [*before, *states], 9, {})
    }
    assert scores[3] > scores[4]


# The package


def scored(name: str, index: int, score: float, *lines: str) -> Scored:
    return Scored(Found(name, index), score, [], frozenset(lines))


COUNTS = {"a": 10, "b": 10}
FAMILIES = {"a": "shop", "b": "shop"}


def test_spans_are_disjoint_short_and_within_the_limit() -> None:
    ranking = [scored("a", index, 9.0 - index / 10, f"line {index}") for index in (4, 6, 9, 0, 5, 1)]
    for kind in (None, "lookup", "change", "procedure", "image", "comparison"):
        for most in (1, 2, 5, 20):
            found = choose(kind, [ranking], COUNTS, FAMILIES, most)
            states = [(span.trajectory_id, index) for span in found for index in range(span.first, span.last + 1)]
            assert len(set(states)) == len(states) <= most
            assert all(0 <= span.first <= span.last <= min(9, span.first + 2) for span in found)
            assert ("a", 4) in states


def test_a_procedure_shows_what_is_around_its_states() -> None:
    assert choose("procedure", [[scored("a", 4, 1.0)]], COUNTS, FAMILIES, 20) == [Span("a", 3, 5)]
    assert choose("procedure", [[scored("a", 0, 1.0)]], COUNTS, FAMILIES, 20) == [Span("a", 0, 1)]
    assert choose("lookup", [[scored("a", 4, 1.0)]], COUNTS, FAMILIES, 20) == [Span("a", 4, 4)]


def test_near_identical_states_wait() -> None:
    ranking = [scored("a", 1, 5.0, "x", "y"), scored("b", 2, 4.9, "x", "y"), scored("b", 3, 4.0, "z")]
    found = choose("lookup", [ranking], COUNTS, FAMILIES, 20)
    assert found == [Span("a", 1, 1), Span("b", 3, 3), Span("b", 2, 2)]
    assert choose(None, [ranking], COUNTS, FAMILIES, 20)[1] == Span("b", 2, 2)


def test_a_comparison_takes_turns() -> None:
    one = [scored("a", 1, 9.0, "x"), scored("a", 2, 8.0, "y")]
    two = [scored("b", 1, 3.0, "z"), scored("b", 2, 2.0, "w")]
    found = choose("comparison", [one, two], COUNTS, FAMILIES, 20)
    assert [(span.trajectory_id, span.first) for span in found] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_a_procedure_stays_in_its_family() -> None:
    ranking = [scored("a", 1, 5.0, "x"), scored("b", 5, 4.5, "y"), scored("a", 7, 4.0, "z")]
    found = choose("procedure", [ranking], COUNTS, {"a": "shop", "b": "staff"}, 20)
    assert [span.trajectory_id for span in found] == ["a", "a", "b"]


# Evidence


def coverage(
    root: Path, tmp_path: Path, parts: tuple[PartName, ...], haystacks: Mapping[str, list[str]], tier: str
) -> tuple[int, float]:
    """Questions whose evidence is all there, and the mean number of states; in this process, which is quicker."""
    ingest_dataset(root, tmp_path / "data", [tier])
    runs: dict[str, Trajectory] = {}
    with StateStore(tmp_path / "data" / "states.parquet", tmp_path / "data" / "trajectories.parquet") as store:
        for trajectory_id in store.trajectory_ids:
            runs[trajectory_id] = store.trajectory(trajectory_id)
            write_trajectory_folder(runs[trajectory_id], tmp_path / "pool")
    entries = {name: trajectory_entry(each) for name, each in runs.items()}
    labels = [json.loads(line) for line in (root / "evidence.jsonl").read_text(encoding="utf-8").split("\n") if line]
    hops = {each["question_id"]: each["hops"] for each in labels}
    covered, total = 0, 0
    with (root / "questions.jsonl").open(encoding="utf-8", newline="\n") as stream:
        questions = [question for line in stream if (question := json.loads(line))["id"] in hops]
    for question in questions:
        folder = tmp_path / "boxes" / question["id"]
        _, mounts = build_package(
            folder,
            question=question["question"],
            image=root / question["image"] if question["image"] else None,
            haystack=haystacks.get(question["id"]) or list(runs),
            find_trajectory=lambda name: tmp_path / "pool" / name,
            entries=entries,
            parts=parts,
            prompts=PROMPTS,
            max_states=20,
        )
        FolderBox(folder, mounts)
        os.chdir(folder)
        assert program.main() == 0
        found = {tuple(each) for each in spans(folder)}
        covered += all(any(tuple(each) in found for each in hop) for hop in hops[question["id"]])
        total += len(found)
    return covered, total / len(questions)


def test_evidence_of_the_small_tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = ROOT / "resources" / "minibench"
    haystacks = read_json(root / "haystacks" / "lme_v2_small.json")
    covered, states = coverage(root, tmp_path, ("workflow", "manifest"), haystacks, "small")
    assert covered >= 42, "of 48"
    assert states <= 12


def test_evidence_of_real_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = ROOT.parent / "shared" / "data" / "realruns"
    if not root.is_dir():
        pytest.skip(f"the real runs are not at {root}")
    monkeypatch.chdir(tmp_path)
    covered, states = coverage(root, tmp_path, ("workflow", "manifest"), {}, "small")
    assert covered >= 19, "of 21"
    assert states <= 12
