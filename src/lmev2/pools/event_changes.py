"""What a transition changed, for events: fields with their old and new value, and controls that changed their state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lmev2.pools.note_view import SeenLine


class ValueChange(NamedTuple):
    """A field with another value; ``old`` is None where the page before shows several such fields."""

    role: str
    label: str
    old: str | None
    new: str


class FlagChange(NamedTuple):
    """A control that is now, or is no longer, checked, selected, expanded, pressed or disabled."""

    role: str
    label: str
    flag: str
    on: bool


def value_changes(before: Iterable[SeenLine], after: Iterable[SeenLine]) -> list[ValueChange]:
    """Fields of both states whose value differs, in the order of the state after; a cleared field's new value is empty.

    A field is known by its role and label. Where several share them, only values that no such field had before count.
    """
    found = []
    for key, old, new in _pairs(before, after):
        was, now = [dict.fromkeys(line.value for line in lines) for lines in (old, new)]
        left, came = [value for value in was if value not in now], [value for value in now if value not in was]
        if len(left) == len(came) == 1 and len(was) == len(now):
            found.append(ValueChange(*key, left[0], came[0]))
        else:
            found.extend(ValueChange(*key, None, value) for value in came if value)
    return found


def flag_changes(before: Iterable[SeenLine], after: Iterable[SeenLine]) -> list[FlagChange]:
    """Flags that the controls of both states gained or lost. Of controls that share role and label, which one changed
    cannot be told, and none is reported; neither are options, which show their list's value."""
    found = []
    for key, old, new in _pairs(before, after):
        if key[0] == "option" or len(old) != 1 or len(new) != 1:
            continue
        was, now = old[0].flags, new[0].flags
        found += [FlagChange(*key, flag, True) for flag in now if flag not in was]
        found += [FlagChange(*key, flag, False) for flag in was if flag not in now]
    return found


def _pairs(
    before: Iterable[SeenLine], after: Iterable[SeenLine]
) -> Iterable[tuple[tuple[str, str], list[SeenLine], list[SeenLine]]]:
    """Lines of both states by role and label, where they differ."""
    old, new = _by_key(before), _by_key(after)
    return [(key, old[key], lines) for key, lines in new.items() if key in old and old[key] != lines]


def _by_key(lines: Iterable[SeenLine]) -> Mapping[tuple[str, str], list[SeenLine]]:
    found: dict[tuple[str, str], list[SeenLine]] = {}
    for line in lines:
        found.setdefault((line.role, line.label), []).append(line)
    return found
