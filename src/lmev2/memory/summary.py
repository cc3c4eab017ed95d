"""What a haystack's memory holds, in a few lines, for the prompt that asks for queries (paper, Table 9)."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from lmev2.data.store import StateStore
from lmev2.index import Hit
from lmev2.memory.queries import squeeze
from lmev2.memory.settings import RAW_STATE_TABLES

_POOL_LABELS = {
    "raw_state": "raw state slices",
    "event": "state-transition events",
    "procedure_note": "procedure notes",
    "hint_note": "hint notes",
}
_GOALS, _PAGE_TITLES, _NOTE_TITLES = 12, 20, 8
_LINE_CHARS = 160


class EntryList(Protocol):
    """What a summary needs of a pool's index."""

    def entries(self, haystack: Sequence[str]) -> list[Hit]:
        """All entries of the haystack's trajectories."""
        ...


class HaystackSummaries:
    """Summaries by haystack; the last few are kept.

    Args:
        indexes: an open index per table; the summary covers these pools.
        store: goals and outcomes of the trajectories.
        keep: how many summaries stay in memory, latest used.
    """

    def __init__(self, indexes: Mapping[str, EntryList], store: StateStore, keep: int = 4):
        self._indexes, self._store, self._keep = indexes, store, keep
        self._kept: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, haystack: tuple[str, ...]) -> str:
        """The summary of a haystack's memory: counts per pool, a spread of goals, frequent page titles, a spread of
        note titles. Depends on which trajectories are in the haystack, not on their order; at most 64 lines."""
        with self._lock:
            found = self._kept.pop(haystack, None)
            summary = self._make(haystack) if found is None else found
            self._kept[haystack] = summary
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        return summary

    def _entries(self, pool: str, haystack: tuple[str, ...]) -> list[Hit] | None:
        """Entries of a pool; None if the memory lacks it. A raw state counts once, whatever its vectors are made of."""
        tables = RAW_STATE_TABLES.values() if pool == "raw_state" else (pool,)
        index = next((self._indexes[table] for table in tables if table in self._indexes), None)
        if index is None:
            return None
        found = index.entries(haystack)
        return (
            list({(hit.trajectory_id, hit.center_state): hit for hit in found}.values())
            if pool == "raw_state"
            else found
        )

    def _make(self, haystack: tuple[str, ...]) -> str:
        facts = [self._store.facts(name) for name in haystack]
        outcomes = Counter(str(fact["outcome"]) for fact in facts)
        entries = {pool: found for pool in _POOL_LABELS if (found := self._entries(pool, haystack)) is not None}
        sections = [
            f"\n{len(facts)} trajectories"
            + (f" ({', '.join(f'{count} {name}' for name, count in sorted(outcomes.items()))})" if facts else "")
            + "; entries: "
            + (", ".join(f"{len(found)} {_POOL_LABELS[table]}" for table, found in entries.items()) or "none"),
            _listed("Goals", "goals", *_spread((fact["goal"] for fact in facts), _GOALS)),
            _page_titles(entries.get("raw_state", [])),
        ]
        for table in ("procedure_note", "hint_note"):
            titles = (hit.payload["title"] for hit in entries.get(table, []))
            label = _POOL_LABELS[table]
            sections.append(_listed(f"Titles of {label}", "titles", *_spread(titles, _NOTE_TITLES)))
        return "\n".join(filter(None, sections))


def _page_titles(slices: Iterable[Hit]) -> str:
    """The titles that most states have."""
    counts = Counter(_line(hit.payload["title"]) for hit in slices if hit.payload["title"])
    common = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [f"{title} ({count} state{'s' if count > 1 else ''})" for title, count in common[:_PAGE_TITLES]]
    return _listed("Common page titles", "titles", shown, len(common))


def _spread(values: Iterable[object], limit: int) -> tuple[list[str], int]:
    """At most so many distinct values, evenly spaced in alphabetical order so that alike ones are thinned out, and how
    many distinct values there are."""
    distinct = sorted({_line(value) for value in values} - {""})
    count = len(distinct)
    if count <= limit:
        return distinct, count
    return [distinct[number * (count - 1) // (limit - 1)] for number in range(limit)], count


def _listed(heading: str, what: str, lines: Sequence[str], of: int) -> str:
    if not lines:
        return ""
    part = f" ({len(lines)} of {of} different {what})" if of > len(lines) else ""
    return "\n".join([f"{heading}{part}:", *(f"- {line}" for line in lines)])


def _line(value: object) -> str:
    """A value on one line of bounded length."""
    text = squeeze(str(value))
    return text if len(text) <= _LINE_CHARS else text[: _LINE_CHARS - 1] + "…"
