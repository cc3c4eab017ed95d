"""Small trajectories, prompts and sandboxes for the tests of coding agents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmev2.agent.instruction import load_agent_prompts
from lmev2.agent.package import build_package
from lmev2.agent.pool import trajectory_entry, write_trajectory_folder
from lmev2.agent.types import Execution, Mount, PartName, Task
from lmev2.trajectory import State, Trajectory

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = load_agent_prompts(ROOT / "workflow" / "prompts")
ALL: tuple[PartName, ...] = ("workflow", "manifest", "helper")
ROWS: dict[str, tuple[PartName, ...]] = {
    "codex": (),
    "agentrunbook_c": ALL,
    "no_workflow": ("manifest", "helper"),
    "no_manifest": ("workflow", "helper"),
    "no_helper": ("workflow", "manifest"),
}


def state(trajectory_id: str, index: int, tree: str, **fields: Any) -> State:
    """A state; its action and thought say its index."""
    given: dict[str, Any] = {
        "step": index,
        "url": f"http://shop/{trajectory_id}/{index}",
        "action": f"click('{index}')" if index else None,
        "action_annotated": f"click('{index}') -> [{index}] button 'Go {index}'" if index else None,
        "thought": f"thought {index}" if index else None,
        "screenshot": None,
    }
    return State(trajectory_id=trajectory_id, state_index=index, tree=tree, **{**given, **fields})


def trajectory(trajectory_id: str, trees: Sequence[str], **fields: Any) -> Trajectory:
    """A trajectory with these trees."""
    states = tuple(state(trajectory_id, index, tree) for index, tree in enumerate(trees))
    given = {"domain": "web", "environment": "shop", "goal": f"Goal of {trajectory_id}", "outcome": "success"}
    given |= {"start_url": f"http://shop/{trajectory_id}", "states": states}
    return Trajectory(trajectory_id=trajectory_id, **{**given, **fields})


def page(title: str, *lines: str) -> str:
    """An accessibility tree."""
    return "\n".join(
        [f"RootWebArea '{title}', focused", *(f"\t[{number}] {line}" for number, line in enumerate(lines, 7))]
    )


RUNS = (
    trajectory(
        "lamp-01",
        [
            page("Catalogue", "link 'Harbour lamp'", "searchbox 'Search'"),
            page(
                "Harbour lamp", "heading 'Harbour lamp'", "combobox 'Wick size' value='Narrow'", "button 'Put in crate'"
            ),
            page("Crate", "StaticText 'One harbour lamp in your crate'", "button 'Send crate'"),
            page("Crate sent", "alert 'Your crate leaves at dawn'", "link 'Track crate'"),
        ],
        goal="Order a harbour lamp with a narrow wick",
    ),
    trajectory(
        "rope-01",
        [
            page("Catalogue", "link 'Hemp rope'", "searchbox 'Search'"),
            page("Hemp rope", "heading 'Hemp rope'", "spinbutton 'Fathoms' value='10'", "button 'Put in crate'"),
        ],
        goal="Find the price of ten fathoms of hemp rope",
        outcome="failure",
    ),
    trajectory(
        "staff-01",
        [
            page("Ledger", "heading 'Orders'", "columnheader 'Berth'", "columnheader 'Keeper'"),
            page("Order 12", "combobox 'Station' value='Picked'", "button 'Void'"),
            page("Order 12 voided", "alert 'Order 12 was voided'", "StaticText 'Reason kept'"),
        ],
        goal="Void order 12",
        start_url="http://staff/ledger",
    ),
)


class FolderBox:
    """A box without isolation: commands run in the folder, and its mounts are links."""

    def __init__(self, folder: Path, mounts: Sequence[Mount]):
        self.folder = folder
        self.inside = str(folder)
        self.mounts = mounts
        self.added: dict[str, str] = {}  # further variables of commands
        for mount in mounts:
            (folder / mount.target).rmdir()
            (folder / mount.target).symlink_to(mount.source)

    def path_inside(self, mount: Mount) -> str:
        return str(mount.source) if mount.target.startswith("/") else str(self.folder / mount.target)

    def execute(
        self, command: Sequence[str], timeout_s: float, *, variables: Mapping[str, str] | None = None, **_: Any
    ) -> Execution:
        program = [sys.executable, *command[1:]] if command[0] == "python" else list(command)
        environment = {"PATH": os.environ["PATH"], **(variables or {}), **self.added}
        began = time.monotonic()
        try:
            done = subprocess.run(
                program, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            return Execution(None, "", "", True, time.monotonic() - began)
        return Execution(done.returncode, done.stdout, done.stderr, False, time.monotonic() - began)


def sandbox(
    tmp_path: Path,
    question: str,
    parts: Sequence[PartName] = ALL,
    *,
    runs: Sequence[Trajectory] = RUNS,
    image: Path | None = None,
    max_states: int = 20,
) -> tuple[FolderBox, Task]:
    """A question's sandbox over these runs; the pool lies beside it."""
    pool = tmp_path / "pool"
    for run in runs:
        if not (pool / run.trajectory_id).exists():
            write_trajectory_folder(run, pool)
    folder = tmp_path / f"box{len(list(tmp_path.iterdir()))}"
    task, mounts = build_package(
        folder,
        question=question,
        image=image,
        haystack=[run.trajectory_id for run in runs],
        find_trajectory=lambda trajectory_id: pool / trajectory_id,
        entries={run.trajectory_id: trajectory_entry(run) for run in runs},
        parts=parts,
        prompts=PROMPTS,
        max_states=max_states,
    )
    return FolderBox(folder, mounts), task


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
