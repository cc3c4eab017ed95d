"""Leaderboard packages: one method on one tier, with one or several operating points, checked by the board's rules.

A point is a web and an enterprise run of the same questions. Two domains combine by count-weighted averages.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lmev2.data.errors import DataError
from lmev2.interchange import layout
from lmev2.interchange.aggregate import overview
from lmev2.interchange.archive import write_tarball
from lmev2.interchange.folder import RunFolder, open_run
from lmev2.lafs import LONGEST_S, REFERENCE_METHODS, SHORTEST_S, Point, frontier, lafs, lafs_gain

READER_NAME: Final = "qwen3.5-9b"
JUDGE_NAME: Final = "gpt-5.2"
DESCRIPTION_FILE: Final = "SYSTEM_DESCRIPTION.md"
OVERVIEW_FILE: Final = "submission_overview.json"
POINTS_FOLDER: Final = "operating_points"
PAPER_TABLE2: Final = Path(__file__).resolve().parents[3] / "resources" / "paper" / "table2.csv"
# Questions of the official release.
OFFICIAL: Final[Mapping[str, int]] = {"web": 240, "enterprise": 211}

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PROBLEMS_PER_RUN = 50


@dataclass(frozen=True)
class Submission:
    """What a package is made of.

    Attributes:
        name: of the submission.
        description: Markdown file about the system.
        code: one code file.
        points: run folders (web, enterprise) by name of the operating point.
        method: name of the method, where its operating points were run under several names; None: they all have it.
        private: the rules on the names of reader and judge are not asked for, and the package says so.
    """

    name: str
    description: Path
    code: Path
    points: Mapping[str, tuple[Path, Path]]
    method: str | None = None
    private: bool = False


@dataclass(frozen=True)
class _OperatingPoint:
    name: str
    runs: Mapping[str, RunFolder]  # by domain

    @property
    def metrics(self) -> dict[str, float | None]:
        return overview([run.raw_aggregated for run in self.runs.values()])


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
    reasons += [f"{path} exists already" for path in (folder, tarball) if path.exists()]
    points, unreadable = _open_points(submission)
    reasons += unreadable
    names, other = _check_points(points, submission.method)
    reasons += other + ([] if submission.private else names)
    if reasons:
        raise DataError(f"no package of {submission.name!r}, for {len(reasons)} reason(s):", reasons)
    warnings = [f"private package: {reason}" for reason in names] + _unofficial(points)
    temporary = out / f".{submission.name}.{os.getpid()}.tmp" / submission.name
    try:
        _write_package(submission, points, temporary, names, _reference_points(table2, _tier(points)))
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary.parent, ignore_errors=True)
    write_tarball(folder, tarball)
    return folder, tarball, warnings


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
    return [f"{what}: no file {path}" for what, path in wanted.items() if not path.is_file()]


def _open_points(submission: Submission) -> tuple[list[_OperatingPoint], list[str]]:
    """The points whose runs could be read to the end, and what is wrong with the others."""
    points: list[_OperatingPoint] = []
    reasons: list[str] = []
    if not submission.points:
        reasons.append("a package needs at least one operating point")
    for name, folders in submission.points.items():
        runs: dict[str, RunFolder] = {}
        for domain, folder in zip(OFFICIAL, folders, strict=True):
            run, found = _open_checked(folder, domain)
            reasons += [f"point {name!r}: {reason}" for reason in found]
            if run is not None:
                runs[domain] = run
        if len(runs) == len(OFFICIAL):
            points.append(_OperatingPoint(name, runs))
    return points, reasons


def _open_checked(folder: Path, domain: str) -> tuple[RunFolder | None, list[str]]:
    try:
        run = open_run(folder, _PROBLEMS_PER_RUN)
        for _ in run.records():
            pass  # read to the end, for what is wrong with it
    except DataError as error:
        return None, [f"{folder}: {problem}" for problem in error.problems] or [str(error)]
    if run.domain != domain:
        return None, [f"{folder} is a run of domain {run.domain!r}, expected one of {domain!r} there"]
    failed = sum(1 for fact in run.facts if fact["score"] is None)
    reasons = []
    if failed or run.args.incomplete or run.aggregated.incomplete:
        reasons.append(f"{folder} is incomplete: {failed} of {len(run.facts)} rows have an error and no score")
    return run, reasons


def _check_points(points: Sequence[_OperatingPoint], method: str | None) -> tuple[list[str], list[str]]:
    """Reasons that concern the names of models, and all others."""
    runs = [run for point in points for run in point.runs.values()]
    names = [
        f"point {point.name!r}, {domain} run: {what} {found!r} does not contain {wanted!r}"
        for point in points
        for domain, run in point.runs.items()
        for what, found, wanted in (
            ("reader", run.args.model, READER_NAME),
            ("judge", run.args.evaluator_model, JUDGE_NAME),
        )
        if wanted not in found.lower()
    ]
    other = []
    if method is None:
        other += _differing("methods", {str(run.path): run.method for run in runs})
    other += _differing("tiers", {str(run.path): run.tier for run in runs})
    for point in points[1:]:
        for domain, run in point.runs.items():
            first = points[0].runs[domain]
            if run.questions.keys() != first.questions.keys():
                other.append(f"points {points[0].name!r} and {point.name!r} have different {domain} questions")
            elif run.haystacks != first.haystacks:
                other.append(f"points {points[0].name!r} and {point.name!r} have different {domain} haystacks")
    for point in points:
        latency = point.metrics["memory_query_avg_seconds"]
        if latency is None or latency <= 0:
            other.append(f"point {point.name!r}: the latency must be above 0 s, found {latency}")
    return names, other


def _differing(what: str, values: Mapping[str, str | None]) -> list[str]:
    if None in values.values():
        folders = [folder for folder, value in values.items() if value is None]
        return [f"neither run_args.json nor the folder's name tells one of the {what}: {', '.join(folders)}"]
    if len(set(values.values())) <= 1:
        return []
    return [f"different {what}: {', '.join(f'{value} ({folder})' for folder, value in values.items())}"]


def _unofficial(points: Sequence[_OperatingPoint]) -> list[str]:
    """What a board may ask about, though its rules do not."""
    runs = [run for point in points for run in point.runs.values()]
    found = _differing("readers", {str(run.path): run.args.model for run in runs})
    found += _differing("judges", {str(run.path): run.args.evaluator_model for run in runs})
    counts = {domain: len(run.questions) for domain, run in points[0].runs.items()}
    if counts != dict(OFFICIAL):
        found.append(f"the runs have {counts} questions, the whole benchmark {dict(OFFICIAL)}")
    return found


def _tier(points: Sequence[_OperatingPoint]) -> str:
    return str(points[0].runs["web"].tier)


def _reference_points(table2: Path, tier: str) -> dict[str, Point]:
    with table2.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tier"] == tier and row["method"] in REFERENCE_METHODS]
    return {row["label"]: Point(float(row["latency_s"]), round(100 * float(row["overall"]), 6)) for row in rows}


def _write_package(
    submission: Submission,
    points: Sequence[_OperatingPoint],
    folder: Path,
    names: Sequence[str],
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
        "rules_not_met": list(names),
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
                "lafs_accuracy_percentage_points": _as_point(point).accuracy,
                "lafs_latency_seconds": _as_point(point).latency_s,
            }
            for point in points
        ],
    }
    layout.write_json(folder / OVERVIEW_FILE, content)


def _write_point(submission: Submission, point: _OperatingPoint, method: str, folder: Path) -> None:
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
    return max(run.aggregated.completed_at_utc or layout.NOT_RECORDED for run in runs)


def _as_point(point: _OperatingPoint) -> Point:
    metrics = point.metrics
    return Point(float(metrics["memory_query_avg_seconds"] or 0), 100 * float(metrics["overall_full_set"] or 0))


def _lafs_summary(tier: str, points: Sequence[_OperatingPoint], reference: Mapping[str, Point]) -> dict[str, Any]:
    own = {point.name: _as_point(point) for point in points}
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
