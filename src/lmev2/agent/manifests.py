"""The two manifests of a haystack, by which an agent finds likely trajectories (paper, Table 10).

Both are sorted by start url, so that runs of one application stand together, then by id.
"""

from __future__ import annotations

from collections.abc import Iterable

from lmev2.agent.pool import TrajectoryEntry

# A thought is there to tell why; long ones would make the manifest of a large haystack unreadable.
_THOUGHT_CHARS = 300


def concise_manifest(entries: Iterable[TrajectoryEntry]) -> str:
    """A Markdown table: id, goal, final reward, number of states and start url of each trajectory."""
    lines = ["| id | goal | final reward | states | start url |", "|---|---|---|---|---|"]
    for entry in _sorted(entries):
        cells = (entry.trajectory_id, entry.goal, f"{entry.reward:.1f}", str(entry.states), entry.start_url)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(["# Trajectories, in short", "", *lines, ""])


def full_manifest(entries: Iterable[TrajectoryEntry]) -> str:
    """A section per trajectory: start url, goal, final reward, number of states, thoughts and annotated actions.

    Every field and every action stands on one line. Action k led from state k - 1 to state k.
    """
    lines = [
        "# Trajectories, in full",
        "",
        "Action k led from state k-1 to state k; the thought behind it stands below it.",
        "",
    ]
    for entry in _sorted(entries):
        lines += [
            f"## {entry.trajectory_id}",
            "",
            f"- Start url: {_line(entry.start_url)}",
            f"- Goal: {_line(entry.goal)}",
            f"- Final reward: {entry.reward:.1f}",
            f"- States: {entry.states}",
            "- Actions:" if entry.actions else "- Actions: none",
        ]
        for number, (action, thought) in enumerate(zip(entry.actions, entry.thoughts, strict=True), 1):
            lines.append(f"  {number}. {_line(action)}")
            if thought and thought.strip():
                lines.append(f"     - {_cut(_line(thought))}")
        lines.append("")
    return "\n".join(lines)


def _sorted(entries: Iterable[TrajectoryEntry]) -> list[TrajectoryEntry]:
    return sorted(entries, key=lambda entry: (entry.start_url, entry.trajectory_id))


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("\\", "\\\\").replace("|", "\\|")


def _cut(text: str) -> str:
    return text if len(text) <= _THOUGHT_CHARS else text[: _THOUGHT_CHARS - 1].rstrip() + "…"
