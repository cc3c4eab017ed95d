"""What holds for every figure: files, type, places of texts, looks of methods, and runs at the extremes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import rc_context
from PIL import Image
from unit.figureworld import DRAW, PLOT, clashes, draw, query_of, rows_of, texts, words
from unit.tableworld import Run, make_database, make_run

from lmev2.report.figures import COLOURS, NORMAL, WIDTH, Method, seconds_text, share_text, text_width, wrap

LONG = "chunk vectors and full text, the question stripped, at most one state of each page, {} of them"
Change = Callable[[Run], None]


def all_zero(run: Run) -> None:
    for row in run.scores:
        row.update(correct=False, error=None, error_detail=None, unknown=False)


def all_failed(run: Run) -> None:
    for row in run.scores:
        row.update(correct=None, error="memory_error", error_detail="d", unknown=None)
    for row in run.contexts:
        row.update(latency_s=0.0, error="memory_error", items=[])


def no_latency(run: Run) -> None:
    for row in run.contexts:
        row.update(latency_s=0.0)


def one_slow(run: Run) -> None:
    run.contexts[0].update(latency_s=5e4, error=None)
    run.contexts[1].update(latency_s=1e-6, error=None)


def no_labels(run: Run) -> None:
    for row in run.scores:
        row.update(evidence_covered=None, evidence_covered_before=None, gold_supported=None)


def one_tier(run: Run) -> None:
    run.tiers = ["medium"]
    for rows in (run.contexts, run.answers, run.scores):
        rows[:] = [row for row in rows if row["tier"] == "medium"]


def one_method(run: Run) -> None:
    run.methods = run.methods[:1]
    for rows in (run.contexts, run.answers, run.scores):
        rows[:] = [row for row in rows if row["method"] == run.methods[0]]


def many_tokens(run: Run) -> None:
    for row in run.answers:
        row.update(context_tokens_before=20_000_000, context_tokens=199_999)


def odd_errors(run: Run) -> None:
    for number, row in enumerate(run.scores):
        row.update(correct=None, error=f"a_kind_of_error_with_a_long_name_{number % 9}", error_detail="d", unknown=None)


CHANGES: dict[str, Change] = {
    change.__name__: change
    for change in (
        all_zero, all_failed, no_latency, one_slow, no_labels, one_tier, one_method, many_tokens, odd_errors,
    )
}  # fmt: skip


SCRIPT = """
import sys
from pathlib import Path
from unit.figureworld import PLOT, query_of

database, folder = map(Path, sys.argv[1:])
for name, plot in PLOT.items():
    plot(database, query_of(name), folder / f"{name}.png", folder / f"{name}.pdf")
