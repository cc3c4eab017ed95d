"""Figures with methods as rows draw the tables' numbers."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest
from unit.figureworld import bars, draw, lines, rows_of, words
from unit.tableworld import EVIDENCE, KINDS, TABLE2, Row, Run, make_run

from lmev2.report.figures import fetch

CATEGORIES = ("overall", "static", "dynamic", "workflow", "gotchas")


@pytest.fixture
def run() -> Run:
    run = make_run(11, questions=60, methods=4)
    run.partners = {run.methods[1]: [run.methods[0]], run.methods[2]: [run.methods[0], run.methods[3]]}
    return run


def cells(run: Run) -> list[tuple[str, str]]:
    return [(method, tier) for method in run.methods for tier in run.tiers]


def by_cell(rows: list[Row]) -> dict[tuple[str, str], Row]:
    return {(row["method"], row["tier"]): row for row in rows}


def test_dots_and_numbers_are_those_of_the_tables(tmp_path: Path, run: Run) -> None:
    figure = draw("table2", rows_of("table2", tmp_path, run))
    table = by_cell(fetch(tmp_path / "metrics.duckdb", TABLE2))
    evidence = by_cell(fetch(tmp_path / "metrics.duckdb", EVIDENCE))
    drawn, written = lines(figure), Counter(words(figure))
    expected: Counter[str] = Counter()
    for cell in cells(run):
        values = {name: table[cell][name] for name in CATEGORIES}
        values |= {name: evidence[cell][name] for name in ("covered", "gold_support")}
        for panel, value in values.items():
            (x,), _ = drawn[f"{panel} {cell[0]} {cell[1]}"]
            assert f"{x:.3f}" == value
            expected["1.00" if value == "1.000" else value.removeprefix("0")] += 1
        low, high = drawn[f"interval {cell[0]} {cell[1]}"][0]
        assert (f"{low:.3f}", f"{high:.3f}") == (table[cell]["overall_low"], table[cell]["overall_high"])
    assert expected <= written


def test_rows_stand_in_table_order_and_tiers_below_each_other(tmp_path: Path, run: Run) -> None:
    drawn = lines(draw("table2", rows_of("table2", tmp_path, run)), "overall")
    places = [drawn[f"overall {method} {tier}"][1][0] for method, tier in cells(run)]
    assert places == sorted(places) and len(set(places)) == len(places)  # y grows downwards
    labels = [f"Label of {method}" for method in run.methods]
    assert [word for word in words(draw("table2", rows_of("table2", tmp_path, run))) if word in labels] == labels


def test_significant_cells_have_a_mark_and_the_notes_say_how(tmp_path: Path, run: Run) -> None:
    winner = run.methods[1]
    for row in run.scores:
        row.update(correct=row["method"] == winner, error=None, error_detail=None, unknown=False)
    rows = rows_of("table2", tmp_path, run)
    marked = {(row["method"], row["panel"]) for row in rows if row["significant"]}
    assert (winner, "overall") in marked and {method for method, _ in marked} == {winner}
    written = words(draw("table2", rows))
    assert written.count("*") == sum(bool(row["significant"]) for row in rows)
    assert any("95 % bootstrap" in word for word in written) and any("p < 0.05" in word for word in written)


def test_a_missing_number_is_a_dash_and_not_a_dot(tmp_path: Path) -> None:
    run = make_run(12, kinds=("static-environment",), errors=0)
    figure = draw("table2", rows_of("table2", tmp_path, run))
    assert not lines(figure, "gotchas") and not lines(figure, "workflow")
    assert words(figure).count("–") == 3 * len(cells(run))


def test_without_labels_their_columns_give_way_to_a_note(tmp_path: Path) -> None:
    run = make_run(13)
    for row in run.scores:
        row.update(evidence_covered=None, evidence_covered_before=None)
    written = words(draw("table2", rows_of("table2", tmp_path, run)))
    assert not any("covered" in word for word in written) and any("no evidence labels" in word for word in written)
    assert "support" in written


def test_failed_rows_are_told(tmp_path: Path, run: Run) -> None:
    failed = sum(row["error"] is not None for row in run.scores)
    written = " ".join(words(draw("table2", rows_of("table2", tmp_path, run))))
    assert failed and f"INCOMPLETE: {failed} of {len(run.scores)} rows" in written


def test_latencies_are_all_drawn_and_summed_up(tmp_path: Path, run: Run) -> None:
    for row in run.contexts:
        if row["method"] == run.methods[0]:
            row["latency_s"] = 0.0
    figure = draw("latency", rows_of("latency", tmp_path, run))
    drawn, written = lines(figure), words(figure)
    for method, tier in cells(run):
        good = [row["latency_s"] for row in run.of("contexts", method, tier) if row.get("error") is None]
        shown, mean = drawn[f"values {method} {tier}"][0], drawn[f"mean {method} {tier}"][0]
        if method == run.methods[0]:
            left = figure.axes[1].get_xlim()[0]
            assert shown == pytest.approx([left] * len(good)) and mean == pytest.approx([left])
        else:
            assert sorted(shown) == sorted(good) and mean == pytest.approx([statistics.mean(good)])
            assert f"{statistics.mean(good):.3f}" in written and f"{max(good):.3f}" in written
    assert "0" in written


def test_tokens_before_and_after_are_drawn_of_rows_without_an_error(tmp_path: Path, run: Run) -> None:
    rows = rows_of("tokens", tmp_path, run)
    for row in rows:
        row["budget"] = 4321
    figure = draw("tokens", rows)
    drawn, written = lines(figure), words(figure)
    for method, tier in cells(run):
        fine = {row["question_id"] for row in run.of("scores", method, tier) if row["error"] is None}
        answers = [row for row in run.of("answers", method, tier) if row["question_id"] in fine]
        for name, column in (("before", "context_tokens_before"), ("after", "context_tokens")):
            tokens = [row[column] for row in answers]
            assert sorted(drawn[f"values {name} {method} {tier}"][0]) == sorted(tokens)
            assert drawn[f"mean {name} {method} {tier}"][0] == pytest.approx([statistics.mean(tokens)])
            assert f"{statistics.mean(tokens):,.0f}" in written
        assert str(sum(row["items_dropped"] > 0 for row in answers)) in written
    assert drawn["budget"][0] == [4321, 4321]
    assert "budget of 4,321 tokens" in " ".join(written)


def test_a_budget_far_away_stands_in_the_notes_only(tmp_path: Path, run: Run) -> None:
    rows = rows_of("tokens", tmp_path, run)
    assert {row["budget"] for row in rows} == {None}
    for row in rows:
        row["budget"] = 200_000
    figure = draw("tokens", rows)
    assert not lines(figure, "budget") and "Not drawn: the reader's budget of 200,000" in " ".join(words(figure))
    assert max(axes.get_xlim()[1] for axes in figure.axes) < 6000


def test_errors_are_stacked_by_kind(tmp_path: Path, run: Run) -> None:
    figure = draw("errors", rows_of("errors", tmp_path, run))
    drawn, written = bars(figure), words(figure)
    assert set(KINDS) <= set(written)
    for method, tier in cells(run):
        rows = run.of("scores", method, tier)
        counts = Counter(row["error"] for row in rows if row["error"])
        start = 0
        for kind in sorted(counts):
            assert drawn.pop(f"{kind} {method} {tier}") == (start, counts[kind])
            start += counts[kind]
        assert f"{start} of {len(rows)}" in written
    assert not drawn


def test_a_run_without_errors_says_so(tmp_path: Path) -> None:
    run = make_run(14, errors=0)
    figure = draw("errors", rows_of("errors", tmp_path, run))
    assert f"No errors: all {len(run.scores)} rows have a score." in words(figure) and not bars(figure)
