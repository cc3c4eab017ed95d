"""LaTeX tables: what every one of them must look like, and a document of all of them through a LaTeX engine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.paperworld import paper_run, published, sql
from unit.tableworld import files_in, make_database, make_run

from lmev2.tables.export import export_table, write_table
from lmev2.tables.latex import latex_table, latex_text
from lmev2.tables.layout import Block, Cell, Column, Layout, plain_layout
from lmev2.tables.paper_check import export_paper_check
from lmev2.tables.table2 import export_table2
from lmev2.tables.table6 import export_table6

AWKWARD = (
    'a & b_c % $5 #7 {x} \\y ~ ^ <t> |p| "q" `r\' [s] * é Łódź ñ ß 中文 🎉 ∞ ✓ ✗ – — “q” … -- --- ½\nnew\tline \x07'
)
GENERIC = {
    "evidence": [],
    "origins": [],
    "comparisons": ["bootstrap"],
    "shares": ["shares"],
    "latencies": ["latency"],
    "lafs": ["references"],
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every table of an awkwardly named, incomplete run, and the paper's Table 2."""
    folder = tmp_path_factory.mktemp("latex")
    run = make_run(3, questions=40, methods=5, errors=0.1)
    run.partners = {run.methods[0]: run.methods[1:]}
    run.remarks = {"R1": AWKWARD}
    database = make_database(folder, run)
    for name, notes in GENERIC.items():
        export_table(database, sql(name), files_in(folder, name), f"{name}: {AWKWARD}", notes)
    export_table2(database, sql("table2"), files_in(folder, "table2"), "Accuracy")
    export_paper_check(
        database, sql("paper_check"), published("table2"), published("table6"), files_in(folder, "check"), "Check"
    )
    rows = [{**row, "source": "paper"} for row in published("table6")]
    export_table6(rows, files_in(folder, "table6"), "Direct answers")
    whole = make_database(folder / "paper", paper_run())
    export_table2(whole, sql("table2"), files_in(folder, "paper_table2"), "Accuracy")
    layout = plain_layout("Awkward", ["method", AWKWARD], [["[x]", AWKWARD], ["*", 1.5], [None, ""]], [AWKWARD])
    write_table(files_in(folder, "awkward"), ["method", "b"], [["[x]", 1]], layout)
    return folder


def check_structure(text: str) -> None:
    """Environments are balanced, every row has as many cells as there are columns, and nothing special stands bare."""
    stack: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert stack == []
    found = re.findall(r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert found
    for columns, body in found:
        assert body.startswith("\\toprule\n") and body.endswith("\\bottomrule\n")
        for line in body.splitlines():
            if line.startswith((r"\toprule", r"\midrule", r"\bottomrule", r"\cmidrule")):
                continue
            assert line.endswith(r" \\")
            cells = re.split(r"(?<!\\)&", line.removesuffix(r" \\"))
            spans = [int(match[1]) if (match := re.match(r"\s*\\multicolumn\{(\d+)\}", cell)) else 1 for cell in cells]
            assert sum(spans) == len(columns), line
            assert not line.lstrip().startswith(("[", "*"))
    for environment in re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, re.DOTALL):
        assert environment.count(r"\caption{") == environment.count(r"\label{") == 1
    check_specials(re.sub(r"\\label\{.*\}|^%.*$", "", text, flags=re.MULTILINE))


def check_specials(text: str) -> None:
    assert all(ord(character) < 127 and (character >= " " or character == "\n") for character in text)
    bare = re.sub(r"\\[&%$#_{}\\]|\\[a-zA-Z]+|\\[`'^~=\"]", "", text)
    outside_math = re.sub(r"\$[^$\n]*\$", "", bare)
    assert bare.count("$") % 2 == 0
    for special in "%#_^~<>|\\$":
        assert special not in outside_math, special
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0


def test_every_table_is_well_formed(tables: Path) -> None:
    files = sorted(tables.glob("*.tex"))
    assert len(files) == len(GENERIC) + 5
    for path in files:
        check_structure(path.read_text(encoding="utf-8"))


