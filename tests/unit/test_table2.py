"""Table 2 side by side: blocks, bold numbers, marks, latencies, and what it says of failed rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from unit.paperworld import paper_run, sql
from unit.tableworld import Run, files_in, make_database, make_run

from lmev2.tables.export import read_table
from lmev2.tables.layout import Cell, bold_best
from lmev2.tables.table2 import export_table2

FAMILIES = ("plugin", "rag", "something_else", "rag", "none", "agent")
CODEX = {"agent": "codex", "version": "0.117.0", "model": "gpt-5.4-mini", "reasoning_effort": "xhigh"}
LOOP = {"agent": "loop", "version": "0.117.0", "model": "C2", "reasoning_effort": None}
SEARCH = {"agent": "search", "version": "0.117.0", "model": "rules", "reasoning_effort": None}


class Controlled(Run):
    """With a controller."""

    @property
    def spec(self) -> dict[str, Any]:
        spec = super().spec
        return {**spec, "models": {**spec["models"], "controller": {"model": "C1"}}}


def written(folder: Path, run: Run) -> tuple[list[dict[str, str]], str, list[list[str]]]:
    """CSV rows, the Markdown, and the cells of its table's lines, the header first."""
    files = files_in(folder, "table2")
    export_table2(make_database(folder, run), sql("table2"), files, "A title")
    text = files.markdown.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| --")]
    return read_table(files.csv), text, [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_papers_table_side_by_side(tmp_path: Path) -> None:
    _, text, lines = written(tmp_path, paper_run())
    assert lines[0][:3] == ["Method", "Small Overall", "Small Static"] and lines[0][12] == "Medium Latency"
    headings = [line[0] for line in lines if set(line[1:]) == {""}]
    assert headings == ["**RAG methods (controller: Qwen3.5-9B)**", "**Coding agent**"]
    rows = {line[0]: line[1:] for line in lines}
    assert len(lines) == 1 + 2 + 12
    # A row alone in its block is not the best of anything.
    assert rows["No retrieval"] == ["0.033", "0.000", "0.008", "0.094", "0.138", "0s"] * 2
    assert rows["AgentRunbook-R"][5] == "26.9s" and rows["AgentRunbook-R"][0] == "**0.585**"
    # Two methods with 0.528 in one column: a tie is bold twice.
    workflow = {name: cells[3] for name, cells in rows.items()}
    assert workflow["- raw slice pool"] == "**0.538**" and workflow["AgentRunbook-R"] == "0.528"
    assert rows["- manifest artifacts"][1] == "**0.847**" and rows["AgentRunbook-C"][0] == "**0.749**"
    assert rows["Codex"][4] == rows["- workflow"][4] == "**0.586**"
    assert "Questions by category: 189 static, 127 dynamic, 106 workflow, 29 gotchas.\n" in text
    assert "INCOMPLETE" not in text and "Failed" not in text


def test_blocks_stand_in_the_tables_order_whatever_the_runs(tmp_path: Path) -> None:
    run = make_run(1, questions=12, methods=6)
    run.families = dict(zip(run.methods, FAMILIES, strict=True))
    run = Controlled(**{name: getattr(run, name) for name in run.__dataclass_fields__})
    rows, _, lines = written(tmp_path, run)
    order = [line[0] for line in lines[1:]]
    label = "Label of m{}".format
    assert order == [
        label(5),
        "**RAG methods (controller: C1)**",
        label(8),
        label(6),
        "**Coding agent methods**",
        label(4),
        "**Plugins**",
        label(9),
        "**Something else**",
        label(7),
    ]
    assert [row["method"] for row in rows[::2]] == run.methods  # the CSV keeps the run's order, a row a method and tier


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (CODEX, "agent: codex 0.117.0, model: gpt-5.4-mini, reasoning effort xhigh"),
        (LOOP, "agent: loop, model: C2"),
        (SEARCH, "agent: search, rules, no model"),
    ],
)
def test_the_heading_of_coding_agents_tells_agent_and_model(tmp_path: Path, agent: dict[str, Any], told: str) -> None:
    run = make_run(1, questions=12, methods=3)
    run.families = {run.methods[1]: "agent", run.methods[2]: "agent"}
    run.agent = agent
    _, text, lines = written(tmp_path, run)
    assert lines[3][0] == f"**Coding agent methods ({told})**"
    note = (
        f"Made by rules, not by a model: Label of {run.methods[1]}, Label of {run.methods[2]}. The agent search works"
    )
    assert (note in text) == ("calls no model; these rows are not comparable" in text) == (agent is SEARCH)
    run.families = {}
    assert "Coding agent" not in written(tmp_path / "none", run)[1] and "search" not in written(tmp_path / "no", run)[1]


