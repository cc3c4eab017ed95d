"""Whether a data root's evidence labels are enough for oracle contexts, before any job has run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lmev2.data.layout import EVIDENCE_FILE, QUESTIONS_FILE, haystack_file
from lmev2.data.selection import select_questions
from lmev2.pilots.oracle import oracles, unflawed


def check_labels(root: Path, tiers: Sequence[str], count: int | None, seed: int) -> None:
    """See that every question of the run without a flawed premise has its oracle, from the data root's own files.

    Nothing is said where they are not there yet or cannot be read: ingestion then says what is wrong with them.

    Args:
        root: the data root.
        tiers: of the run; their haystacks name the trajectories that are ingested.
        count, seed: of the run's sample, as for :func:`lmev2.data.selection.select_questions`.

    Raises:
        DataError: a question has no labels, or a hop none in a trajectory of the run, as
            :func:`lmev2.pilots.oracle.oracles` says it of ingested data.
    """
    try:
        questions = [
            SimpleNamespace(
                question_id=str(row["id"]), domain=str(row["domain"]), question_type=str(row["question_type"])
            )
            for row in _objects(root / QUESTIONS_FILE)
        ]
        evidence = [
            {"question_id": str(row["question_id"]), "hop": number, "trajectory_id": str(name), "state_index": state}
            for row in _objects(root / EVIDENCE_FILE)
            for number, hop in enumerate(row["hops"])
            for name, state in hop
        ]
        haystacks = [json.loads((root / haystack_file(tier)).read_bytes()) for tier in tiers]
        known = {str(name) for lists in haystacks for names in lists.values() for name in names}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    chosen = [vars(question) for question in select_questions(questions, count, seed)]
    oracles(unflawed(chosen), evidence, known)


def _objects(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [json.loads(line) for line in file if line.strip()]
