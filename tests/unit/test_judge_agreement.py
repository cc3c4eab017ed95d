"""Agreement of judges: every number against one counted by hand from the same verdicts."""

from __future__ import annotations

import csv
import itertools
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lmev2.rows import SCORE, VERDICT, write_rows
from lmev2.tables.export import TableFiles
from lmev2.tables.judge_agreement import export_judge_agreement

QUERY = (Path(__file__).resolve().parents[2] / "workflow" / "sql" / "judge_agreement.sql").read_text(encoding="utf-8")
SCORERS = ("llm_abstention_checker", "llm_gotchas_checker")
Row = dict[str, Any]
Answer = tuple[str, str, str, str]  # question, method, tier, scorer
Verdicts = dict[str, dict[Answer, list[int]]]  # labels of the repeats that gave one, by judge


def majority(labels: Sequence[int], repeats: int) -> int | None:
    return next((label for label in (0, 1) if 2 * list(labels).count(label) > repeats), None)


def write(folder: Path, repeats: dict[str, int], verdicts: Verdicts) -> tuple[list[Row], str, str]:
    """The table's CSV rows, its Markdown and its LaTeX. The first judge's verdicts are the scores'."""
    own, *others = repeats
    scores: list[Row] = []
    for (question, method, tier, scorer), labels in verdicts[own].items():
        label = majority(labels, repeats[own])
        row = {"question_id": question, "method": method, "tier": tier, "scorer": scorer, "domain": "web"}
        row |= {"question_type": "abstention", "category": "static", "judge_label": label, "judge_labels": labels}
        scores.append(row | ({"error": "judge_error"} if label is None else {"correct": label == 1}))
    # Rows that no judge was asked about count nowhere.
    asked = dict(scores[0], question_id="unasked", judge_label=None, judge_labels=None, correct=False, error=None)
    write_rows(folder / "scores.parquet", SCORE, [*scores, asked])
    files = []
    for name in others:
        rows = []
        for (question, method, tier, scorer), labels in verdicts[name].items():
            label = majority(labels, repeats[name])
            row = {"question_id": question, "method": method, "tier": tier, "scorer": scorer, "judge": name}
            rows.append(row | {"labels": labels, "label": label, "error": "judge_error" if label is None else None})
        files.append(folder / f"{name}.parquet")
        write_rows(files[-1], VERDICT, rows)
    judges = [{"judge": name, "model": f"model of {name}", "repeats": count} for name, count in repeats.items()]
    output = TableFiles(folder / "a.csv", folder / "a.md", folder / "a.tex")
    export_judge_agreement([folder / "scores.parquet"], files, judges, QUERY, output, "Agreement of judges")
    with output.csv.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return rows, output.markdown.read_text(encoding="utf-8"), output.latex.read_text(encoding="utf-8")


def cohen(pairs: Sequence[tuple[int, int]]) -> str:
    """Cohen's kappa from the definition, by exact fractions."""
    n = len(pairs)
    observed = Fraction(sum(x == y for x, y in pairs), n)
    expected = sum(
        Fraction(sum(x == label for x, _ in pairs), n) * Fraction(sum(y == label for _, y in pairs), n)
        for label in (0, 1)
    )
    return "" if expected == 1 else f"{float((observed - expected) / (1 - expected)):.3f}"


def fleiss(answers: Sequence[Sequence[int]]) -> str:
    """Fleiss's kappa from the definition: raters per answer, and shares of the labels over all ratings."""
    raters = len(answers[0])
    per_answer = [
        Fraction(sum(labels.count(label) * (labels.count(label) - 1) for label in (0, 1)), raters * (raters - 1))
        for labels in map(list, answers)
    ]
    observed = sum(per_answer, Fraction(0)) / len(answers)
    shares = [Fraction(sum(list(labels).count(label) for labels in answers), raters * len(answers)) for label in (0, 1)]
    expected = sum(share * share for share in shares)
    return "" if expected == 1 else f"{float((observed - expected) / (1 - expected)):.3f}"


def flips(answers: Sequence[Sequence[int]]) -> str:
    repeated = [labels for labels in answers if len(labels) > 1]
    return f"{sum(len(set(labels)) > 1 for labels in repeated) / len(repeated):.3f}" if repeated else ""


def some_verdicts(rng: random.Random, repeats: dict[str, int]) -> Verdicts:
    answers = [
        (f"q{number}", method, tier, SCORERS[number % 3 > 0])
        for number in range(rng.randrange(2, 25))
        for method in ("rag", "none")
        for tier in ("small", "medium")
    ]
    verdicts: Verdicts = {}
    for name, count in repeats.items():
        share, errors = rng.random(), rng.choice((0.0, 0.2))
        verdicts[name] = {
            answer: [int(rng.random() < share) for _ in range(count) if rng.random() >= errors]
            for answer in answers
            if rng.random() < 0.95
        }
    return verdicts


