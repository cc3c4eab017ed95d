"""Statistics of the data: the table and the figure against counts made from the data root's own files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from unit.dataroot import DataRoot, make_data_root
from unit.figureworld import bars, clashes, lines, texts, words
from unit.paperworld import sql
from unit.tableworld import files_in

from lmev2.data.ingest import ingest_dataset
from lmev2.data.schema import QUESTION_TYPES
from lmev2.report.figures import drawing, fetch_rows
from lmev2.report.figures_statistics import cumulative, draw_statistics, plot_statistics
from lmev2.scoring.spec import SCORER_NAMES
from lmev2.tables.data_statistics import VIEWS, export_statistics, open_data
from lmev2.tables.export import read_table

TIERS = ("small", "medium")
Value = int | float


def files_of(folder: Path) -> dict[str, Path]:
    return {name: folder / f"{name}.parquet" for name in VIEWS}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> DataRoot:
    """Haystacks of different lengths, trees of different sizes, a trajectory that no haystack names."""
    root = make_data_root(tmp_path_factory.mktemp("root") / "data", trajectories=7, states=5, questions=23, unused=1)
    for number in range(1, 8):

        def change(run: Any, number: int = number) -> None:
            del run["states"][number % 4 + 1 :]
            for state in run["states"]:
                state["accessibility_tree"] += "\n" + "é" * (number * 37 + state["state_index"] ** 2 * 11)

        root.edit_line("trajectories.jsonl", number, change)
    root.edit_haystacks(
        "small", lambda lists: lists.update({name: list(ids[:1]) for name, ids in list(lists.items())[::3]})
    )
    lengths = {run["id"]: len(run["states"]) for run in root.trajectories}
    for number, row in enumerate(root.objects("evidence.jsonl"), start=1):
        ((name, _),) = row["hops"][0]
        hops = [[[name, 0]], [[name, lengths[name] - 1], [name, 0]]][: 1 + number % 2]
        root.edit_line("evidence.jsonl", number, lambda value, hops=hops: value.update(hops=hops))
    return root


@pytest.fixture(scope="module")
def data(root: DataRoot, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ingested")
    ingest_dataset(root.path, folder, TIERS)
    return files_of(folder)


def expected(root: DataRoot, tier: str, domain: str) -> dict[tuple[str, str], Value]:
    """The statistics, from the data root's files."""
    questions = [row for row in root.questions if domain in ("all", row["domain"])]
    haystacks = [tuple(root.haystacks(tier)[row["id"]]) for row in questions]
    used = set().union(*haystacks)
    runs = [run for run in root.trajectories if run["id"] in used]
    counts = [len(run["states"]) for run in runs]
    states = [state for run in runs for state in run["states"]]
    trees = [len(state["accessibility_tree"]) for state in states]
    hops = {row["question_id"]: row["hops"] for row in root.objects("evidence.jsonl")}
    labelled = [hops[row["id"]] for row in questions if row["id"] in hops]
    sizes = [len(ids) for ids in haystacks]
    kinds = Counter(row["question_type"] for row in questions)
    scorers = Counter(row["eval_function"].split("|")[0] for row in questions)
    quantile = lambda share: float(np.quantile(trees, share))  # noqa: E731
    return {
        ("Questions", "number"): len(questions),
        ("Questions", "with an image"): sum(row["image"] is not None for row in questions),
        ("Questions", "with evidence labels"): len(labelled),
        ("Questions", "labelled hops"): sum(map(len, labelled)),
        ("Questions", "labelled states"): sum(len(hop) for one in labelled for hop in one),
        **{("Question types", kind): kinds[kind] for kind in QUESTION_TYPES},
        **{("Scorers", name): scorers[name] for name in SCORER_NAMES},
        ("Trajectories per haystack", "different haystacks"): len(set(haystacks)),
        ("Trajectories per haystack", "least"): min(sizes),
        ("Trajectories per haystack", "median"): median(sizes),
        ("Trajectories per haystack", "mean"): fmean(sizes),
        ("Trajectories per haystack", "most"): max(sizes),
        ("Trajectories", "number"): len(runs),
        ("Trajectories", "success"): sum(run["outcome"] == "success" for run in runs),
        ("Trajectories", "failure"): sum(run["outcome"] == "failure" for run in runs),
        ("States per trajectory", "all states"): len(states),
        ("States per trajectory", "least"): min(counts),
        ("States per trajectory", "median"): median(counts),
        ("States per trajectory", "mean"): fmean(counts),
        ("States per trajectory", "most"): max(counts),
        ("Characters per tree", "all trees"): sum(trees),
        ("Characters per tree", "5th percentile"): quantile(0.05),
        ("Characters per tree", "25th percentile"): quantile(0.25),
        ("Characters per tree", "median"): quantile(0.5),
        ("Characters per tree", "75th percentile"): quantile(0.75),
        ("Characters per tree", "95th percentile"): quantile(0.95),
        ("Characters per tree", "most"): max(trees),
        ("Screenshots", "states with one"): len(states),
        ("Screenshots", "states without"): 0,
    }


