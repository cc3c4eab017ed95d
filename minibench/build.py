"""Build the data root from recordings and questions: ``python -m minibench.build [--work DIR] [--out DIR]``.

Every question is checked against the recorded trees first; nothing is written unless all checks pass. The
result depends on the recordings, the question files and the seeds below alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from minibench.scenario import APPS, DOMAINS, load_policies
from minibench.server import REPOSITORY, default_work_folder

HAYSTACK_SEED = 20260302
QUESTION_TYPES = frozenset(
    f"{kind}{suffix}" for kind in ("static-environment", "dynamic-environment", "procedure") for suffix in ("", "-abs")
) | {"errors-gotchas"}
QUESTION_KEYS = frozenset(
    ("id", "question_type", "question", "answer", "eval_function", "image", "evidence", "gold_in")
)

Trajectory = dict[str, Any]
StateRef = tuple[str, int]


class QuestionError(ValueError):
    """A question does not hold against the recordings; the message names file, question and state."""


@dataclass(frozen=True)
class Question:
    """One checked question; `hops` are its evidence states, one list of alternatives per hop."""

    app: str
    fields: Mapping[str, Any]
    hops: tuple[tuple[StateRef, ...], ...]

    @property
    def id(self) -> str:
        """The question's id."""
        return str(self.fields["id"])

    @property
    def domain(self) -> str:
        """The domain of the question's application."""
        return DOMAINS[self.app]


