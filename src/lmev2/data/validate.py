"""What is wrong with a data root and what it lacks: the check of an ingestion, run to its end and writing nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmev2.data.check import Progress, RootCheck, needed_files, root_content
from lmev2.data.checksums import read_checksums
from lmev2.data.errors import PROBLEM_LIMIT, DataError, Problem, ProblemCount
from lmev2.data.layout import (
    BUNDLES_FOLDER,
    CHECKSUMS_FILE,
    EVIDENCE_FILE,
    QUESTIONS_FILE,
    SCREENSHOTS_FOLDER,
    TRAJECTORIES_FILE,
    length_fault,
    not_a_file,
    path_fault,
)
from lmev2.data.manifest import Manifest
from lmev2.data.schema import QuestionRecord
from lmev2.data.screenshots import find_bundles

_EXAMPLES = 3


@dataclass(frozen=True)
class Missing:
    """Files that a data root lacks.

    Attributes:
        what: a file or folder below the root, or ``question images``.
        text: how much is missing.
        examples: paths or ids of the first of them.
    """

    what: str
    text: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Validation:
    """What a check of a data root found.

    Attributes:
        root: the data root, absolute.
        problem_count: number of all problems.
        problems_by_file: the same by file.
        problems: the first of each file.
        missing: what is not there. All of it is among the problems too.
        found: what was read, as file and text.
        notes: what an ingestion accepts, but is worth knowing.
        manifest: counts and hashes of a valid root, those that an ingestion gives; else None.
    """

    root: Path
    problem_count: int
    problems_by_file: dict[str, int]
    problems: tuple[Problem, ...]
    missing: tuple[Missing, ...]
    found: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    manifest: Manifest | None

    @property
    def valid(self) -> bool:
        """Nothing is wrong, and nothing is missing."""
        return not self.problem_count


def validate_root(
    root: Path,
    tiers: Sequence[str],
    *,
    limit: int | None = PROBLEM_LIMIT,
    progress: Progress | None = None,
) -> Validation:
    """Check a data root as an ingestion does, to its end; files that are missing do not keep the rest from being
    checked. One trajectory is in memory at a time, and at most ``limit`` problems a file.

    Args:
        root: the data root.
        tiers: haystacks that it must have, such as ``small``.
        limit: how many problems of a file are kept; None keeps all.
        progress: called with bytes done and bytes in all.
    """
    root = Path(os.path.abspath(root))
    problems = ProblemCount(root, limit)
    if not root.is_dir():
        problems.add(f"found no such folder, which was given as the data root. {root_content(tiers)}", file=str(root))
        return _validation(root, problems, (), (), (), None)
    shots = root / SCREENSHOTS_FOLDER
    absent = [name for name in needed_files(tiers) if not (root / name).is_file()]
    check = RootCheck(
        root,
        tiers,
        problems,
        shots,
        require_screenshots=shots.is_dir(),
        missing=absent,
        progress=progress,
    )
    check.run()
    missing: list[Missing] = []
    for name in absent:
        text, examples = _absent_text(name, check)
        instead = not_a_file(root / name)
        problems.add(f"found {instead or 'no such file'}, expected {text}", file=name)
        missing.append(Missing(name, text if instead is None else f"{instead} stands there; expected {text}", examples))
    missing += _missing_images(check.questions or {}, root)
    if not shots.is_dir():
        text = _absent_screenshots(root, check)
        problems.add(f"found no such folder, expected {text}", file=SCREENSHOTS_FOLDER)
        missing.append(Missing(f"{SCREENSHOTS_FOLDER}/", text))
    elif check.absent_screenshots:
        count = f"{check.absent_screenshots} of the files that the trajectories name"
        missing.append(Missing(f"{SCREENSHOTS_FOLDER}/", count, tuple(check.first_absent)))
    manifest = None if len(problems) else check.manifest()
    return _validation(root, problems, missing, _found(check), _notes(root, check, manifest), manifest)


def _validation(
    root: Path,
    problems: ProblemCount,
    missing: Sequence[Missing],
    found: Sequence[tuple[str, str]],
    notes: Sequence[str],
    manifest: Manifest | None,
) -> Validation:
    kept, counts = problems.kept, problems.by_file
    return Validation(root, len(problems), counts, kept, tuple(missing), tuple(found), tuple(notes), manifest)


def counted(counts: dict[str, int]) -> str:
    """Counts as ``enterprise 211, web 240``."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def span(least: int, most: int) -> str:
    """A range of numbers as text, such as ``387 to 500``."""
    return str(least) if least == most else f"{least} to {most}"


