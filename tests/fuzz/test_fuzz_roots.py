"""Data roots, run folders and recorded runs in which one thing was changed: taken in, or refused with file, line and id."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzz.fuzz_profile import fuzzed
from fuzz.fuzz_strategies import TEXTS, broken, encoded
from hypothesis import given
from hypothesis import strategies as st
from unit.dataroot import DataRoot, make_data_root, write_png
from unit.harnessworld import make_world, records

from lmev2.browsergym.importing import import_runs as import_browsergym
from lmev2.browsergym.importing import read_run
from lmev2.browsergym.pickles import PickleFault, load_data
from lmev2.browsergym.run import RunFault
from lmev2.data.checksums import read_checksums
from lmev2.data.errors import DataError
from lmev2.data.find import UnknownTrajectory, root_trajectory
from lmev2.data.ingest import ingest_dataset
from lmev2.data.validate import validate_root
from lmev2.interchange import layout
from lmev2.interchange.importing import import_runs

FILES = ("questions.jsonl", "trajectories.jsonl", "evidence.jsonl")
HAYSTACKS = "haystacks/lme_v2_small.json"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> DataRoot:
    return make_data_root(tmp_path_factory.mktemp("root") / "data", trajectories=2, states=2, questions=2)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    return make_world(folder / "data", 1, questions=6).export(folder, "web")[0]


def changed(path: Path, content: bytes) -> Iterator[None]:
    """Other bytes in a file, until the end."""
    old = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(old)


def check_root(path: Path, file: str, out: Path) -> None:
    """Validate and ingest agree, and say where."""
    found = validate_root(path, ["small"])
    try:
        ingest_dataset(path, out / "tables", ["small"])
    except DataError as error:
        assert not found.valid and file in str(error)
        assert any(file in str(problem) for problem in found.problems)
        str(error).encode("utf-8", "backslashreplace")
    else:
        assert found.valid, [str(problem) for problem in found.problems]
    shutil.rmtree(out / "tables", ignore_errors=True)


@pytest.mark.parametrize("file", FILES)
@fuzzed()
@given(data=st.data())
def test_a_changed_line(file: str, root: DataRoot, outside: Path, data: st.DataObject) -> None:
    lines = root.lines(file)
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = encoded(data.draw(broken(json.loads(lines[number]))))
    for _ in changed(root.path / file, b"\n".join(lines) + b"\n"):
        check_root(root.path, file, outside)
        for name in (root.trajectories[0]["id"] if file != "trajectories.jsonl" else "t", "\ud800", ""):
            try:
                root_trajectory(root.path, name)
            except (DataError, UnknownTrajectory):
                continue


@fuzzed()
@given(data=st.data())
def test_changed_haystacks(root: DataRoot, outside: Path, data: st.DataObject) -> None:
    content = encoded(data.draw(broken(root.haystacks("small"))))
    for _ in changed(root.path / HAYSTACKS, content):
        check_root(root.path, HAYSTACKS, outside)


@pytest.mark.parametrize("field", ["image", "screenshot", "id"])
@pytest.mark.parametrize(
    "name", ["a" * 300, "x/" * 3_000, "é" * 130 + ".png", "\ud800", "a\0b", ".", "..", "/etc/passwd", "a b"]
)
def test_paths_that_no_file_has(field: str, name: str, tmp_path: Path) -> None:
    root = make_data_root(tmp_path / "data", trajectories=2, states=2, questions=2)
    file = "questions.jsonl" if field == "image" else "trajectories.jsonl"
    value = root.objects(file)[0]
    (value["states"][0] if field == "screenshot" else value)[field] = name
    root.replace_line(file, 1, json.dumps(value).encode())
    check_root(root.path, file, tmp_path)


@fuzzed()
@given(
    content=st.one_of(
        st.binary(max_size=100), TEXTS.map(encoded), TEXTS.map(lambda text: encoded("0" * 64 + "  " + text))
    )
)
def test_any_checksums(content: bytes, outside: Path) -> None:
    (outside / "checksums.sha256").write_bytes(content)
    try:
        sums = read_checksums(outside)
    except DataError as error:
        assert "checksums.sha256" in str(error)
    else:
        assert all(len(value) == 64 for value in sums.values())


@pytest.mark.parametrize("file", [layout.RUN_ARGS, layout.AGGREGATED, layout.QUESTIONS, layout.HAYSTACK])
@fuzzed(0.5)
@given(data=st.data())
def test_a_changed_file_of_a_run(file: str, run: Path, outside: Path, data: st.DataObject) -> None:
    value = json.loads((run / file).read_text(encoding="utf-8"))
    for _ in changed(run / file, encoded(data.draw(broken(value)))):
        take_in(run, outside)


@fuzzed()
@given(data=st.data())
def test_a_changed_record_of_a_run(run: Path, outside: Path, data: st.DataObject) -> None:
    lines = (run / layout.RECORDS).read_bytes().splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = encoded(data.draw(broken(records(run)[number])))
    for _ in changed(run / layout.RECORDS, b"\n".join(lines) + b"\n"):
        take_in(run, outside)


def take_in(run: Path, out: Path) -> None:
    """Import a run: it is written, or DataError, and then nothing is."""
    try:
        import_runs([run], "other", "Other", None, out / "import")
    except DataError as error:
        assert run.name in str(error)
        assert not (out / "import").exists()
    shutil.rmtree(out / "import", ignore_errors=True)


@fuzzed(2)
@given(data=st.data())
def test_a_changed_recorded_run(outside: Path, data: st.DataObject) -> None:
    folder = outside / "recorded" / "one"
    objects: dict[str, Any] = {
        "run.json": {"goal": "Find it", "reward": 1.0},
        "steps/0.json": {"url": "u", "action": "click('a')", "thought": None, "axtree_txt": "t", "error": ""},
        "steps/1.json": {"url": "v", "action": None, "thought": None, "axtree_txt": "t", "error": ""},
    }
    chosen = data.draw(st.sampled_from(sorted(objects)))
    for name, value in objects.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = data.draw(broken(value)) if name == chosen else json.dumps(value)
        (folder / name).write_bytes(encoded(text))
    for number in range(2):
        write_png(folder / f"steps/{number}.png", number)
    try:
        read_run(folder)
    except RunFault as fault:
        assert chosen in str(fault) or chosen.split("/")[-1] in str(fault)
    target = outside / "imported"
    try:
        import_browsergym([folder], target, "web", "e", ["small"])
    except DataError as error:
        assert "one" in str(error) and not target.exists()
    shutil.rmtree(target, ignore_errors=True)


@fuzzed(3)
@given(
    content=st.binary(max_size=60),
    start=st.sampled_from([b"", b"\x80\x04", b"(", b"cos\nsystem\n", b"\x8c\x05posix", b"\x95"]),
)
def test_any_pickle(content: bytes, start: bytes) -> None:
    try:
        load_data(start + content)
    except PickleFault as error:
        assert str(error)
