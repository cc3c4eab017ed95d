"""A made-up data root of the benchmark's size and shape, in the official format.

Nothing in it is real. Each question asks for a code that stands in one known state of one trajectory (in two states
for questions with two hops), and ``evidence.jsonl`` says where, so that retrieval can be checked.

    PYTHONPATH=src python -m benchmarks.synthetic FOLDER --size full
    PYTHONPATH=src python -m benchmarks.synthetic FOLDER --trajectories 30 --questions 12 --tree-chars 4000
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from benchmarks.synthetic_pages import Site, Words, make_word, step, visit
from lmev2.data.layout import (
    EVIDENCE_FILE,
    QUESTION_IMAGES_FOLDER,
    QUESTIONS_FILE,
    SCREENSHOTS_FOLDER,
    TRAJECTORIES_FILE,
    haystack_file,
)

Object = dict[str, Any]

SITES = {"web": ("shop", "forum", "backoffice"), "enterprise": ("desk",)}
SMALL, MEDIUM = 100, 500  # trajectories of a question, as far as the domain has so many
_PHRASES = "lower=true|normalize_hyphen=true|strip_punct=true|separators=,;|require_non_empty=true"
_ABSTAIN = "llm_abstention_checker|require_non_empty=true"
# Types with their scorers and shares of the benchmark's 451 questions.
TYPES: Mapping[str, tuple[str, int]] = {
    "static-environment": (f"norm_phrase_set_match|{_PHRASES}", 134),
    "dynamic-environment": (f"norm_phrase_set_match|{_PHRASES}", 86),
    "procedure": (f"norm_phrase_set_match_ordered|{_PHRASES}", 74),
    "static-environment-abs": (_ABSTAIN, 55),
    "dynamic-environment-abs": (_ABSTAIN, 41),
    "procedure-abs": (_ABSTAIN, 32),
    "errors-gotchas": ("llm_gotchas_checker|require_non_empty=true", 29),
}
_PICTURES = 4
_IMAGE_EVERY = 16  # questions, of which one has an image
_GOAL_ON_PAGE = 10  # trajectories, of which one shows its goal on every page
_ROUTE = 6  # trajectories, of which one has a goal that spells out its route


@dataclass(frozen=True)
class Size:
    """What a data root holds: see :func:`write_data_root`."""

    trajectories: int
    states_per_trajectory: int
    questions: int
    tree_chars: int


SIZES = {
    "small": Size(100, 27, 30, 24500),
    "medium": Size(400, 27, 120, 24500),
    "full": Size(1500, 27, 451, 24500),
}


@dataclass(frozen=True)
class Plant:
    """A fact that stands in one state.

    Attributes:
        trajectory, state: where it stands, as positions.
        subject: what the question calls it.
        code: what stands beside it.
    """

    trajectory: int
    state: int
    subject: str
    code: str


@dataclass(frozen=True)
class Question:
    """A question that can be answered from its facts, one a hop."""

    id: str
    number: int
    kind: str
    hops: tuple[Plant, ...]

    @property
    def domain(self) -> str:
        """Of the question and of its haystack."""
        return _domain(self.number)


@dataclass(frozen=True)
class Written:
    """What was written: numbers of trajectories, states, questions and of the bytes of ``trajectories.jsonl``."""

    trajectories: int
    states: int
    questions: int
    bytes: int


def write_data_root(
    folder: Path,
    *,
    trajectories: int,
    states_per_trajectory: int,
    questions: int,
    tree_chars: int,
    seed: int,
    screenshots: bool = True,
) -> Written:
    """Write a data root. One trajectory is in memory at a time, and at most 256 pages of each of four sites.

    Args:
        folder: made; must be empty.
        trajectories: number of them, half of each domain; all are used by some haystack, or nearly so.
        states_per_trajectory: mean number; each has half to one and a half times as many.
        questions: number of them.
        tree_chars: mean size of a tree, in characters.
        seed: equal arguments give equal files.
        screenshots: a screenshot for every state: hard links to a few small PNG files.

    Raises:
        ValueError: there are fewer than 4 trajectories, or fewer than 2 states in each.
        FileExistsError: the folder holds something.
    """
    if trajectories < 4 or states_per_trajectory < 2:
        raise ValueError("expected at least 4 trajectories of at least 2 states")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} holds something, expected an empty folder")
    rng = random.Random(f"{seed}/root")
    ids = _ids(rng, trajectories)
    half = states_per_trajectory // 2
    counts = [rng.randint(states_per_trajectory - half, states_per_trajectory + half) for _ in ids]
    members = {domain: [n for n in range(trajectories) if _domain(n) == domain] for domain in SITES}
    small = {domain: rng.sample(own, min(SMALL, len(own) // 2)) for domain, own in members.items()}
    asked = _questions(rng, counts, small, questions)
    facts: dict[int, list[Plant]] = defaultdict(list)
    for plant in (plant for question in asked for plant in question.hops):
        facts[plant.trajectory].append(plant)
    _write_lines(folder / QUESTIONS_FILE, (_question_line(folder, question) for question in asked))
    _write_lines(folder / EVIDENCE_FILE, (_evidence_line(question, ids) for question in asked))
    _write_haystacks(folder, rng, ids, small, members, asked)
    sites = {
        name: Site(name, str(seed), max(8, trajectories // 4), tree_chars) for names in SITES.values() for name in names
    }
    with (folder / TRAJECTORIES_FILE).open("w", encoding="ascii") as stream:
        for number, (identifier, count) in enumerate(zip(ids, counts, strict=True)):
            own = random.Random(f"{seed}/trajectory/{number}")
            trajectory = _trajectory(identifier, number, count, sites[_site_of(number)], own, facts[number])
            stream.write(json.dumps(trajectory) + "\n")
        size = stream.tell()
    if screenshots:
        _write_screenshots(folder, ids, counts)
    return Written(trajectories, sum(counts), questions, size)


def _ids(rng: random.Random, count: int) -> list[str]:
    return [f"{value:08x}" for value in rng.sample(range(16**7, 16**8), count)]


def _domain(number: int) -> str:
    return "enterprise" if number % 2 else "web"


def _site_of(number: int) -> str:
    names = SITES[_domain(number)]
    return names[number // 2 % len(names)]


def _questions(
    rng: random.Random, counts: Sequence[int], small: Mapping[str, Sequence[int]], count: int
) -> list[Question]:
    """Questions whose facts stand in trajectories of the small haystacks, each in a state of its own if there are
    enough states."""
    words = Words(f"{rng.random()}/subjects", 2000).words
    places = {domain: [(t, s) for t in own for s in range(counts[t])] for domain, own in small.items()}
    for own in places.values():
        rng.shuffle(own)
    every = [kind for kind, (_, share) in TYPES.items() for _ in range(share)]
    kinds = rng.sample([every[position * len(every) // count % len(every)] for position in range(count)], count)
    found = []
    for number, (identifier, kind) in enumerate(zip(_ids(rng, count), kinds, strict=True)):
        own = places[_domain(number)]
        hops = []
        for hop in range(2 if kind == "procedure" else 1):
            trajectory, state = own[(number + hop) % len(own)]  # the other domain's questions take no places here
            subject = f"{make_word(rng, 3).capitalize()} {rng.choice(words)} {number}{rng.randint(100, 999)}"
            hops.append(Plant(trajectory, state, subject, f"{make_word(rng, 2)} {make_word(rng, 3)}".upper()))
        found.append(Question(identifier, number, kind, tuple(hops)))
    return found


def _question_line(folder: Path, question: Question) -> Object:
    subjects = " and then of ".join(plant.subject for plant in question.hops)
    site = _site_of(question.hops[0].trajectory)
    thing, answer = "release code", ", ".join(plant.code for plant in question.hops)
    if question.kind.endswith("-abs"):
        thing, answer = "shipping weight", "There is none: only a release code is shown."
    elif question.kind == "errors-gotchas":
        answer = f"The release code is {answer}, and no other is taken."
    image = None
    if question.number % _IMAGE_EVERY == 0:
        image = f"{QUESTION_IMAGES_FOLDER}/{question.id}.png"
        (folder / QUESTION_IMAGES_FOLDER).mkdir(exist_ok=True)
        _draw_picture(folder / image, question.number)
    return {
        "id": question.id,
        "domain": question.domain,
        "environment": site,
        "question_type": question.kind,
        "question": f"On the {site} site, what is the {thing} of {subjects}?\n\nMark your final answer in \\boxed{{}}.",
        "image": image,
        "answer": answer,
        "eval_function": TYPES[question.kind][0],
    }


def _evidence_line(question: Question, ids: Sequence[str]) -> Object:
    return {"question_id": question.id, "hops": [[[ids[plant.trajectory], plant.state]] for plant in question.hops]}


def _write_haystacks(
    folder: Path,
    rng: random.Random,
    ids: Sequence[str],
    small: Mapping[str, Sequence[int]],
    members: Mapping[str, Sequence[int]],
    questions: Sequence[Question],
) -> None:
    """The small haystack is one of each domain, as in the official data; each question has a medium one of its own."""
    tiers: dict[str, dict[str, list[str]]] = {"small": {}, "medium": {}}
    for question in questions:
        tiers["small"][question.id] = [ids[number] for number in small[question.domain]]
        needed = {plant.trajectory for plant in question.hops}
        others = [number for number in members[question.domain] if number not in needed]
        chosen = [*needed, *rng.sample(others, min(MEDIUM, len(others) + len(needed)) - len(needed))]
        tiers["medium"][question.id] = [ids[number] for number in rng.sample(sorted(chosen), len(chosen))]
    for tier, lists in tiers.items():
        path = folder / haystack_file(tier)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(lists, indent=0) + "\n", encoding="ascii")


def _trajectory(
    identifier: str, number: int, count: int, site: Site, rng: random.Random, facts: Sequence[Plant]
) -> Object:
    view = visit(site, rng)
    start, states = view.page.url, []
    goal = _goal(number, site, rng)
    for index in range(count):
        view = view if index == 0 else step(site, rng, view)
        lines = list(view.lines)
        for fact in (fact for fact in facts if fact.state == index):
            place, depth = rng.choice(view.page.rows)
            lines[place:place] = _fact_lines(fact, depth)
        if number % _GOAL_ON_PAGE == 1:
            lines.insert(1, f"\tStaticText {goal!r}")
        states.append(
            {
                "state_index": index,
                "step": index,
                "url": view.page.url,
                "action": view.action,
                "thought": None if index == 0 else site.words.title(rng, rng.randint(20, 60)) + ".",
                "accessibility_tree": "\n".join(lines),
                "screenshot": f"{SCREENSHOTS_FOLDER}/{identifier}/{index}.png",
            }
        )
    return {
        "id": identifier,
        "domain": _domain(number),
        "environment": site.name,
        "goal": goal,
        "outcome": "failure" if rng.random() < 0.4 else "success",
        "start_url": start,
        "states": states,
    }


def _fact_lines(fact: Plant, depth: int) -> list[str]:
    indent = "\t" * depth
    return [
        f"{indent}[f{fact.state}] row '', visible",
        f"{indent}\t[f{fact.state}a] gridcell 'Release code of {fact.subject}', visible",
        f"{indent}\t[f{fact.state}b] gridcell {fact.code!r}, visible",
    ]


def _goal(number: int, site: Site, rng: random.Random) -> str:
    wanted = f"set field '{site.words.title(rng, 2)}' to '{site.words.draw(rng, 3)}'"
    if number % _ROUTE == 1:
        module, application = site.words.title(rng, 1), site.words.title(rng, 1)
        return f'Navigate to the "{module}" module of the "{application}" application and {wanted}.'
    return f"Find the record of {site.words.title(rng, 3)} {rng.randint(1000, 9999)} and {wanted}."


def _write_lines(path: Path, objects: Iterable[Object]) -> None:
    path.write_text("".join(json.dumps(item) + "\n" for item in objects), encoding="ascii")


def _draw_picture(path: Path, number: int) -> None:
    picture = Image.new("RGB", (320, 180), (250, 250, 250))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 320, 24), fill=(40, 60 + number % 100, 120))
    for row in range(5):
        draw.rectangle((16, 40 + 26 * row, 60 + (number * 37 + row * 53) % 240, 54 + 26 * row), fill=(190, 190, 200))
    picture.save(path)


def _write_screenshots(folder: Path, ids: Sequence[str], counts: Sequence[int]) -> None:
    """A file for every state; the first states' are drawn, all others are links to them."""
    drawn: list[Path] = []
    for name, count in zip(ids, counts, strict=True):
        own = folder / SCREENSHOTS_FOLDER / name
        own.mkdir(parents=True)
        for index in range(count):
            path = own / f"{index}.png"
            if len(drawn) < _PICTURES:
                _draw_picture(path, len(drawn))
                drawn.append(path)
            else:
                os.link(drawn[index % _PICTURES], path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="made; must be empty")
    parser.add_argument("--size", choices=SIZES, help="a named size; the numbers below take its place where given")
    parser.add_argument("--trajectories", type=int)
    parser.add_argument("--states-per-trajectory", type=int)
    parser.add_argument("--questions", type=int)
    parser.add_argument("--tree-chars", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-screenshots", dest="screenshots", action="store_false")
    arguments = parser.parse_args()
    names = [field.name for field in fields(Size)]
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    numbers = asdict(SIZES[arguments.size or "small"]) | given
    written = write_data_root(arguments.folder, seed=arguments.seed, screenshots=arguments.screenshots, **numbers)
    print(json.dumps(asdict(written)))


if __name__ == "__main__":
    main()
