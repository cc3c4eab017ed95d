"""Hostile text in every field that data, models, configurations and imported runs can fill: it is shown, and does nothing,
in the report, tables, captions, CSV files and the terminal."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
from docutils.core import publish_parts
from hypothesis import given
from hypothesis import strategies as st
from unit.reportworld import World, make_world
from unit.tableworld import EVIDENCE, TABLE2, make_database
from unit.test_report_browser import browser_python

from lmev2.cli import main as command
from lmev2.csv_cells import csv_cell
from lmev2.goals.table import REPORT_COLUMNS, write_report
from lmev2.report.html.site import slug
from lmev2.tables.export import TableFiles, export_table
from lmev2.tables.latex_text import latex_text
from lmev2.tables.layout import markdown_table, markdown_text
from lmev2.terminal import plain
from lmev2.visible import visible

REPOSITORY = Path(__file__).resolve().parents[2]
CAPTIONS = sorted((REPOSITORY / "workflow" / "report").glob("*.rst"))
EVIL = "http://evil.invalid"
ATTACKS = (
    "<script>window.HOSTILE=1;alert(1)</script>",
    "</script></title></textarea><script>window.HOSTILE=1</script>",
    f"<img src=x onerror=window.HOSTILE=1><img src={EVIL}/a.png>",
    f"' autofocus onfocus='window.HOSTILE=1' style='background:url({EVIL}/b.png)' x='",
    f'" onmouseover="window.HOSTILE=1" srcset="{EVIL}/c.png" x="',
    "javascript:window.HOSTILE=1",
    "data:text/html,<script>window.HOSTILE=1</script>",
    f"<meta http-equiv=refresh content='0;url={EVIL}/d'>",
    f"<base href='{EVIL}/'><link rel=stylesheet href='{EVIL}/e.css'><style>@import url({EVIL}/f.css)</style>",
    f"<svg onload=window.HOSTILE=1><image href='{EVIL}/g.png'/></svg><iframe src={EVIL}/h></iframe>",
    "<details open ontoggle=window.HOSTILE=1>x</details><!-- <![CDATA[ --> ]]>",
    f"![i]({EVIL}/i.png) [j](javascript:window.HOSTILE=1) <{EVIL}/k> {EVIL}/l www.evil.invalid a@evil.invalid",
    "| a | b\\| `c` **d** _e_ ~~f~~ # g &lt; $h$ \\i",
    f".. image:: {EVIL}/m.png",
    "`n <javascript:window.HOSTILE=1>`_ |o| [p]_ q_ {{ 7*7 }} {% raw %}",
    f'=HYPERLINK("{EVIL}/r","s")',
    "\u202etxet desrever\u2066 \u2028 \u2029 \x00\x1b[31m\x1b]8;;http://evil.invalid\x07t\x1b]8;;\x07\x9b2J\u200b",
)


def hostile(number: int) -> str:
    """All attacks, beginning with another one for each number: some work at the beginning of a value only."""
    turned = ATTACKS[number % len(ATTACKS) :] + ATTACKS[: number % len(ATTACKS)]
    return " ".join(turned)


def shown(text: str) -> str:
    """A text as a page shows it, white space aside."""
    return "".join(visible(text).split())


def make_hostile_world(folder: Path) -> World:
    """A run with every text of every row, of its methods, models, notes and imports hostile."""
    world = make_world(folder, questions=4, errors=0.3)
    run, count = world.run, iter(range(10**6))

    def fill(row: dict[str, Any], *names: str) -> None:
        for name in names:
            row[name] = hostile(next(count))

    ids = {row["question_id"]: f"{number} {hostile(number)}" for number, row in enumerate(run.questions)}
    for row in run.questions:
        fill(row, "question", "answer", "environment", "domain", "question_type")
    for stage in ("questions", "contexts", "answers", "scores"):
        for row in getattr(run, stage):
            row["question_id"] = ids[row["question_id"]]
    for row in run.answers:
        fill(row, "reply", "parsed", "model", "finish_reason", "error_detail")
    for row in run.scores:
        fill(
            row,
            "judge_reason",
            "domain",
            "question_type",
            "scorer",
            *(["error", "error_detail"] if row["error"] else []),
        )
    for row in run.contexts:
        fill(row, "query_origin", "rerank_origin", *(["error_detail"] if row["error"] else []))
        row["queries"] = json.dumps({hostile(next(count)): [hostile(next(count))]})
        for item in row["items"]:
            fill(item, "trajectory_id", "pool")
            name = hostile(next(count)).replace("\x00", "")
            # A name of a file that is there, and too many that are not.
            item["value"] = f"{name}\n{name}" if item["type"] == "text" else f"/nowhere/{name}.png"
    for number, row in enumerate(world.evidence):
        row |= {"question_id": list(ids.values())[number], "trajectory_id": hostile(number)}
    for number, row in enumerate(world.states):
        row["trajectory_id"] = hostile(number)
    run.remarks = {"R1": hostile(3)}
    # Labels stand in tables, which take long to fit where they are long: some attacks each.
    run.labels = {name: " ".join(ATTACKS[number::3]) for number, name in enumerate(run.methods)}
    run.families = {run.methods[1]: "imported", run.methods[2]: hostile(5)}
    return world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_hostile_world(tmp_path_factory.mktemp("hostile"))


def test_pages_show_it_and_a_browser_does_nothing_of_it(world: World) -> None:
    python = browser_python()
    index = world.build()
    question = world.run.questions[0]
    pages = {
        "overview": index,
        "method": index.parent / "pages" / "method" / f"{slug(world.run.methods[0])}.html",
        "question": index.parent / "pages" / "question" / f"{slug(question['question_id'])}.html",
        **{name: index.parent / "pages" / f"{name}.html" for name in ("questions", "compare", "examples")},
    }
    program = Path(__file__).with_name("hostile_browser.py")
    done = subprocess.run(
        [str(python), str(program), *map(str, pages.values())], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    own = index.parent.as_uri() + "/"
    for name, path in pages.items():
        page = seen[str(path)]
        assert page["requests"] and all(address.startswith(own) for address in page["requests"]), name
        assert all(address.startswith(own) for address in page["links"]), name
        assert (page["messages"], page["dialogs"], page["windows"], page["marker"]) == ([], [], 0, "undefined"), name
        assert page["address"] == path.as_uri(), name
    texts = {name: "".join(seen[str(path)]["text"].split()) for name, path in pages.items()}
    titles = {name: "".join(seen[str(path)]["title"].split()) for name, path in pages.items()}
    label = shown(world.run.labels[world.run.methods[0]])
    assert all(label in texts[name] for name in ("overview", "method", "question", "compare"))
    assert titles["method"] == f"{label}–LongMemEval-V2"
    assert titles["question"] == f"Question{shown(question['question_id'])}–LongMemEval-V2"
    assert shown(hostile(3)) in texts["overview"]  # the remark
    for name in ("question", "answer", "domain", "environment", "question_type"):
        assert shown(question[name]) in texts["question"], name
    rows = {
        stage: next(
            row for row in getattr(world.run, stage) if row["question_id"] == question["question_id"] and fits(row)
        )
        for stage, fits in {
            "answers": lambda row: True,
            "scores": lambda row: row["error"] is None,
            "contexts": lambda row: row["error"] is None and row["items"],
        }.items()
    }
    for text in (rows["answers"]["model"], rows["scores"]["judge_reason"], rows["contexts"]["query_origin"]):
        assert shown(text) in texts["question"]
    item = rows["contexts"]["items"][0]
    # Long lines of an item are shown in part.
    assert all(shown(text) in texts["question"] for text in (item["trajectory_id"], item["value"][:150]))
    assert "\u202e" not in "".join(texts.values()) + "".join(titles.values())


_CODE = re.compile(r"\\.")


def active(markdown: str) -> list[str]:
    """What a Markdown of GitHub's kind would make of a line, once everything behind a backslash is taken away."""
    bare = _CODE.sub("", markdown)
    marks = r"[`*\[\]$]|<[a-z/!?]|https?://|ftp://|www\.|\w@\w|mailto:|&#?\w+;|~[^~]*~|(?<![a-z0-9])_|_(?![a-z0-9])"
    return re.findall(marks, bare, re.IGNORECASE)


