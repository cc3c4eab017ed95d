"""Ingestion: an official data root is checked as a whole and becomes Parquet tables, streaming, in one pass."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmev2.data.errors import DataError, Problems
from lmev2.data.evidence import load_evidence
from lmev2.data.haystacks import Haystacks, TrajectoryFacts, check_haystacks, count_haystacks, read_haystacks
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.layout import (
    BUNDLES_FOLDER,
    EVIDENCE_FILE,
    QUESTIONS_FILE,
    SCREENSHOTS_FOLDER,
    TRAJECTORIES_FILE,
    haystack_file,
)
from lmev2.data.manifest import InputFile, Manifest, fingerprint
from lmev2.data.questions import count_questions, load_questions
from lmev2.data.schema import CATEGORIES, QuestionRecord, Record, TrajectoryRecord, parse_record
from lmev2.data.tables import Evidence
from lmev2.data.trajectories import find_screenshots, order_faults, state_rows, trajectory_row
from lmev2.data.writer import StateWriter
from lmev2.rows import EVIDENCE, HAYSTACK, QUESTION, TRAJECTORY, write_rows

Progress = Callable[[int, int], None]

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
    job = _Ingestion(root, tiers, require_screenshots, shots)
    job.report_progress(progress)
    with _staging(out_dir) as staging:
        manifest = job.run(staging)
        (out_dir / MANIFEST_FILE).unlink(missing_ok=True)  # it stands only beside a full set of tables
        manifest.write(staging / MANIFEST_FILE)
        for name in (*TABLES, MANIFEST_FILE):
            os.replace(staging / name, out_dir / name)
    return manifest


def _check_layout(root: Path, tiers: Sequence[str]) -> None:
    needed = [QUESTIONS_FILE, TRAJECTORIES_FILE, *(haystack_file(tier) for tier in tiers)]
    content = (
        f"A data root is a folder with {', '.join(needed)}, {SCREENSHOTS_FOLDER}/<trajectory id>/, the question "
        f"images, and {EVIDENCE_FILE} if there are labels."
    )
    if not root.is_dir():
        raise DataError(f"found no folder {root}, which was given as the data root. {content}")
    missing = [name for name in needed if not (root / name).is_file()]
    if missing:
        paths = (*root.glob("*"), *root.glob("haystacks/*"))
        found = ", ".join(sorted(path.relative_to(root).as_posix() for path in paths)) or "nothing"
        raise DataError(f"the data root {root} lacks {', '.join(missing)}; found there: {found}. {content}")


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


class _Ingestion:
    """One pass over a data root: what has been read, found and counted so far."""

    def __init__(self, root: Path, tiers: Sequence[str], require_screenshots: bool, screenshots: Path):
        self._root = root
        self._tiers = tiers
        self._require_screenshots = require_screenshots
        self._screenshots = screenshots
        self._problems = Problems(root)
        self._files: dict[str, InputFile] = {}
        self._extra: dict[str, Counter[str]] = {}
        self._trajectories: dict[str, TrajectoryFacts] = {}
        self._rows: list[dict[str, Any]] = []
        self._shots_found = self._shots_missing = self._replaced = 0
        self._has_evidence = (root / EVIDENCE_FILE).is_file()
        self._on_bytes: Callable[[int], None] = lambda count: None

    def report_progress(self, progress: Progress | None) -> None:
        if progress is None:
            return
        names = [QUESTIONS_FILE, *map(haystack_file, self._tiers), TRAJECTORIES_FILE]
        total = sum((self._root / name).stat().st_size for name in names + [EVIDENCE_FILE] * self._has_evidence)
        done = 0

        def on_bytes(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        self._on_bytes = on_bytes

    def run(self, out: Path) -> Manifest:
        """Check everything, then write the tables.

        Raises:
            DataError: with the problems found.
        """
        file = self._open(QUESTIONS_FILE, "question", "id")
        questions = load_questions(file, self._root, self._problems)
        self._close(QUESTIONS_FILE, file)
        for question in questions.values():
            self._count_extra("question", question)
        tiers = [self._read_tier(tier, questions) for tier in self._tiers]
        wanted = {name for tier in tiers for names in tier.lists.values() for name in names}
        file_trajectories = self._open(TRAJECTORIES_FILE, "trajectory", "id")
        with StateWriter(out / "states.parquet") as writer:
            self._read_trajectories(file_trajectories, wanted, writer)
        self._close(TRAJECTORIES_FILE, file_trajectories)
        for tier in tiers:
            check_haystacks(tier, questions, self._trajectories, file_trajectories.broken_ids, self._problems)
        evidence = self._read_evidence(questions, file.broken_ids | file_trajectories.broken_ids)
        self._problems.raise_if_any()
        self._write_tables(out, questions, tiers, evidence)
        return self._manifest(questions, tiers, evidence, writer.rows)

    def _open(self, name: str, kind: str, id_key: str) -> JsonLinesFile:
        return JsonLinesFile(self._root, name, kind, id_key, self._problems, self._on_bytes)

    def _close(self, name: str, file: JsonLinesFile) -> None:
        self._files[name] = InputFile(sha256=file.sha256, bytes=file.size)
        self._replaced += file.replaced

    def _count_extra(self, kind: str, record: Record) -> None:
        if record.model_extra:
            self._extra.setdefault(kind, Counter()).update(record.model_extra.keys())

    def _read_tier(self, tier: str, questions: Mapping[str, QuestionRecord]) -> Haystacks:
        haystacks, facts = read_haystacks(self._root, tier, questions, self._problems)
        self._files[haystacks.file] = facts
        self._on_bytes(facts.bytes)
        return haystacks

    def _read_trajectories(self, file: JsonLinesFile, wanted: set[str], writer: StateWriter) -> None:
        lines: dict[str, int] = {}
        for line in file:
            trajectory = parse_record(TrajectoryRecord, line, self._problems)
            if trajectory is None:
                file.broken_ids.update(filter(None, [line.id]))
                continue
            faults = order_faults(trajectory)
            if trajectory.id in lines:
                faults = [f"the id stands on line {lines[trajectory.id]} already, expected unique ids"]
            lines.setdefault(trajectory.id, line.number)
            if not faults and trajectory.id in wanted:
                faults = self._take(trajectory, writer)
            for fault in faults:
                self._problems.add(fault, file=line.file, line=line.number, id=line.label)
            self._trajectories[trajectory.id] = TrajectoryFacts(trajectory.domain, len(trajectory.states))
            self._count_extra("trajectory", trajectory)
            for state in trajectory.states:
                self._count_extra("state", state)

    def _take(self, trajectory: TrajectoryRecord, writer: StateWriter) -> list[str]:
        """Write a trajectory of some haystack; returns what is wrong with its screenshots."""
        shots = find_screenshots(trajectory, self._screenshots, self._require_screenshots)
        missing = shots.paths.count(None)
        self._shots_missing += missing
        self._shots_found += len(shots.paths) - missing
        if not shots.faults:
            writer.write(state_rows(trajectory, shots.paths))
            self._rows.append(trajectory_row(trajectory))
        return list(shots.faults)

    def _read_evidence(self, questions: Mapping[str, QuestionRecord], broken_ids: set[str]) -> list[Evidence]:
        if not self._has_evidence:
            return []
        file = self._open(EVIDENCE_FILE, "question", "question_id")
        evidence = load_evidence(file, questions, self._trajectories, broken_ids, self._problems)
        self._close(EVIDENCE_FILE, file)
        return evidence

    def _write_tables(
        self,
        out: Path,
        questions: Mapping[str, QuestionRecord],
        tiers: Iterable[Haystacks],
        evidence: Iterable[Evidence],
    ) -> None:
        rows = (self._question_row(question) for _, question in sorted(questions.items()))
        write_rows(out / "questions.parquet", QUESTION, rows)
        self._rows.sort(key=lambda row: str(row["trajectory_id"]))
        write_rows(out / "trajectories.parquet", TRAJECTORY, self._rows)
        haystack_rows = (
            {"question_id": question_id, "tier": tier.tier, "trajectory_ids": list(names)}
            for tier in tiers
            for question_id, names in sorted(tier.lists.items())
        )
        write_rows(out / "haystacks.parquet", HAYSTACK, haystack_rows)
        evidence_rows = (
            {"question_id": item.question_id, "hop": number, "trajectory_id": name, "state_index": state}
            for item in evidence
            for number, hop in enumerate(item.hops)
            for name, state in hop
        )
        write_rows(out / "evidence.parquet", EVIDENCE, evidence_rows)

    def _question_row(self, question: QuestionRecord) -> dict[str, Any]:
        return {
            "question_id": question.id,
            "domain": question.domain,
            "environment": question.environment,
            "question_type": question.question_type,
            "category": CATEGORIES[question.question_type],
            "question": question.question,
            "answer": question.answer,
            "eval_function": question.eval_function,
            "image": None if question.image is None else str(self._root / question.image),
        }

    def _manifest(
        self,
        questions: Mapping[str, QuestionRecord],
        tiers: Iterable[Haystacks],
        evidence: Sequence[Evidence],
        states: int,
    ) -> Manifest:
        written = {str(row["trajectory_id"]) for row in self._rows}
        labelled = {reference for item in evidence for hop in item.hops for reference in hop}
        return Manifest(
            fingerprint=fingerprint(self._files),
            files=dict(sorted(self._files.items())),
            questions=count_questions(questions),
            tiers={tier.tier: count_haystacks(tier) for tier in tiers},
            trajectories_used=len(written),
            trajectories_unused=len(self._trajectories) - len(written),
            trajectories_by_domain=dict(sorted(Counter(str(row["domain"]) for row in self._rows).items())),
            states=states,
            screenshots_checked=self._shots_found,
            screenshots_missing=self._shots_missing,
            evidence=self._has_evidence,
            evidence_questions=len(evidence),
            evidence_states_outside_haystacks=sum(name not in written for name, _ in labelled),
            extra_fields={kind: dict(sorted(names.items())) for kind, names in sorted(self._extra.items())},
            replaced_surrogates=self._replaced,
        )
