"""What an action changed on its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lmev2.pools.note_view import RunView, Step

_MOST_BEGINNING = 64
_FEW = 1000  # labels; with more, reading each text once is faster


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
    unique = list(dict.fromkeys(label for label in labels if len(label) > 2))
    inner = _contained(unique, dict.fromkeys(said))
    return [label for label in unique if label not in inner]


def _contained(labels: Sequence[str], said: Iterable[str]) -> set[str]:
    """Those of the labels, all different, that stand in something said or in a longer one of them."""
    return _found_in_one_text(labels, said) if len(labels) <= _FEW else _found_by_beginnings(labels, said)


def _found_in_one_text(labels: Sequence[str], said: Iterable[str]) -> set[str]:
    """All texts are put together, longer labels first, and each label is looked for in what stands before it. Between
    two texts stands a line end, which no label holds. The time grows with the square of the number of labels, but a
    character costs next to nothing."""
    longest = sorted(labels, key=len, reverse=True)
    joined = "".join(f"{text}\n" for text in (*said, *longest))
    end, found = len(joined), set[str]()
    for label in reversed(longest):
        end -= len(label) + 1
        if joined.find(label, 0, end) >= 0:
            found.add(label)
    return found


def _found_by_beginnings(labels: Sequence[str], said: Iterable[str]) -> set[str]:
    """A page may have tens of thousands of labels, which cannot be looked for one by one. Instead, each text is read
    once: where a label's beginning stands (a power of two of characters, more than half of the label or 64 of it),
    the pieces of those lengths that labels with this beginning have are looked up among the labels. The time grows
    with the number of characters, times the number of lengths that labels of the same beginning have.
    """
    lengths: dict[int, dict[str, set[int]]] = {}
    for label in labels:
        size = min(1 << len(label).bit_length() - 1, _MOST_BEGINNING)
        lengths.setdefault(size, {}).setdefault(label[:size], set()).add(len(label))
    known, found = set(labels), set[str]()
    for texts, shorter in ((said, 0), (labels, 1)):  # a label is not contained in itself
        for text in texts:
            most = len(text) - shorter
            for size, beginnings in lengths.items():
                for start in range(len(text) - size + 1):
                    for length in beginnings.get(text[start : start + size], ()):
                        if length <= most and (piece := text[start : start + length]) in known:
                            found.add(piece)
    return found