def load_trajectories(work: Path) -> dict[str, Trajectory]:
    """Read the recordings of the work folder by id, in the order of their ids."""
    paths = sorted((work / "trajectories").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def check_question(
    app: str, source: str, fields: Mapping[str, Any], trajectories: Mapping[str, Trajectory], small: Sequence[str]
) -> Question:
    """Resolve a question's evidence and check form, evidence, gold and image against the recordings.

    Raises:
        QuestionError: whatever does not hold, with what was looked up and where.
    """
    where = f"{source}, question {fields.get('id')!r}"
    if set(fields) != QUESTION_KEYS:
        raise QuestionError(f"{where}: keys differ from the expected ones: {sorted(set(fields) ^ QUESTION_KEYS)}")
    if not re.fullmatch(r"[0-9a-f]{8}", str(fields["id"])) or not isinstance(fields["id"], str):
        raise QuestionError(f"{where}: the id must be a string of eight hexadecimal digits (quote it)")
    for key in ("question", "answer", "eval_function"):
        if not isinstance(fields[key], str) or not fields[key].strip():
            raise QuestionError(f"{where}: {key} must be a non-empty string")
    _check_type_and_scorer(where, fields)
    hops = tuple(_resolve_hop(where, hop, trajectories) for hop in fields["evidence"])
    if not hops:
        raise QuestionError(f"{where}: evidence names no hop")
    for number, hop in enumerate(hops):
        if not any(trajectory in small for trajectory, _ in hop):
            found = sorted({trajectory for trajectory, _ in hop})
            raise QuestionError(f"{where}: hop {number} rests on {found}, none of which is in the small haystack")
    _check_gold(where, fields, hops, trajectories, small)
    _check_image(where, fields, trajectories)
    return Question(app, fields, hops)


def _check_type_and_scorer(where: str, fields: Mapping[str, Any]) -> None:
    kind, scorer = fields["question_type"], fields["eval_function"].split("|")[0]
    if kind not in QUESTION_TYPES:
        raise QuestionError(f"{where}: unknown question type {kind!r}")
    abstention = kind.endswith("-abs")
    if abstention != (scorer == "llm_abstention_checker"):
        raise QuestionError(f"{where}: {scorer} does not go with {kind}")
    if (kind == "errors-gotchas") != (fields["image"] is not None):
        raise QuestionError(f"{where}: gotchas, and only they, carry an image")
    if scorer == "mc_choice_match" and not re.search(
        rf"^{re.escape(fields['answer'])}\. ", fields["question"], re.MULTILINE
    ):
        raise QuestionError(f"{where}: the answer {fields['answer']!r} is not one of the options")


def _state_text(state: Mapping[str, Any]) -> str:
    return "\n".join((state["accessibility_tree"], state["url"], state["action"] or ""))


def _resolve_hop(
    where: str, hop: Sequence[Mapping[str, Any]], trajectories: Mapping[str, Trajectory]
) -> tuple[StateRef, ...]:
    found: list[StateRef] = []
    for alternative in hop:
        name, substrings = alternative["trajectory"], alternative["contains"]
        if name not in trajectories:
            raise QuestionError(f"{where}: evidence names {name!r}, which is not recorded")
        if not substrings:
            raise QuestionError(f"{where}: an alternative in {name} lists no substring")
        matching = [
            (name, state["state_index"])
            for state in trajectories[name]["states"]
            if all(text in _state_text(state) for text in substrings)
        ]
        if not matching:
            counts = {
                text: sum(text in _state_text(state) for state in trajectories[name]["states"]) for text in substrings
            }
            raise QuestionError(f"{where}: no state of {name} has all of {substrings}; states with each: {counts}")
        found += matching
    if not found:
        raise QuestionError(f"{where}: a hop lists no alternative")
    return tuple(dict.fromkeys(found))


def _check_gold(
    where: str,
    fields: Mapping[str, Any],
    hops: Sequence[Sequence[StateRef]],
    trajectories: Mapping[str, Trajectory],
    small: Sequence[str],
) -> None:
    """The gold texts must stand in evidence states, and already in those of the small haystack."""
    if not fields["gold_in"]:
        raise QuestionError(f"{where}: gold_in is empty; name the text on the page that settles the answer")
    states = [ref for hop in hops for ref in hop if ref[0] in small]
    texts = [_state_text(trajectories[name]["states"][index]) for name, index in states]
    for gold in fields["gold_in"]:
        if not any(gold in text for text in texts):
            raise QuestionError(f"{where}: gold text {gold!r} stands in none of the evidence states {states}")


def _check_image(where: str, fields: Mapping[str, Any], trajectories: Mapping[str, Trajectory]) -> None:
    image = fields["image"]
    if image is None:
        return
    name, state = image["trajectory"], image["state"]
    if name not in trajectories or not 0 <= state < len(trajectories[name]["states"]):
        raise QuestionError(f"{where}: the image names state {state} of {name!r}, which is not recorded")


def load_questions(apps: Iterable[str], trajectories: Mapping[str, Trajectory]) -> list[Question]:
    """Read and check ``questions/<app>.yaml`` of the given applications; the result is ordered by id."""
    small = small_haystacks(apps)
    questions: list[Question] = []
    problems: list[str] = []
    for app in apps:
        path = REPOSITORY / "minibench" / "questions" / f"{app}.yaml"
        for fields in yaml.safe_load(path.read_text(encoding="utf-8")):
            try:
                questions.append(check_question(app, path.name, fields, trajectories, small[DOMAINS[app]]))
            except QuestionError as error:
                problems.append(str(error))
    ids = [question.id for question in questions]
    problems += [f"question id {name} is used twice" for name in sorted({name for name in ids if ids.count(name) > 1})]
    if problems:
        raise QuestionError("\n".join(problems))
    return sorted(questions, key=lambda question: question.id)


def small_haystacks(apps: Iterable[str]) -> dict[str, list[str]]:
    """The small list per domain: the applications' SMALL lists together, in a fixed shuffled order."""
    lists: dict[str, list[str]] = {}
    for app in apps:
        lists.setdefault(DOMAINS[app], []).extend(load_policies(app).small)
    for domain, names in lists.items():
        random.Random(f"{HAYSTACK_SEED}:small:{domain}").shuffle(names)
    return lists


def _medium_haystack(question: Question, trajectories: Mapping[str, Trajectory]) -> list[str]:
    names = sorted(name for name, trajectory in trajectories.items() if trajectory["domain"] == question.domain)
    random.Random(f"{HAYSTACK_SEED}:medium:{question.id}").shuffle(names)
    return names


def _question_row(question: Question) -> dict[str, Any]:
    fields = question.fields
    return {
        "id": question.id,
        "domain": question.domain,
        "environment": question.app,
        "question_type": fields["question_type"],
        "question": fields["question"].strip(),
        "image": None if fields["image"] is None else f"question_screenshots/{question.id}.png",
        "answer": fields["answer"],
        "eval_function": fields["eval_function"],
    }


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _write_question_image(question: Question, work: Path, out: Path) -> None:
    image = question.fields["image"]
    with Image.open(work / "screenshots" / image["trajectory"] / f"{image['state']}.png") as picture:
        shown = picture.crop(tuple(image["crop"])) if image["crop"] else picture.copy()
        shown.save(out / f"{question.id}.png", "PNG", optimize=True)


def write_checksums(root: Path) -> None:
    """Write ``checksums.sha256`` over every other file below `root`, sorted by path."""
    paths = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "checksums.sha256")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root).as_posix()}\n" for path in paths
    ]
    (root / "checksums.sha256").write_text("".join(lines), encoding="utf-8")


