"""A small run with contexts, labels and pictures, and its report, taken apart as HTML."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from PIL import Image
from unit.tableworld import Run, make_database, make_run

from lmev2.report.html.build import Sources, build_report
from lmev2.rows import EVIDENCE, STATE, write_rows

SCORERS = ("norm_phrase_set_match", "mc_choice_match|require_non_empty=true", "llm_abstention_checker")
POOLS = ("procedure_note", "hint_note", "event", "raw_state")
VOID = {"meta", "link", "img", "br", "input"}
Row = dict[str, Any]


@dataclass
class World:
    """A run's rows and files below ``folder``. The first question's words and answer stand in contexts."""

    folder: Path
    run: Run
    evidence: list[Row] = field(default_factory=list)
    states: list[Row] = field(default_factory=list)

    def build(self, name: str = "report", threads: int = 2) -> Path:
        """Write database, labels and report; returns its first page."""
        database = make_database(self.folder, self.run)
        write_rows(self.folder / "evidence.parquet", EVIDENCE, self.evidence)
        write_rows(self.folder / "states.parquet", STATE, self.states)
        contexts = sorted((self.folder / "contexts").glob("*.parquet"))
        (self.folder / "evidence.csv").write_text("method,covered\nm9,0.5\nm8,\n", encoding="utf-8")
        sources = Sources(
            database,
            contexts,
            self.folder / "evidence.parquet",
            self.folder / "states.parquet",
            [picture(self.folder / "table2.png", 600)],
            [self.folder / "evidence.csv"],
        )
        index = self.folder / name / "index.html"
        build_report(index, sources, threads, lambda done, total: None)
        return index


def picture(path: Path, width: int = 640, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, width // 2), ((seed * 40) % 256, 90, 120)).save(path)
    return path


def make_world(folder: Path, seed: int = 1, questions: int = 6, errors: float = 0.1) -> World:
    """Two methods of one kind and one of another on two tiers."""
    rng = random.Random(seed)
    run = make_run(seed, questions=questions, errors=errors)
    world = World(folder, run)
    for number, row in enumerate(run.questions):
        scorer = SCORERS[number % len(SCORERS)]
        row |= {
            "question": f"Which codes does page {number} of the yard register show?\nA. red door\nB. blue gate",
            "answer": ("Alpha-7, Beta" if scorer == SCORERS[0] else "B" if scorer == SCORERS[1] else "There is none."),
            "eval_function": scorer,
            "image": str(picture(folder / "question.png", 1200)) if number == 0 else None,
        }
        world.evidence.append({"question_id": row["question_id"], "hop": 0, "trajectory_id": "t1", "state_index": 2})
    world.states = [
        {"trajectory_id": "t1", "state_index": one, "url": "u", "tree": "t", "screenshot": str(shot(folder, "t1", one))}
        for one in range(4)
    ]
    for row in run.contexts:
        if row.setdefault("error", None) is None:
            row["items"] = make_items(rng, folder)
            row["queries"] = json.dumps({"note": ["how to read"], "raw_state": ["page with codes", "yard register"]})
    for row in run.answers:
        count = next(
            len(one["items"])
            for one in run.contexts
            if all(one[name] == row[name] for name in ("question_id", "method", "tier"))
        )
        row |= {"reply": f"I think so. \\boxed{{{row['question_id']}}}", "parsed": row["question_id"]}
        row |= {"items_before": count, "items_dropped": rng.choice((0, 0, 2)) if count else 0, "images_shown": True}
    for row in run.scores:
        row["judge_reason"] = "as it says" if row["error"] is None else None
    return world


def shot(folder: Path, trajectory: str, state: int) -> Path:
    return picture(folder / "shots" / trajectory / f"{state}.png", 640, state)


def make_items(rng: random.Random, folder: Path) -> list[Row]:
    items: list[Row] = []
    for pool in POOLS:
        for rank in range(2):
            state = rng.randrange(4)
            shown = [state] if pool == "raw_state" else []
            text = f"### {pool} {rank}\nquery\nAlpha 7 and beta!\nyard register\n" + "\n".join(
                f"line {n}" for n in range(5)
            )
            item = {"trajectory_id": "t1", "pool": pool, "score": rng.random()}
            items.append(item | {"type": "text", "value": text, "states": shown})
            if pool in ("event", "raw_state"):
                items.append(item | {"type": "image", "value": str(shot(folder, "t1", state)), "states": [state]})
    return items


@dataclass
class Node:
    tag: str
    attributes: dict[str, str]
    text: str = ""


class Page(HTMLParser):
    """A page as a browser would see it: its elements in order, each with the text inside it."""

    def __init__(self, path: Path):
        super().__init__(convert_charrefs=True)
        self.path = path
        self.nodes: list[Node] = []
        self._open: list[Node] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert not self._open, f"{path}: {self._open[-1].tag} is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        assert len(node.attributes) == len(attrs), f"{self.path}: an attribute twice in {attrs}"
        self.nodes.append(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1].tag == tag, f"{self.path}: </{tag}> in {[n.tag for n in self._open]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for node in self._open:
            node.text += data

    def all(self, tag: str, test: Callable[[Node], bool] = lambda node: True) -> list[Node]:
        return [node for node in self.nodes if node.tag == tag and test(node)]

    def tables(self) -> list[list[list[str]]]:
        """Texts of the cells of all tables, by row."""
        found: list[list[list[str]]] = []
        for node in self.nodes:
            if node.tag == "table":
                found.append([])
            elif node.tag == "tr":
                found[-1].append([])
            elif node.tag in ("th", "td"):
                found[-1][-1].append(node.text)
        return found

    def with_class(self, name: str) -> list[Node]:
        return [node for node in self.nodes if name in node.attributes.get("class", "").split()]


def all_pages(index: Path) -> list[Page]:
    return [Page(path) for path in sorted(index.parent.rglob("*.html"))]


def script_value(index: Path) -> Any:
    text = (index.parent / "pages" / "data.js").read_text(encoding="utf-8")
    assert text.startswith("var REPORT=") and text.endswith(";\n") and text.count("\n") == 1
    return json.loads(text[len("var REPORT=") : -2])
