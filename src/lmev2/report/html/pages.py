"""What each page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from lmev2.report.html.evidence import Shown
from lmev2.report.html.examples import Example
from lmev2.report.html.pictures import Picture
from lmev2.report.html.run import OUTCOMES, Cell, Key, Row, Run
from lmev2.report.html.site import Site, cut, script_text
from lmev2.report.html.tables import Figure, Table
from lmev2.scoring.spec import parse_eval_function
from lmev2.visible import visible

Labels = Callable[[str], Sequence[Sequence[Shown]]]

_REPLY_CHARS: Final = 12_000  # shown of a reply; its end, where the answer stands, is kept
_REPLY_TAIL: Final = 6_000
_ANSWER_CHARS: Final = 2_000
_LISTED_CHARS: Final = 160  # of a question in lists


def overview(site: Site, figures: Sequence[Figure], tables: Sequence[Table]) -> str:
    """The first page."""
    return site.render("overview", 0, title="Overview", figures=figures, tables=tables)


def write_lists(site: Site, run: Run) -> None:
    """The list of questions, the comparison of methods, and the data that their scripts read."""
    questions = [listed(run, row) for row in run.questions]
    choices = {name: sorted({row[name] for row in run.questions}) for name in ("domain", "question_type", "category")}
    shared = {"questions": questions, "outcomes": OUTCOMES}
    site.write("questions.html", [site.render("questions", 1, title="Questions", choices=choices, **shared)])
    wins = [(tier, wins_table(run, tier)) for tier in run.tiers]
    site.write("compare.html", [site.render("compare", 1, title="Compare", wins=wins, **shared)])
    site.write("data.js", [script_text("REPORT", script_data(run))])


def write_methods(site: Site, run: Run) -> None:
    """A page per method."""
    accuracies = {(row["cell"].method.name, row["cell"].tier): row for row in run.accuracies}
    for method in run.methods:
        cells = [cell for cell in run.cells if cell.method == method]
        lists = [
            (cell, [(listed(run, row), run.outcome(row["question_id"], cell)) for row in run.questions])
            for cell in cells
        ]
        page = site.render(
            "method",
            2,
            title=method.label,
            method=method,
            rows=[accuracies[method.name, cell.tier] for cell in cells],
            remarks=run.agent_remarks if method.family == "agent" else [],
            latencies=[row for row in run.latencies if row["method"] == method.name],
            shares=run.shares(method.name),
            scorers=run.scorers(method.name),
            comparisons=run.comparisons(method.name),
            errors=run.errors_of(method.name),
            lists=lists,
        )
        site.write(f"method/{method.page}.html", [page])


def write_examples(site: Site, run: Run, examples: Mapping[str, Sequence[Example]], labels: Labels) -> None:
    """The page of examples, in the form of the paper's Table 12."""
    questions = {row["question_id"]: row for row in run.questions}
    blocks = [
        (kind, [(one, questions[one.question_id], _picture(one, labels)) for one in chosen])
        for kind, chosen in examples.items()
    ]
    site.write("examples.html", [site.render("examples", 1, title="Examples", blocks=blocks)])


def _picture(example: Example, labels: Labels) -> Shown | None:
    """The example's screenshot: of a labelled state if its item has one or its text shows one; else the item's last,
    which of an event is the state after; else of a labelled state of its trajectory."""
    item = example.item
    own = [shown for shown in item.pictures if shown.picture is not None]
    labelled = [
        shown
        for hop in labels(example.question_id)
        for shown in hop
        if shown.picture is not None and shown.trajectory == item.trajectory
    ]
    told = [shown for shown in labelled if set(shown.states) & set(item.states)]
    ranked = [*(shown for shown in own if shown.hops), *told, *reversed(own), *labelled]
    return ranked[0] if ranked else None


