"""Table 1: tokens of trajectories, and the row of a data root against counts made from its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from dataroot import SHARED_DATA
from unit.dataroot import DataRoot, make_data_root
from unit.paperworld import published, sql
from unit.tableworld import blank, files_in

from lmev2.data.ingest import ingest_dataset
from lmev2.data.schema import CATEGORIES
from lmev2.data.store import StateStore
from lmev2.rows import HAYSTACK, QUESTION, TRAJECTORY_TOKENS, read_rows, write_rows
from lmev2.tables.export import read_table
from lmev2.tables.haystack_tokens import token_rows
from lmev2.tables.table1 import CountError, export_table1, short_number

OFFICIAL = SHARED_DATA / "lme_v2_official"


class Words:
    """Counts words; an image costs 7."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        self.texts.append(text)
        return len(text.split())

    def count_image(self, path: Path) -> int:
        assert path.is_file()
        return 7


def words(run: Mapping[str, Any]) -> int:
    fields = ("url", "action", "thought", "accessibility_tree")
    texts = [state[name] for state in run["states"] for name in fields if state[name] is not None]
    return sum(len(text.split()) for text in (run["goal"], run["start_url"], *texts))


def write_tokens(folder: Path, counter: Words) -> list[Path]:
    """Tokens in two files, as two shards would be."""
    paths = []
    with StateStore(folder / "states.parquet", folder / "trajectories.parquet") as store:
        for shard in range(2):
            paths.append(folder / f"tokens{shard}.parquet")
            names = store.trajectory_ids[shard::2]
            reports: list[tuple[int, int]] = []
            rows = token_rows(names, store, counter, lambda done, total: reports.append((done, total)))  # noqa: B023
            write_rows(paths[-1], TRAJECTORY_TOKENS, rows)
            assert reports == [(number + 1, len(names)) for number in range(len(names))]
    return paths


def table(folder: Path, tokens: list[Path]) -> tuple[list[dict[str, str]], str]:
    data = {
        "questions": [folder / "questions.parquet"],
        "haystacks": [folder / "haystacks.parquet"],
        "tokens": tokens,
    }
    files = files_in(folder, "table1")
    export_table1(data, sql("table1"), published("table1"), "my data", "R1", files, "Benchmarks")
    return read_table(files.csv), files.markdown.read_text(encoding="utf-8")


def test_tokens_and_the_row_of_a_data_root(tmp_path: Path) -> None:
    make_data_root(tmp_path / "data", trajectories=6, states=3, questions=20)
    root = DataRoot(tmp_path / "data")
    # Questions with haystacks of different lengths.
    root.edit_haystacks(
        "small", lambda lists: lists.update({name: list(ids[:2]) for name, ids in list(lists.items())[:7]})
    )
    ingest_dataset(tmp_path / "data", tmp_path / "out", ["small", "medium"])
    counter = Words()
    paths = write_tokens(tmp_path / "out", counter)
    found = {row["trajectory_id"]: row for path in paths for row in read_rows(path, TRAJECTORY_TOKENS)}
    runs = {run["id"]: run for run in root.trajectories}
    for name, row in found.items():
        assert row["text_tokens"] == words(runs[name])
        assert (row["states"], row["images"], row["image_tokens"]) == (3, 3, 21)
    rows, text = table(tmp_path / "out", paths)
    assert rows[:-1] == published("table1")
    own = rows[-1]
    means = {}
    for tier in ("small", "medium"):
        lists = root.haystacks(tier).values()
        means[tier] = (fmean(len(ids) for ids in lists), fmean(sum(words(runs[name]) for name in ids) for ids in lists))
        assert f"my data, tier {tier}: 20 questions" in text
        assert (
            f"{means[tier][0]:.1f} trajectories, {3 * means[tier][0]:,.1f} states, {means[tier][1]:,.0f} text" in text
        )
        assert f"{3 * means[tier][0]:,.1f} screenshots ({21 * means[tier][0]:,.0f} tokens" in text
    shown = [
        sorted({short(means[tier][0]) for tier in means}),
        sorted({short(means[tier][1]) for tier in means}, key=float),
    ]
    assert [own["sessions"].split("-"), own["tokens"].split("-")] == shown
    kinds = {question["question_type"] for question in root.questions}
    assert own["questions"] == "20" and own["group"] == "This data root"
    assert own["premise"] == str(int(any(kind.endswith("-abs") for kind in kinds)))
    names = {"static": "static", "dynamic": "dynamic", "workflows": "workflow", "gotchas": "gotchas"}
    assert {name: own[name] for name in names} == {
        name: str(int(category in {CATEGORIES[kind] for kind in kinds})) for name, category in names.items()
    }
    assert (own["context_multimodal"], own["question_multimodal"]) == (
        ("yes", "yes" if any(question["image"] for question in root.questions) else "no")
    )


def short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 10 else f"{value:.0f}"


