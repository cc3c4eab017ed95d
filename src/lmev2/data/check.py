"""The check of a data root: one pass over its files, line by line, which ingestion and ``lmev2 validate`` share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from lmev2.data.errors import Problems
from lmev2.data.evidence import load_evidence
from lmev2.data.haystacks import Haystacks, TrajectoryFacts, check_haystacks, count_haystacks, read_haystacks
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.layout import (
    EVIDENCE_FILE,
    QUESTIONS_FILE,
    SCREENSHOTS_FOLDER,
    TRAJECTORIES_FILE,
    haystack_file,
    not_a_file,
)
from lmev2.data.manifest import InputFile, Manifest, fingerprint
from lmev2.data.questions import count_questions, load_questions
from lmev2.data.schema import QuestionRecord, Record, TrajectoryRecord, parse_record
from lmev2.data.tables import Evidence
from lmev2.data.trajectories import find_screenshots, order_faults

_EXAMPLES = 3

Progress = Callable[[int, int], None]
Take = Callable[[TrajectoryRecord, Sequence[Path | None]], None]
"""Takes a valid trajectory of some haystack, with the screenshot file of each state."""


def needed_files(tiers: Sequence[str]) -> list[str]:
    """Files that a data root must hold, as paths below it."""
    return [QUESTIONS_FILE, TRAJECTORIES_FILE, *map(haystack_file, tiers)]


def root_content(tiers: Sequence[str]) -> str:
    """A sentence on what a data root holds."""
    return (
        f"A data root is a folder with {', '.join(needed_files(tiers))}, {SCREENSHOTS_FOLDER}/<trajectory id>/, the "
        f"question images, and {EVIDENCE_FILE} if there are labels."
    )


class RootCheck:
    """One pass over a data root: what has been read, found and counted so far.

    The trajectories are read line by line: no more than one of them is in memory. Those that no haystack of the tiers
    names are checked, but neither taken nor are their screenshots looked for; where there are no haystacks, all are.

    Args:
        root: the data root.
        tiers: names of the haystack files to read, such as ``small``.
        problems: takes what is wrong.
        screenshots: the folder that ``screenshots/`` in the data root's paths stands for.
        require_screenshots: a state without a screenshot is a problem.
        missing: files of :func:`needed_files` that are not there. They are not read, and what would be looked up in
            them is not.
        progress: called with bytes done and bytes in all.

    Attributes:
        questions: by id; None if their file is missing.
        trajectories: facts by id; None if their file is missing.
        tiers: the haystacks that were read.
        evidence: labels by question; empty without a file of them.
        files: the files that were read, with their hashes.
        wanted: ids of the trajectories that the haystacks name; None if no haystack was read.
        nameless_questions: the id of some question that is a problem cannot be made out.
        absent_screenshots: number of screenshots that are named but not there, of trajectories that are wanted.
        first_absent: paths of the first of them.
        without_goal: ids of the trajectories whose goal is blank, which is no problem.
    """

    def __init__(
        self,
        root: Path,
        tiers: Sequence[str],
        problems: Problems,
        screenshots: Path,
        *,
        require_screenshots: bool = True,
        missing: Collection[str] = (),
        progress: Progress | None = None,
    ):
        self._root = root
        self._tier_names = tiers
        self._problems = problems
        self._screenshots = screenshots
        self._require_screenshots = require_screenshots
        self._missing = frozenset(missing)
        self._has_evidence = (root / EVIDENCE_FILE).is_file()
        self._on_bytes = self._report_to(progress)
        self._extra: dict[str, Counter[str]] = {}
        self._broken_questions: set[str] = set()
        self._broken_trajectories: set[str] = set()
        self._nameless_trajectories = False
        self._taken: Counter[str] = Counter()
        self._shots_found = self._shots_missing = self._replaced = 0
        self.questions: dict[str, QuestionRecord] | None = None
        self.trajectories: dict[str, TrajectoryFacts] | None = None
        self.tiers: list[Haystacks] = []
        self.evidence: list[Evidence] = []
        self.files: dict[str, InputFile] = {}
        self.wanted: set[str] | None = None
        self.nameless_questions = False
        self.absent_screenshots = 0
        self.first_absent: list[str] = []
        self.without_goal: list[str] = []

    def _report_to(self, progress: Progress | None) -> Callable[[int], None]:
        if progress is None:
            return lambda count: None
        names = [name for name in needed_files(self._tier_names) if name not in self._missing]
        total = sum((self._root / name).stat().st_size for name in names + [EVIDENCE_FILE] * self._has_evidence)
        done = 0

        def on_bytes(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        return on_bytes

    def run(self, take: Take | None = None) -> None:
        """Check everything; ``take`` gets the trajectories of the haystacks, valid ones only, in the file's order.

        Raises:
            DataError: the limit of problems is reached.
        """
        if QUESTIONS_FILE not in self._missing:
            self._read_questions()
        there = [tier for tier in self._tier_names if haystack_file(tier) not in self._missing]
        self.tiers = [self._read_tier(tier) for tier in there]
        if self.tiers and self.questions is not None:
            self.wanted = {name for tier in self.tiers for names in tier.lists.values() for name in names}
        if TRAJECTORIES_FILE not in self._missing:
            self._read_trajectories(take)
        for tier in self.tiers:
            check_haystacks(
                tier,
                self.questions or {},
                self.trajectories,
                self._broken_trajectories,
                self._problems,
                unknown_trajectories=self._nameless_trajectories,
            )
        instead = not_a_file(self._root / EVIDENCE_FILE)
        if self._has_evidence:
            self._read_evidence()
        elif instead is not None:
            self._problems.add(f"found {instead}, expected a file of labels, or nothing", file=EVIDENCE_FILE)

    def manifest(self) -> Manifest:
        """Hashes and counts of what was read; for a root without problems, of which no file is missing."""
        questions, trajectories = self.questions or {}, self.trajectories or {}
        labelled = {reference for item in self.evidence for hop in item.hops for reference in hop}
        domains = Counter(trajectories[name].domain for name in self._taken)
        return Manifest(
            fingerprint=fingerprint(self.files),
            files=dict(sorted(self.files.items())),
            questions=count_questions(questions),
            tiers={tier.tier: count_haystacks(tier) for tier in self.tiers},
            trajectories_used=len(self._taken),
            trajectories_unused=len(trajectories) - len(self._taken),
            trajectories_by_domain=dict(sorted(domains.items())),
            states=self._taken.total(),
            screenshots_checked=self._shots_found,
            screenshots_missing=self._shots_missing,
            evidence=self._has_evidence,
            evidence_questions=len(self.evidence),
            evidence_states_outside_haystacks=sum(name not in self._taken for name, _ in labelled),
            extra_fields={kind: dict(sorted(names.items())) for kind, names in sorted(self._extra.items())},
            replaced_surrogates=self._replaced,
        )

    def _open(self, name: str, kind: str, id_key: str) -> JsonLinesFile:
        return JsonLinesFile(self._root, name, kind, id_key, self._problems, self._on_bytes)

    def _close(self, name: str, file: JsonLinesFile) -> None:
        self.files[name] = InputFile(sha256=file.sha256, bytes=file.size)
        self._replaced += file.replaced

    def _count_extra(self, kind: str, record: Record) -> None:
        if record.model_extra:
            self._extra.setdefault(kind, Counter()).update(record.model_extra.keys())

    def _read_questions(self) -> None:
        file = self._open(QUESTIONS_FILE, "question", "id")
        self.questions = load_questions(file, self._root, self._problems)
        self._close(QUESTIONS_FILE, file)
        self._broken_questions, self.nameless_questions = file.broken_ids, file.nameless
        for question in self.questions.values():
            self._count_extra("question", question)

    def _read_tier(self, tier: str) -> Haystacks:
        broken = self._broken_questions
        haystacks, facts = read_haystacks(self._root, tier, self.questions or {}, self._problems, broken)
        self.files[haystacks.file] = facts
        self._on_bytes(facts.bytes)
        return haystacks

    def _read_trajectories(self, take: Take | None) -> None:
        file = self._open(TRAJECTORIES_FILE, "trajectory", "id")
        self.trajectories = {}
        lines: dict[str, int] = {}
        for line in file:
            trajectory = parse_record(TrajectoryRecord, line, self._problems)
            if trajectory is None:
                file.add_broken(line.id)
                continue
            faults = order_faults(trajectory)
            if trajectory.id in lines:
                faults = [f"the id stands on line {lines[trajectory.id]} already, expected unique ids"]
            lines.setdefault(trajectory.id, line.number)
            if faults:  # how many states it has is not known
                file.add_broken(trajectory.id)
            if not faults and (self.wanted is None or trajectory.id in self.wanted):
                faults = self._take(trajectory, take)
            for fault in faults:
                self._problems.add(fault, file=line.file, line=line.number, id=line.label)
            self.trajectories[trajectory.id] = TrajectoryFacts(trajectory.domain, len(trajectory.states))
            if not trajectory.goal.strip():
                self.without_goal.append(trajectory.id)
            self._count_extra("trajectory", trajectory)
            for state in trajectory.states:
                self._count_extra("state", state)
        self._close(TRAJECTORIES_FILE, file)
        if self.wanted and not file.size:
            file.nameless = True  # one problem, not one of each id that is looked up
            self._problems.add("found an empty file, expected the trajectories, one a line", file=TRAJECTORIES_FILE)
        self._broken_trajectories, self._nameless_trajectories = file.broken_ids, file.nameless

    def _take(self, trajectory: TrajectoryRecord, take: Take | None) -> list[str]:
        """Hand on a trajectory of some haystack; returns what is wrong with its screenshots."""
        shots = find_screenshots(trajectory, self._screenshots, self._require_screenshots)
        missing = shots.paths.count(None)
        self._shots_missing += missing
        self._shots_found += len(shots.paths) - missing
        self.absent_screenshots += len(shots.absent)
        self.first_absent += shots.absent[: max(_EXAMPLES - len(self.first_absent), 0)]
        if not shots.faults:
            self._taken[trajectory.id] = len(trajectory.states)
            if take is not None:
                take(trajectory, shots.paths)
        return list(shots.faults)

    def _read_evidence(self) -> None:
        file = self._open(EVIDENCE_FILE, "question", "question_id")
        broken = self._broken_questions | self._broken_trajectories
        self.evidence = load_evidence(
            file,
            self.questions,
            self.trajectories,
            broken,
            self._problems,
            unknown_questions=self.nameless_questions,
            unknown_trajectories=self._nameless_trajectories,
        )
        self._close(EVIDENCE_FILE, file)