def question(
    site: Site,
    run: Run,
    row: Row,
    image: Picture | None,
    hops: Sequence[Sequence[Shown]],
    neighbours: tuple[Row | None, Row | None],
    texts: Mapping[Key, Row],
    context: Callable[[Key], str],
) -> Iterator[str]:
    """The parts of a question's page, one method and tier at a time.

    Args:
        site, run: the site and the run.
        row: the question.
        image: its image; None without one, or where the file cannot be read.
        hops: labelled states with their screenshots.
        neighbours: the questions before and after it.
        texts: replies and reasons, at least of this question.
        context: the rendered context of a question, method and tier.
    """
    cells = [(cell, run.outcome(row["question_id"], cell)) for cell in run.cells]
    yield site.render(
        "question_top",
        2,
        title=f"Question {row['question_id']}",
        question=row,
        scorer=parse_eval_function(row["eval_function"]),
        image=image,
        hops=hops,
        cells=cells,
        before=neighbours[0],
        after=neighbours[1],
    )
    for cell, outcome in cells:
        if outcome is None:
            continue
        key = (row["question_id"], cell.method.name, cell.tier)
        yield site.render("cell", 2, cell=cell, outcome=outcome, **_answer(texts[key]))
        yield context(key)
        yield "</section>\n"
    yield site.render("question_bottom", 2)


def _answer(text: Row) -> dict[str, Any]:
    reply, parsed = text["reply"], text["parsed"]
    return {
        "text": text,
        "parsed": cut(parsed, _ANSWER_CHARS),
        "reply": cut(reply, _REPLY_CHARS, _REPLY_TAIL),
        "is_whole": reply.strip() == parsed.strip(),
    }


def listed(run: Run, row: Row) -> Row:
    """A question as lists show it."""
    outcomes = [run.outcome(row["question_id"], cell) for cell in run.cells]
    there = [outcome for outcome in outcomes if outcome is not None]
    text, more, _ = cut(" ".join(row["question"].split()), _LISTED_CHARS)
    names = ("question_id", "page", "domain", "question_type", "category", "environment")
    return {name: row[name] for name in names} | {
        "text": f"{text}…" if more else text,
        "correct": sum(outcome["outcome"] == "correct" for outcome in there),
        "scored": sum(outcome["outcome"] != "error" for outcome in there),
        "errors": sum(outcome["outcome"] == "error" for outcome in there),
    }


def script_data(run: Run) -> dict[str, Any]:
    """What the scripts need: per method and tier one letter a question, in the order of the lists.

    Outcomes are the first letters of :data:`OUTCOMES`; evidence covered and gold supported are ``1``, ``0`` or ``-``;
    latencies are whole milliseconds, null without one. Texts are as pages show them.
    """
    return {
        "cells": [_cell_data(run, cell) for cell in run.cells],
        "questions": [
            [visible(row[name]) for name in ("question_id", "page", "domain", "question_type", "category")]
            for row in run.questions
        ],
    }


def _cell_data(run: Run, cell: Cell) -> dict[str, Any]:
    rows = [run.outcome(row["question_id"], cell) for row in run.questions]
    return {
        "anchor": cell.anchor,
        "covered": "".join(_flag(row, "evidence_covered") for row in rows),
        "gold": "".join(_flag(row, "gold_supported") for row in rows),
        "label": visible(cell.label),
        "ms": [None if row is None or row["latency_s"] is None else round(1000 * row["latency_s"]) for row in rows],
        "outcome": "".join("-" if row is None else row["outcome"][0] for row in rows),
    }


def _flag(row: Row | None, name: str) -> str:
    return "-" if row is None or row[name] is None else str(int(row[name]))


def wins_table(run: Run, tier: str) -> list[tuple[str, list[int | None]]]:
    """For each method of a tier, the number of questions that it answers correctly and each other one does not."""
    correct: dict[str, dict[str, bool]] = {method.name: {} for method in run.methods}
    for (question_id, name, own_tier), row in run.outcomes.items():
        if own_tier == tier and row["outcome"] != "error":
            correct[name][question_id] = row["outcome"] == "correct"
    table = []
    for method in run.methods:
        own = correct[method.name]
        counts = [
            None
            if other == method
            else sum(right and correct[other.name].get(question) is False for question, right in own.items())
            for other in run.methods
        ]
        table.append((method.label, counts))
    return table