@given(st.lists(st.lists(st.text(max_size=12), min_size=3, max_size=3), min_size=1, max_size=3), st.text(max_size=20))
def test_any_text_gives_a_well_formed_table(rows: list[list[str]], note: str) -> None:
    check_structure(latex_table(plain_layout("T", ["a", "b", "c"], rows, [note]), "t"))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("50 % of $5 & #1_a {b}", r"50 \% of \$5 \& \#1\_a \{b\}"),
        (r"C:\x ~ ^", r"C:\textbackslash{}x $\sim$ \textasciicircum{}"),
        ("RAG: query -> slice", "RAG: query -$>$ slice"),
        ("[a] *b*", "{[}a{]} {*}b{*}"),
        ("a--b---c", "a-{}-b-{}-{}-c"),
        ("e\u0301 n\u0303 Łódź", r"\'{e} \~{n} \L{}\'{o}d\'{z}"),
        ("中 🎉", "{[}U+4E2D{]} {[}U+1F389{]}"),
        ("two\nlines\t", "two lines "),
        ("✓ ✗ 2k–∞", r"$\surd$ $\times$ 2k--$\infty$"),
    ],
)
def test_texts(text: str, written: str) -> None:
    assert latex_text(text) == written


def test_groups_blocks_bold_and_marks() -> None:
    columns = (Column("M"), Column("x", "G", True), Column("y", "G", True), Column("z", "H"))
    cells = (Cell("m_1"), Cell("0.5", bold=True, mark=True), Cell("", mark=False), Cell("t"))
    text = latex_table(Layout("Title", columns, (Block("Head & tail", (cells,)),)), "one")
    assert "\\begin{tabular}{lrrl}\n" in text and "minipage" not in text
    assert " & \\multicolumn{2}{c}{G} & \\multicolumn{1}{c}{H} \\\\\n\\cmidrule(lr){2-3} \\cmidrule(lr){4-4}\n" in text
    assert "\\midrule\n\\multicolumn{4}{l}{\\textit{Head \\& tail}} \\\\\n" in text
    assert "m\\_1 & \\textbf{0.5}$^{*}$ & -- & t \\\\\n\\bottomrule" in text
    assert "\\caption{Title}\n\\label{tab:one}" in text


@pytest.mark.parametrize(("rows", "parts"), [(0, 1), (40, 1), (41, 2), (80, 2), (81, 3)])
def test_long_tables_are_cut_into_parts_of_a_page(rows: int, parts: int) -> None:
    blocks = Block("H", tuple((Cell(f"row{number}."),) for number in range(rows)))
    text = latex_table(Layout("Long", (Column("a"),), (blocks,), ("the note",)), "long")
    check_structure(text)
    assert re.findall(r"row(\d+)\.", text) == [str(number) for number in range(rows)]
    assert text.count(r"\begin{table}") == text.count(r"\textit{H}") == parts
    assert text.count("the note") == 1
    if parts > 1:
        assert f"(part {parts} of {parts})" in text and rf"\label{{tab:long-{parts}}}" in text


def compile_document(folder: Path, names: Sequence[str]) -> str:
    """The log of a document that shows these files, with nothing loaded but booktabs."""
    size = (
        "\\textwidth=265mm\\textheight=180mm\\oddsidemargin=-20mm\\topmargin=-25mm\\paperwidth=297mm\\paperheight=210mm"
    )
    head = f"\\documentclass{{article}}\n\\usepackage{{booktabs}}\n{size}\n\\pdfpagewidth=297mm\\pdfpageheight=210mm\n"
    body = "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names)
    (folder / "document.tex").write_text(f"{head}\\begin{{document}}\n{body}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-3000:]
    return (folder / "document.log").read_text(encoding="utf-8", errors="replace")


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="found no pdflatex on PATH; the structure is tested anyway"
)
def test_a_document_of_all_tables_compiles(tables: Path) -> None:
    names = sorted(path.stem for path in tables.glob("*.tex") if path.stem not in ("awkward", "document"))
    log = compile_document(tables, names)
    assert "Overfull" not in log and "Float too large" not in log and "undefined" not in log
    compile_document(tables, ["awkward"])
