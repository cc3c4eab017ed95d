"""The report's pages: what they show, that they hang together, and that nothing foreign gets into them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from PIL import Image
from unit.reportworld import Page, World, all_pages, make_world, picture, script_value

from lmev2.report.html import build
from lmev2.report.html.site import slug
from lmev2.rows import RowError

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=\"alert('2')\"> javascript:alert(3) [a](javascript:alert(4)) "
    "' \" ` & &lt; {{ 7*7 }} {% raw %} \u2028 \u2029 \u202e \x00 \x1b[31m <!-- <![CDATA[ ]]> \\u003c // */ </pre></mark>"
)
SHOWN = re.sub(r"[\x00\x1b\u202e]", "\ufffd", HOSTILE)
TAGS = {
    *("html", "head", "meta", "title", "link", "body", "header", "nav", "main", "section", "article", "noscript"),
    *("h1", "h2", "h3", "p", "a", "b", "em", "strong", "small", "br", "code", "pre", "mark", "span", "ul", "li"),
    *("dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "div", "figure", "figcaption", "img", "details"),
    *("summary", "fieldset", "legend", "label", "input", "select", "option", "button", "script"),
}
POLICY = "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def index(world: World) -> Path:
    return world.build()


@pytest.fixture(scope="module")
def pages(index: Path) -> dict[str, Page]:
    return {page.path.relative_to(index.parent).as_posix(): page for page in all_pages(index)}


def check_links(pages: dict[str, Page], root: Path) -> int:
    """Every address is a file of the report, and every place on a page exists."""
    count = 0
    for page in pages.values():
        ids = [node.attributes["id"] for node in page.nodes if "id" in node.attributes]
        assert len(ids) == len(set(ids)), page.path
        for node in page.nodes:
            for name in ("href", "src"):
                if name not in node.attributes:
                    continue
                parts = urlsplit(node.attributes[name])
                assert not parts.scheme and not parts.netloc, node
                target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
                assert target.is_file() and target.is_relative_to(root.resolve()), node
                if parts.fragment:
                    other = pages[target.relative_to(root.resolve()).as_posix()]
                    assert any(one.attributes.get("id") == parts.fragment for one in other.nodes), node
                count += 1
    return count


def test_every_link_and_picture_is_a_file_of_the_report(index: Path, pages: dict[str, Page]) -> None:
    assert check_links(pages, index.parent) > 200
    linked = {
        (page.path.parent / node.attributes[name]).resolve()
        for page in pages.values()
        for node in page.nodes
        for name in ("href", "src")
        if name in node.attributes and not node.attributes[name].startswith("#")
    }
    linked = {Path(str(path).split("#")[0]) for path in linked} | {index.resolve()}
    assert {path.resolve() for path in index.parent.rglob("*") if path.is_file()} == linked


def test_every_page_forbids_the_network_and_fits_a_phone(pages: dict[str, Page]) -> None:
    for page in pages.values():
        (policy,) = page.all("meta", lambda node: node.attributes.get("http-equiv") == "Content-Security-Policy")
        assert policy.attributes["content"] == POLICY
        assert page.all("meta", lambda node: node.attributes.get("name") == "viewport")
        assert {node.tag for node in page.nodes} <= TAGS
        assert not [name for node in page.nodes for name in node.attributes if name.startswith("on") or name == "style"]
        assert all(node.attributes.get("loading") == "lazy" for node in page.all("img"))
        assert all(node.attributes.get("alt") for node in page.all("img"))
        assert all(node.text == "" for node in page.all("script"))
    style = (Path(build.__file__).parents[1] / "templates" / "report.css").read_text(encoding="utf-8")
    assert "url(" not in style and "@import" not in style


def test_pages_are_there_for_every_question_and_method(world: World, pages: dict[str, Page]) -> None:
    names = {f"pages/question/{row['question_id']}.html" for row in world.run.questions}
    names |= {f"pages/method/{name}.html" for name in world.run.methods}
    names |= {"index.html", "pages/questions.html", "pages/compare.html", "pages/examples.html"}
    assert set(pages) == names


def outcome_of(score: dict[str, Any]) -> str:
    if score["error"] is not None:
        return "error"
    return "correct" if score["correct"] else "unknown" if score["unknown"] else "wrong"


def test_a_questions_page_shows_every_method_and_tier(world: World, pages: dict[str, Page]) -> None:
    for question in world.run.questions:
        page = pages[f"pages/question/{question['question_id']}.html"]
        assert any(node.text == question["question"] for node in page.with_class("block"))
        assert page.with_class("gold-answer")[0].text == question["answer"]
        cells = page.with_class("cell")
        expected = [(name, tier) for name in world.run.methods for tier in world.run.tiers]
        assert len(cells) == len(expected)
        for cell, (method, tier) in zip(cells, expected, strict=True):
            (score,) = (
                one for one in world.run.of("scores", method, tier) if one["question_id"] == question["question_id"]
            )
            (context,) = (
                one for one in world.run.of("contexts", method, tier) if one["question_id"] == question["question_id"]
            )
            (answer,) = (
                one for one in world.run.of("answers", method, tier) if one["question_id"] == question["question_id"]
            )
            words = " ".join(cell.text.split())
            assert f"Label of {method}, {tier} {outcome_of(score)}" in words
            assert " ".join(answer["reply"].split()) in words
            if score["error"] is not None:
                assert f"Error: {score['error']}. {score['error_detail']}" in words
            else:
                assert "as it says" in words
            for item in context["items"]:
                if item["type"] == "text":
                    assert " ".join(item["value"].split()) in words
                    assert f"similarity {item['score']:.4f}" in words
            assert words.count("cut from the reader’s context") == sum(
                number >= len(context["items"]) - answer["items_dropped"] and item["type"] == "text"
                for number, item in enumerate(context["items"])
            )


def test_marks_stand_on_the_lines_of_the_reference_answer(world: World, pages: dict[str, Page]) -> None:
    phrases = pages["pages/question/q000.html"]
    assert {node.text for node in phrases.all("mark", lambda node: node.attributes["class"] == "gold")} == {
        "Alpha 7 and beta!",
        "holds a phrase of the reference answer",
    }
    assert "yard register" in {
        node.text for node in phrases.all("mark", lambda node: node.attributes["class"] == "near")
    }
    judged = pages["pages/question/q002.html"]
    assert len(judged.all("mark", lambda node: node.attributes["class"] == "gold")) == 1  # the legend


def test_methods_and_overview_say_what_the_tables_say(world: World, pages: dict[str, Page]) -> None:
    first = pages["index.html"]
    accuracies = {(row[0], row[1]): row for row in first.tables()[0][1:]}
    for method in world.run.methods:
        page = pages[f"pages/method/{method}.html"]
        for number, tier in enumerate(world.run.tiers):
            scores = world.run.of("scores", method, tier)
            known = [row["correct"] for row in scores if row["error"] is None]
            row = accuracies[f"Label of {method}", tier]
            assert row[2].startswith(f"{sum(known) / len(known):.3f}")
            assert row[-2:] == [str(len(scores)), str(len(scores) - len(known))]
            assert page.tables()[0][1 + number][1:] == row[2:]
            listed = {cells[0]: cells[1] for cells in page.tables()[number - len(world.run.tiers)][1:]}
            assert listed == {
                one["question_id"]: " ".join(filter(None, [outcome_of(one), one["error"]])) for one in scores
            }
    assert first.all("img")[0].attributes["src"] == "pages/figures/table2.png"
    assert first.tables()[-1] == [["method", "covered"], ["m9", "0.5"], ["m8", "–"]]


def test_failed_rows_are_told_loudly_and_a_complete_run_is_not_alarmed(pages: dict[str, Page], tmp_path: Path) -> None:
    assert "INCOMPLETE" in pages["index.html"].with_class("alarm")[0].text
    complete = Page(make_world(tmp_path, errors=0.0).build())
    assert not complete.with_class("alarm") and "INCOMPLETE" not in complete.source


def test_the_scripts_data_are_the_rows(world: World, index: Path) -> None:
    value = script_value(index)
    assert [row[0] for row in value["questions"]] == sorted(row["question_id"] for row in world.run.questions)
    cells = [(method, tier) for method in world.run.methods for tier in world.run.tiers]
    for cell, (method, tier) in zip(value["cells"], cells, strict=True):
        scores = sorted(world.run.of("scores", method, tier), key=lambda row: row["question_id"])
        contexts = sorted(world.run.of("contexts", method, tier), key=lambda row: row["question_id"])
        assert cell["label"] == f"Label of {method} ({tier})"
        assert cell["outcome"] == "".join(outcome_of(row)[0] for row in scores)
        flags = {None: "-", True: "1", False: "0"}
        assert cell["covered"] == "".join(flags[row["evidence_covered"]] for row in scores)
        assert cell["gold"] == "".join(flags[row["gold_supported"]] for row in scores)
        assert cell["ms"] == [None if row["error"] else round(1000 * row["latency_s"]) for row in contexts]


def test_wins_are_counted_over_questions_that_both_have_a_score_for(world: World, pages: dict[str, Page]) -> None:
    tables = pages["pages/compare.html"].tables()[-len(world.run.tiers) :]
    for tier, table in zip(world.run.tiers, tables, strict=True):
        found = [
            {row["question_id"]: row["correct"] for row in world.run.of("scores", method, tier) if row["error"] is None}
            for method in world.run.methods
        ]
        expected = [
            [
                "–" if one is other else str(sum(one[name] > other[name] for name in one.keys() & other))
                for other in found
            ]
            for one in found
        ]
        assert [row[1:] for row in table[1:]] == expected


def test_equal_runs_give_equal_reports(world: World, index: Path) -> None:
    other = world.build("again", threads=1)
    files = sorted(path.relative_to(index.parent) for path in index.parent.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other.parent) for path in other.parent.rglob("*") if path.is_file())
    assert all((index.parent / name).read_bytes() == (other.parent / name).read_bytes() for name in files)


def test_pages_of_a_former_run_vanish_and_a_failed_one_leaves_it(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    index = world.build()
    stale = index.parent / "pages" / "question" / "gone.html"
    stale.write_text("old", encoding="utf-8")
    assert world.build() == index and not stale.exists()
    broken = tmp_path / "contexts" / "9.parquet"
    broken.write_bytes(b"PAR1 no")
    before = {path: path.read_bytes() for path in index.parent.rglob("*") if path.is_file()}
    with pytest.raises(RowError, match=r"9\.parquet"):
        world.build()
    assert {path: path.read_bytes() for path in index.parent.rglob("*") if path.is_file()} == before


def test_a_missing_picture_is_said_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    world = make_world(tmp_path, questions=1)
    shutil.rmtree(tmp_path / "shots" / "t1")
    content = picture(tmp_path / "shots" / "t1" / "0.png").read_bytes()
    (tmp_path / "shots" / "t1" / "0.png").write_bytes(content[:200])
    index = world.build()
    page = Page(index.parent / "pages" / "question" / "q000.html")
    assert any(node.text == "No readable picture file" for node in page.with_class("missing"))
    for path in (index.parent / "pages" / "thumbs").iterdir():
        with Image.open(path) as image:
            image.load()


def test_a_labelled_state_without_a_picture_says_why(tmp_path: Path) -> None:
    world = make_world(tmp_path, questions=1)
    for state in (0, 7):
        label = {"question_id": "q000", "hop": 1, "trajectory_id": "t1", "state_index": state}
        world.evidence.append(label)
    world.states[0]["screenshot"] = None
    page = Page(world.build().parent / "pages" / "question" / "q000.html")
    assert [node.text for node in page.with_class("missing")] == ["No screenshot", "In no haystack of this run"]


def test_pictures_are_small_copies_stored_once(world: World, index: Path) -> None:
    thumbs = sorted((index.parent / "pages" / "thumbs").iterdir())
    assert len(thumbs) == 5  # four states and the question's image
    for path in thumbs:
        with Image.open(path) as image:
            assert image.format == "WEBP" and image.size in ((480, 240), (960, 480))


def test_long_replies_and_texts_are_cut_and_say_so(tmp_path: Path) -> None:
    world = make_world(tmp_path, questions=1)
    for row in world.run.answers:
        row["reply"] = "begin " + "think " * 9000 + "the end \\boxed{x}"
    for row in world.run.contexts:
        for item in row["items"]:
            if item["type"] == "text":
                item["value"] = "\n".join(f"tree line {number}" for number in range(20000)) + "\nAlpha 7"
    page = Page(world.build().parent / "pages" / "question" / "q000.html")
    assert len(page.source) < 600_000
    assert "characters left out" in page.source and "the end \\boxed{x}" in page.source
    assert "characters of this item are left out here" in page.source
    assert "Alpha 7" in {node.text for node in page.all("mark")}


def make_hostile(world: World) -> None:
    """Foreign text in every field that a data set, a model or a configuration can fill."""
    run = world.run
    ids = {row["question_id"]: f"{number}/../{HOSTILE}" for number, row in enumerate(run.questions)}
    for row in run.questions:
        row |= dict.fromkeys(("question", "answer", "environment", "domain"), HOSTILE)
    for stage in ("questions", "contexts", "answers", "scores"):
        for row in getattr(run, stage):
            row["question_id"] = ids[row["question_id"]]
    for row in run.answers:
        row |= dict.fromkeys(("reply", "parsed", "model", "finish_reason", "error_detail"), HOSTILE)
    for row in run.scores:
        row |= dict.fromkeys(("judge_reason", "domain", "scorer"), HOSTILE)
        if row["error"] is not None:
            row |= {"error": HOSTILE, "error_detail": HOSTILE}
    for row in run.contexts:
        row |= {"queries": json.dumps({HOSTILE: [HOSTILE]}), "query_origin": HOSTILE, "rerank_origin": HOSTILE}
        for item in row["items"]:
            item |= {"trajectory_id": HOSTILE, "pool": HOSTILE}
            if item["type"] == "text":
                item["value"] = f"{HOSTILE}\n{HOSTILE}"
            else:
                item["value"] = f"/nowhere/{HOSTILE}.png"
    run.remarks = {"R1": HOSTILE}
    for number, row in enumerate(world.evidence):
        row |= {"question_id": list(ids.values())[number], "trajectory_id": HOSTILE}
    for row in world.states:
        row["trajectory_id"] = HOSTILE


def test_nothing_foreign_becomes_markup(tmp_path: Path) -> None:
    world = make_world(tmp_path, errors=0.3)
    make_hostile(world)
    index = world.build()
    pages = {page.path.relative_to(index.parent).as_posix(): page for page in all_pages(index)}
    check_links(pages, index.parent)
    for page in pages.values():
        assert {node.tag for node in page.nodes} <= TAGS
        assert not [name for node in page.nodes for name in node.attributes if name.startswith("on") or name == "style"]
        assert all(re.fullmatch(r"(\.\./)*(report|data)\.js", node.attributes["src"]) for node in page.all("script"))
        assert all(node.text == "" for node in page.all("script"))
        assert "\x00" not in page.source and "\x1b" not in page.source
    name = world.run.questions[0]["question_id"]
    page = pages[f"pages/question/{slug(name)}.html"]
    assert page.with_class("gold-answer")[0].text == SHOWN
    assert any(SHOWN in node.text for node in page.all("pre"))
    assert sum(node.text.count(SHOWN) for node in page.with_class("cell")) > 20
    script = (index.parent / "pages" / "data.js").read_text(encoding="utf-8")
    assert script.isascii() and "<" not in script
    names = sorted(row["question_id"] for row in world.run.questions)
    assert [row[0] for row in script_value(index)["questions"]] == [one.replace(HOSTILE, SHOWN) for one in names]
    assert all(re.fullmatch(r"x-[0-9a-f]{16}", row[1]) for row in script_value(index)["questions"])


@pytest.mark.parametrize("name", ["98b62f3d", "q-1_a"])
def test_a_plain_id_names_its_page(name: str) -> None:
    assert slug(name) == name


def test_other_ids_get_names_of_their_own() -> None:
    names = ["", "..", "a/b", "A", "a b", "ä", "x" * 65, "con.", "<", "a\u2028"]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names) and all(re.fullmatch(r"x-[0-9a-f]{16}", one) for one in slugs)


def test_an_imported_method_may_lack_a_tier(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    gone = (world.run.methods[-1], "medium")
    for stage in ("contexts", "answers", "scores"):
        setattr(world.run, stage, [r for r in getattr(world.run, stage) if (r["method"], r["tier"]) != gone])
    value = script_value(world.build())
    assert len(value["cells"]) == 5 and f"Label of {gone[0]} (medium)" not in {one["label"] for one in value["cells"]}
