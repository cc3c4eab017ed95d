"""The command line: what a finished run shows, and what an unfinished one says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lmev2.cli import main

TABLE2 = "method,label,tier,overall,static\nnone,No retrieval,small,0.033,\nrag,RAG: a|b,small,0.500,0.250\n"
EVIDENCE = "method,covered\nnone,0.000\nrag,0.875\n"
SHOWN_TABLE2 = """| method | label        | tier  | overall | static |
| ------ | ------------ | ----- | ------: | -----: |
| none   | No retrieval | small |   0.033 |      - |
| rag    | RAG: a\\|b    | small |   0.500 |  0.250 |"""
SHOWN_EVIDENCE = """| method | covered |
| ------ | ------: |
| none   |   0.000 |
| rag    |   0.875 |"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "table2.csv").write_text(TABLE2, encoding="utf-8")
    (folder / "evidence.csv").write_text(EVIDENCE, encoding="utf-8")
    return folder


def test_a_finished_run_is_shown_whole(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "table2", "--results", str(results)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (
        f"\nAccuracy and query latency ({results}/table2.csv)\n\n{SHOWN_TABLE2}\n"
        f"\nEvidence in the context ({results}/evidence.csv)\n\n{SHOWN_EVIDENCE}\n"
        f"\nNotes: {results}/table2.md. Figure: {results}/table2.png (and .pdf). Logs: {results}/logs/\n"
        f"Every row (contexts, answers, scores): {results}/metrics.duckdb\n"
    )


def test_failed_rows_are_told_and_empty_columns_left_out(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "table2.csv").write_text("method,significant,errors\nnone,,2\nrag,,0\n", encoding="utf-8")
    note = "INCOMPLETE: 2 length; rows with an error have no score and are not in the means."
    (results / "table2.md").write_text(f"# INCOMPLETE: T\n\n| a |\n\n- reader: R.\n- {note}\n", encoding="utf-8")
    assert main(["show", "table2", "--results", str(results)]) == 0
    out = capsys.readouterr().out
    assert "| method | errors |\n" in out and "significant" not in out
    assert f"\n\n{note}\n\nNotes:" in out


def test_a_report_is_named_where_there_is_one(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "report").mkdir()
    (results / "report" / "index.html").touch()
    assert main(["show", "table2", "--results", str(results)]) == 0
    assert capsys.readouterr().out.endswith(f"\nReport to look at in a browser: {results}/report/index.html\n")


@pytest.mark.parametrize("missing", [["table2"], ["evidence"], ["table2", "evidence"]])
def test_an_unfinished_run_says_what_is_missing_and_how_to_make_it(
    results: Path, capsys: pytest.CaptureFixture[str], missing: list[str]
) -> None:
    for name in missing:
        (results / f"{name}.csv").unlink()
    assert main(["show", "table2", "--results", str(results)]) == 1
    out, err = capsys.readouterr()
    wanted = " ".join(f"{results}/{name}.csv" for name in missing)
    assert out == ""
    assert err == (f"{results} has no finished run: found no {wanted}.\nMake it with: snakemake --cores all {wanted}\n")


def test_the_default_folder_is_results_in_the_working_directory(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results.parent)
    assert main(["show", "table2"]) == 0
    assert "\nAccuracy and query latency (results/table2.csv)\n" in capsys.readouterr().out
    monkeypatch.chdir(results)
    assert main(["show", "table2"]) == 1


@pytest.mark.parametrize(
    "arguments", [[], ["show"], ["show", "table3"], ["delete", "table2"], ["show", "table2", "-x"]]
)
def test_other_commands_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: lmev2" in capsys.readouterr().err


@pytest.mark.parametrize(("folder", "status"), [("results", 0), ("elsewhere", 1)])
def test_the_module_runs_as_a_program(results: Path, project: Path, folder: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lmev2", "show", "table2", "--results", folder],
        cwd=results.parent,
        env=os.environ | {"PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status
    assert ("Accuracy and query latency" in done.stdout) == (status == 0)
    assert done.stderr.startswith("elsewhere has no finished run") == (status == 1)
