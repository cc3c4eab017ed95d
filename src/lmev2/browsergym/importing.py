"""Taking runs into a data root: nothing is written unless all are valid, and nothing is overwritten."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lmev2.browsergym.agentlab import STEP_GLOB, SUMMARY_FILE, read_agentlab_run
from lmev2.browsergym.neutral import RUN_FILE, STEPS_FOLDER, read_neutral_run
from lmev2.browsergym.private_task import with_private_task
from lmev2.browsergym.run import Run, RunFault, run_id, screenshot_path, trajectory_object
from lmev2.data.check import RootCheck, needed_files
from lmev2.data.errors import PROBLEM_LIMIT, DataError, Problems
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.layout import QUESTIONS_FILE, SCREENSHOTS_FOLDER, TRAJECTORIES_FILE, not_a_file
from lmev2.files import replacing

_STAGING_PREFIX = ".import-"
_EXPERIMENT_FILE = "exp_args.pkl"
PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class ImportedRun:
    """A run that was taken in.

    Attributes:
        folder: its run folder.
        trajectory_id: its id in the data root.
        outcome: ``success`` or ``failure``.
        states: number of states.
        notes: what was left out or is worth knowing.
    """

    folder: Path
    trajectory_id: str
    outcome: str
    states: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    Attributes:
        out: the data root.
        runs: the runs that were taken in.
        skipped: reasons by run folder, of those that were passed over.
        needed: files that the data root still lacks.
    """

    out: Path
    runs: tuple[ImportedRun, ...]
    skipped: Mapping[Path, tuple[str, ...]]
    needed: tuple[str, ...]


def find_runs(sources: Sequence[Path]) -> list[Path]:
    """Run folders among and below the sources, each once, in the order of the sources and of their paths. Folders whose
    name begins with ``_`` or ``.`` are passed over: AgentLab renames a run that it repeats.

    Raises:
        DataError: a source is no folder, or holds no run.
    """
    found: dict[Path, None] = {}
    for source in sources:
        if not source.is_dir():
            raise DataError(f"found no folder {source}, expected a run folder or a folder of them")
        runs = list(_runs_below(source.resolve()))
        if not runs:
            raise DataError(
                f"found no run in {source}: a run folder holds {RUN_FILE} and {STEPS_FOLDER}/, or AgentLab's "
                f"{STEP_GLOB}"
            )
        found.update(dict.fromkeys(runs))
    return list(found)


def _runs_below(folder: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(folder):
        here = Path(path)
        if _is_neutral(here) or _EXPERIMENT_FILE in files or SUMMARY_FILE in files or any(here.glob(STEP_GLOB)):
            folders.clear()
            yield here
        else:
            folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))


def _is_neutral(folder: Path) -> bool:
    return (folder / RUN_FILE).is_file() or (folder / STEPS_FOLDER).is_dir()


def read_run(folder: Path) -> Run:
    """Read a run folder of either kind, with the goal that its first page tells where it is a private task.

    Raises:
        RunFault: it cannot be taken in; says why.
    """
    return with_private_task(read_neutral_run(folder) if _is_neutral(folder) else read_agentlab_run(folder))


