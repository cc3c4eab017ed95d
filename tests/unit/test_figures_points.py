"""Figures with methods as points draw the tables' numbers."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import duckdb
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import FillBetweenPolyCollection
from unit.figureworld import draw, lines, rows_of, words
from unit.tableworld import EVIDENCE, PAPER, TABLE2, make_run

from lmev2.lafs import REFERENCE_METHODS, Point, lafs
from lmev2.report.figures import fetch


def published(tier: str) -> dict[str, Point]:
    with PAPER.open(encoding="utf-8", newline="") as file:
        return {
            row["method"]: Point(float(row["latency_s"]), 100 * float(row["overall"]))
            for row in csv.DictReader(file)
            if row["tier"] == tier and row["method"] in REFERENCE_METHODS
        }


def test_the_frontier_shows_the_runs_points_and_the_papers(tmp_path: Path) -> None:
    run = make_run(21, questions=30)
    figure = draw("frontier", rows_of("frontier", tmp_path, run))
    table = {(row["method"], row["tier"]): row for row in fetch(tmp_path / "metrics.duckdb", TABLE2)}
    drawn = lines(figure)
    for method, tier in itertools.product(run.methods, run.tiers):
        (x,), (y,) = drawn[f"run {method} {tier}"]
        row = table[method, tier]
        assert f"{x:.3f}" == row["latency_s"] and y / 100 == pytest.approx(float(row["overall"]), abs=6e-4)
    for tier in run.tiers:
        for method, point in published(tier).items():
            assert drawn[f"reference {method} {tier}"] == ([pytest.approx(point[0])], [pytest.approx(point[1])])


def test_the_headings_give_lafs_and_the_table_each_gain(tmp_path: Path) -> None:
    run = make_run(22, questions=30)
    for row in run.scores:
        row.update(correct=row["method"] == run.methods[1], error=None, error_detail=None, unknown=False)
    written = words(draw("frontier", rows_of("frontier", tmp_path, run)))
    with duckdb.connect(str(tmp_path / "metrics.duckdb"), read_only=True) as database:
        found = database.execute("SELECT method, tier, lafs, gain FROM lafs").fetchall()
    for method, tier, score, gain in found:
        known = lafs(published(tier).values())
        assert score - gain == pytest.approx(known)
        text = f"{gain:.2f}"
        if method == "all":
            assert f"LME-V2-{tier.capitalize()}: LAFS {known:.2f}, gain {text}" in written and gain > 1
        else:
            assert text in written
    assert "-0.00" not in written


def area(axes: Axes, number: int) -> float:
    """Area of a shaded region in percentage points x decades, from its corners."""
    shapes = [one for one in axes.collections if isinstance(one, FillBetweenPolyCollection)]
    (path,) = shapes[number].get_paths()
    x, y = np.log10(path.vertices[:, 0]), path.vertices[:, 1]
    return float(abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2)


def test_the_shaded_areas_are_lafs_and_gain(tmp_path: Path) -> None:
    run = make_run(23, questions=30)
    for row in run.scores:
        row.update(correct=row["method"] == run.methods[2] or int(row["question_id"][-1]) % 2 == 0, error=None)
        row.update(error_detail=None, unknown=False)
    for row in run.contexts:
        row.update(latency_s=3.0 if row["method"] == run.methods[2] else 40.0, error=None)
    rows = rows_of("frontier", tmp_path, run)
    figure = draw("frontier", rows)
    panels = [axes for axes in figure.axes if axes.get_xscale() == "log"]
    for tier, axes in zip(run.tiers, panels, strict=True):
        together = next(row for row in rows if row["kind"] == "all" and row["tier"] == tier)
        decades = 2.301029995663981  # from 1 to 200
        assert area(axes, 0) / decades == pytest.approx(together["lafs"] - together["gain"])
        assert area(axes, 1) / decades == pytest.approx(together["gain"]) and together["gain"] > 1


def test_methods_without_a_score_or_a_latency_are_not_drawn(tmp_path: Path) -> None:
    run = make_run(24)
    for row in run.of("scores", run.methods[0], "small"):
        row.update(correct=None, error="api_error", error_detail="d", unknown=None)
    for row in run.of("contexts", run.methods[1], "small"):
        row.update(error="memory_error", latency_s=0.0)
    figure = draw("frontier", rows_of("frontier", tmp_path, run))
    drawn = lines(figure, "run")
    assert {name for name in drawn if name.endswith("small")} == {f"run {run.methods[2]} small"}
    assert words(figure).count("–") == 2 * 3


def test_evidence_stands_against_accuracy_before_and_after_truncation(tmp_path: Path) -> None:
    run = make_run(25, questions=40)
    figure = draw("evidence", rows_of("evidence", tmp_path, run))
    database = tmp_path / "metrics.duckdb"
    table = {(row["method"], row["tier"]): row for row in fetch(database, TABLE2)}
    evidence = {(row["method"], row["tier"]): row for row in fetch(database, EVIDENCE)}
    drawn, written = lines(figure), words(figure)
    for cell in itertools.product(run.methods, run.tiers):
        for name, column in (("after", "covered"), ("before", "covered_before")):
            (x,), (y,) = drawn[f"{name} {cell[0]} {cell[1]}"]
            assert f"{x:.3f}" == evidence[cell][column] and f"{y:.3f}" == table[cell]["overall"]
            assert evidence[cell][column].removeprefix("0") in written


def test_without_labels_the_panel_says_so(tmp_path: Path) -> None:
    run = make_run(26)
    for row in run.scores:
        if row["tier"] == "small":
            row.update(evidence_covered=None, evidence_covered_before=None)
    figure = draw("evidence", rows_of("evidence", tmp_path, run))
    assert sum("No evidence labels" in word for word in words(figure)) == 1
    assert {name.split()[-1] for name in lines(figure, "after")} == {"medium"}
