"""Reading what an estimate needs of the data: from a run's tables, or from a data root, which may be incomplete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lmev2.costs.assumptions import Assumptions
from lmev2.costs.facts import ChunkCount, DataFacts, Gatherer, QuestionFacts, TrajectoryFacts, image_size, made_up
from lmev2.data.errors import DataError, Problems
from lmev2.data.haystacks import read_haystacks
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.layout import QUESTIONS_FILE, TRAJECTORIES_FILE, haystack_file
from lmev2.data.manifest import Manifest
from lmev2.data.schema import QuestionRecord, TrajectoryRecord, parse_record
from lmev2.data.selection import select_questions
from lmev2.data.store import StateStore
from lmev2.data.tables import read_haystacks as read_haystack_table
from lmev2.data.tables import read_questions
from lmev2.data.trajectories import state_rows, trajectory_row
from lmev2.goals.check import names_route
from lmev2.goals.sanitize import sanitize
from lmev2.plan import Plan
from lmev2.scoring.spec import ScorerSpecError, parse_eval_function
from lmev2.trajectory import State, Trajectory

Progress = Callable[[int, int], None]
Haystacks = dict[str, Mapping[str, tuple[str, ...]]]
_CHUNKS = "state_chunk"


def read_facts(plan: Plan, root: Path | None, assumed: Assumptions, progress: Progress) -> DataFacts:
    """The facts of a run's data.

    They come from the tables that the run has ingested, if these were made of the files that lie in the data root now;
    else from the data root. Where that has no trajectories, they are made up.

    Args:
        plan: the run.
        root: a data root in place of the configured one, whose tables are then not looked for.
        progress: called with bytes done and in all while trajectories are read.

    Raises:
        DataError: the data root is missing, or its files do not fit the format.
    """
    folder = plan.data_root if root is None else root
    tables = Path(plan.results, "data")
    if root is None and _are_of(tables, folder, plan.config.run.tiers):
        return _from_tables(plan, tables, assumed)
    return _from_root(plan, Path(os.path.abspath(folder)), assumed, progress)


def _are_of(tables: Path, root: Path, tiers: Iterable[str]) -> bool:
    """Whether a run's tables were made of the data root's files, by their sizes, and have the tiers. A root that is no
    longer there contradicts nothing."""
    try:
        manifest = Manifest.read(tables / "manifest.json")
    except (OSError, ValidationError):
        return False
    if not set(tiers) <= set(manifest.tiers):
        return False
    names = ("states.parquet", "trajectories.parquet", "questions.parquet", "haystacks.parquet")
    if not all((tables / name).is_file() for name in names):
        return False
    facts = {root / name: file.bytes for name, file in manifest.files.items()}
    return all(path.stat().st_size == size for path, size in facts.items() if path.is_file())


def _gatherer(plan: Plan, assumed: Assumptions) -> Gatherer:
    pools = plan.config.pools
    chunk = pools.chunk if _CHUNKS in plan.pools() else None
    return Gatherer(pools.slice_radius, chunk, (assumed.image_width, assumed.image_height))


def _route(plan: Plan, trajectory: Trajectory) -> bool | None:
    """Whether a model would be asked about the goal; None where none is asked about any."""
    if plan.config.goals.mode != "model":
        return None
    goal, domain = trajectory.goal, trajectory.domain
    return sanitize(goal, domain).text != goal or names_route(goal, domain)


def _from_tables(plan: Plan, tables: Path, assumed: Assumptions) -> DataFacts:
    run = plan.config.run
    questions = [
        _question(
            one.question_id, one.domain, one.question_type, one.eval_function, one.question, one.answer, one.image
        )
        for one in read_questions(tables / "questions.parquet")
    ]
    try:
        haystacks: Haystacks = {tier: read_haystack_table(tables / "haystacks.parquet", tier) for tier in run.tiers}
    except KeyError as error:
        raise DataError(str(error)) from error
    gatherer = _gatherer(plan, assumed)
    with StateStore(tables / "states.parquet", tables / "trajectories.parquet", keep=1) as store:
        for name in sorted(_named(haystacks)):
            trajectory = store.trajectory(name)
            gatherer.add(trajectory, _route(plan, trajectory))
    return _facts(plan, f"the run's own tables in {tables}", questions, haystacks, gatherer.found, gatherer)


def _from_root(plan: Plan, root: Path, assumed: Assumptions, progress: Progress) -> DataFacts:
    tiers = list(plan.config.run.tiers)
    if not root.is_dir():
        raise DataError(
            f"found no data root {root}; give a folder with {QUESTIONS_FILE} and {haystack_file(tiers[0])} with "
            "--data-root, or set data.root"
        )
    needed = [QUESTIONS_FILE, *map(haystack_file, tiers)]
    missing = [name for name in needed if not (root / name).is_file()]
    if missing:
        raise DataError(
            f"{root} lacks {', '.join(missing)}; an estimate needs questions and haystacks, trajectories may be missing"
        )
    problems = Problems(root)
    records = _question_records(root, problems)
    haystacks: Haystacks = {}
    for tier in tiers:
        found, _ = read_haystacks(root, tier, records, problems)
        haystacks[tier] = found.lists
    problems.raise_if_any()
    questions = [
        _question(
            one.id,
            one.domain,
            one.question_type,
            one.eval_function,
            one.question,
            one.answer,
            None if one.image is None else root / one.image,
        )
        for one in records.values()
    ]
    wanted = _named(haystacks)
    if (root / TRAJECTORIES_FILE).is_file():
        gatherer = _read_trajectories(plan, root, wanted, assumed, progress)
        return _facts(plan, f"the data root {root}", questions, haystacks, gatherer.found, gatherer)
    invented = {name: made_up(name, assumed) for name in sorted(wanted)}
    source = f"questions and haystacks of {root}, which has no trajectories"
    return _facts(plan, source, questions, haystacks, invented, None)


def _question_records(root: Path, problems: Problems) -> dict[str, QuestionRecord]:
    found: dict[str, QuestionRecord] = {}
    for line in JsonLinesFile(root, QUESTIONS_FILE, "question", "id", problems, lambda _: None):
        record = parse_record(QuestionRecord, line, problems)
        if record is None:
            continue
        try:
            parse_eval_function(record.eval_function)
        except ScorerSpecError as error:
            problems.add(f"field 'eval_function': {error}", file=line.file, line=line.number, id=line.label)
        if record.id in found:
            problems.add("found the id twice, expected unique ids", file=line.file, line=line.number, id=line.label)
        found[record.id] = record
    if not found and not len(problems):
        problems.add("found no question, expected at least one", file=QUESTIONS_FILE)
    return found


def _read_trajectories(plan: Plan, root: Path, wanted: set[str], assumed: Assumptions, progress: Progress) -> Gatherer:
    problems = Problems(root)
    gatherer = _gatherer(plan, assumed)
    total, done = (root / TRAJECTORIES_FILE).stat().st_size, 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    for line in JsonLinesFile(root, TRAJECTORIES_FILE, "trajectory", "id", problems, on_bytes):
        if line.id is not None and line.id not in wanted:
            continue
        record = parse_record(TrajectoryRecord, line, problems)
        if record is None:
            continue
        if not record.states:
            problems.add("found no state, expected at least one", file=line.file, line=line.number, id=line.label)
            continue
        trajectory = _trajectory(record, root)
        gatherer.add(trajectory, _route(plan, trajectory))
    missing = sorted(wanted - gatherer.found.keys())
    if missing and not len(problems):
        text = f"found no line for {len(missing)} trajectories that the haystacks name, such as {missing[0]!r}"
        problems.add(text, file=TRAJECTORIES_FILE)
    problems.raise_if_any()
    return gatherer


def _trajectory(record: TrajectoryRecord, root: Path) -> Trajectory:
    paths = [None if state.screenshot is None else root / state.screenshot for state in record.states]
    rows = state_rows(record, paths)
    states = (State(**{**row, "screenshot": path}) for row, path in zip(rows, paths, strict=True))
    facts = {name: value for name, value in trajectory_row(record).items() if name != "state_count"}
    return Trajectory(**facts, states=tuple(states))


def _named(haystacks: Haystacks) -> set[str]:
    return {name for lists in haystacks.values() for names in lists.values() for name in names}


def _question(
    question_id: str, domain: str, kind: str, scorer: str, text: str, answer: str, image: Path | None
) -> QuestionFacts:
    spec = parse_eval_function(scorer)
    judged = spec.is_judge and (bool(answer.strip()) or not spec.require_non_empty)
    size = None if image is None else image_size(str(image)) or (1280, 720)
    return QuestionFacts(question_id, domain, kind, spec.name, judged, text, len(answer), size)


def _facts(
    plan: Plan,
    source: str,
    questions: list[QuestionFacts],
    haystacks: Haystacks,
    trajectories: Mapping[str, TrajectoryFacts],
    gatherer: Gatherer | None,
) -> DataFacts:
    run = plan.config.run
    chosen = select_questions(questions, run.questions, run.seed)
    samples: dict[str, Any] = {"trees": tuple(gatherer.trees)} if gatherer is not None else {}
    texts = [*(question.text for question in chosen), *(gatherer.texts if gatherer is not None else ())]
    return DataFacts(
        source,
        tuple(chosen),
        haystacks,
        trajectories,
        gatherer is not None,
        gatherer.chunks if gatherer is not None else ChunkCount(),
        texts=tuple(texts),
        **samples,
    )
