"""Raw state slices: each state of a trajectory with its neighbours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from lmev2.trajectory import State, Trajectory

RAW_STATE_POOL = "raw_state"


def raw_state_entries(trajectory: Trajectory, radius: int) -> list[dict[str, Any]]:
    """One pool entry per state: the slice of ``radius`` states on either side, clipped at the trajectory's ends.

    The payload names the centre state's page: ``title`` (null without one) and ``url``. Entries carry no text; it is rendered from the states when it is embedded (:func:`embedded_text`), so that no tree
    is stored several times.

    Raises:
        ValueError: the radius is negative.
    """
    if radius < 0:
        raise ValueError(f"the radius of a raw state slice must be at least 0, not {radius}")
    last = len(trajectory.states) - 1
    return [
        {
            "entry_id": f"{RAW_STATE_POOL}/{trajectory.trajectory_id}/{center:04d}",
            "pool": RAW_STATE_POOL,
            "trajectory_id": trajectory.trajectory_id,
            "first_state": max(0, center - radius),
            "last_state": min(last, center + radius),
            "center_state": center,
            "text": None,
            "payload": json.dumps(
                {"title": trajectory.states[center].title, "url": trajectory.states[center].url}, ensure_ascii=False
            ),
            "origin": "rules",
            "images_left_out": 0,
        }
        for center in range(last + 1)
    ]


def embedded_text(states: Sequence[State], max_chars: int | None = None) -> str:
    """The text of a slice that is embedded: for each of its states, in order, the index and the accessibility tree.

    Args:
        states: the slice's states.
        max_chars: return exactly the first so many characters, without building the rest. An embedder sees only
            the beginning of a slice of large trees, and building and tokenising what it cuts away is wasted time.
    """
    if max_chars is None:
        return "".join(_pieces(states))
    parts: list[str] = []
    left = max_chars
    for piece in _pieces(states):
        if left <= 0:
            break
        parts.append(piece[:left])
        left -= len(parts[-1])
    return "".join(parts)


def _pieces(states: Sequence[State]) -> Iterator[str]:
    for number, state in enumerate(states):
        yield f"{chr(10) * 2 if number else ''}State {state.state_index}\n"
        yield state.tree
