"""What an ingestion read and found: hashes of the inputs and counts, kept beside its tables as ``manifest.json``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lmev2.files import replacing


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InputFile(_Part):
    """An input file as it was read."""

    sha256: str
    bytes: int


class TierCounts(_Part):
    """Haystacks of a tier: of how many questions, how many different lists, and their lengths in trajectories.

    ``entries_of_other_questions`` counts entries of the file whose question is not in ``questions.jsonl``.
    """

    questions: int
    distinct_lists: int
    trajectories: int
    shortest: int
    longest: int
    mean_length: float
    entries_of_other_questions: int


class QuestionCounts(_Part):
    """Numbers of questions, in all and by kind."""

    total: int
    by_domain: dict[str, int]
    by_question_type: dict[str, int]
    by_category: dict[str, int]
    by_scorer: dict[str, int]
    with_image: int


class Manifest(_Part):
    """What an ingestion read and found.

    Attributes:
        fingerprint: one hash over the hashes of all input files: the identity of the data.
        files: input files by path below the data root.
        trajectories_used: written, because a haystack of the tiers names them.
        trajectories_unused: checked, but in no haystack of the tiers.
        states: written.
        screenshots_checked: states whose screenshot is there.
        screenshots_missing: states without one, where that is allowed.
        evidence: the data root has evidence labels.
        evidence_questions: questions with labels.
        evidence_states_outside_haystacks: labelled states of trajectories that were not written.
        extra_fields: fields beyond the format, by object and name, with their number.
        replaced_surrogates: texts in which half a surrogate pair was replaced by U+FFFD.
    """

    fingerprint: str
    files: dict[str, InputFile]
    questions: QuestionCounts
    tiers: dict[str, TierCounts]
    trajectories_used: int
    trajectories_unused: int
    trajectories_by_domain: dict[str, int]
    states: int
    screenshots_checked: int
    screenshots_missing: int
    evidence: bool
    evidence_questions: int
    evidence_states_outside_haystacks: int
    extra_fields: dict[str, dict[str, int]]
    replaced_surrogates: int

    def write(self, path: Path) -> None:
        """Write as JSON, by way of a temporary name."""
        with replacing(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Manifest:
        """Read what :meth:`write` wrote.

        Raises:
            OSError, pydantic.ValidationError: the file is missing or not a manifest.
        """
        return Manifest.model_validate_json(path.read_bytes())


def fingerprint(files: Mapping[str, InputFile]) -> str:
    """SHA-256 over paths and hashes of the input files, in the order of the paths."""
    lines = "".join(f"{file.sha256}  {name}\n" for name, file in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()
