"""A question's sandbox: what is in it for each row of the table, and that nothing else of the question is."""

from __future__ import annotations

from pathlib import Path

import pytest
from agentworld import ALL, PROMPTS, ROWS, RUNS, read_json

from lmev2.agent.instruction import instruction, invocation
from lmev2.agent.manifests import concise_manifest, full_manifest
from lmev2.agent.package import HELPER_SOURCE, build_oracle_package, build_package
from lmev2.agent.pool import trajectory_entry, write_trajectory_folder
from lmev2.agent.types import Mount, PartName, Task
from lmev2.data.errors import DataError

QUESTION = "Which “wick”\u2028sizes are there?"
ENTRIES = {run.trajectory_id: trajectory_entry(run) for run in RUNS}
MOUNT_POINTS = {"trajectories", *(f"trajectories/{run.trajectory_id}" for run in RUNS)}
ADDED: dict[PartName, set[str]] = {
    "workflow": set(),
    "manifest": {"trajectories/TRAJECTORY_SUMMARY_CONCISE.md", "trajectories/TRAJECTORY_SUMMARY_FULL.md"},
    "helper": {"scripts", "scripts/inspect_trajectory.py"},
}


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    for run in RUNS:
        write_trajectory_folder(run, tmp_path / "pool")
    return tmp_path / "pool"


def build(
    folder: Path,
    pool: Path,
    parts: tuple[PartName, ...] = ALL,
    image: Path | None = None,
    haystack: tuple[str, ...] = (),
) -> tuple[Task, list[Mount]]:
    return build_package(
        folder,
        question=QUESTION,
        image=image,
        haystack=haystack or tuple(ENTRIES),
        find_trajectory=lambda trajectory_id: pool / trajectory_id,
        entries=ENTRIES,
        parts=parts,
        prompts=PROMPTS,
        max_states=20,
    )


def shown(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_has_its_parts_and_nothing_else(tmp_path: Path, pool: Path, row: str) -> None:
    parts = ROWS[row]
    task, _ = build(tmp_path / "box", pool, parts)
    expected = {"question.json", "INSTRUCTION.md"} | MOUNT_POINTS
    assert shown(tmp_path / "box") == expected.union(*(ADDED[part] for part in parts))
    assert (tmp_path / "box" / "INSTRUCTION.md").read_text() == instruction(PROMPTS.instruction, parts, 20)
    assert task == Task(invocation(PROMPTS.invocation, parts), "memory_module_output.json", ())


def test_of_the_question_there_is_only_its_text(tmp_path: Path, pool: Path) -> None:
    build(tmp_path / "box", pool)
    assert read_json(tmp_path / "box" / "question.json") == {"question": QUESTION}


def test_the_image_has_a_name_that_says_nothing(tmp_path: Path, pool: Path) -> None:
    image = tmp_path / "e7240cf6_errors-gotchas.PNG"
    image.write_bytes(b"pixels")
    task, _ = build(tmp_path / "box", pool, image=image)
    assert read_json(tmp_path / "box" / "question.json") == {"question": QUESTION, "image": "question_image.png"}
    assert (tmp_path / "box" / "question_image.png").read_bytes() == b"pixels"
    assert task.images == ("question_image.png",)
    assert not (tmp_path / "box" / "question_image.png").samefile(image), "an agent may write to it"


def test_trajectories_are_mounts_over_empty_folders(tmp_path: Path, pool: Path) -> None:
    _, mounts = build(tmp_path / "box", pool, haystack=("rope-01", "lamp-01", "rope-01"))
    assert mounts == [Mount(pool / name, f"trajectories/{name}") for name in ("rope-01", "lamp-01")]
    assert all(mount.source.is_absolute() for mount in mounts)
    for mount in mounts:
        assert list((tmp_path / "box" / mount.target).iterdir()) == []


def test_manifests_show_the_haystack_only(tmp_path: Path, pool: Path) -> None:
    build(tmp_path / "box", pool, haystack=("rope-01", "lamp-01"))
    entries = [ENTRIES["lamp-01"], ENTRIES["rope-01"]]
    folder = tmp_path / "box" / "trajectories"
    assert (folder / "TRAJECTORY_SUMMARY_CONCISE.md").read_text() == concise_manifest(entries)
    assert (folder / "TRAJECTORY_SUMMARY_FULL.md").read_text() == full_manifest(entries)


def test_the_helper_is_a_copy(tmp_path: Path, pool: Path) -> None:
    build(tmp_path / "box", pool)
    helper = tmp_path / "box" / "scripts" / "inspect_trajectory.py"
    assert helper.read_bytes() == HELPER_SOURCE.read_bytes()
    assert not helper.samefile(HELPER_SOURCE), "an agent may write to it"


def test_a_folder_that_was_used_is_refused(tmp_path: Path, pool: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "memory_module_output.json").write_text("{}")
    with pytest.raises(FileExistsError, match="not empty"):
        build(tmp_path / "box", pool)


def test_what_the_pool_lacks_is_named(tmp_path: Path, pool: Path) -> None:
    with pytest.raises(DataError, match="'gone-01'"):
        build(tmp_path / "one", pool, haystack=("lamp-01", "gone-01"))
    (pool / "gone-01").mkdir()
    with pytest.raises(DataError, match="'gone-01'"):
        build(tmp_path / "two", pool, haystack=("lamp-01", "gone-01"))


def test_an_id_cannot_lead_out(tmp_path: Path, pool: Path) -> None:
    with pytest.raises(DataError, match=r"'\.\./pool'"):
        build(tmp_path / "box", pool, haystack=("../pool",))


def test_the_oracle_package(tmp_path: Path, pool: Path) -> None:
    image = tmp_path / "shot.jpg"
    image.write_bytes(b"pixels")
    task, mounts = build_oracle_package(
        tmp_path / "box",
        question=QUESTION,
        image=image,
        oracle=["rope-01"],
        find_trajectory=lambda trajectory_id: pool / trajectory_id,
        prompts=PROMPTS,
    )
    assert shown(tmp_path / "box") == {
        *("question.json", "question_image.jpg", "INSTRUCTION.md", "answer.json"),
        *("trajectories", "trajectories/rope-01"),
    }
    assert read_json(tmp_path / "box" / "answer.json") == {"answer": ""}
    assert (tmp_path / "box" / "INSTRUCTION.md").read_text() == PROMPTS.oracle_instruction + "\n"
    assert task == Task(PROMPTS.oracle_invocation, "answer.json", ("question_image.jpg",))
    assert mounts == [Mount(pool / "rope-01", "trajectories/rope-01")]
