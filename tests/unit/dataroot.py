"""Small valid data roots, made up on the spot, and ways to break one thing in them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

DOMAINS = ("web", "enterprise")
PHRASES = "lower=true|normalize_hyphen=true|strip_punct=true|separators=,;|require_non_empty=true"
SCORERS = {
    "static-environment": f"norm_phrase_set_match|{PHRASES}",
    "static-environment-abs": "llm_abstention_checker|require_non_empty=true",
    "dynamic-environment": "mc_choice_match|require_non_empty=true",
    "dynamic-environment-abs": "llm_abstention_checker|require_non_empty=true",
    "procedure": f"norm_phrase_set_match_ordered|{PHRASES}",
    "procedure-abs": "llm_abstention_checker|require_non_empty=true",
    "errors-gotchas": "llm_gotchas_checker|require_non_empty=true",
}
PIPELINE = Path(__file__).resolve().parents[2]
SHARED_DATA = PIPELINE.parent / "shared" / "data"

Object = dict[str, Any]


@dataclass(frozen=True)
class DataRoot:
    """A data root at ``path``; line numbers count from 1."""

    path: Path

    def lines(self, file: str) -> list[bytes]:
        """Raw lines without their ends."""
        return (self.path / file).read_bytes().removesuffix(b"\n").split(b"\n")

    def objects(self, file: str) -> list[Object]:
        """The objects of a JSON-lines file."""
        return [json.loads(line) for line in self.lines(file)]

    @property
    def questions(self) -> list[Object]:
        return self.objects("questions.jsonl")

    @property
    def trajectories(self) -> list[Object]:
        return self.objects("trajectories.jsonl")

    def haystacks(self, tier: str) -> dict[str, list[str]]:
        """The object of a tier's file."""
        value: dict[str, list[str]] = json.loads((self.path / f"haystacks/lme_v2_{tier}.json").read_bytes())
        return value

    def replace_line(self, file: str, number: int, raw: bytes) -> None:
        """Put other bytes in the place of a line, its end excluded."""
        lines = self.lines(file)
        lines[number - 1] = raw
        (self.path / file).write_bytes(b"\n".join(lines) + b"\n")

    def edit_line(self, file: str, number: int, change: Callable[[Object], object]) -> None:
        """Change the object on a line in place."""
        value = self.objects(file)[number - 1]
        change(value)
        self.replace_line(file, number, _dump(value))

    def append(self, file: str, raw: bytes) -> None:
        """Add bytes at the end of a file."""
        with (self.path / file).open("ab") as stream:
            stream.write(raw)

    def shuffle_lines(self, file: str) -> None:
        """Reverse the order of the lines."""
        (self.path / file).write_bytes(b"\n".join(reversed(self.lines(file))) + b"\n")

    def edit_haystacks(self, tier: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change a tier's object in place."""
        value: dict[str, Any] = dict(self.haystacks(tier))
        change(value)
        _write_json(self.path / f"haystacks/lme_v2_{tier}.json", value)


def make_data_root(
    path: Path, *, trajectories: int = 6, states: int = 4, questions: int = 14, unused: int = 0, evidence: bool = True
) -> DataRoot:
    """Write a valid data root.

    Trajectories alternate between the two domains; questions run through all pairs of domain and question type. The
    small haystack of a question holds every other trajectory of its domain and the one that answers it, the medium one
    all of them, in another order per question. ``unused`` more trajectories are in no haystack.

    Every page shows a code of its own (``Code K-<run>-<state>``), which answers the questions.
    """
    runs = [make_trajectory(number, states) for number in range(trajectories + unused)]
    (path / "haystacks").mkdir(parents=True)
    (path / "question_screenshots").mkdir()
    _write_lines(path / "trajectories.jsonl", runs)
    for run in runs:
        for state in run["states"]:
            write_png(path / state["screenshot"], state["state_index"])
    rows = [make_question(number, runs[:trajectories]) for number in range(questions)]
    _write_lines(path / "questions.jsonl", [row for row, _ in rows])
    for row, _ in rows:
        if row["image"]:
            write_png(path / row["image"], 200)
    small, medium = {}, {}
    for number, (row, answer) in enumerate(rows):
        own = [run["id"] for run in runs[:trajectories] if run["domain"] == row["domain"]]
        small[row["id"]] = list(dict.fromkeys([*own[::2], answer["id"]]))
        turn = number % len(own)
        medium[row["id"]] = own[turn:] + own[:turn]
    _write_json(path / "haystacks/lme_v2_small.json", small)
    _write_json(path / "haystacks/lme_v2_medium.json", medium)
    if evidence:
        labels = [{"question_id": row["id"], "hops": [[[answer["id"], states - 1]]]} for row, answer in rows]
        _write_lines(path / "evidence.jsonl", labels)
    return DataRoot(path)


def make_trajectory(number: int, states: int) -> Object:
    """A run over ``states`` pages; actions stand on the state that they led to."""
    name = make_id("trajectory", number)
    domain = DOMAINS[number % 2]
    return {
        "id": name,
        "domain": domain,
        "environment": "webarena" if domain == "web" else "workarena",
        "goal": f"Find the code of record {number}",
        "outcome": "failure" if number % 3 == 2 else "success",
        "start_url": _url(number, 0),
        "states": [_make_state(name, number, index) for index in range(states)],
    }


def _make_state(name: str, number: int, index: int) -> Object:
    before = index - 1
    actions = [f"click('a{before}')", f"fill('b{before}', 'note {before}')", f"goto('{_url(number, index)}')"]
    return {
        "state_index": index,
        "step": index,
        "url": _url(number, index),
        "action": actions[before % 3] if index else None,
        "thought": f"Page {index} should show more." if index else None,
        "accessibility_tree": (
            f"RootWebArea 'Page {index} of run {number}', focused, url='{_url(number, index)}'\n"
            f"\t[n0] navigation 'Main'\n"
            f"\t\t[a{index}] link 'Next page {index}', clickable, visible\n"
            f"\t[b{index}] textbox 'Note {index}' value='', clickable, visible\n"
            f"\t[h{index}] heading 'Record {number}'\n"
            f"\t\tStaticText 'Code K-{number}-{index}'"
        ),
        "screenshot": f"screenshots/{name}/{index}.png",
    }


def make_question(number: int, runs: list[Object]) -> tuple[Object, Object]:
    """A question about the last page of one of the runs, and that run."""
    kinds = list(SCORERS)
    domain, kind = DOMAINS[number % 2], kinds[number // 2 % len(kinds)]
    own = [run for run in runs if run["domain"] == domain]
    run = own[number // 2 % len(own)]
    last = run["states"][-1]
    name = make_id("question", number)
    code = last["accessibility_tree"].rpartition("Code ")[2].rstrip("'")
    options = f"\nA. {code}\nB. K-none" if kind == "dynamic-environment" else ""
    return {
        "id": name,
        "domain": domain,
        "environment": run["environment"],
        "question_type": kind,
        "question": f"{run['goal']}: which code does {last['url']} show?{options}\nMark your answer in \\boxed{{}}.",
        "image": f"question_screenshots/{name}.png" if kind == "errors-gotchas" else None,
        "answer": "A" if options else code,
        "eval_function": SCORERS[kind],
    }, run


def make_id(kind: str, number: int) -> str:
    """Eight hexadecimal digits."""
    return hashlib.sha256(f"{kind} {number}".encode()).hexdigest()[:8]


def _url(number: int, index: int) -> str:
    return f"http://example.test/run{number}/page{index}"


def write_png(path: Path, shade: int) -> None:
    """A tiny picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png_bytes(shade))


def png_bytes(shade: int) -> bytes:
    """A tiny picture's bytes."""
    buffer = io.BytesIO()
    Image.new("RGB", (16, 12), (shade % 256, 80, 160)).save(buffer, "PNG")
    return buffer.getvalue()


def make_bundle(path: Path, files: Mapping[str, bytes], others: Iterable[tarfile.TarInfo] = ()) -> Path:
    """A ``.tar.gz`` of files by member name, then of members without content (links, devices, folders)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(path, "wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in others:
            archive.addfile(member)
    return path


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _write_lines(path: Path, values: Iterable[Any]) -> None:
    path.write_bytes(b"".join(_dump(value) + b"\n" for value in values))


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
