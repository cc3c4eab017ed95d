"""State chunks: each state's tree in overlapping pieces, so that a vector sees the whole of its state.

The paper's slice vector sees the first 4,096 tokens of three trees, which is seldom more than a part of the first. Here
every piece of the centre state has a vector and is found by its words; a hit stands for the slice around its state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from lmev2.pools.raw_state import slice_bounds
from lmev2.pools.settings import ChunkSettings
from lmev2.trajectory import State, Trajectory

STATE_CHUNK_POOL = "state_chunk"

_ELEMENT_ID = re.compile(r"^[ \t]*(?:\[[^\]\s]+\] )?", re.MULTILINE)
_LITERAL = r"(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
# What the tree says of an element's mechanics; its role, name, value and state (required, checked, …) stay.
_MECHANICS = re.compile(
    r", (?:clickable|visible|focused|atomic|(?:hasPopup|live|relevant|autocomplete|orientation|invalid|url|describedby|"
    rf"labelledby|controls|owns|keyshortcuts|roledescription)={_LITERAL}|(?:expanded|multiselectable|multiline|readonly)"
    r"=\w+)"
)


def state_chunk_entries(trajectory: Trajectory, radius: int, settings: ChunkSettings) -> list[dict[str, Any]]:
    """Pool entries of all states, in order: one per chunk, at least one per state.

    An entry spans the slice of ``radius`` states on either side of its state, as a raw-state slice does, and carries
    the chunk's text below its page's title. The payload names page and chunk: ``title``, ``url``, ``chunk`` (0-based).
    """
    rows = []
    for state in trajectory.states:
        first, last = slice_bounds(trajectory, state.state_index, radius)
        title = state.title
        for number, chunk in enumerate(state_chunks(state, settings)):
            payload = {"title": title, "url": state.url, "chunk": number}
            rows.append(
                {
                    "entry_id": f"{STATE_CHUNK_POOL}/{trajectory.trajectory_id}/{state.state_index:04d}/{number:04d}",
                    "pool": STATE_CHUNK_POOL,
                    "trajectory_id": trajectory.trajectory_id,
                    "first_state": first,
                    "last_state": last,
                    "center_state": state.state_index,
                    "text": f"{title}\n{chunk}" if title else chunk,
                    "payload": json.dumps(payload, ensure_ascii=False),
                    "origin": "rules",
                    "images_left_out": 0,
                }
            )
    return rows


def state_chunks(state: State, settings: ChunkSettings) -> list[str]:
    """A state's tree as overlapping texts of whole lines, without indentation, element ids and mechanics.

    A chunk has at most ``settings.chars`` characters and begins with the last lines of the one before, as many as fit
    into ``settings.overlap_chars``. A longer line is cut, its pieces overlapping likewise. An empty tree gives one
    empty chunk.
    """
    chunks: list[str] = []
    lines: list[str] = []
    size = 0
    for line in _lines(state.tree, settings):
        if lines and size + len(line) + 1 > settings.chars:
            chunks.append("\n".join(lines))
            lines = _tail(lines, min(settings.overlap_chars, settings.chars - len(line) - 1))
            size = sum(len(kept) + 1 for kept in lines)
        lines.append(line)
        size += len(line) + 1
    return [*chunks, "\n".join(lines)]


def _lines(tree: str, settings: ChunkSettings) -> Iterator[str]:
    step = settings.chars - settings.overlap_chars
    for line in _MECHANICS.sub("", _ELEMENT_ID.sub("", tree)).split("\n"):
        text = line.strip()
        while len(text) > settings.chars:
            yield text[: settings.chars]
            text = text[step:]
        if text:
            yield text


def _tail(lines: list[str], room: int) -> list[str]:
    """The last lines that fit into so many characters, line ends included."""
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]