@pytest.mark.parametrize("number", range(len(ATTACKS)))
def test_markdown_shows_it_as_it_stands(number: int) -> None:
    text = markdown_text(hostile(number))
    assert active(text) == [] and "\x1b" not in text and "\u202e" not in text and "\n" not in text
    assert re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text) == visible(" ".join(hostile(number).split()))
    (_, _, row) = markdown_table(["a", "b"], [[text, "x"]]).split("\n")
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3  # as many as columns have sides


@given(st.text(max_size=60))
def test_markdown_of_any_text_makes_nothing(text: str) -> None:
    assert active(markdown_text(text)) == []


def test_tables_of_a_hostile_run_hold_it_as_text(world: World) -> None:
    database = make_database(world.folder, world.run)
    for name, query in (("table2", TABLE2), ("evidence", EVIDENCE)):
        files = TableFiles(*(world.folder / f"{name}.{ending}" for ending in ("csv", "md", "tex")))
        export_table(database, query, files, "Title")
        lines = files.markdown.read_text(encoding="utf-8").split("\n")
        widths = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines if line.startswith("|")}
        assert len(widths) == 1
        # Bold and the marks of notes are ours.
        cells = [cell for line in lines for cell in re.split(r"(?<!\\)(?:\\\\)*\|", line.replace("**", ""))]
        assert [found for cell in cells for found in active(cell)] == []
        with files.csv.open(newline="", encoding="utf-8") as file:
            records = list(csv.DictReader(file))
        labels = {world.run.labels[method] for method in world.run.methods}
        assert {row["label"] for row in records} == {csv_cell(label) for label in labels}
        latex = files.latex.read_text(encoding="utf-8")
        assert "\\i " not in latex and "\x1b" not in latex and "HYPERLINK" in latex