"""


def test_both_files_are_written_and_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    database = make_database(tmp_path, make_run(1, questions=6, methods=2))
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root / "src"), str(root / "tests")])
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, seed in ((first, "1"), (second, "2")):  # of Python's hashes
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", SCRIPT, str(database), str(folder)]
        subprocess.run(command, env=environment, check=True)
    names = sorted(f"{name}.{ending}" for name in PLOT for ending in ("pdf", "png"))
    assert sorted(one.name for one in first.iterdir()) == names
    for name in names:
        content = (first / name).read_bytes()
        assert content == (second / name).read_bytes(), name
        if name.endswith("pdf"):
            assert content.startswith(b"%PDF-") and b"%%EOF" in content[-16:]
            assert b"Date" not in content and b"/Type3" not in content
            continue
        with Image.open(first / name) as image:
            image.load()
            assert image.width == round(WIDTH * 300) and image.info["dpi"][0] == pytest.approx(300, abs=0.1)
            assert len(image.convert("RGB").getcolors(10**7) or []) > 10 and "tIME" not in image.info


def test_a_figure_does_not_depend_on_matplotlibs_configuration(tmp_path: Path) -> None:
    database = make_database(tmp_path, make_run(2))
    for name, settings_ in (("one", {}), ("other", {"font.size": 30, "lines.linewidth": 9, "axes.grid": True})):
        with rc_context(settings_):
            PLOT["latency"](database, query_of("latency"), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()


@pytest.mark.parametrize("methods", [1, 14])
@pytest.mark.parametrize("name", DRAW)
def test_no_text_lies_on_another_or_leaves_the_page_or_is_too_small(tmp_path: Path, name: str, methods: int) -> None:
    rows = rows_of(name, tmp_path, make_run(3, methods=methods))
    for row in rows:
        if row["label"] and row["method_position"] % 3 == 1:
            row["label"] = LONG.format(row["method"])
    figure = draw(name, rows)
    assert clashes(figure) == []
    assert min(one.get_fontsize() for one in texts(figure)) >= 7
    assert figure.get_size_inches()[0] == WIDTH


@pytest.mark.parametrize("change", CHANGES)
def test_runs_at_the_extremes_are_drawn(tmp_path: Path, change: str) -> None:
    run = make_run(4, questions=9)
    CHANGES[change](run)
    for name in DRAW:
        assert clashes(draw(name, rows_of(name, tmp_path, run))) == [], name


@pytest.mark.parametrize("errors", [0, 0.2])
@pytest.mark.parametrize("name", [name for name in DRAW if name != "errors"])
def test_a_figure_of_means_says_that_rows_failed(tmp_path: Path, name: str, errors: float) -> None:
    run = make_run(8, errors=errors)
    failed = sum(row["error"] is not None for row in run.scores)
    if name == "latency":  # a reader's or judge's failure takes no latency away
        failed = sum(row.get("error") is not None for row in run.contexts)
    told = [word for word in words(draw(name, rows_of(name, tmp_path, run))) if "INCOMPLETE" in word]
    assert bool(failed) == bool(errors) == len(told)
    assert all(word.startswith(f"INCOMPLETE: {failed} of {len(run.scores)} rows failed and have no ") for word in told)


def test_characters_that_the_font_lacks_are_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    run = make_run(9, questions=4, methods=2, errors=0)
    run.labels = {run.methods[0]: "中文 and \x07 RAG", run.methods[1]: "Łódź → ½"}
    database = make_database(tmp_path, run)
    for name, plot in PLOT.items():
        caplog.clear()
        plot(database, query_of(name), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
        messages = [record.message for record in caplog.records if record.levelname == "WARNING"]
        expected = f"{name}.png: DejaVu Sans has no glyph for 中 (U+4E2D), 文 (U+6587), U+0007 in '中文 and \\x07 RAG'"
        assert [message.partition(", drawn")[0] for message in messages] == [expected] * (name != "errors")
    assert not [one for one in recwarn if "Glyph" in str(one.message)]


def test_a_run_of_one_question_is_drawn(tmp_path: Path) -> None:
    run = make_run(5, questions=1, errors=0)
    for name in DRAW:
        assert clashes(draw(name, rows_of(name, tmp_path, run))) == [], name


def test_what_is_not_a_number_is_left_out(tmp_path: Path) -> None:
    run = make_run(6, errors=0)
    first = run.of("contexts", run.methods[1], "small")[0]
    database = make_database(tmp_path, run)
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "UPDATE contexts SET latency_s = 'nan' WHERE method = ? AND tier = 'small' AND question_id = ?",
            [run.methods[1], first["question_id"]],
        )
    rows = rows_of("latency", tmp_path, run)
    row = next(one for one in rows if (one["method"], one["tier"]) == (run.methods[1], "small"))
    assert len(row["latencies"]) == len(run.questions) - 1 and row["mean"] is None
    assert clashes(draw("latency", rows)) == []


def test_a_label_is_not_read_as_a_formula(tmp_path: Path) -> None:
    rows = rows_of("table2", tmp_path, make_run(7, methods=1))
    for row in rows:
        row["label"] = r"pays $5, not $6_\x"
    assert r"pays $5, not $6_\x" in words(draw("table2", rows))


def test_no_two_of_many_methods_look_alike() -> None:
    methods = [Method(number, f"m{number}", "", "rag") for number in range(72)]
    assert len({(one.colour, one.marker) for one in methods}) == 72
    assert len(set(COLOURS)) == len(COLOURS)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abcdefg WM-", max_size=60), st.floats(0.3, 2))
def test_wrapped_lines_hold_every_letter_and_fit(text: str, width: float) -> None:
    lines = wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(text_width(line) <= width for line in lines)


def test_numbers_as_text() -> None:
    assert [share_text(value) for value in (0.0, 0.0004, 0.5626, 0.9996, 1.0, None)] == (
        [".000", ".000", ".563", "1.00", "1.00", "–"]
    )
    assert [seconds_text(value) for value in (0.0, 0.0324, 9.9949, 9.996, 99.94, 99.96, 185.8, None)] == (
        ["0.000", "0.032", "9.995", "10.0", "99.9", "100", "186", "–"]
    )
    assert NORMAL >= 7
