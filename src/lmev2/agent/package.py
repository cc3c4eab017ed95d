"""A question's sandbox folder (paper, Table 10), and the oracle package of the pilot study (paper, Table 8).

Of a question only its text and image go in, under names that say nothing: no id, type, gold answer or scorer.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from lmev2.agent.instruction import AgentPrompts, instruction, invocation
from lmev2.agent.manifests import concise_manifest, full_manifest
from lmev2.agent.pool import TrajectoryEntry, checked_folder_name
from lmev2.agent.types import (
    ANSWER_FILE,
    CONCISE_MANIFEST,
    FULL_MANIFEST,
    HELPER_FILE,
    INSTRUCTION_FILE,
    MEMORY_FILE,
    QUESTION_FILE,
    TRAJECTORIES_FOLDER,
    Mount,
    PartName,
    Task,
)
from lmev2.data.errors import DataError

HELPER_SOURCE = Path(__file__).parent / "inside" / "inspect_trajectory.py"
_IMAGE_NAME = "question_image"


def build_package(
    folder: Path,
    *,
    question: str,
    image: Path | None,
    haystack: Sequence[str],
    find_trajectory: Callable[[str], Path],
    entries: Mapping[str, TrajectoryEntry],
    parts: Collection[PartName],
    prompts: AgentPrompts,
    max_states: int,
) -> tuple[Task, list[Mount]]:
    """Make the folder in which an agent looks for a question's evidence.

    Args:
        folder: the sandbox's folder; new, or empty.
        question: the question's text.
        image: the question's image.
        haystack: ids of the trajectories that the agent may see.
        find_trajectory: folder of a trajectory on this machine, as made by
            :func:`~lmev2.agent.pool.write_trajectory_folder`.
        entries: facts for the manifests, by trajectory id.
        parts: what the sandbox has besides question, instruction and trajectories.
        prompts: the texts.
        max_states: states that the agent may return.

    Returns:
        What the agent is asked, and the trajectories' read-only mounts; their empty mount points are in the folder.

    Raises:
        DataError: a trajectory of the haystack has no entry or no folder, or an id that names no folder.
        FileExistsError: the folder is not empty.
    """
    images = _write_question(folder, question, image)
    (folder / INSTRUCTION_FILE).write_text(
        instruction(prompts.instruction, parts, max_states), encoding="utf-8", newline="\n"
    )
    mounts = _mount_trajectories(folder, haystack, find_trajectory)
    if "manifest" in parts:
        missing = [each for each in haystack if each not in entries]
        if missing:
            raise DataError(f"found no manifest entries of the trajectories {missing[:5]}; make the pool again")
        shown = [entries[each] for each in haystack]
        for name, make in ((CONCISE_MANIFEST, concise_manifest), (FULL_MANIFEST, full_manifest)):
            (folder / TRAJECTORIES_FOLDER / name).write_text(make(shown), encoding="utf-8", newline="\n")
    if "helper" in parts:
        helper = folder / HELPER_FILE
        helper.parent.mkdir()
        shutil.copyfile(HELPER_SOURCE, helper)
    return Task(invocation(prompts.invocation, parts), MEMORY_FILE, images), mounts


def build_oracle_package(
    folder: Path,
    *,
    question: str,
    image: Path | None,
    oracle: Sequence[str],
    find_trajectory: Callable[[str], Path],
    prompts: AgentPrompts,
) -> tuple[Task, list[Mount]]:
    """Make the folder in which an agent answers a question from its oracle trajectories (paper, Table 8).

    Args:
        folder: the sandbox's folder; new, or empty.
        question: the question's text.
        image: the question's image.
        oracle: ids of the trajectories that hold the evidence.
        find_trajectory: folder of a trajectory on this machine.
        prompts: the texts.

    Returns:
        What the agent is asked, and the trajectories' read-only mounts.

    Raises:
        DataError: a trajectory has no folder, or an id that names no folder.
        FileExistsError: the folder is not empty.
    """
    images = _write_question(folder, question, image)
    (folder / INSTRUCTION_FILE).write_text(prompts.oracle_instruction + "\n", encoding="utf-8", newline="\n")
    (folder / ANSWER_FILE).write_text('{"answer": ""}\n', encoding="utf-8")
    mounts = _mount_trajectories(folder, oracle, find_trajectory)
    return Task(prompts.oracle_invocation, ANSWER_FILE, images), mounts


def _write_question(folder: Path, question: str, image: Path | None) -> tuple[str, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: a question's sandbox must not show anything of an earlier one")
    content = {"question": question}
    if image is not None:
        content["image"] = f"{_IMAGE_NAME}{image.suffix.lower()}"
        shutil.copyfile(image, folder / content["image"])
    text = json.dumps(content, ensure_ascii=False, indent=1)
    (folder / QUESTION_FILE).write_text(text + "\n", encoding="utf-8", newline="\n")
    return (content["image"],) if image is not None else ()


def _mount_trajectories(folder: Path, ids: Sequence[str], find_trajectory: Callable[[str], Path]) -> list[Mount]:
    """Make the mount points of distinct trajectories, and the mounts that go there."""
    inside = folder / TRAJECTORIES_FOLDER
    inside.mkdir()
    mounts = []
    for trajectory_id in dict.fromkeys(ids):
        source = find_trajectory(checked_folder_name(trajectory_id)).absolute()
        if not source.is_dir():
            raise DataError(f"trajectory {trajectory_id!r}: found no folder {source}; make the pool again")
        (inside / trajectory_id).mkdir()
        mounts.append(Mount(source, f"{TRAJECTORIES_FOLDER}/{trajectory_id}"))
    return mounts
