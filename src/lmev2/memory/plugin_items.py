"""What a plugin's ``query`` returned, checked and made into items of a context."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmev2.memory.base import ContextItem

_ITEM = '{"type": "text" or "image", "value": text or absolute path}'


def context_items(
    returned: Any, state_counts: Mapping[str, int], workspace: Path, copies: Mapping[str, str]
) -> list[ContextItem]:
    """Items of a context.

    Args:
        returned: what the plugin returned.
        state_counts: number of states of each trajectory of the haystack.
        workspace: a folder that is removed before the reader opens images.
        copies: files in the workspace, and in whose place they stand.

    Raises:
        ValueError: not a list of items, or what an item holds cannot be shown; continues ``the plugin returned``.
    """
    if not isinstance(returned, list):
        raise ValueError(f"{type(returned).__name__}, expected a list of items {_ITEM}")
    items = []
    for number, item in enumerate(returned):
        try:
            items.append(_context_item(item, state_counts, workspace, copies))
        except ValueError as error:
            raise ValueError(f"as item {number} {error}") from error
    return items


def _context_item(
    item: Any, state_counts: Mapping[str, int], workspace: Path, copies: Mapping[str, str]
) -> ContextItem:
    if not isinstance(item, Mapping) or item.get("type") not in ("text", "image"):
        raise ValueError(f"{item!r:.120}, expected {_ITEM}")
    value = item.get("value")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"the value {value!r:.120}, expected a text that is not blank")
    if item["type"] == "image":
        value = _image_path(copies.get(value, value), workspace)
    trajectory_id, states = _evidence(item, state_counts)
    return ContextItem(item["type"], value, trajectory_id, states)


def _image_path(value: str, workspace: Path) -> str:
    path = Path(value)
    if not path.is_absolute():
        raise ValueError(f"the relative image path {value!r}, expected an absolute one")
    if not path.is_file():
        raise ValueError(f"the image path {value!r}, but there is no such file")
    if not path.is_relative_to(workspace):
        return value
    # A link to a file elsewhere is as good as that file.
    if path.resolve().is_relative_to(workspace.resolve()):
        raise ValueError(f"the image {value!r} of its workspace, which is removed after the queries; keep it elsewhere")
    return str(path.resolve())


def _evidence(item: Mapping[str, Any], state_counts: Mapping[str, int]) -> tuple[str | None, tuple[int, ...]]:
    """Which states an item shows, where the plugin says so."""
    trajectory_id, states = item.get("trajectory_id"), item.get("states")
    if trajectory_id is not None and (not isinstance(trajectory_id, str) or trajectory_id not in state_counts):
        raise ValueError(f"the trajectory_id {trajectory_id!r:.120}, expected an id of the question's haystack")
    if states is None or states == []:
        return trajectory_id, ()
    if trajectory_id is None:
        raise ValueError(f"the states {states!r:.120} without a trajectory_id")
    count = state_counts[trajectory_id]
    if not isinstance(states, list) or not all(type(one) is int and 0 <= one < count for one in states):
        raise ValueError(
            f"the states {states!r:.120}, expected a list of indices from 0 to {count - 1}, the states of trajectory "
            f"{trajectory_id}"
        )
    return trajectory_id, tuple(dict.fromkeys(states))
