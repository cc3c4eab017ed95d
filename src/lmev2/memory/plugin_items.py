"""What a plugin's ``query`` returned, checked and made into items of a context."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from lmev2.memory.base import ContextItem
from lmev2.memory.plugin_guard import described, readable, shown

_ITEM = '{"type": "text" or "image", "value": text or absolute path}'


class ItemError(ValueError):
    """Something that cannot be shown; the message continues ``the plugin returned``."""


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
        ItemError: not a list of items, or what an item holds cannot be shown.
    """
    if not isinstance(returned, list):
        raise ItemError(f"{type(returned).__name__}, expected a list of items {_ITEM}")
    items = []
    for number, item in enumerate(returned):
        try:
            items.append(_context_item(item, state_counts, workspace, copies))
        except ItemError as error:
            raise ItemError(f"as item {number} {error}") from error
    return items


def plain_items(returned: list[Any]) -> list[dict[str, str]]:
    """Kind and value of items that were found in order, as the plugin gave them."""
    return [{"type": item["type"], "value": item["value"]} for item in returned]


def _context_item(
    item: Any, state_counts: Mapping[str, int], workspace: Path, copies: Mapping[str, str]
) -> ContextItem:
    kind = item.get("type") if isinstance(item, Mapping) else None
    if not isinstance(kind, str) or kind not in ("text", "image"):
        raise ItemError(f"{shown(item)}, expected {_ITEM}")
    value = _text(item.get("value"))
    if item["type"] != "image":
        return ContextItem("text", value, *_evidence(item, state_counts))
    path = _image_path(copies.get(value, value), workspace)
    return ContextItem("image", path, *_evidence(item, state_counts))


def _text(value: Any) -> str:
    """An item's value; of a subclass of str, such as an enumeration's member, the text that it holds."""
    text = str.__str__(value) if isinstance(value, str) else ""
    if not text.strip():
        raise ItemError(f"the value {shown(value)}, expected a text that is not blank")
    if readable(text) != text:
        raise ItemError(f"the value {shown(text)}, which holds a lone surrogate and cannot be written as UTF-8")
    return text


def _image_path(value: str, workspace: Path) -> str:
    path = Path(value)
    if not path.is_absolute():
        raise ItemError(f"the relative image path {shown(value)}, expected an absolute one")
    _check_image(path)
    if not path.is_relative_to(workspace):
        return value
    # A link to a file elsewhere is as good as that file.
    if path.resolve().is_relative_to(workspace.resolve()):
        raise ItemError(
            f"the image {shown(value)} of its workspace, which is removed after the queries; keep it elsewhere"
        )
    return str(path.resolve())


def _check_image(path: Path) -> None:
    try:
        if not path.is_file():
            raise ItemError(f"the image path {shown(str(path))}, but there is no such file")
        with Image.open(path) as image:
            image.verify()
    except ItemError:
        raise
    except Exception as error:  # Pillow raises many kinds, SyntaxError for a broken PNG among them
        raise ItemError(
            f"the image path {shown(str(path))}, which cannot be opened as an image ({described(error)})"
        ) from error


def _evidence(item: Mapping[str, Any], state_counts: Mapping[str, int]) -> tuple[str | None, tuple[int, ...]]:
    """Which states an item shows, where the plugin says so."""
    trajectory_id, states = item.get("trajectory_id"), item.get("states")
    if trajectory_id is not None and (not isinstance(trajectory_id, str) or trajectory_id not in state_counts):
        raise ItemError(f"the trajectory_id {shown(trajectory_id)}, expected an id of the question's haystack")
    if states is None or (isinstance(states, list) and not states):
        return trajectory_id, ()
    if trajectory_id is None:
        raise ItemError(f"the states {shown(states)} without a trajectory_id")
    count = state_counts[trajectory_id]
    if not isinstance(states, list) or not all(type(one) is int and 0 <= one < count for one in states):
        raise ItemError(
            f"the states {shown(states)}, expected a list of indices from 0 to {count - 1}, the states of trajectory "
            f"{trajectory_id}"
        )
    return trajectory_id, tuple(dict.fromkeys(states))
