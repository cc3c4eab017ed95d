"""Ingestion: an official data root is checked as a whole and becomes Parquet tables, streaming, in one pass."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmev2.data.check import Progress, RootCheck, needed_files, root_content
from lmev2.data.errors import DataError, Problems
from lmev2.data.layout import BUNDLES_FOLDER, SCREENSHOTS_FOLDER, not_a_file
from lmev2.data.manifest import Manifest
from lmev2.data.schema import CATEGORIES, QuestionRecord, TrajectoryRecord
from lmev2.data.trajectories import state_rows, trajectory_row
from lmev2.data.writer import StateWriter
from lmev2.rows import EVIDENCE, HAYSTACK, QUESTION, TRAJECTORY, write_rows

TABLES = ("questions.parquet", "trajectories.parquet", "states.parquet", "haystacks.parquet", "evidence.parquet")
MANIFEST_FILE = "manifest.json"
_STAGING_PREFIX = ".ingest-"


def ingest_dataset(
    root: Path,
    out_dir: Path,
    tiers: Sequence[str],
    *,
    require_screenshots: bool = True,
    screenshots: Path | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Check a data root and write its tables and ``manifest.json`` to ``out_dir``.

    The trajectories are read line by line: no more than one of them is in memory. Those that no haystack of the tiers
    names are checked, but neither written nor are their screenshots looked for. Nothing appears in ``out_dir`` unless
    everything is valid.

    Args:
        root: the data root.
        out_dir: takes ``questions``, ``trajectories``, ``states`` (a row group per trajectory), ``haystacks`` and
            ``evidence`` as Parquet files, and the manifest. Without labels ``evidence`` is empty, and the manifest says
            so.
        tiers: names of the haystack files to read, such as ``small``.
        require_screenshots: a state without a screenshot is a problem. If false, such states get none and are counted,
            for runs whose models see no images.
        screenshots: the folder that ``screenshots/`` in the data root's paths stands for, when it is not below it.
        progress: called with bytes done and bytes in all.

    Raises:
        DataError: the root, or a file that it must hold, is missing; or up to 20 problems, each naming file, line
            and id.
        ValueError: no tier is given, or one twice.
    """
    root = Path(os.path.abspath(root))
    if not tiers or len(set(tiers)) != len(tiers):
        raise ValueError(f"expected one or more different tiers, found {list(tiers)}")
    _check_layout(root, tiers)
    shots = Path(os.path.abspath(screenshots or root / SCREENSHOTS_FOLDER))
    if require_screenshots and not shots.is_dir():
        raise DataError(
            f"found no folder {shots}, expected the trajectories' screenshots there, or their bundles in "
            f"{root / BUNDLES_FOLDER}"
        )
    problems = Problems(root)
    check = RootCheck(root, tiers, problems, shots, require_screenshots=require_screenshots, progress=progress)
    with _staging(out_dir) as staging:
        trajectories = _check_and_write_states(check, staging / "states.parquet")
        problems.raise_if_any()
        _write_tables(check, trajectories, root, staging)
        manifest = check.manifest()
        (out_dir / MANIFEST_FILE).unlink(missing_ok=True)  # it stands only beside a full set of tables
        manifest.write(staging / MANIFEST_FILE)
        for name in (*TABLES, MANIFEST_FILE):
            os.replace(staging / name, out_dir / name)
    return manifest


def _check_layout(root: Path, tiers: Sequence[str]) -> None:
    needed = needed_files(tiers)
    content = root_content(tiers)
    if not root.is_dir():
        raise DataError(f"found no folder {root}, which was given as the data root. {content}")
    missing = [name for name in needed if not (root / name).is_file()]
    if missing:
        paths = (*root.glob("*"), *root.glob("haystacks/*"))
        there = ", ".join(sorted(path.relative_to(root).as_posix() for path in paths)) or "nothing"
        instead = {name: not_a_file(root / name) for name in missing}
        lacks = ", ".join(f"{name} ({found} stands there)" if found else name for name, found in instead.items())
        raise DataError(f"the data root {root} lacks {lacks}; found there: {there}. {content}")


@contextmanager
def _staging(out_dir: Path) -> Iterator[Path]:
    """A folder inside ``out_dir``, so that finished files are renamed within one file system."""
    out_dir.mkdir(parents=True, exist_ok=True)
    for left in out_dir.glob(f"{_STAGING_PREFIX}*"):  # by a run that was killed; only one writes here at a time
        shutil.rmtree(left)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=out_dir))
    try:
        yield staging
    finally:
        shutil.rmtree(staging)


def _check_and_write_states(check: RootCheck, states: Path) -> list[dict[str, Any]]:
    """Check everything and write the states; returns the rows of the trajectories, sorted by id."""
    rows: list[dict[str, Any]] = []
    with StateWriter(states) as writer:

        def take(trajectory: TrajectoryRecord, screenshots: Sequence[Path | None]) -> None:
            writer.write(state_rows(trajectory, screenshots))
            rows.append(trajectory_row(trajectory))

        check.run(take)
    return sorted(rows, key=lambda row: str(row["trajectory_id"]))


def _write_tables(check: RootCheck, trajectories: list[dict[str, Any]], root: Path, out: Path) -> None:
    rows = (_question_row(question, root) for _, question in sorted((check.questions or {}).items()))
    write_rows(out / "questions.parquet", QUESTION, rows)
    write_rows(out / "trajectories.parquet", TRAJECTORY, trajectories)
    haystack_rows = (
        {"question_id": question_id, "tier": tier.tier, "trajectory_ids": list(names)}
        for tier in check.tiers
        for question_id, names in sorted(tier.lists.items())
    )
    write_rows(out / "haystacks.parquet", HAYSTACK, haystack_rows)
    evidence_rows = (
        {"question_id": item.question_id, "hop": number, "trajectory_id": name, "state_index": state}
        for item in check.evidence
        for number, hop in enumerate(item.hops)
        for name, state in hop
    )
    write_rows(out / "evidence.parquet", EVIDENCE, evidence_rows)


def _question_row(question: QuestionRecord, root: Path) -> dict[str, Any]:
    return {
        "question_id": question.id,
        "domain": question.domain,
        "environment": question.environment,
        "question_type": question.question_type,
        "category": CATEGORIES[question.question_type],
        "question": question.question,
        "answer": question.answer,
        "eval_function": question.eval_function,
        "image": None if question.image is None else str(root / question.image),
    }
