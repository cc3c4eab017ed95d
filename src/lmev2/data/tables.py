"""Reading the small tables of an ingestion as typed values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lmev2.rows import EVIDENCE, HAYSTACK, QUESTION, read_rows


@dataclass(frozen=True)
class Question:
    """A question; ``image`` is an absolute path. A memory sees ``question`` and ``image`` alone."""

    question_id: str
    domain: str
    environment: str
    question_type: str
    category: str
    question: str
    answer: str
    eval_function: str
    image: Path | None


@dataclass(frozen=True)
class Evidence:
    """Evidence of one question; ``hops[i]`` holds the alternative ``(trajectory_id, state_index)`` pairs of hop i."""

    question_id: str
    hops: tuple[tuple[tuple[str, int], ...], ...]


def read_questions(path: Path) -> list[Question]:
    """Questions of ``questions.parquet``, in its order.

    Raises:
        RowError: not such a file.
    """
    rows = read_rows(path, QUESTION)
    return [Question(**{**row, "image": Path(row["image"]) if row["image"] else None}) for row in rows]


def read_haystacks(path: Path, tier: str) -> dict[str, tuple[str, ...]]:
    """Ordered trajectory ids by question id, for one tier of ``haystacks.parquet``.

    Raises:
        RowError: not such a file.
        KeyError: the file holds no haystack of this tier; names those it holds.
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in read_rows(path, HAYSTACK):
        found.setdefault(row["tier"], {})[row["question_id"]] = tuple(row["trajectory_ids"])
    if tier not in found:
        raise KeyError(f"{path} holds no haystacks of tier {tier!r}, only of {sorted(found)}; ingest with that tier")
    return found[tier]


def read_evidence(path: Path) -> dict[str, Evidence]:
    """Evidence by question id; empty without labels.

    Raises:
        RowError: not such a file.
    """
    hops: dict[str, dict[int, list[tuple[str, int]]]] = {}
    for row in read_rows(path, EVIDENCE):
        states = hops.setdefault(row["question_id"], {}).setdefault(row["hop"], [])
        states.append((row["trajectory_id"], row["state_index"]))
    return {
        question_id: Evidence(question_id, tuple(tuple(states) for _, states in sorted(by_hop.items())))
        for question_id, by_hop in hops.items()
    }