def test_latex_runs_no_command_of_a_text() -> None:
    text = latex_text("\\input{/etc/passwd}\\write18{x}^^5cinput %\n\\end{document}")
    assert set(re.findall(r"\\[a-z]+", text)) == {r"\textbackslash", r"\textasciicircum"}
    assert not re.search(r"(?<!\\)[%#&{}](?<!\{\})(?<!\{)(?<!\})", text.replace("{}", ""))


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ('=HYPERLINK("http://evil.invalid","x")', True),
        ("@SUM(1)", True),
        ("+1+cmd|' /C calc'!A0", True),
        ("-2+3+cmd|' /C calc'!A0", True),
        ("- x|' /C calc'!A0", True),
        ("\t=1+1", True),
        ("\r=1+1", True),
        (" =1+1", True),
        ("＝1+1", True),
        ("-0.125", False),
        ("+0.5", False),
        ("- event pool", False),
        ("no = here", False),
        ("1e-3", False),
        ("", False),
    ],
)
def test_a_csv_cell_is_no_formula(text: str, guarded: bool) -> None:
    assert csv_cell(text) == (f"'{text}" if guarded else text)
    assert csv_cell(None) == "" and csv_cell(-3) == -3 and csv_cell(-0.5) == -0.5


def test_goals_in_csv_are_no_formulas(tmp_path: Path) -> None:
    row: dict[str, Any] = dict.fromkeys(REPORT_COLUMNS, "x")
    row |= {"goal": '=HYPERLINK("http://evil.invalid")', "sanitized": "@x", "trajectory_id": "t", "copies": 0}
    row |= dict.fromkeys(("removed_routes", "kept_values", "flags"), '["=1+1"]') | {"origin_detail": None}
    write_report(tmp_path / "report.csv", [row])
    text = (tmp_path / "report.csv").read_text(encoding="utf-8")
    assert all(cell == "" or cell[0] not in "=@" for line in csv.reader(io.StringIO(text)) for cell in line)


@pytest.mark.parametrize("caption", CAPTIONS, ids=lambda path: path.stem)
def test_captions_of_snakemakes_report_hold_it_as_text(tmp_path: Path, caption: Path) -> None:
    content = "\n\n".join(
        [*ATTACKS, ".. raw:: html\n\n   <script>window.HOSTILE=1</script>", '".. raw:: html\n\n   <b>"']
    )
    files = {name: str(tmp_path / f"hostile.{name}") for name in ("csv", "md", "tex", "report", "png", "pdf")}
    for name in files.values():
        Path(name).write_text(content.replace("\x00", ""), encoding="utf-8")
    names = {"reader": hostile(13), "judge": hostile(14), "embedder": hostile(5)}
    config = {
        "run": {"methods": ["a"], "tiers": ["small"], "notes": {names["reader"]: hostile(14)}},
        "models": {role: {"model": name} for role, name in names.items()},
    }
    snakemake = SimpleNamespace(output=SimpleNamespace(**files), config=config)
    text = jinja2.Environment().from_string(caption.read_text(encoding="utf-8")).render(snakemake=snakemake)
    # Names of files that captions refer to are defined by Snakemake.
    links = "".join(
        f"\n.. _{name}: #own\n" for name in re.findall(r"(\w+\.csv)_ ?", caption.read_text(encoding="utf-8"))
    )
    body = publish_parts(f"{text}\n{links}".replace("\x00", ""), writer="html")["body"]
    body = body.replace('<a class="reference external" href="#own">', "<em>")
    assert set(re.findall(r"<([a-z0-9]+)", body)) <= {"p", "pre", "tt", "span", "em", "strong"}, body
    assert "System Message" not in body


def test_the_terminal_is_not_commanded(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    results = world.folder / "shown"
    results.mkdir()
    for name in ("table2", "evidence"):
        text = "label,accuracy\n" + '"' + hostile(16).replace("\x00", "").replace('"', '""') + '",0.5\n'
        (results / f"{name}.csv").write_text(text, encoding="utf-8")
    (results / "table2.md").write_text(f"- INCOMPLETE: {hostile(16)}\n", encoding="utf-8")
    assert command(["show", "table2", "--results", str(results)]) == 0
    output = capsys.readouterr().out
    assert "HYPERLINK" in output and "INCOMPLETE" in output
    assert plain(output) == output
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", output)