def write_data_root(
    out: Path, work: Path, trajectories: Mapping[str, Trajectory], questions: Sequence[Question], apps: Sequence[str]
) -> None:
    """Write the data root into a fresh folder `out` (trajectories, screenshots, questions, evidence, haystacks)."""
    for folder in ("haystacks", "screenshots", "question_screenshots"):
        (out / folder).mkdir(parents=True)
    _write_lines(out / "trajectories.jsonl", trajectories.values())
    for trajectory in trajectories.values():
        for state in trajectory["states"]:
            target = out / state["screenshot"]
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(work / state["screenshot"], target)
    _write_lines(out / "questions.jsonl", map(_question_row, questions))
    _write_lines(
        out / "evidence.jsonl", ({"question_id": question.id, "hops": question.hops} for question in questions)
    )
    for question in questions:
        if question.fields["image"] is not None:
            _write_question_image(question, work, out / "question_screenshots")
    small = small_haystacks(apps)
    _write_json(out / "haystacks" / "lme_v2_small.json", {q.id: small[q.domain] for q in questions})
    _write_json(out / "haystacks" / "lme_v2_medium.json", {q.id: _medium_haystack(q, trajectories) for q in questions})
    write_checksums(out)


def build(work: Path, out: Path, apps: Sequence[str] | None = None) -> str:
    """Check everything, write the data root to `out` (replacing it) and return a one-line summary.

    `apps` defaults to the applications that have recordings in `work`.

    Raises:
        QuestionError: a question does not hold; every problem of every question is listed.
        FileNotFoundError: a scenario of one of the applications has no recording.
    """
    trajectories = load_trajectories(work)
    recorded = {trajectory["environment"] for trajectory in trajectories.values()}
    chosen = list(apps) if apps is not None else [app for app in APPS if app in recorded]
    wanted = [scenario.id for app in chosen for scenario in load_policies(app).scenarios]
    missing = sorted(set(wanted) - set(trajectories))
    if missing or not wanted:
        raise FileNotFoundError(f"no recording of {', '.join(missing) or 'anything'} in {work}: record it first")
    trajectories = {name: trajectories[name] for name in sorted(wanted)}
    questions = load_questions(chosen, trajectories)
    fresh = out.with_name(out.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    write_data_root(fresh, work, trajectories, questions, chosen)
    shutil.rmtree(out, ignore_errors=True)
    fresh.rename(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    states = sum(len(trajectory["states"]) for trajectory in trajectories.values())
    return (
        f"{out}: {', '.join(chosen)}; {len(trajectories)} trajectories, {states} states, "
        f"{len(questions)} questions, {size / 1e6:.1f} MB"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m minibench.build", description=__doc__)
    parser.add_argument("--app", choices=APPS, action="append", help="only these applications (default: all recorded)")
    parser.add_argument("--work", type=Path, default=default_work_folder(), help="work folder (default: .minibench)")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "resources" / "minibench", help="data root to write")
    parser.add_argument("--check", action="store_true", help="check the questions and write nothing")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            trajectories = load_trajectories(options.work)
            recorded = {trajectory["environment"] for trajectory in trajectories.values()}
            questions = load_questions(options.app or [app for app in APPS if app in recorded], trajectories)
            print(f"{len(questions)} questions hold")
        else:
            print(build(options.work, options.out, options.app))
    except (QuestionError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
