"""Run folders of the public harness, from anyone, as rows by our contracts.

An import folder is written whole or not at all; nothing in it depends on our data root. Which of its questions a run of
ours takes, and what of them was covered, is decided there (:mod:`lmev2.interchange.select`).
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lmev2.data.errors import DataError
from lmev2.interchange.folder import RunFolder, open_run
from lmev2.interchange.images import is_elsewhere
from lmev2.interchange.layout import OURS, json_text
from lmev2.interchange.manifest import IMPORT_FILE, INPUTS_FILE, ImportedRun, ImportManifest, load_manifest
from lmev2.interchange.output import folder_fault
from lmev2.interchange.records import rows_of
from lmev2.interchange.schema import line_fault
from lmev2.rows import ANSWER, CONTEXT, SCORE, write_rows


def import_runs(folders: Sequence[Path], name: str, label: str, tier: str | None, out: Path) -> ImportManifest:
    """Read run folders (one a domain) and write an import folder.

    Args:
        folders: run folders of one method and tier.
        name: name of the method in tables.
        label: its label there.
        tier: haystack size; needed where neither ``run_args.json`` nor the folder's name tells it.
        out: the import folder; must not exist.

    Raises:
        DataError: lists everything that is wrong with the folders, the label or the place; nothing is written then.
    """
    if os.path.lexists(out):
        raise DataError(f"{out} exists already; remove it or choose another --out")
    place, text = folder_fault(out), line_fault(label)
    if place is not None or text is not None:
        raise DataError(f"the import cannot be written: {place or f'the label {label!a} {text}'}")
    runs = _open_all(folders)
    tier = _check_together(runs, tier)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        manifest = _write(runs, name, label, tier, temporary)
        os.replace(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return manifest


def _open_all(folders: Sequence[Path]) -> list[RunFolder]:
    runs: list[RunFolder] = []
    failures: list[DataError] = []
    for folder in folders:
        try:
            runs.append(open_run(folder))
        except DataError as error:
            failures.append(error)
    _raise_all(failures)
    return runs


def _check_together(runs: Sequence[RunFolder], tier: str | None) -> str:
    """The tier of the runs, which must be one, of one method, reader and judge, and of different domains."""
    faults = []
    domains = [run.domain for run in runs]
    if len(set(domains)) != len(domains):
        faults.append(f"each domain may come from one folder only, found {domains}")
    shared = [name for number, run in enumerate(runs) for name in run.questions if _asked_before(name, runs[:number])]
    if shared:
        faults.append(f"{len(shared)} questions are in several folders (first: {shared[0]!r})")
    for what, values in (
        ("methods", [run.method for run in runs]),
        ("readers", [run.args.model for run in runs]),
        ("judges", [run.args.evaluator_model for run in runs]),
        ("tiers", [run.tier for run in runs]),
    ):
        if len(set(values) - {None}) > 1:
            faults.append(f"the folders are runs of different {what}: {values}")
    told = next((run.tier for run in runs if run.tier is not None), None)
    if told is None and tier is None:
        faults.append("neither run_args.json nor the folder's name tells the tier; give --tier small or --tier medium")
    if told is not None and tier is not None and told != tier:
        faults.append(f"--tier is {tier!r}, but the run is of tier {told!r}")
    if faults:
        raise DataError("the run folders cannot be one import:", faults)
    return str(told or tier)


def _asked_before(name: str, runs: Sequence[RunFolder]) -> bool:
    return any(name in run.questions for run in runs)


def _write(runs: Sequence[RunFolder], name: str, label: str, tier: str, folder: Path) -> ImportManifest:
    answers: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    told: list[bool] = []
    elsewhere: Counter[str] = Counter()  # images by domain
    failures: list[DataError] = []

    def contexts() -> Iterator[dict[str, Any]]:
        """Contexts as they are read, one in memory at a time; answers and scores, which are small, are kept."""
        for run in runs:
            try:
                for record in run.records():
                    context, answer, score = rows_of(record, run.domain, run.args.model, name, tier)
                    answers.append(answer)
                    scores.append(score)
                    told.append(record.get(OURS) is not None)
                    images = [item["value"] for item in context["items"] if item["type"] == "image"]
                    elsewhere[run.domain] += sum(map(is_elsewhere, images))
                    yield context
            except DataError as error:
                failures.append(error)

    write_rows(folder / "contexts.parquet", CONTEXT, contexts(), batch_size=16)
    _raise_all(failures)
    write_rows(folder / "answers.parquet", ANSWER, answers)
    write_rows(folder / "scores.parquet", SCORE, scores)
    (folder / INPUTS_FILE).write_text(json_text(_inputs(runs)), encoding="ascii")
    replies = {answer["question_id"]: answer["reply"] for answer in answers}
    manifest = ImportManifest.model_validate(
        {
            "name": name,
            "label": label,
            "tier": tier,
            "reader": runs[0].args.model,
            "judge": runs[0].args.evaluator_model,
            "states_told": all(told),
            "runs": tuple(_describe(run, scores, replies, elsewhere[run.domain]) for run in runs),
        }
    )
    text = json_text(manifest.model_dump(mode="json"))
    (folder / IMPORT_FILE).write_text(text, encoding="ascii")
    if load_manifest(folder) != manifest:
        raise DataError("run_args.json of the runs holds values that import.json cannot keep")
    return manifest


def _describe(run: RunFolder, scores: Sequence[dict[str, Any]], replies: dict[str, str], elsewhere: int) -> ImportedRun:
    own = [score for score in scores if score["question_id"] in run.questions]
    errors = Counter(score["error"] for score in own if score["error"] is not None)
    empty = sum(1 for score in own if score["error"] is None and not replies[score["question_id"]].strip())
    return ImportedRun(
        folder=run.path.resolve().name,
        domain=run.args.domain,
        method=run.method,
        questions=len(own),
        errors=dict(sorted(errors.items())),
        empty_replies=empty,
        images_elsewhere=elsewhere,
        sources=run.sources(),
        run_args=run.raw_args,
        completed_at_utc=run.aggregated.completed_at_utc,
    )


def _inputs(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """What the runs were asked: question facts and haystacks by question id."""
    return {
        name: {
            "domain": question.domain,
            "question_type": question.question_type,
            "question": question.text,
            "answer": question.answer,
            "eval_function": question.eval_function,
            "haystack": run.haystacks[name],
        }
        for run in runs
        for name, question in run.questions.items()
    }


def _raise_all(failures: Sequence[DataError]) -> None:
    """Raise several folders' problems as one."""
    if len(failures) == 1:
        raise failures[0]
    if failures:
        problems = [line.strip() for failure in failures for line in str(failure).split("\n")]
        raise DataError(f"{len(failures)} run folders cannot be used:", problems)