def test_the_table_is_the_arithmetic(root: DataRoot, data: Mapping[str, Path], tmp_path: Path) -> None:
    export_statistics(data, sql("statistics"), files_in(tmp_path, "statistics"), "Statistics")
    rows = read_table(tmp_path / "statistics.csv")
    cells = [(tier, domain) for tier in TIERS for domain in ("web", "enterprise", "all")]
    assert list(rows[0]) == ["group", "statistic", *(f"{tier}_{domain}" for tier, domain in cells)]
    for tier, domain in cells:
        wanted = expected(root, tier, domain)
        assert [(row["group"], row["statistic"]) for row in rows] == list(wanted)
        for row in rows:
            value = wanted[row["group"], row["statistic"]]
            assert float(row[f"{tier}_{domain}"]) == pytest.approx(value, abs=0.0501), (tier, domain, row)
            assert "." not in row[f"{tier}_{domain}"] or not isinstance(value, int)
    text = (tmp_path / "statistics.md").read_text(encoding="utf-8")
    assert "Tier small web" in text and "**Characters per tree**" in text


def test_data_without_labels_and_of_one_domain(tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "data", trajectories=4, states=2, questions=6, evidence=False)
    kept = [row["id"] for row in root.questions if row["domain"] == "web"]
    lines_ = [
        line for line, row in zip(root.lines("questions.jsonl"), root.questions, strict=True) if row["id"] in kept
    ]
    (root.path / "questions.jsonl").write_bytes(b"\n".join(lines_) + b"\n")
    ingest_dataset(root.path, tmp_path / "out", ["small"])
    export_statistics(files_of(tmp_path / "out"), sql("statistics"), files_in(tmp_path, "s"), "S")
    rows = {(row["group"], row["statistic"]): row for row in read_table(tmp_path / "s.csv")}
    assert rows["Questions", "number"] == rows["Questions", "number"] | {"small_web": "3", "small_all": "3"}
    assert rows["Questions", "with evidence labels"]["small_all"] == "0"
    assert rows["Questions", "labelled hops"]["small_all"] == "0"
    figure = drawn(files_of(tmp_path / "out"))
    assert clashes(figure) == [] and "enterprise" not in words(figure)


def drawn(data: Mapping[str, Path], change: Callable[[list[dict[str, Any]]], object] = lambda rows: None) -> Figure:
    with open_data(data) as connection:
        rows = fetch_rows(connection, sql("figure_statistics"))
    change(rows)
    with drawing():
        figure = draw_statistics(rows)
        figure.canvas.draw()
    return figure


def test_the_figure_shows_the_data(root: DataRoot, data: Mapping[str, Path]) -> None:
    figure = drawn(data)
    curves, medians, boxes = lines(figure, "curve "), lines(figure, "median "), bars(figure)
    runs = {run["id"]: run for run in root.trajectories}
    assert len(curves) == len(medians) == 12
    for tier in TIERS:
        for domain in ("web", "enterprise"):
            own = [row for row in root.questions if row["domain"] == domain]
            haystacks = [root.haystacks(tier)[row["id"]] for row in own]
            used = [runs[name] for name in sorted(set().union(*haystacks))]
            values = {
                "sizes": [len(ids) for ids in haystacks],
                "states": [len(run["states"]) for run in used],
                "characters": [len(state["accessibility_tree"]) for run in used for state in run["states"]],
            }
            for name, numbers in values.items():
                x, y = curves[f"curve {name} {domain} {tier}"]
                assert x[1:] == sorted(numbers) and x[0] == min(numbers)
                assert y == [number / len(numbers) for number in range(len(numbers) + 1)]
                assert medians[f"median {name} {domain} {tier}"][0] == [np.quantile(numbers, 0.5, method="lower")]
            kinds = Counter(row["question_type"] for row in own)
            for kind in QUESTION_TYPES:
                assert boxes[f"type {kind} {domain}"] == (0, kinds[kind])


@pytest.mark.parametrize("size", [1, 10, 1_000_000])
def test_texts_keep_apart_and_are_large_enough(data: Mapping[str, Path], size: int) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row.update({name: [size] * 3 for name in ("sizes", "states", "characters")})
            row["types"] = row["types"] * (size if size < 100 else 100)

    figure = drawn(data, change)
    assert clashes(figure) == []
    assert min(one.get_fontsize() for one in texts(figure)) >= 7


@given(st.lists(st.integers(0, 50), min_size=1, max_size=900).map(sorted))
def test_a_curve_is_the_cumulative_share_at_each_of_its_points(values: Sequence[int]) -> None:
    x, y = cumulative(values)
    assert (x[0], y[0], x[-1], y[-1]) == (values[0], 0, values[-1], 1)
    assert len(x) <= 401 and x == sorted(x) and y == sorted(y)
    array = np.array(values)
    for value, share in zip(x[1:], y[1:], strict=True):
        assert (array < value).mean() < share <= (array <= value).mean()
    if len(values) <= 400:
        assert x[1:] == values


def test_equal_data_give_equal_files(data: Mapping[str, Path], tmp_path: Path) -> None:
    for name in ("one", "two"):
        plot_statistics(data, sql("figure_statistics"), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    for ending in ("png", "pdf"):
        assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_real_runs(realruns: Path, tmp_path: Path) -> None:
    ingest_dataset(realruns, tmp_path / "out", TIERS)
    export_statistics(files_of(tmp_path / "out"), sql("statistics"), files_in(tmp_path, "s"), "S")
    rows = {(row["group"], row["statistic"]): row for row in read_table(tmp_path / "s.csv")}
    assert rows["Trajectories", "number"]["small_all"] == "11"
    assert rows["States per trajectory", "all states"]["small_all"] == "77"
    assert rows["Questions", "number"]["small_all"] == "21"
    assert clashes(drawn(files_of(tmp_path / "out"))) == []
