"""LaTeX tables: what every one of them must look like, how wide they are, and all of them through a LaTeX engine."""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.paperworld import paper_run, published, sql
from unit.tableworld import files_in, make_database, make_run

from lmev2.tables.export import export_table, write_table
from lmev2.tables.latex import latex_table
from lmev2.tables.latex_fit import PAGE_WIDTH, fit_layout, panel_width
from lmev2.tables.latex_text import BOLD, ITALIC, MARK, SCALES, latex_text, text_width
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
    "agents": ["agents"],
}
LABELS = (
    "No retrieval",
    "RAG: query -> slice",
    "RAG: query -> slice + notes",
    "AgentRunbook-R, hybrid: chunk vectors and full text",
    "- raw_slice_pool_under_a_name_without_spaces_that_is_as_long_as_this",
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every table of an awkwardly named, incomplete run of 12 methods on two tiers, and the paper's Table 2."""
    folder = tmp_path_factory.mktemp("latex")
    run = make_run(3, questions=40, methods=12, errors=0.1)
    run.partners = {name: [other for other in run.methods if other != name] for name in run.methods[:4]}
    run.labels = dict(zip(run.methods, LABELS, strict=False))
    run.families = dict.fromkeys(run.methods[8:], "agent")
    run.agent = {"agent": "codex", "version": "0.117.0", "model": "m" * 90, "reasoning_effort": "xhigh"}
    for row in run.scores:
        if row["error"] is None:
            row["correct"] = row["method"] == run.methods[0] or row["correct"]
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
    found = re.findall(r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
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
        size = re.search(r"\\fontsize\{(\d)\}", environment)
        assert size and int(size[1]) >= 7
    # Other places for special characters.
    places = r"\\(label|ref)\{.*?\}|^%.*$|(?<=\{)@\{\}|@\{\}(?=\})"
    check_specials(re.sub(places, "", text, flags=re.MULTILINE))


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
    assert "\\begin{tabular}{@{}lrrl@{}}\n" in text and "minipage" not in text
    assert " & \\multicolumn{2}{c}{G} & \\multicolumn{1}{c}{H} \\\\\n\\cmidrule(lr){2-3} \\cmidrule(lr){4-4}\n" in text
    assert "\\midrule\n\\multicolumn{4}{@{}l@{}}{\\textit{Head \\& tail}} \\\\\n" in text
    assert "m\\_1 & \\textbf{0.5}$^{*}$ & -- & t \\\\\n\\bottomrule" in text
    assert "\\caption{Title}\n\\label{tab:one}" in text


@pytest.mark.parametrize(("rows", "parts"), [(0, 1), (39, 1), (40, 2), (78, 2), (79, 3)])
def test_long_tables_are_cut_into_parts_of_a_page(rows: int, parts: int) -> None:
    blocks = Block("H", tuple((Cell(f"row{number}."),) for number in range(rows)))
    text = latex_table(Layout("Long", (Column("a"),), (blocks,), ("the note",)), "long")
    check_structure(text)
    assert re.findall(r"row(\d+)\.", text) == [str(number) for number in range(rows)]
    assert text.count(r"\begin{table}") == text.count(r"\textit{H}") == parts
    assert text.count("the note") == 1
    if parts > 1:
        assert f"(part {parts} of {parts})" in text and rf"\label{{tab:long-{parts}}}" in text


def test_notes_that_do_not_fit_below_a_table_stand_behind_it() -> None:
    rows = [[f"row{number}."] for number in range(36)]
    text = latex_table(plain_layout("Long", ["a"], rows, ["one note"] * 60), "long")
    check_structure(text)
    assert text.count(r"\begin{table}") == 1
    assert text.partition(r"\end{table}")[2].count("one note") == 60 and r"Notes on Table \ref{tab:long}." in text


def drawn(source: str) -> str:
    """What a cell's source is drawn as, as a text that is as wide."""
    text = re.sub(r"\\text(?:bf|it)\{(.*)\}(?:\$\^\{\*\}\$)?$", r"\1", source.strip())
    signs = {r"\surd": "✓", r"\times": "✗", r"\infty": "∞", r"\sim": "~", r"\enspace ": "  ", r"\_": "_", r"\%": "%"}
    for sign, character in {**signs, r"\#": "#", r"\&": "&", "$": "", "{}": "", "{[}": "[", "{]}": "]"}.items():
        text = text.replace(sign, character)
    assert "\\" not in text, source
    return text


def widths(text: str) -> list[float]:
    """Width of every tabular, estimated from its source."""
    found = []
    for size_text, gap_text, body in re.findall(
        r"\\fontsize\{(\d)\}.*?\\tabcolsep\}\{([\d.]+)pt\}\n(.*?)\\end\{table\}", text, re.DOTALL
    ):
        size, gap = int(size_text), float(gap_text)
        for columns, lines in re.findall(
            r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}\n(.*?)\\end\{tabular\}", body, re.DOTALL
        ):
            widest, spans = [0.0] * len(columns), [0.0]
            for line in lines.splitlines():
                if not line.endswith(r" \\"):
                    continue
                cells = re.split(r"(?<!\\) & ", line.removesuffix(r" \\"))
                if r"\multicolumn" in line:
                    whole = re.fullmatch(r"\\multicolumn\{\d+\}\{@\{\}l@\{\}\}\{(.*)\}", line.removesuffix(r" \\"))
                    spans += [text_width(drawn(whole[1]), size, ITALIC)] if whole else []
                    continue
                for number, cell in enumerate(cells):
                    shape = BOLD if "textbf" in cell else 1
                    mark = MARK * SCALES[size] if cell.endswith("$^{*}$") else 0
                    widest[number] = max(widest[number], text_width(drawn(cell), size, shape) + mark)
            found.append(max(panel_width(widest, gap), *spans))
    return found


def test_no_table_is_wider_than_a_page(tables: Path) -> None:
    for path in sorted(tables.glob("*.tex")):
        if path.stem not in ("awkward", "document"):
            estimated = widths(path.read_text(encoding="utf-8"))
            assert estimated and max(estimated) <= PAGE_WIDTH, path.stem


def test_columns_beside_each_other_if_they_fit_and_else_below(tables: Path) -> None:
    text = (tables / "paper_table2.tex").read_text(encoding="utf-8")
    # The paper's page is wider; its tiers stand below each other here.
    assert text.count(r"\begin{tabular}") == 2 and text.count(r"\begin{table}") == 1
    assert text.count("AgentRunbook-R &") == 2 and text.index("{Small}") < text.index("{Medium}")
    narrow = latex_table(plain_layout("T", ["label", "a"], [["x", 1.5]] * 3, []), "t")
    assert r"\fontsize{9}" in narrow and narrow.count(r"\begin{tabular}") == 1


def test_repeated_texts_become_headings() -> None:
    rows = [
        [f"m{m}", f"A label of some length, {m}", "small", f"c{c}", *[0.125] * 6] for m in range(3) for c in range(5)
    ]
    header = ["method", "label", "tier", "category", *(f"a_number_{number}" for number in range(6))]
    text = latex_table(plain_layout("T", header, rows, []), "t")
    check_structure(text)
    assert text.count(r"\textit{A label of some length, 1, small}") == 1 and "m1" not in text
    assert r"\fontsize{9}" in text or r"\fontsize{8}" in text
    assert max(widths(text)) <= PAGE_WIDTH


CELL_TEXTS = st.one_of(st.text(max_size=60), st.text("ab_- ", max_size=200), st.floats().map(str), st.just(""))


@given(st.data())
def test_whatever_a_table_holds_it_fits_and_nothing_is_lost(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    groups = data.draw(st.lists(st.sampled_from(["", "G", "Another group"]), min_size=count, max_size=count))
    names = data.draw(st.lists(st.text("abc_- ", max_size=30), min_size=count, max_size=count))
    right = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    columns = tuple(Column(*parts) for parts in zip(names, groups, right, strict=True))
    texts = data.draw(st.lists(st.lists(CELL_TEXTS, min_size=count, max_size=count), min_size=1, max_size=6))
    layout = Layout(
        "T", columns, (Block("H" * data.draw(st.integers(0, 99)), tuple(tuple(map(Cell, r)) for r in texts)),)
    )
    fit = fit_layout(layout)
    shown = {number for panel in fit.panels for number in panel.columns}
    assert shown == set(range(len(fit.layout.columns)))
    for panel in fit.panels:
        assert panel_width(panel.widths, fit.type.gap) <= PAGE_WIDTH
        for number, width in zip(panel.columns, panel.widths, strict=True):
            for cell in (row[number] for block in fit.layout.blocks for row in block.rows):
                lines = [line.text for line in fit.cell_lines(cell, width)]
                assert letters("".join(lines)) == letters(cell.text)
                if len(lines) > 1:  # a single character may be wider
                    assert all(text_width(line, fit.type.size) <= width or len(line.strip()) == 1 for line in lines)
            heading = fit.heading_lines(number, width)
            assert letters("".join(heading)) == letters(fit.layout.columns[number].name)
    check_structure(latex_table(layout, "t"))


def letters(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).split())


def compile_document(folder: Path, names: Sequence[str], options: str = "") -> str:
    """The log of an article that shows these files, with nothing loaded but booktabs."""
    body = "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names)
    return run_latex(folder, body, options)


def run_latex(folder: Path, body: str, options: str = "") -> str:
    head = f"\\documentclass[{options}]{{article}}\n\\usepackage{{booktabs}}\n"
    (folder / "document.tex").write_text(f"{head}\\begin{{document}}\n{body}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    for _ in range(2):  # for references
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
        assert done.returncode == 0, done.stdout[-3000:]
    return (folder / "document.log").read_text(encoding="utf-8", errors="replace")


needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="found no pdflatex on PATH; structure and widths are tested anyway"
)


@needs_latex
@pytest.mark.parametrize("options", ["", "11pt", "12pt,a4paper"])
def test_an_article_of_all_tables_has_no_overfull_box(tables: Path, options: str) -> None:
    names = sorted(path.stem for path in tables.glob("*.tex") if path.stem not in ("awkward", "document"))
    log = compile_document(tables, names, options)
    assert "Overfull" not in log and "Float too large" not in log and "undefined" not in log


@needs_latex
def test_an_awkward_table_compiles(tables: Path) -> None:
    compile_document(tables, ["awkward"])


@needs_latex
def test_estimated_widths_are_a_little_more_than_latexs(tables: Path) -> None:
    names = ("table2", "paper_table2", "evidence", "latencies", "table6", "check")
    estimated = [width for name in names for width in widths((tables / f"{name}.tex").read_text(encoding="utf-8"))]
    setting = r"(\\fontsize.*?\n\\setlength\{\\tabcolsep\}.*?\n)(.*?)\\end\{table\}"
    body = ""
    for name in names:
        text = (tables / f"{name}.tex").read_text(encoding="utf-8")
        for head, content in re.findall(setting, text, re.DOTALL):
            for tabular in re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", content, re.DOTALL):
                body += f"{{{head}\\setbox0\\hbox{{{tabular}}}\\typeout{{measured:\\the\\wd0}}}}\n"
    measured = [float(width) for width in re.findall(r"measured:([\d.]+)pt", run_latex(tables, body))]
    assert len(measured) == len(estimated) > 6
    for real, width in zip(measured, estimated, strict=True):
        assert real <= width + 0.5 and width <= 1.12 * real