@pytest.mark.parametrize("seed", range(12))
def test_every_number_is_the_one_counted_by_hand(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    repeats = {name: rng.choice((1, 3, 5)) for name in ("judge", "second", "third")[: rng.choice((1, 2, 3))]}
    repeats["judge"] = max(repeats["judge"], 3) if len(repeats) == 1 else repeats["judge"]
    verdicts = some_verdicts(rng, repeats)
    rows, markdown, _ = write(tmp_path, repeats, verdicts)
    present = sorted({answer[3] for own in verdicts.values() for answer in own})
    wanted = [("judges", *pair, pool) for pair in itertools.combinations(repeats, 2) for pool in [*present, "all"]]
    wanted += [("repeats", name, name, pool) for name in repeats if repeats[name] > 1 for pool in [*present, "all"]]
    assert [(row["compared"], row["judge"], row["other"], row["scorer"]) for row in rows] == wanted
    for row in rows:
        pool, (first, second) = row["scorer"], (row["judge"], row["other"])
        one, two = (
            {answer: labels for answer, labels in verdicts[name].items() if pool in ("all", answer[3])}
            for name in (first, second)
        )
        if row["compared"] == "judges":
            labels = [
                (majority(one[key], repeats[first]), majority(two[key], repeats[second])) for key in one & two.keys()
            ]
            pairs = [(x, y) for x, y in labels if x is not None and y is not None]
            answers, kappa = len(pairs), cohen(pairs) if pairs else ""
        else:
            whole = [labels for labels in one.values() if len(labels) == repeats[first]]
            pairs = [pair for labels in whole for pair in itertools.combinations(labels, 2)]
            answers, kappa = len(whole), fleiss(whole) if whole else ""
        assert row["answers"] == str(answers) and row["kappa"] == kappa
        agreement = f"{sum(x == y for x, y in pairs) / len(pairs):.3f}" if pairs else ""
        assert row["agreement"] == agreement
        names = {"both_1": (1, 1), "judge_only_1": (1, 0), "other_only_1": (0, 1), "both_0": (0, 0)}
        assert {name: row[name] for name in names} == {name: str(pairs.count(pair)) for name, pair in names.items()}
        assert (row["judge_flips"], row["other_flips"]) == (flips([*one.values()]), flips([*two.values()]))
        assert row["judge_errors"] == str(sum(majority(found, repeats[first]) is None for found in one.values()))
        assert row["other_errors"] == str(sum(majority(found, repeats[second]) is None for found in two.values()))
    failed = any(majority(labels, repeats[name]) is None for name in repeats for labels in verdicts[name].values())
    assert markdown.startswith("# INCOMPLETE: " if failed else "# Agreement of judges\n")


def test_judges_that_agree_and_judges_that_do_not(tmp_path: Path) -> None:
    answers: list[Answer] = [(f"q{number}", "rag", "small", SCORERS[0]) for number in range(4)]
    labels = [1, 1, 0, 0]
    verdicts: Verdicts = {
        "judge": {key: [label] for key, label in zip(answers, labels, strict=True)},
        "same": {key: [label] for key, label in zip(answers, labels, strict=True)},
        "opposite": {key: [1 - label] for key, label in zip(answers, labels, strict=True)},
        "yes": {key: [1] for key in answers},
    }
    rows, markdown, latex = write(tmp_path, dict.fromkeys(verdicts, 1), verdicts)
    kappas = {row["other"]: (row["agreement"], row["kappa"]) for row in rows[:6] if row["scorer"] == "all"}
    assert kappas == {"same": ("1.000", "1.000"), "opposite": ("0.000", "-1.000"), "yes": ("0.500", "0.000")}
    assert "judge: model of judge, same: model of same" in markdown and "Two judges" in markdown
    assert r"\begin{table}" in latex and "Repeats of one judge" not in markdown


def test_one_label_everywhere_has_no_kappa(tmp_path: Path) -> None:
    answers: list[Answer] = [(f"q{number}", "rag", "small", SCORERS[0]) for number in range(3)]
    verdicts: Verdicts = {"judge": {key: [1, 1, 1] for key in answers}, "second": {key: [1] for key in answers}}
    rows, _, _ = write(tmp_path, {"judge": 3, "second": 1}, verdicts)
    assert {(row["agreement"], row["kappa"]) for row in rows} == {("1.000", "")}
    assert {row["judge_flips"] for row in rows} == {"0.000"} and rows[0]["other_flips"] == ""


def test_judges_without_an_answer_in_common_have_a_row(tmp_path: Path) -> None:
    verdicts: Verdicts = {
        "judge": {("q0", "rag", "small", SCORERS[0]): [1]},
        "second": {("q1", "rag", "small", SCORERS[0]): []},
    }
    rows, _, _ = write(tmp_path, {"judge": 1, "second": 1}, verdicts)
    assert [(row["answers"], row["agreement"], row["kappa"], row["other_errors"]) for row in rows] == (
        [("0", "", "", "1")] * 2
    )
