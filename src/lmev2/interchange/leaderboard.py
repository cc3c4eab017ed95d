"""Leaderboard packages: one method on one tier, with one or several operating points, checked by the board's rules.

A point is a web and an enterprise run of the same questions. Two domains combine by count-weighted averages.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lmev2.data.errors import DataError
from lmev2.interchange import layout
from lmev2.interchange.archive import write_tarball
from lmev2.interchange.folder import RunFolder
from lmev2.interchange.operating import (
    OperatingPoint,
    differing,
    open_points,
    point_faults,
    public_faults,
    question_counts,
)
from lmev2.interchange.output import folder_fault
from lmev2.interchange.reference import read_reference
from lmev2.interchange.schema import parse_time
from lmev2.lafs import LONGEST_S, SHORTEST_S, Point, frontier, lafs, lafs_gain

DESCRIPTION_FILE: Final = "SYSTEM_DESCRIPTION.md"
OVERVIEW_FILE: Final = "submission_overview.json"
POINTS_FOLDER: Final = "operating_points"
PAPER_TABLE2: Final = Path(__file__).resolve().parents[3] / "resources" / "paper" / "table2.csv"

_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Submission:
    """What a package is made of.

    Attributes:
        name: of the submission.
        description: Markdown file about the system.
        code: one code file.
        points: run folders (web, enterprise) by name of the operating point.
        method: name of the method, where its operating points were run under several names; None: they all have it.
        private: the rules on the names of reader and judge and on the questions, which must be the whole benchmark, are
            not asked for, and the package says so.
    """

    name: str
    description: Path
    code: Path
    points: Mapping[str, tuple[Path, Path]]
    method: str | None = None
    private: bool = False


def build_package(submission: Submission, out: Path, table2: Path = PAPER_TABLE2) -> tuple[Path, Path, list[str]]:
    """Check a submission and write its package as ``out/<name>`` and ``out/<name>.tar.gz``.

    Args:
        submission: what to pack.
        out: folder of packages.
        table2: the paper's Table 2 as CSV, for the reference points.

    Returns:
        Folder, tarball, and warnings.

    Raises:
        DataError: lists every reason against the package; nothing is written then.
    """
    reasons = _bad_names(submission) + _bad_files(submission, table2)
    folder, tarball = out / submission.name, out / f"{submission.name}.tar.gz"
    reasons += [f"{path} exists already" for path in (folder, tarball) if os.path.lexists(path)]
    reasons += [fault for fault in [folder_fault(out)] if fault is not None]
    points, unreadable = open_points(submission.points)
    reasons += unreadable + point_faults(points, submission.method)
    waived = public_faults(points)
    reasons += [] if submission.private else [f"{fault}; only a --private package may be so" for fault in waived]
    reference: dict[str, Point] = {}
    try:
        reference = read_reference(table2, _tier(points)) if points and table2.is_file() else {}
    except DataError as error:
        reasons.append(str(error))
    if reasons:
        raise DataError(f"no package of {submission.name!r}, for {len(reasons)} reason(s):", reasons)
    temporary = out / f".{submission.name}.{os.getpid()}.tmp" / submission.name
    try:
        _write_package(submission, points, temporary, waived, reference)
        write_tarball(temporary, temporary.with_name(tarball.name))
        os.replace(temporary, folder)
        os.replace(temporary.with_name(tarball.name), tarball)
    finally:
        shutil.rmtree(temporary.parent, ignore_errors=True)
    return folder, tarball, [f"private package: {fault}" for fault in waived] + _unofficial(points)


def _bad_names(submission: Submission) -> list[str]:
    given = {"submission": [submission.name], "operating point": list(submission.points)}
    given["code file"] = [submission.code.name]
    given["method"] = [] if submission.method is None else [submission.method]
    reasons = [
        f"{what} name {name!r} may hold only letters, digits, '.', '_' and '-', and not begin with a dot"
        for what, names in given.items()
        for name in names
        if _NAME.fullmatch(name) is None or name.startswith(".")
    ]
    if submission.code.name in (DESCRIPTION_FILE, OVERVIEW_FILE, POINTS_FOLDER):
        reasons.append(f"the code file must not be called {submission.code.name!r}, which the package uses itself")
    return reasons


def _bad_files(submission: Submission, table2: Path) -> list[str]:
    wanted = {"description": submission.description, "code file": submission.code, "paper's Table 2": table2}
    reasons = [f"{what}: no file {path}" for what, path in wanted.items() if not path.is_file()]
    return reasons + ([] if submission.points else ["a package needs at least one operating point"])


def _unofficial(points: Sequence[OperatingPoint]) -> list[str]:
    """What a board may ask about, though its rules do not."""
    runs = [run for point in points for run in point.runs.values()]
    found = differing("readers", {str(run.path): run.args.model for run in runs})
    return found + differing("judges", {str(run.path): run.args.evaluator_model for run in runs})


def _tier(points: Sequence[OperatingPoint]) -> str:
    return str(points[0].runs["web"].tier)


def _write_package(
    submission: Submission,
    points: Sequence[OperatingPoint],
    folder: Path,
    waived: Sequence[str],
    reference: Mapping[str, Point],
) -> None:
    method = submission.method or str(points[0].runs["web"].method)
    for point in points:
        _write_point(submission, point, method, folder / POINTS_FOLDER / point.name)
    shutil.copyfile(submission.description, folder / DESCRIPTION_FILE)
    shutil.copyfile(submission.code, folder / submission.code.name)
    content = {
        "submission_name": submission.name,
        "method": method,
        "tier": _tier(points),
        "private": submission.private,
        "rules_not_met": list(waived),
        "questions": question_counts(points[0]),
        "generated_at_utc": _newest(run for point in points for run in point.runs.values()),
        "archive_name": f"{submission.name}.tar.gz",
        "system_description_file": DESCRIPTION_FILE,
        "code_file": submission.code.name,
        "lafs": _lafs_summary(_tier(points), points, reference),
        "operating_points": [
            {
                "name": point.name,
                "metric_overview_file": f"{POINTS_FOLDER}/{point.name}/metric_overview.json",
                "overall_full_set": point.metrics["overall_full_set"],
                "memory_query_avg_seconds": point.metrics["memory_query_avg_seconds"],
                "lafs_accuracy_percentage_points": point.point.accuracy,
                "lafs_latency_seconds": point.point.latency_s,
            }
            for point in points
        ],
    }
    layout.write_json(folder / OVERVIEW_FILE, content)


def _write_point(submission: Submission, point: OperatingPoint, method: str, folder: Path) -> None:
    for domain, run in point.runs.items():
        for name in layout.RUN_FILES:
            target = folder / domain / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run.path / name, target)
        if run.raw_args.get("method") not in (None, method):
            layout.write_json(folder / domain / layout.RUN_ARGS, {**run.raw_args, "method": method})
    layout.write_json(folder / "metric_overview.json", point.metrics)
    metadata = {
        "submission_name": submission.name,
        "operating_point_name": point.name,
        "method": method,
        "tier": point.runs["web"].tier,
        "private": submission.private,
        "generated_at_utc": _newest(point.runs.values()),
        "runs": {domain: _describe(run) for domain, run in point.runs.items()},
        "included_run_files": list(layout.RUN_FILES),
    }
    layout.write_json(folder / "operating_point_metadata.json", metadata)


def _describe(run: RunFolder) -> dict[str, Any]:
    types = [question.question_type for question in run.questions.values()]
    return {
        "source_run": run.path.resolve().name,
        "method": run.method,
        "domain": run.domain,
        "question_count": len(types),
        "question_type_counts": {kind: types.count(kind) for kind in sorted(set(types))},
        "model": run.args.model,
        "evaluator_model": run.args.evaluator_model,
        "sha256": run.sources(),
    }


def _newest(runs: Iterable[RunFolder]) -> str:
    """When the last of the runs ended, so that a package is the same whenever it is built."""
    return max((run.aggregated.completed_at_utc or layout.NOT_RECORDED for run in runs), key=parse_time)


def _lafs_summary(tier: str, points: Sequence[OperatingPoint], reference: Mapping[str, Point]) -> dict[str, Any]:
    own = {point.name: point.point for point in points}
    known = list(reference.values())
    return {
        "tier": tier,
        "t_min_seconds": SHORTEST_S,
        "t_max_seconds": LONGEST_S,
        "accuracy_unit": "percentage_points",
        "reference_lafs": lafs(known),
        "submission_lafs": lafs([*known, *own.values()]),
        "lafs_gain": lafs_gain(known, own.values()),
        "reference_frontier": _named(frontier(known), reference),
        "submission_frontier": _named(frontier([*known, *own.values()]), {**reference, **own}),
    }


def _named(corners: Sequence[Point], points: Mapping[str, Point]) -> list[dict[str, Any]]:
    names: dict[Point, str] = {}
    for name, point in points.items():
        names.setdefault(point, name)
    return [
        {"name": names[corner], "accuracy": corner.accuracy, "latency_seconds": corner.latency_s} for corner in corners
    ]