def import_runs(
    sources: Sequence[Path],
    out: Path,
    domain: str,
    environment: str,
    tiers: Sequence[str],
    *,
    prefix: str | None = None,
    skip_invalid: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Take runs into a data root, as lines of ``trajectories.jsonl`` behind those that it holds, and screenshots.

    Args:
        sources: run folders, or folders of them.
        out: the data root; made if it is not there.
        domain: ``web`` or ``enterprise``.
        environment: name of what the runs were recorded in, such as ``workarena``.
        tiers: haystacks that a complete data root would have, for the report.
        prefix: begins every id, with a hyphen.
        skip_invalid: runs that cannot be taken in are passed over and reported; else they are an error.
        progress: called with runs read and runs in all.

    Raises:
        DataError: no run; runs that cannot be taken in, that are in the data root already or given twice; no data root
            can be at ``out``. Nothing is written then.
        OSError: the data root cannot be written to, or a run cannot be read. Nothing is left then.
    """
    _check_out(out)
    folders = find_runs(sources)
    known = dict.fromkeys(_ids_in(out), out / TRAJECTORIES_FILE)
    skipped: dict[Path, tuple[str, ...]] = {}
    runs: list[ImportedRun] = []
    with _staging(out) as staging:
        with (staging / TRAJECTORIES_FILE).open("wb") as lines:
            for done, folder in enumerate(folders, start=1):
                try:
                    run = _stage(folder, staging, lines, known, domain, environment, prefix)
                    runs.append(run)
                    known[run.trajectory_id] = folder
                except RunFault as fault:
                    skipped[folder] = fault.faults
                if progress is not None:
                    progress(done, len(folders))
        if skipped and not skip_invalid:
            faults = [f"{folder}: {fault}" for folder, texts in skipped.items() for fault in texts]
            more = f", the first {PROBLEM_LIMIT} reasons" if len(faults) > PROBLEM_LIMIT else ""
            raise DataError(f"{len(skipped)} of {len(folders)} runs cannot be taken in{more}:", faults[:PROBLEM_LIMIT])
        _check(staging)
        _move(staging, out, runs)
    needed = tuple(name for name in needed_files(tiers) if not (out / name).is_file())
    return ImportReport(out, tuple(runs), skipped, needed)


def _check_out(out: Path) -> None:
    """Check that a data root is, or can be made, at a path.

    Raises:
        DataError: something else stands there, or in the place of what is written into it.
    """
    for path in (*reversed(out.absolute().parents), out, out / SCREENSHOTS_FOLDER):
        if os.path.lexists(path) and not path.is_dir():
            raise DataError(f"found {path}, which is no folder; expected a folder there, or nothing")
    instead = not_a_file(out / TRAJECTORIES_FILE)
    if instead is not None:
        raise DataError(f"found {instead} at {out / TRAJECTORIES_FILE}, expected the trajectories of a data root there")


def _ids_in(out: Path) -> list[str]:
    """Ids of the trajectories that a data root holds already."""
    if not (out / TRAJECTORIES_FILE).is_file():
        return []
    problems = Problems(out)
    file = JsonLinesFile(out, TRAJECTORIES_FILE, "trajectory", "id", problems, lambda count: None)
    ids = [line.id for line in file if line.id is not None]
    problems.raise_if_any()
    return ids


@contextmanager
def _staging(out: Path) -> Iterator[Path]:
    """A folder inside ``out``, so that finished files are renamed within one file system."""
    with _made(out):
        staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=out))
        try:
            yield staging
        finally:
            shutil.rmtree(staging)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A folder, with those above it; the ones that had to be made are removed again if they are left empty."""
    absent = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for path in absent:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _stage(
    folder: Path,
    staging: Path,
    lines: BinaryIO,
    known: Mapping[str, Path],
    domain: str,
    environment: str,
    prefix: str | None,
) -> ImportedRun:
    run = read_run(folder)
    try:
        name = run_id(run, prefix)
    except OSError as error:
        raise RunFault([f"a screenshot cannot be read ({error})"]) from error
    if name in known:
        raise RunFault([f"the same run is in {known[name]} already, as {name!r}"])
    for number, step in enumerate(run.steps):
        path = staging / screenshot_path(name, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_bytes(step.screenshot.png())
        except (OSError, ValueError) as error:
            shutil.rmtree(path.parent)
            raise RunFault([f"{step.name}: the screenshot cannot be read ({error})"]) from error
    value = trajectory_object(run, name, domain, environment)
    lines.write(_line(value))
    return ImportedRun(folder, name, value["outcome"], len(run.steps), run.notes)


def _line(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair has no UTF-8; as an escape, readers can deal with it
        return json.dumps(value).encode() + b"\n"


def _check(staging: Path) -> None:
    """Check what was made by the rules of ingestion, the questions and haystacks aside.

    Raises:
        DataError: something does not fit.
    """
    problems = Problems(staging)
    RootCheck(staging, (), problems, staging / SCREENSHOTS_FOLDER, missing=(QUESTIONS_FILE,)).run()
    problems.raise_if_any()


def _move(staging: Path, out: Path, runs: Sequence[ImportedRun]) -> None:
    """Move the screenshots into the data root, then add the lines; on an error, take the screenshots out again."""
    moved: list[Path] = []
    with _made(out / SCREENSHOTS_FOLDER):
        try:
            for run in runs:
                target = out / SCREENSHOTS_FOLDER / run.trajectory_id
                if os.path.lexists(target):
                    kind = "folder" if target.is_dir() else "file"
                    raise DataError(
                        f"found {kind} {target}, but no such trajectory in {out / TRAJECTORIES_FILE}; remove "
                        f"the {kind} or choose another --prefix"
                    )
                os.rename(staging / SCREENSHOTS_FOLDER / run.trajectory_id, target)
                moved.append(target)
            _append(out / TRAJECTORIES_FILE, staging / TRAJECTORIES_FILE)
        except BaseException:
            for target in moved:
                shutil.rmtree(target)
            raise


def _append(path: Path, more: Path) -> None:
    with replacing(path) as temporary, temporary.open("wb") as target:
        if path.is_file():
            with path.open("rb") as source:
                shutil.copyfileobj(source, target)
            if target.tell() and not _ends_with_newline(path):
                target.write(b"\n")
        with more.open("rb") as source:
            shutil.copyfileobj(source, target)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
