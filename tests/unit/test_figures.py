"""Figures: both files are written, large enough, and say what the tables say."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from lmev2.report.figures import plot_table2

CATEGORIES = ("overall", "static", "dynamic", "workflow", "gotchas")
SHARES = ("covered", "gold_support")
Table = list[dict[str, str]]


def make_tables(methods: int, tiers: Sequence[str], seed: int = 1) -> tuple[Table, Table]:
    """Rows of table 2 and of the evidence table, with numbers that all differ."""
    rng = random.Random(seed)
    scores, evidence = [], []
    for number in range(methods):
        for tier in tiers:
            key = {"method": f"m{number}", "label": f"Method {number}", "tier": tier}
            accuracies = {name: f"{rng.random():.3f}" for name in CATEGORIES}
            scores.append(key | accuracies | {"latency_s": "0.1", "questions": "48", "errors": "0"})
            evidence.append(key | {name: f"{rng.random():.3f}" for name in SHARES})
    return scores, evidence


def write_table(path: Path, rows: Table) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def plot(folder: Path, scores: Table, evidence: Table) -> tuple[Path, Path]:
    table, support = write_table(folder / "table2.csv", scores), write_table(folder / "evidence.csv", evidence)
    plot_table2(table, support, folder / "table2.png", folder / "table2.pdf")
    return folder / "table2.png", folder / "table2.pdf"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures as they were when they were closed."""
    figures: list[Figure] = []
    close = plt.close

    def keep(figure: Figure) -> None:
        figures.append(figure)
        close(figure)

    monkeypatch.setattr(plt, "close", keep)
    return figures


def heights(axes: Axes) -> list[list[float]]:
    """Heights of the bars, by method."""
    return [[bar.get_height() for bar in container] for container in axes.containers]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("methods", "tiers"), [(1, ["small"]), (12, ["small", "medium"])])
def test_both_files_are_written(tmp_path: Path, methods: int, tiers: list[str]) -> None:
    png, pdf = plot(tmp_path, *make_tables(methods, tiers))
    with Image.open(png) as image:
        image.load()
        assert image.format == "PNG"
        assert image.width >= 1200 and image.height >= 600 * len(tiers)
        assert len(image.convert("RGB").getcolors(10**7) or []) > 10
    assert pdf.read_bytes().startswith(b"%PDF-") and b"%%EOF" in pdf.read_bytes()[-16:]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "evidence.csv",
        "table2.csv",
        "table2.pdf",
        "table2.png",
    ]


@pytest.mark.parametrize(("methods", "tiers"), [(1, ["medium"]), (3, ["small", "medium"]), (12, ["small", "medium"])])
def test_bars_are_the_tables_numbers(tmp_path: Path, drawn: list[Figure], methods: int, tiers: list[str]) -> None:
    scores, evidence = make_tables(methods, tiers)
    plot(tmp_path, scores, evidence)
    (figure,) = drawn
    panels = figure.axes
    assert len(panels) == 2 * len(tiers)
    for number, tier in enumerate(tiers):
        left, right = panels[2 * number], panels[2 * number + 1]
        for axes, rows, names in ((left, scores, CATEGORIES), (right, evidence, SHARES)):
            expected = [[float(row[name]) for name in names] for row in rows if row["tier"] == tier]
            assert heights(axes) == expected
            texts = [f"{value:.2f}".lstrip("0") for row in expected for value in row]
            assert [text.get_text() for text in axes.texts] == texts
        assert left.get_title() == f"LME-V2-{tier.capitalize()}: accuracy, 48 questions"
        assert [label.get_text() for label in left.get_xticklabels()] == [name.capitalize() for name in CATEGORIES]
        assert left.get_ylim()[0] == 0 and left.get_ylim()[1] >= 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"Method {n}" for n in range(methods)]


def test_a_missing_number_is_marked_and_not_drawn_as_a_value(tmp_path: Path, drawn: list[Figure]) -> None:
    scores, evidence = make_tables(2, ["small"])
    scores[1]["gotchas"] = evidence[0]["covered"] = ""
    scores[0]["static"] = "0.000"
    plot(tmp_path, scores, evidence)
    left, right = drawn[0].axes
    texts = [text.get_text() for text in left.texts]
    assert texts[9] == "n/a" and texts[1] == ".00" and heights(left)[1][4] == 0
    assert [text.get_text() for text in right.texts].index("n/a") == 0


def test_no_two_of_many_methods_look_alike(tmp_path: Path, drawn: list[Figure]) -> None:
    plot(tmp_path, *make_tables(24, ["small"]))
    looks = [
        (to_hex(container[0].get_facecolor()), container[0].get_hatch())  # type: ignore[index]
        for container in drawn[0].axes[0].containers
    ]
    assert len(set(looks)) == 24


def test_methods_that_share_a_label_are_drawn_each(tmp_path: Path, drawn: list[Figure]) -> None:
    scores, evidence = make_tables(2, ["small"])
    for row in (*scores, *evidence):
        row["label"] = "Same"
    plot(tmp_path, scores, evidence)
    assert heights(drawn[0].axes[0]) == [[float(row[name]) for name in CATEGORIES] for row in scores]


def test_equal_tables_give_equal_files(tmp_path: Path) -> None:
    files = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        files.append([path.read_bytes() for path in plot(tmp_path / name, *make_tables(2, ["small"]))])
    assert files[0] == files[1]
    assert b"/CreationDate" not in files[0][1]
