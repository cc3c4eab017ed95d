"""An imported run as rows of a run of ours: only its sample's questions, asked of the same data, and with evidence."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmev2.data.errors import DataError
from lmev2.interchange.images import NO_PICTURE, place_image, told_name
from lmev2.interchange.manifest import INPUTS_FILE, ImportManifest, load_manifest
from lmev2.rows import ANSWER, CONTEXT, SCORE, read_rows, write_rows
from lmev2.scoring.score import context_facts, group_evidence

Row = Mapping[str, Any]
_log = logging.getLogger("lmev2")
_COMPARED = ("domain", "question_type", "question", "answer", "eval_function")
_SHOWN = 5


def select_import(
    folder: Path,
    questions: Iterable[Row],
    selected: Iterable[Row],
    haystacks: Iterable[Row],
    evidence: Iterable[Row],
    data_root: Path,
    targets: Mapping[str, Path],
) -> dict[str, Any]:
    """Write the imported rows of the run's questions.

    Evidence coverage is computed where the import tells the states of its items; gold support always.

    Args:
        folder: the import folder.
        questions: all questions of the data root; selected: those of this run.
        haystacks: of all tiers.
        evidence: labels, may be empty.
        data_root: images are taken from it only; others become ones without a picture, counted in the log.
        targets: files to write, by stage: ``contexts``, ``answers``, ``scores``.

    Returns:
        What tables say about the import: ``method``, ``label``, ``tier``, ``reader``, ``judge``, ``questions`` (of this
        run), ``taken`` (of them in the import), ``left_out`` (of the import, outside this run's sample),
        ``empty_replies``, ``states_told``.

    Raises:
        DataError: the import holds questions that the data root does not know, or was asked other things about them.
    """
    manifest = load_manifest(folder)
    inputs: dict[str, Any] = json.loads((folder / INPUTS_FILE).read_text(encoding="utf-8"))
    lists = {row["question_id"]: row["trajectory_ids"] for row in haystacks if row["tier"] == manifest.tier}
    _check_inputs(folder, inputs, {row["question_id"]: row for row in questions}, lists)
    own = {row["question_id"]: row for row in selected}
    answers = {
        row["question_id"]: row for row in read_rows(folder / "answers.parquet", ANSWER) if row["question_id"] in own
    }
    hops = group_evidence(evidence)
    facts: dict[str, dict[str, bool | None]] = {}

    images: list[str] = []  # as placed

    def contexts() -> Iterator[dict[str, Any]]:
        for row in read_rows(folder / "contexts.parquet", CONTEXT, batch_size=16):
            name = row["question_id"]
            if name in own:
                facts[name] = context_facts(answers[name], own[name], row, hops.get(name, []))
                items = [_placed(item, data_root) for item in row["items"]]
                images.extend(item["value"] for item in items if item["type"] == "image")
                yield row | {"items": items}

    write_rows(targets["contexts"], CONTEXT, contexts(), batch_size=16)
    _tell_missing(folder, images)
    write_rows(targets["answers"], ANSWER, answers.values())
    untold = {} if manifest.states_told else {"evidence_covered": None, "evidence_covered_before": None}
    scores = (row for row in read_rows(folder / "scores.parquet", SCORE) if row["question_id"] in own)
    write_rows(targets["scores"], SCORE, (row | facts[row["question_id"]] | untold for row in scores))
    return _summary(manifest, len(own), len(answers), len(inputs), _empty_replies(answers.values()))


def _tell_missing(folder: Path, images: Sequence[str]) -> None:
    missing = [told_name(value) for value in images if value.startswith(NO_PICTURE)]
    if missing:
        _log.warning(
            "%s: %d of %d images name no file inside the data root, so there is no picture of them (first: %.100r)",
            folder,
            len(missing),
            len(images),
            missing[0],
        )


def _empty_replies(answers: Iterable[Row]) -> int:
    return sum(1 for row in answers if row["error"] is None and not row["reply"].strip())


def _summary(manifest: ImportManifest, own: int, taken: int, held: int, empty: int) -> dict[str, Any]:
    return {
        "method": manifest.name,
        "label": manifest.label,
        "tier": manifest.tier,
        "reader": manifest.reader,
        "judge": manifest.judge,
        "questions": own,
        "taken": taken,
        "left_out": held - taken,
        "empty_replies": empty,
        "states_told": manifest.states_told,
    }


def _check_inputs(
    folder: Path, inputs: Mapping[str, Any], questions: Mapping[str, Row], lists: Mapping[str, list[str]]
) -> None:
    unknown = sorted(inputs.keys() - questions.keys())
    if unknown:
        raise DataError(
            f"{folder}: {len(unknown)} of the {len(inputs)} questions are not in this run's data root (first: "
            f"{', '.join(unknown[:_SHOWN])}); it is a run on other data, leave it out of run.imports"
        )
    faults = []
    for name, asked in inputs.items():
        expected = {**questions[name], "haystack": lists.get(name)}
        different = [key for key in (*_COMPARED, "haystack") if asked[key] != expected[key]]
        if different:
            faults.append(f"question {name!r}: another {', '.join(different)} than in this run's data")
    if faults:
        shown = faults[:_SHOWN] + ([f"… and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else [])
        raise DataError(f"{folder}: {len(faults)} of the {len(inputs)} questions were asked otherwise:", shown)


def _placed(item: Row, data_root: Path) -> dict[str, Any]:
    """The item; an image by its absolute path, or marked as having no picture."""
    return {**item, "value": place_image(item["value"], data_root)} if item["type"] == "image" else dict(item)
