"""Building the report: contexts pass once, one at a time; then every page is written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from lmev2.files import replacing
from lmev2.progress import Report
from lmev2.report.html import pages
from lmev2.report.html.contexts import stream_contexts
from lmev2.report.html.evidence import THUMBNAIL_WIDTH, EvidenceMaker, Hops, Shown
from lmev2.report.html.examples import Examples
from lmev2.report.html.pictures import Pictures
from lmev2.report.html.run import Run
from lmev2.report.html.site import PAGES, Site
from lmev2.report.html.spool import Spool
from lmev2.report.html.tables import Figure, figure, read_table
from lmev2.rows import EVIDENCE, read_rows, reading
from lmev2.scoring.score import group_evidence
from lmev2.scoring.scorers import gold_phrases
from lmev2.scoring.spec import parse_eval_function
from lmev2.tables.opening import open_database

_QUESTION_IMAGE_WIDTH: Final = 960
_AT_ONCE: Final = 8  # questions whose replies are in memory


@dataclass(frozen=True)
class Sources:
    """Files that the report is made from.

    Attributes:
        database: the run's database.
        contexts: context files of all methods, tiers and question shards.
        evidence, states: evidence labels and states of the ingested data.
        figures: PNG files, in the order in which they are shown.
        tables: CSV files of further tables of the first page.
    """

    database: Path
    contexts: Sequence[Path]
    evidence: Path
    states: Path
    figures: Sequence[Path]
    tables: Sequence[Path]


def build_report(index: Path, sources: Sources, threads: int, report: Report) -> None:
    """Write the report: the file ``index`` and the folder ``pages`` beside it, which is replaced as a whole.

    Args:
        index: the first page.
        sources: what it is made from.
        threads: that make small copies of screenshots.
        report: progress callback, in contexts.

    Raises:
        RowError: a file is damaged; names it.
    """
    index.parent.mkdir(parents=True, exist_ok=True)
    target = index.parent / PAGES
    working = index.parent / f".{PAGES}.{os.getpid()}.tmp"
    shutil.rmtree(working, ignore_errors=True)
    working.mkdir()
    try:
        with open_database(sources.database) as database:
            first = _Builder(working, Run(database), sources, report).build(threads)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(working, target)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    with replacing(index) as temporary:
        temporary.write_text(first, encoding="utf-8", newline="\n", errors="replace")


class _Builder:
    def __init__(self, folder: Path, run: Run, sources: Sources, report: Report):
        self._run, self._sources, self._report = run, sources, report
        self._site = Site(folder, run=run)
        self._questions = {row["question_id"]: row for row in run.questions}
        self._hops: dict[str, Hops] = dict(group_evidence(read_rows(sources.evidence, EVIDENCE)))
        self._labelled = _screenshots(sources.states, self._hops)

    def build(self, threads: int) -> str:
        """Write everything but the first page, and return that."""
        phrases = {name: _phrase_count(row) for name, row in self._questions.items()}
        examples = Examples(self._run.cells, self._questions, self._hops, phrases)
        folder = self._site.folder
        with Pictures(folder / "thumbs", threads) as pictures, tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            spool = Spool(file)
            maker = EvidenceMaker(self._questions, self._hops, pictures, spool)
            self._pass_contexts(maker, examples, spool)
            self._write_questions(spool, pictures)
            pages.write_examples(self._site, self._run, examples.chosen(), self._labels_of(pictures))
        pages.write_lists(self._site, self._run)
        pages.write_methods(self._site, self._run)
        figures = self._copy_figures()
        return pages.overview(self._site, figures, [read_table(path) for path in self._sources.tables])

    def _pass_contexts(self, maker: EvidenceMaker, examples: Examples, spool: Spool) -> None:
        done, total = 0, len(self._run.outcomes)
        for row in stream_contexts(self._sources.contexts):
            key = (row["question_id"], row["method"], row["tier"])
            outcome = self._run.outcomes.get(key)
            if outcome is None:
                continue  # of a question that the run does not select
            evidence = maker.make(row, outcome)
            examples.offer(*key, evidence, outcome)
            spool.put(key, self._site.render("evidence", 2, evidence=evidence))
            done += 1
            self._report(done, total)

    def _write_questions(self, spool: Spool, pictures: Pictures) -> None:
        labels = self._labels_of(pictures)
        rows = self._run.questions
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            texts = self._run.texts([row["question_id"] for row in some])
            for number, row in enumerate(some, start=start):
                image = pictures.add(row["image"], _QUESTION_IMAGE_WIDTH) if row["image"] else None
                neighbours = (
                    rows[number - 1] if number else None,
                    rows[number + 1] if number + 1 < len(rows) else None,
                )
                parts = pages.question(
                    self._site, self._run, row, image, labels(row["question_id"]), neighbours, texts, spool.get
                )
                self._site.write(f"question/{row['page']}.html", parts)

    def _labels_of(self, pictures: Pictures) -> pages.Labels:
        """Labelled states of a question by hop, with their screenshots."""

        def labels(question_id: str) -> list[list[Shown]]:
            return [
                [self._labelled_state(state, number, pictures) for state in sorted(hop)]
                for number, hop in enumerate(self._hops.get(question_id, ()), start=1)
            ]

        return labels

    def _labelled_state(self, state: tuple[str, int], hop: int, pictures: Pictures) -> Shown:
        shown = Shown(None, state[0], (state[1],), "", (hop,))
        if state not in self._labelled:
            return replace(shown, absence="In no haystack of this run")
        path = self._labelled[state]
        if path is None:
            return replace(shown, absence="No screenshot")
        return replace(shown, picture=pictures.add(path, THUMBNAIL_WIDTH))

    def _copy_figures(self) -> list[Figure]:
        folder = self._site.folder / "figures"
        folder.mkdir()
        for path in self._sources.figures:
            shutil.copyfile(path, folder / path.name)
        return [figure(path) for path in self._sources.figures]


def _phrase_count(question: Mapping[str, Any]) -> int:
    spec = parse_eval_function(question["eval_function"])
    return len(set(gold_phrases(question["answer"], spec))) if spec.is_phrase else 0


def _screenshots(states: Path, hops: Mapping[str, Hops]) -> dict[tuple[str, int], str | None]:
    """Screenshot files, if any, of the labelled states that the run has; the states' long texts are not read."""
    wanted = {state for own in hops.values() for hop in own for state in hop}
    return {key: path for key, path in _state_screenshots(states, {name for name, _ in wanted}) if key in wanted}


def _state_screenshots(states: Path, names: set[str]) -> Iterator[tuple[tuple[str, int], str | None]]:
    if names:
        with reading(states), pq.ParquetFile(states) as file:
            for batch in file.iter_batches(columns=["trajectory_id", "state_index", "screenshot"]):
                table = batch.filter(pc.is_in(batch["trajectory_id"], pc.cast(sorted(names), "string")))
                for row in table.to_pylist():
                    yield (row["trajectory_id"], row["state_index"]), row["screenshot"]
