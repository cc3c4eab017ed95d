"""Raw state slices: each state of a trajectory with its neighbours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from lmev2.trajectory import State, Trajectory

RAW_STATE_POOL = "raw_state"
CENTER_STATE_POOL = "center_state"  # the same slices, embedded with the centre state first


def slice_bounds(trajectory: Trajectory, center: int, radius: int) -> tuple[int, int]:
    """First and last state of the slice of ``radius`` states on either side, clipped at the trajectory's ends.

    Raises:
        ValueError: the radius is negative.
    """
    if radius < 0:
        raise ValueError(f"the radius of a raw state slice must be at least 0, not {radius}")
    return max(0, center - radius), min(len(trajectory.states) - 1, center + radius)


def raw_state_entries(trajectory: Trajectory, radius: int, pool: str = RAW_STATE_POOL) -> list[dict[str, Any]]:
    """One pool entry per state: its slice.

    The payload names the centre state's page: ``title`` (null without one) and ``url``. Entries carry no text; it is
    rendered from the states when it is embedded (:func:`embedded_text`), so that no tree is stored several times.

    Args:
        radius: states on either side of the centre.
        pool: ``raw_state`` or ``center_state``, which decides about the order of the states in the embedded text.

    Raises:
        ValueError: the radius is negative.
    """
    rows = []
    for state in trajectory.states:
        first, last = slice_bounds(trajectory, state.state_index, radius)
        rows.append(
            {
                "entry_id": f"{pool}/{trajectory.trajectory_id}/{state.state_index:04d}",
                "pool": pool,
                "trajectory_id": trajectory.trajectory_id,
                "first_state": first,
                "last_state": last,
                "center_state": state.state_index,
                "text": None,
                "payload": json.dumps({"title": state.title, "url": state.url}, ensure_ascii=False),
                "origin": "rules",
                "images_left_out": 0,
            }
        )
    return rows


def embedding_order(pool: str, states: Sequence[State], center: int) -> list[State]:
    """The states of a slice in the order of its embedded text: as they stand, or for ``center_state`` the centre
    first."""
    return sorted(states, key=lambda state: state.state_index != center) if pool == CENTER_STATE_POOL else list(states)


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
