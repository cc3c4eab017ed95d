"""What an action changed on its page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lmev2.pools.note_view import RunView, Step


class Changes(NamedTuple):
    """Labels that only the state after shows, or only the state before, and fields with their new value."""

    appeared: list[str]
    gone: list[str]
    values: list[tuple[str, str]]


def changes(view: RunView, step: Step) -> Changes:
    """What a user sees differently after a step, apart from what the step typed and from messages."""
    before, after = view.seen[step.index - 1], view.seen[step.index]
    known, now = {line.label for line in before}, {line.label for line in after}
    said = (*step.typed, *step.messages)
    return Changes(
        _telling((line.label for line in after if line.label not in known), said),
        _telling((line.label for line in before if line.label not in now), said),
        [
            (line.label, line.value)
            for line in after
            if line.value and line.label not in {"", step.label} and line.label in known and line not in before
        ],
    )


def _telling(labels: Iterable[str], said: Iterable[str]) -> list[str]:
    """Labels of more than two characters, without those that another label or something said contains."""
    said = list(said)
    unique = list(dict.fromkeys(label for label in labels if len(label) > 2))
    return [
        label
        for label in unique
        if not any(label in text for text in said) and not any(label != other and label in other for other in unique)
    ]
