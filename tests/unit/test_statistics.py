"""The database's statistics against the same arithmetic over the rows."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean, quantiles

import duckdb
import numpy as np
import pytest
from unit.tableworld import Run, make_database, make_run

from lmev2.bootstrap import compare, interval
from lmev2.lafs import Point, lafs, lafs_gain
from lmev2.metrics import shares

OPTIONS = (500, 0, 0.95)


def rows_of(folder: Path, run: Run, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(make_database(folder, run)), read_only=True) as database:
        return database.execute(query).fetchall()


def scored(run: Run, method: str, tier: str, category: str = "overall") -> dict[str, float]:
    rows = run.of("scores", method, tier)
    chosen = [row for row in rows if row["correct"] is not None and category in ("overall", row["category"])]
    return {row["question_id"]: float(row["correct"]) for row in sorted(chosen, key=lambda row: row["question_id"])}


@pytest.mark.parametrize("seed", range(3))
def test_intervals_equal_the_bootstrap_of_the_rows(tmp_path: Path, seed: int) -> None:
    run = make_run(seed, questions=40)
    found = rows_of(tmp_path, run, "SELECT * FROM intervals")
    assert {row[2] for row in found} == {"overall", "static", "dynamic", "workflow", "gotchas"}
    for method, tier, category, questions, *numbers in found:
        values = np.array(list(scored(run, str(method), str(tier), str(category)).values()))
        assert (questions, *numbers) == (len(values), *interval(values, *OPTIONS))


@pytest.mark.parametrize("seed", range(3))
def test_a_method_is_compared_with_the_best_partner_of_each_category(tmp_path: Path, seed: int) -> None:
    run = make_run(seed, questions=40, methods=3)
    first, *others = run.methods
    run.partners = {first: [*others, "not_in_the_run"]}
    found = rows_of(tmp_path, run, "SELECT * FROM comparisons")
    assert {row[0] for row in found} == {first}
    for method, tier, category, partner, questions, *numbers, significant in found:
        means = {name: fmean(scored(run, name, str(tier), str(category)).values()) for name in others}
        assert means[str(partner)] == max(means.values())
        own, other = (scored(run, str(name), str(tier), str(category)) for name in (method, partner))
        both = [question for question in own if question in other]
        pairs = [np.array([values[question] for question in both]) for values in (own, other)]
        expected = compare(*pairs, *OPTIONS)
        assert (questions, *numbers) == (len(both), *expected)
        assert significant is (expected.difference > 0 and expected.p < 0.05)


def test_a_clear_winner_is_marked_in_table_2_and_an_equal_is_not(tmp_path: Path) -> None:
    run = make_run(1, questions=60, methods=3, errors=0.0)
    for row in run.scores:
        row["correct"] = row["method"] == run.methods[0]
    run.partners = {run.methods[0]: [run.methods[1]], run.methods[2]: [run.methods[1]]}
    query = (Path(__file__).resolve().parents[2] / "workflow" / "sql" / "table2.sql").read_text(encoding="utf-8")
    with duckdb.connect(str(make_database(tmp_path, run)), read_only=True) as database:
        result = database.execute(query)
        names = [column[0] for column in result.description]
        table = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    for row in table:
        winner = row["method"] == run.methods[0]
        assert row["significant"] == ("overall;static;dynamic;workflow;gotchas" if winner else None)
        assert row["overall_low"] == row["overall_high"] == ("1.000" if winner else "0.000")


def test_lafs_of_each_method_and_of_all(tmp_path: Path) -> None:
    run = make_run(2, questions=30, errors=0.0)
    run.tiers = ["small"]
    for name in ("contexts", "answers", "scores"):
        setattr(run, name, [row for row in getattr(run, name) if row["tier"] == "small"])
    found = rows_of(tmp_path, run, "SELECT * FROM lafs")
    reference = [Point(0.2, 51.0), Point(177.2, 69.9), Point(26.9, 58.6), Point(108.3, 74.9)]
    points = []
    for method, _, latency, accuracy, score, gain in found[:-1]:
        rows = [row for row in run.of("contexts", str(method), "small") if row.get("error") is None]
        assert latency == pytest.approx(fmean(row["latency_s"] for row in rows))
        assert accuracy == pytest.approx(100 * fmean(scored(run, str(method), "small").values()))
        points.append(Point(float(latency), float(accuracy)))
        assert score == pytest.approx(lafs([*reference, points[-1]]))
        assert gain == pytest.approx(lafs_gain(reference, [points[-1]]))
    assert found[-1][0] == "all" and found[-1][5] == pytest.approx(lafs_gain(reference, points))


def test_latencies_and_shares_equal_the_rows(tmp_path: Path) -> None:
    run = make_run(4, questions=50)
    rng = random.Random(4)
    for row in run.scores:
        row["scorer"] = rng.choice(("llm_abstention_checker", "norm_phrase_set_match"))
        if row["correct"] is False:
            row["unknown"] = rng.random() < 0.5
    database = duckdb.connect(str(make_database(tmp_path, run)), read_only=True)
    for method, tier, queries, mean, p95, longest in database.execute(
        "SELECT method, tier, queries, mean_s, p95_s, max_s FROM latencies"
    ).fetchall():
        times = [row["latency_s"] for row in run.of("contexts", method, tier) if row.get("error") is None]
        assert (queries, mean, longest) == (len(times), pytest.approx(fmean(times)), max(times))
        assert p95 == pytest.approx(quantiles(times, n=20, method="inclusive")[-1])
    found = database.execute(
        "SELECT method, tier, category, part, questions, errors, correct, wrong, unknown FROM shares"
    ).fetchall()
    assert {row[3] for row in found} == {"all", "without_abstention", "abstention"}
    for method, tier, category, part, questions, errors, *parts in found:
        wanted = {"all": (True, False), "abstention": (True,), "without_abstention": (False,)}[part]
        rows = [
            row
            for row in run.of("scores", method, tier)
            if category in ("overall", row["category"]) and (row["scorer"] == "llm_abstention_checker") in wanted
        ]
        expected = shares(rows)
        assert (questions, errors) == (expected.count, sum(row["error"] is not None for row in rows))
        assert parts == (
            [None] * 3 if expected.count == 0 else pytest.approx([expected.correct, expected.wrong, expected.unknown])
        )
    database.close()
