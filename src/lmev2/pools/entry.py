"""Pool entries as rows, and where an entry's text came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from lmev2.models.text import well_formed


class Origin(NamedTuple):
    """Where an entry's text came from.

    Attributes:
        kind: ``model``, ``repaired`` (by a second call), ``fallback`` (rules in place of a model) or ``rules``.
        detail: why it is repaired or a fallback, or why a model was shown less than the whole; else None.
        images_left_out: screenshots that a text-only controller did not see.
    """

    kind: Literal["model", "repaired", "fallback", "rules"]
    detail: str | None = None
    images_left_out: int = 0


RULES = Origin("rules")
# In the detail of an entry that a model made, these words say that it was shown trees cut to so many characters.
CUT_TREES = "with trees of"


def text_entry(
    entry_id: str,
    pool: str,
    trajectory_id: str,
    states: tuple[int, int, int],
    text: str,
    payload: Mapping[str, str],
    origin: Origin,
) -> dict[str, Any]:
    """A pool entry row with a text of its own.

    Args:
        states: first, last and centre state.
        text: what is embedded.
        payload: the entry's fields, kept as a JSON object.
    """
    first, last, center = states
    return {
        "entry_id": entry_id,
        "pool": pool,
        "trajectory_id": trajectory_id,
        "first_state": first,
        "last_state": last,
        "center_state": center,
        # a model's reply, or an escape in a page, can hold half a surrogate pair, which no file takes
        "text": well_formed(text),
        "payload": well_formed(json.dumps(payload, ensure_ascii=False)),
        "origin": origin.kind,
        "origin_detail": None if origin.detail is None else well_formed(origin.detail),
        "images_left_out": origin.images_left_out,
    }
