"""Operating points of a leaderboard package, and what the board's rules have against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from lmev2.data.errors import DataError
from lmev2.data.schema import CATEGORIES
from lmev2.interchange.aggregate import overview
from lmev2.interchange.folder import RunFolder, open_run
from lmev2.interchange.schema import RuntimeQuestion
from lmev2.lafs import Point
from lmev2.metrics import OFFICIAL_COUNTS

READER_NAME: Final = "qwen3.5-9b"
JUDGE_NAME: Final = "gpt-5.2"
# Questions of the official release by domain, the same on both tiers; by category: lmev2.metrics.
OFFICIAL: Final[Mapping[str, int]] = {"web": 240, "enterprise": 211}

_PROBLEMS_PER_RUN: Final = 50


@dataclass(frozen=True)
class OperatingPoint:
    """A web and an enterprise run.

    Attributes:
        name: of the point.
        runs: by domain.
    """

    name: str
    runs: Mapping[str, RunFolder]

    @property
    def metrics(self) -> dict[str, float | None]:
        """Accuracies and latency of both domains together."""
        return overview([run.raw_aggregated for run in self.runs.values()])

    @property
    def point(self) -> Point:
        """The same as a point of LAFS."""
        metrics = self.metrics
        return Point(float(metrics["memory_query_avg_seconds"] or 0), 100 * float(metrics["overall_full_set"] or 0))


def open_points(points: Mapping[str, tuple[Path, Path]]) -> tuple[list[OperatingPoint], list[str]]:
    """The points whose runs could be read to the end, and what is wrong with the others.

    Args:
        points: run folders (web, enterprise) by name of the point.
    """
    found: list[OperatingPoint] = []
    reasons: list[str] = []
    for name, folders in points.items():
        runs: dict[str, RunFolder] = {}
        for domain, folder in zip(OFFICIAL, folders, strict=True):
            run, faults = _open_checked(folder, domain)
            reasons += [f"point {name!r}: {fault}" for fault in faults]
            if run is not None:
                runs[domain] = run
        if len(runs) == len(OFFICIAL):
            found.append(OperatingPoint(name, runs))
    return found, reasons


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


def public_faults(points: Sequence[OperatingPoint]) -> list[str]:
    """What keeps points from the public board, but not from a private package: other models, other questions."""
    faults = [
        f"point {point.name!r}, {domain} run: {what} {found!r} does not contain {wanted!r}"
        for point in points
        for domain, run in point.runs.items()
        for what, found, wanted in (
            ("reader", run.args.model, READER_NAME),
            ("judge", run.args.evaluator_model, JUDGE_NAME),
        )
        if wanted not in found.lower()
    ]
    return faults + [fault for point in points[:1] for fault in _count_faults(point)]


def question_counts(point: OperatingPoint) -> dict[str, dict[str, int]]:
    """Questions by domain: ``count``, and ``official`` of the whole benchmark."""
    return {domain: {"count": len(run.questions), "official": OFFICIAL[domain]} for domain, run in point.runs.items()}


def _count_faults(point: OperatingPoint) -> list[str]:
    """All points have the same questions, so one of them is enough."""
    counts = {domain: len(run.questions) for domain, run in point.runs.items()}
    types = [question.question_type for run in point.runs.values() for question in run.questions.values()]
    categories = Counter(CATEGORIES[kind] for kind in types)
    faults = []
    for what, found, official in (
        ("domain", counts, dict(OFFICIAL)),
        ("category", {name: categories[name] for name in OFFICIAL_COUNTS}, dict(OFFICIAL_COUNTS)),
    ):
        if found != official:
            text = f"not the whole benchmark: questions by {what} are {_counts(found)}, the official ones"
            faults.append(f"{text} {_counts(official)}")
    return faults[:1]  # a lack by domain is one by category as well


def _counts(counts: Mapping[str, int] | Mapping[Any, int]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{listed} ({sum(counts.values())})"


def point_faults(points: Sequence[OperatingPoint], method: str | None) -> list[str]:
    """What is wrong with points in any package.

    Args:
        points: read to the end.
        method: what the method is called, where its points were run under several names.
    """
    runs = [run for point in points for run in point.runs.values()]
    faults = [
        f"point {point.name!r}: {fault}"
        for point in points
        for fault in differing("methods", {str(run.path): run.method for run in point.runs.values()})
    ]
    if method is None and not faults:
        faults += differing("methods", {str(run.path): run.method for run in runs})
    faults += differing("tiers", {str(run.path): run.tier for run in runs})
    for point in points:
        for domain, run in point.runs.items():
            latency = run.aggregated.memory_query.avg_seconds
            if latency is None or latency <= 0:
                faults.append(f"point {point.name!r}, {domain} run: the latency must be above 0 s, found {latency}")
            difference = _difference(points[0].runs[domain], run)
            if difference is not None:
                faults.append(f"points {points[0].name!r} and {point.name!r} have different {domain} {difference}")
    return faults


def _difference(first: RunFolder, other: RunFolder) -> str | None:
    """In what the inputs of two runs of a domain differ."""
    if first.questions.keys() != other.questions.keys():
        return "questions"
    if first.haystacks != other.haystacks:
        return "haystacks"
    changed = [name for name, question in first.questions.items() if _asked(question) != _asked(other.questions[name])]
    return f"texts, golds, scorers or images of {len(changed)} questions (first: {changed[0]!r})" if changed else None


def _asked(question: RuntimeQuestion) -> tuple[str | None, ...]:
    """What a question asks, and how it is scored. Of an image the file's name: its folder depends on the machine."""
    image = None if question.image is None else PurePosixPath(question.image).name
    return question.question_type, question.text, question.answer, question.eval_function, image


def differing(what: str, values: Mapping[str, str | None]) -> list[str]:
    """A text when values by run folder are not all one known value."""
    if None in values.values():
        folders = [folder for folder, value in values.items() if value is None]
        return [f"neither run_args.json nor the folder's name tells one of the {what}: {', '.join(folders)}"]
    if len(set(values.values())) <= 1:
        return []
    return [f"different {what}: {', '.join(f'{value} ({folder})' for folder, value in values.items())}"]
