"""Which domains a run has questions of, before any job has run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from lmev2.data.schema import DOMAINS
from lmev2.data.selection import select_questions


def sampled_domains(path: Path, count: int | None, seed: int) -> list[str]:
    """Domains of the run's sample, in alphabetical order.

    Args:
        path: ``questions.jsonl`` of the data root.
        count, seed: of the sample, as for :func:`lmev2.data.selection.select_questions`.

    Returns:
        All domains where the file is not there yet or cannot be read; the ingestion then says what is wrong with it.
    """
    try:
        with path.open("rb") as file:
            rows = [json.loads(line) for line in file if line.strip()]
        questions = [
            SimpleNamespace(question_id=row["id"], domain=row["domain"], question_type=row["question_type"])
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return sorted(DOMAINS)
    return sorted({question.domain for question in select_questions(questions, count, seed)})
