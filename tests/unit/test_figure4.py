"""The pilots' tables and figure: numbers from rows, the paper's beside them, and what failed rows make of them."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from unit.figureworld import clashes, lines, words
from unit.paperworld import published
from unit.tableworld import blank, files_in

from lmev2.data.schema import CATEGORIES, QUESTION_TYPES
from lmev2.report.figures import Row, drawing
from lmev2.report.figures_figure4 import draw_figure4, figure4_lanes, plot_figure4
from lmev2.rows import ANSWER, ORACLE_CUT, SCORE, write_rows
from lmev2.tables.export import read_table
from lmev2.tables.figure4 import HEADER, export_figure4, figure4_rows
from lmev2.tables.pilots import ACCURACIES, by_cell, cost, cut_facts, facts, made_of
from lmev2.tables.table6 import export_table6, own_row

PAPERS = {"reader": "reader", "model": "qwen3.5-9b", "name": "qwen3.5-9b (thinking)", "label": "Our Qwen"}
OTHER = {"reader": "other", "model": "other", "name": "other", "label": "Other <b> | *reader*"}
AGENT = {
    "reader": "agent",
    "model": "m",
    "name": "Codex + gpt-5.4-mini (xhigh)",
    "label": "Codex + gpt-5.4-mini (xhigh)",
}
NEAR = {**PAPERS, "context": "rag", "method_label": "RAG", "tier": "medium"}
PRICE = {"input": 2.0, "cached_input": 0.5, "output": 30.0, "currency": "EUR"}


def write_cell(folder: Path, seed: int, errors: bool = True) -> tuple[list[Row], list[Row], list[Path], list[Path]]:
    """Random scores and answers, in two shards each, and their files."""
    draw = random.Random(seed)
    scores, answers = [], []
    for number in range(60):
        kind = draw.choice(QUESTION_TYPES)
        key = {"question_id": f"q{number}", "method": "no_context", "tier": "oracle"}
        error = draw.choice([None, None, None, "api_error", "length"]) if errors else None
        correct = None if error else draw.random() < 0.4
        fact = {"question_type": kind, "category": CATEGORIES[kind], "correct": correct, "error": error}
        told = {name: draw.choice([True, False, None]) for name in ("evidence_covered", "gold_supported")}
        scores.append(blank(SCORE) | key | fact | told | {"evidence_covered_before": True})
        tokens = {name: draw.randrange(1000) for name in ("prompt_tokens", "completion_tokens", "context_tokens")}
        own_error = error if error == "api_error" else None
        answers.append(blank(ANSWER) | key | tokens | {"error": own_error})
    paths: dict[str, list[Path]] = {"scores": [], "answers": []}
    for stage, schema, rows in (("scores", SCORE, scores), ("answers", ANSWER, answers)):
        for shard in range(2):
            paths[stage].append(folder / f"{stage}{seed}-{shard}.parquet")
            write_rows(paths[stage][-1], schema, rows[shard::2])
    return scores, answers, paths["scores"], paths["answers"]


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_the_unflawed_questions(tmp_path: Path, seed: int) -> None:
    scores, answers, score_files, answer_files = write_cell(tmp_path, seed)
    found = facts(score_files, answer_files)
    kept = {row["question_id"]: row for row in scores if not row["question_type"].endswith("-abs")}
    good = [row for row in kept.values() if row["error"] is None]
    assert (found["questions"], found["errors"]) == (str(len(kept)), str(len(kept) - len(good)))
    assert found["overall"] == f"{fmean(row['correct'] for row in good):.3f}"
    for category in ACCURACIES[1:]:
        own = [row["correct"] for row in good if row["category"] == category]
        assert found[category] == (f"{fmean(own):.3f}" if own else "")
    covered = [row["evidence_covered"] for row in kept.values() if row["evidence_covered"] is not None]
    assert (found["covered"], found["covered_before"]) == (f"{fmean(covered):.3f}", "1.000")
    replied = [row for row in answers if row["question_id"] in kept and row["error"] is None]
    assert found["prompt_tokens"] == f"{fmean(row['prompt_tokens'] for row in replied):.0f}"
    spent = sum(2.0 * row["prompt_tokens"] + 30.0 * row["completion_tokens"] for row in answers) / 1e6
    assert cost(answer_files, PRICE) == (f"{spent:.4f}", "EUR") and cost(answer_files, None) == ("", "")
    assert by_cell(["a", "b", "c", "d"], 2) == [["a", "b"], ["c", "d"]] and by_cell([], 0) == []


def test_what_is_cut_is_counted(tmp_path: Path) -> None:
    counts = [(3, 3, 2, 2), (1, 4, 2, 2), (4, 4, 1, 2)]
    names = ("states_shown", "states", "notes_shown", "notes")
    key = {"method": "m", "tier": "oracle", "trajectories": 1}
    rows = [{"question_id": str(n), **key, **dict(zip(names, one, strict=True))} for n, one in enumerate(counts)]
    write_rows(tmp_path / "cuts.parquet", ORACLE_CUT, rows)
    assert cut_facts([tmp_path / "cuts.parquet"]) == (
        {"states_shown": "8", "states": "11", "notes_shown": "5", "notes": "6", "questions_cut": "2"}
    )


def make_table(folder: Path, errors: bool) -> list[dict[str, str]]:
    cuts = {"states_shown": "5", "states": "9", "notes_shown": "4", "notes": "4", "questions_cut": "2"}
    cells: list[tuple[Any, dict[str, str]]] = []
    named = [
        (PAPERS, "no_context"),
        (PAPERS, "oracle_slices_notes"),
        (OTHER, "no_context"),
        (AGENT, "oracle_trajectory_files"),
    ]
    for seed, (reader, context) in enumerate(named):
        _, _, scores, answers = write_cell(folder, seed, errors and reader is OTHER)
        cells.append(({**reader, "context": context}, {**facts(scores, answers), **cuts}))
    return figure4_rows(cells, [(NEAR, cells[0][1])], published("figure4"))


def test_the_papers_numbers_stand_beside_the_papers_readers_only(tmp_path: Path) -> None:
    rows = make_table(tmp_path, errors=False)
    by_key = {(row["source"], row["reader"], row["context"]): row for row in rows}
    ours = by_key["run", "Our Qwen", "oracle_slices_notes"]
    assert (ours["paper_reader"], ours["paper_overall"], ours["paper_gotchas"]) == (
        "Qwen3.5-9B (thinking)",
        "0.825",
        "0.484",
    )
    files = by_key["run", AGENT["label"], "oracle_trajectory_files"]
    assert files["paper_overall"] == "0.897" and files["tokens"] == ""
    assert by_key["run", OTHER["label"], "no_context"]["paper_overall"] == ""
    near = by_key["run", "Our Qwen", "rag"]
    assert (near["tier"], near["label"], near["paper_overall"]) == ("medium", "RAG", "")
    assert len(rows) == 5 + 7 and all(tuple(row) == HEADER for row in rows)


@pytest.mark.parametrize("errors", [False, True])
def test_the_table_says_what_failed_and_shows_names_as_they_are(tmp_path: Path, errors: bool) -> None:
    files = files_in(tmp_path, "figure4")
    rows = make_table(tmp_path, errors)
    export_figure4(rows, files, "Oracle contexts", ["Judge: nobody."])
    text = files.markdown.read_text(encoding="utf-8")
    assert text.startswith("# INCOMPLETE: Oracle" if errors else "# Oracle")
    assert ("api_error" in text) == errors and "Judge: nobody." in text
    assert r"Other \<b> \| \*reader\*" in text and "5 of 9" in text and "RAG (medium)" in text
    assert "the cells give 0.052" in text  # the paper's first overall is not the mean of its cells
    assert read_table(files.csv) == rows
    assert r"\label{tab:figure4" in files.latex.read_text(encoding="utf-8")


@pytest.mark.parametrize("errors", [False, True])
def test_the_figure_has_our_values_and_the_papers_in_one_row(tmp_path: Path, errors: bool) -> None:
    table = make_table(tmp_path, errors)
    lanes = figure4_lanes(table)
    assert len({row["method"] for row in lanes}) == 5 + 7 - 3  # three published rows stand beside ours
    with drawing():
        figure = draw_figure4(lanes)
        figure.canvas.draw()
    drawn = lines(figure)
    for row in table[:5]:
        name = f"run {row['reader']} {row['context']} {row['tier']}"
        for column in ACCURACIES:
            for lane, value in (("run", row[column]), ("paper", row[f"paper_{column}"])):
                key = f"{column} {name} {lane}"
                assert (key in drawn) == (value != "")
                assert value == "" or drawn[key][0] == [float(value)]
        (run,), (paper,) = (drawn.get(f"overall {name} {lane}", ([], [0.0]))[1] for lane in ("run", "paper"))
        assert paper == 0 or 0 < paper - run < 0.2  # one below the other, in inches
    assert any("INCOMPLETE" in word for word in words(figure)) == errors
    assert clashes(figure) == []
    for name in ("once", "twice"):
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, HEADER)
            writer.writeheader()
            writer.writerows(table)
        plot_figure4(tmp_path / f"{name}.csv", tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    assert (tmp_path / "once.png").read_bytes() == (tmp_path / "twice.png").read_bytes()
    assert (tmp_path / "once.pdf").read_bytes() == (tmp_path / "twice.pdf").read_bytes()


def test_a_run_without_readers_still_has_the_published_rows(tmp_path: Path) -> None:
    rows = figure4_rows([], [], published("figure4"))
    with drawing():
        figure = draw_figure4(figure4_lanes(rows))
    assert any("published values" in word for word in words(figure))
    assert len(lines(figure, "overall")) == 7


def test_table_6_prints_counts_and_cost_where_there_are_rows_of_ours(tmp_path: Path) -> None:
    files = files_in(tmp_path, "table6")
    paper = [{**row, "source": "paper"} for row in published("table6")]
    export_table6(paper, files, "Direct answers")
    assert "Tokens in" not in files.markdown.read_text(encoding="utf-8")
    assert [row["questions"] for row in read_table(files.csv)] == [""] * len(paper)
    _, _, scores, answers = write_cell(tmp_path, 3)
    own = own_row(OTHER, facts(scores, answers), *cost(answers, PRICE))
    export_table6([*paper, own], files, "Direct answers", ["Judge: nobody."])
    last = read_table(files.csv)[-1]
    assert (last["model"], last["source"], last["currency"]) == (OTHER["label"], "run", "EUR")
    assert (last["cost"], last["errors"]) == (own["cost"], own["errors"]) and int(last["errors"]) > 0
    text = files.markdown.read_text(encoding="utf-8")
    assert text.startswith("# INCOMPLETE") and f"{own['cost']} EUR" in text and "**This run**" in text


@pytest.mark.parametrize("changed", [0, 3])
def test_the_notes_tell_of_models_data_and_rewritten_goals(tmp_path: Path, changed: int) -> None:
    manifest, goals = tmp_path / "manifest.json", tmp_path / "summary.json"
    manifest.write_text(json.dumps({"fingerprint": "f00"}), encoding="utf-8")
    summary = {"mode": "rules", "goals": 9, "changed": changed, "flagged": 0, "origins": {}}
    goals.write_text(json.dumps(summary), encoding="utf-8")
    notes = made_of({"cells": [OTHER], "remarks": {}, "judge": "J", "render": "full"}, manifest, goals)
    assert notes[1:2] == ["Judge: J. Contexts are rendered full. Data fingerprint: f00."]
    told = ["Goals: 3 of 9 goals rewritten without their routes (goals/report.csv)."]
    assert notes[2:] == (told if changed else [])
