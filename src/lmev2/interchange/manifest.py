"""``import.json``: what an import folder holds, and where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lmev2.data.errors import DataError
from lmev2.data.schema import Domain, Identifier
from lmev2.interchange.schema import Line

IMPORT_FILE = "import.json"
# Rows by the contracts of lmev2.rows, and the run's own inputs, to be compared with those of the run that takes it in.
STAGES = ("contexts", "answers", "scores")
INPUTS_FILE = "inputs.json"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ImportedRun(_Part):
    """A run folder that was read.

    Attributes:
        folder: its name.
        method: what the run called itself, if it did.
        questions: records.
        errors: records without a score, by error kind.
        empty_replies: records with a score whose reply is empty: the harness writes these where a call of the reader
            was refused, and scores them 0.
        images_elsewhere: images that are not named relative to a data root, of which a run shows no picture.
        sources: SHA-256 of its files.
        run_args: ``run_args.json``.
        completed_at_utc: from ``aggregated_metrics.json``.
    """

    folder: str
    domain: Domain
    method: str | None
    questions: int
    errors: dict[str, int]
    empty_replies: int
    images_elsewhere: int = 0
    sources: dict[str, str]
    run_args: dict[str, Any]
    completed_at_utc: str | None


class ImportManifest(_Part):
    """An import folder.

    Attributes:
        name: the method's name in a run, ``label`` in its tables.
        tier: haystack size.
        reader, judge: the models.
        states_told: every record says from which states its items come, so that evidence coverage can be computed.
        runs: the run folders, one a domain.
    """

    format: Literal[1] = 1
    name: Identifier
    label: Line
    tier: Literal["small", "medium"]
    reader: Line
    judge: Line
    states_told: bool
    runs: Annotated[tuple[ImportedRun, ...], Field(min_length=1)]

    def run_of(self, domain: str) -> ImportedRun | None:
        """The run of a domain, if there is one."""
        return next((run for run in self.runs if run.domain == domain), None)


def load_manifest(folder: Path) -> ImportManifest:
    """Read ``import.json`` of an import folder.

    Raises:
        DataError: there is none, a file that belongs to it is missing, or it is not one; says what to do.
    """
    names = [IMPORT_FILE, INPUTS_FILE, *(f"{stage}.parquet" for stage in STAGES)]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"{folder.absolute()} is no import folder: it lacks {', '.join(missing)}. Make one with: "
            "python -m lmev2 import-run RUN_FOLDER ... --name NAME --label TEXT --out FOLDER"
        )
    try:
        return ImportManifest.model_validate_json((folder / IMPORT_FILE).read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(f"{folder / IMPORT_FILE}: {place}: {first['msg']}; import the run again") from error