def test_a_text_that_repeats_is_counted_once_but_added_each_time(tmp_path: Path) -> None:
    make_data_root(tmp_path / "data", trajectories=2, states=3, questions=4)
    root = DataRoot(tmp_path / "data")

    def same_trees(run: Any) -> None:
        for state in run["states"]:
            state["accessibility_tree"] = "RootWebArea 'one and the same'"

    root.edit_line("trajectories.jsonl", 1, same_trees)
    ingest_dataset(tmp_path / "data", tmp_path / "out", ["small"])
    counter = Words()
    paths = write_tokens(tmp_path / "out", counter)
    runs = {run["id"]: words(run) for run in root.trajectories}
    assert {
        row["trajectory_id"]: row["text_tokens"] for path in paths for row in read_rows(path, TRAJECTORY_TOKENS)
    } == runs
    assert counter.texts.count("RootWebArea 'one and the same'") == 1


def test_a_trajectory_without_a_count_is_an_error(tmp_path: Path) -> None:
    make_data_root(tmp_path / "data", trajectories=4, states=2, questions=6)
    ingest_dataset(tmp_path / "data", tmp_path / "out", ["small"])
    paths = write_tokens(tmp_path / "out", Words())
    with pytest.raises(CountError, match="haystack entries name trajectories whose tokens were not counted"):
        table(tmp_path / "out", paths[:1])


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason=f"no official questions at {OFFICIAL}")
def test_the_official_haystacks_give_the_papers_row(tmp_path: Path) -> None:
    questions = [
        json.loads(line) for line in (OFFICIAL / "questions.jsonl").read_text(encoding="utf-8").split("\n") if line
    ]
    rows = []
    for question in questions:
        kind = question["question_type"]
        fact = {"question_id": question["id"], "question_type": kind, "category": CATEGORIES[kind]}
        rows.append(blank(QUESTION) | fact | {"image": question["image"]})
    write_rows(tmp_path / "questions.parquet", QUESTION, rows)
    lists = []
    for tier in ("small", "medium"):
        found = json.loads((OFFICIAL / "haystacks" / f"lme_v2_{tier}.json").read_text(encoding="utf-8"))
        lists += [{"question_id": name, "tier": tier, "trajectory_ids": ids} for name, ids in found.items()]
    write_rows(tmp_path / "haystacks.parquet", HAYSTACK, lists)
    # Trajectories are not at hand; with the published mean of a trajectory, the small tier's tokens must come out.
    size = {"states": 25, "text_tokens": 256_000, "images": 25, "image_tokens": 0}
    names = sorted({name for row in lists for name in row["trajectory_ids"]})
    write_rows(tmp_path / "tokens.parquet", TRAJECTORY_TOKENS, [{"trajectory_id": name, **size} for name in names])
    table_rows, text = table(tmp_path, [tmp_path / "tokens.parquet"])
    paper, own = table_rows[-2:]
    changed = {name for name in paper if paper[name] != own[name]}
    assert changed == {"group", "benchmark", "tokens"}
    assert own["sessions"] == "100-498" and own["tokens"].startswith("26M-")
    assert "451 questions (29 with an image)" in text


def test_the_layout_is_the_papers(tmp_path: Path) -> None:
    make_data_root(tmp_path / "data", trajectories=4, states=2, questions=6)
    ingest_dataset(tmp_path / "data", tmp_path / "out", ["small"])
    _, text = table(tmp_path / "out", write_tokens(tmp_path / "out", Words()))
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    assert lines[0][2:7] == ["Context # Sess.", "Context # Tok.", "Context MM", "Questions # Q", "Questions MM"]
    groups = ["General Long Context", "Conversational Long Context", "Agentic Long Context", "This data root"]
    assert [line[0] for line in lines if line[0].startswith("**")] == [f"**{group}**" for group in groups]
    rows = {line[0]: line[1:] for line in lines}
    assert rows["LongMemEval-V2"] == ["Web agent", "100–498", "25M–115M", "✓", "451", "✓", *"✓✓✓✓✓"]
    assert rows["EMemBench"][1:5] == ["1", "2k–∞", "✓", "1,280+"]
    assert rows["BEAM"][1:4] == ["4.5–100", "124k–10M", "✗"] and rows["LoCoMo"][2:5] == ["~16k", "✓", "7,512"]
    assert rows["LongMemEval-V1"][1:3] == ["48–475", "115k–1.5M"] and rows["LongBench V2"][1] == "N/A"


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        *[(0, "0"), (949.6, "950"), (999.6, "1k"), (1_000, "1k"), (1_549, "1.5k"), (9_949, "9.9k"), (9_950, "10k")],
        *[(285_400, "285k"), (999_600, "1M"), (1_500_000, "1.5M"), (25_600_000, "26M"), (114_800_000, "115M")],
    ],
)
def test_short_numbers(number: float, shown: str) -> None:
    assert short_number(number) == shown
