"""The size of trajectories in the reader's tokens, counted once per trajectory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lmev2.data.store import StateStore
from lmev2.models.types import TokenCounter
from lmev2.progress import Report
from lmev2.trajectory import Trajectory


def token_rows(
    names: Sequence[str], store: StateStore, counter: TokenCounter, report: Report
) -> Iterator[dict[str, Any]]:
    """A row per trajectory (contract ``TRAJECTORY_TOKENS``), in order, one trajectory in memory at a time."""
    for number, name in enumerate(names, start=1):
        yield trajectory_tokens(store.trajectory(name), counter)
        report(number, len(names))


def trajectory_tokens(trajectory: Trajectory, counter: TokenCounter) -> dict[str, Any]:
    """Tokens of a trajectory: of its goal and start address, and of each state's address, action, thought and tree.

    Each text is counted by itself. Images are counted apart: how many states have one, and what they cost the reader
    (0 for a text-only one).
    """
    known: dict[str, int] = {}  # states that follow each other often share their tree

    def count(text: str) -> int:
        if text not in known:
            known[text] = counter.count(text)
        return known[text]

    tokens = count(trajectory.goal) + count(trajectory.start_url)
    shots: list[Path] = []
    for state in trajectory.states:
        tokens += sum(count(text) for text in (state.url, state.action, state.thought, state.tree) if text)
        shots += [state.screenshot] if state.screenshot else []
    return {
        "trajectory_id": trajectory.trajectory_id,
        "states": len(trajectory.states),
        "text_tokens": tokens,
        "images": len(shots),
        "image_tokens": sum(counter.count_image(path) for path in shots),
    }