def test_marks_and_their_note(tmp_path: Path) -> None:
    run = make_run(1, questions=60, methods=3, errors=0.0)
    for row in run.scores:
        row["correct"] = row["method"] == run.methods[0]
    run.partners = {run.methods[0]: [run.methods[1]]}
    _, text, lines = written(tmp_path, run)
    rows = {line[0]: line[1:] for line in lines}
    assert rows[f"Label of {run.methods[0]}"][0] == "**1.000**\\*"
    assert rows[f"Label of {run.methods[1]}"][0] == "0.000"
    assert "paired bootstrap over questions, 500 resamples, seed 0, two-sided p < 0.05. Intervals: 95 %.\n" in text
    latex = files_in(tmp_path, "table2").latex.read_text(encoding="utf-8")
    assert r"\textbf{1.000}$^{*}$" in latex
    run.partners = {}
    assert "nothing is marked" in written(tmp_path / "none", run)[1]


def test_an_incomplete_table_says_so_beside_the_numbers(tmp_path: Path) -> None:
    run = make_run(3, questions=30, errors=0.0)
    method = run.methods[1]
    kinds = ["judge_error", "length", "length"]
    for row, kind in zip(run.of("scores", method, "medium"), kinds, strict=False):
        row |= {"correct": None, "unknown": None, "error": kind}
    rows, text, lines = written(tmp_path, run)
    assert text.startswith("# INCOMPLETE: A title\n")
    assert (
        "- INCOMPLETE: 1 judge_error, 2 length; rows with an error" in text
        and f"it is not a result. Failed rows: Label of {method}, medium: 1 judge_error, 2 length.\n" in text
    )
    told = {line[0]: (line[7], line[14]) for line in lines if line[0].startswith("Label")}
    assert (lines[0][7], lines[0][14]) == ("Small Failed", "Medium Failed")
    assert told.pop(f"Label of {method}") == ("-", "3 of 30")
    assert set(told.values()) == {("-", "-")}
    failed = {(row["method"], row["tier"]): (row["errors"], row["error_kinds"]) for row in rows if row["errors"] != "0"}
    assert failed == {(method, "medium"): ("3", "1 judge_error, 2 length")}
    latex = files_in(tmp_path, "table2").latex.read_text(encoding="utf-8")
    assert (
        r"\caption{INCOMPLETE: A title}" in latex
        and r"medium: 1 judge\_error, 2 length" in latex
        and " & 3 of 30 \\\\" in latex
    )


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, "0s"), (0.004, "0.004s"), (0.12, "0.1s"), (177.24, "177.2s")])
def test_latencies_are_printed_as_the_paper_does(tmp_path: Path, seconds: float, shown: str) -> None:
    run = make_run(1, questions=4, methods=1, errors=0.0)
    for row in run.contexts:
        row["latency_s"] = seconds
    lines = written(tmp_path, run)[2]
    assert lines[-1][6] == shown


def test_bold_numbers() -> None:
    rows = [(Cell("a"), Cell("0.5"), Cell(""), Cell("1")), (Cell("b"), Cell("0.5"), Cell("0.1"), Cell("1.0"))]
    best = bold_best([*rows, (Cell("c"), Cell("0.4"), Cell("0.2"), Cell("1.000"))], [1, 2, 3])
    assert [[cell.bold for cell in row] for row in best] == [
        [False, True, False, False],
        [False, True, False, False],
        [False, False, True, False],
    ]
    assert not any(cell.bold for row in bold_best(rows[:1], [1, 2]) for cell in row)
    assert bold_best([], [1]) == []


def test_every_number_in_markdown_and_latex_is_the_csvs(tmp_path: Path) -> None:
    run = make_run(5, questions=25)
    rows, text, _ = written(tmp_path, run)
    latex = files_in(tmp_path, "table2").latex.read_text(encoding="utf-8")
    number = re.compile(r"\b[01]\.\d{3}\b(?!s)")
    table = text.partition("\n- ")[0]
    body = latex.partition(r"\toprule")[2].rpartition(r"\bottomrule")[0]
    names = ("overall", "static", "dynamic", "workflow", "gotchas")
    expected = sorted(row[name] for row in rows for name in names if row[name])
    assert sorted(number.findall(table)) == sorted(number.findall(body)) == expected