def _absent_text(name: str, check: RootCheck) -> tuple[str, tuple[str, ...]]:
    """What a missing file should hold, and examples."""
    if name == QUESTIONS_FILE:
        return "the questions, one a line", ()
    if name != TRAJECTORIES_FILE:
        return "an object: question id -> list of trajectory ids", ()
    if check.wanted is None:
        return "the trajectories, one a line", ()
    questions = check.questions or {}
    domains = {
        name: questions[question].domain for tier in check.tiers for question, ids in tier.lists.items() for name in ids
    }
    by_domain = counted(dict(sorted(Counter(domains.values()).items())))
    text = f"a line for each of the {len(check.wanted)} trajectories that the haystacks name ({by_domain})"
    return text, tuple(sorted(check.wanted)[:_EXAMPLES])


def _missing_images(questions: dict[str, QuestionRecord], root: Path) -> Iterator[Missing]:
    images = [question.image for _, question in sorted(questions.items()) if question.image is not None]
    absent = [
        image
        for image in images
        if path_fault(image) is None and length_fault(image) is None and not (root / image).is_file()
    ]
    if absent:
        text = f"{len(absent)} of the {len(images)} that the questions name"
        yield Missing("question images", text, tuple(absent[:_EXAMPLES]))


def _absent_screenshots(root: Path, check: RootCheck) -> str:
    text = f"the screenshots, one a state, as {SCREENSHOTS_FOLDER}/<trajectory id>/<step>.png"
    if check.wanted is not None:
        text = (
            f"the screenshots of {len(check.wanted)} trajectories, as {SCREENSHOTS_FOLDER}/<trajectory id>/<step>.png"
        )
    bundles = find_bundles(root / BUNDLES_FOLDER)
    if bundles:
        return f"{text}; {BUNDLES_FOLDER}/ holds {len(bundles)} bundle(s) of them that were not unpacked"
    return f"{text}, or their bundles in {BUNDLES_FOLDER}/"


def _found(check: RootCheck) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if check.questions is not None:
        domains = Counter(question.domain for question in check.questions.values())
        found.append((QUESTIONS_FILE, f"{len(check.questions)} questions ({counted(dict(sorted(domains.items())))})"))
    if check.trajectories is not None:
        kinds = Counter(facts.domain for facts in check.trajectories.values())
        text = f"{len(check.trajectories)} trajectories ({counted(dict(sorted(kinds.items())))})"
        found.append((TRAJECTORIES_FILE, text))
    for tier in check.tiers:
        lengths = [len(names) for names in tier.lists.values()]
        of = f" of {span(min(lengths), max(lengths))} trajectories" if lengths else ""
        found.append((tier.file, f"{len(lengths)} lists{of}"))
    if EVIDENCE_FILE in check.files:
        found.append((EVIDENCE_FILE, f"labels of {len(check.evidence)} questions"))
    return found


def _notes(root: Path, check: RootCheck, manifest: Manifest | None) -> list[str]:
    notes = _sum_notes(root, check)
    for tier in check.tiers if check.questions is not None and not check.nameless_questions else ():
        if tier.other_entries:
            notes.append(f"{tier.file}: {tier.other_entries} entries of questions that {QUESTIONS_FILE} does not hold")
    if check.without_goal:
        examples = ", ".join(check.without_goal[:_EXAMPLES])
        count = len(check.without_goal)
        notes.append(f"{TRAJECTORIES_FILE}: {count} trajectories have an empty goal, such as {examples}")
    if manifest is not None:
        for kind, names in manifest.extra_fields.items():
            notes.append(f"fields beyond the format on objects of kind {kind}: {counted(names)}")
        if manifest.replaced_surrogates:
            notes.append(f"half surrogate pairs were replaced by U+FFFD in {manifest.replaced_surrogates} texts")
    return notes


def _sum_notes(root: Path, check: RootCheck) -> list[str]:
    """What differs from the published sums: of the files that were read, so that no other is read for it."""
    instead = not_a_file(root / CHECKSUMS_FILE)
    if instead is not None:
        return [f"{CHECKSUMS_FILE} is {instead}, so that no sums were compared"]
    if not (root / CHECKSUMS_FILE).is_file():
        return []
    try:
        sums = read_checksums(root)
    except DataError as error:
        return [str(error)]
    return [
        f"{name} is not the file whose sum stands in {CHECKSUMS_FILE}"
        for name, facts in sorted(check.files.items())
        if sums.get(name, facts.sha256) != facts.sha256
    ]
