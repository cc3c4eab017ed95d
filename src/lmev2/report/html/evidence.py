"""A memory context as a part of a question's page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, Final

from lmev2.interchange.images import NO_PICTURE, told_name
from lmev2.interchange.schema import parse_queries
from lmev2.report.html.excerpt import Excerpt, Line, Marker
from lmev2.report.html.pictures import Picture, Pictures
from lmev2.report.html.spool import Spool
from lmev2.rows import RowError

ITEM_CHARS: Final = 3000  # shown of one item's text
THUMBNAIL_WIDTH: Final = 480
_MOST_STATES: Final = 12  # named one by one
_NAME_CHARS: Final = 120

POOL_NAMES: Final[Mapping[str, str]] = {
    "procedure_note": "Procedure note",
    "hint_note": "Hint note",
    "event": "Event",
    "raw_state": "Raw slice",
}
_OTHER: Final = "Item"

Hops = Sequence[set[tuple[str, int]]]


@dataclass(frozen=True)
class Item:
    """A text item with the screenshots that follow it, or screenshots without one.

    Attributes:
        number: position among the context's items, from 0.
        pool: pool in words; ``rank`` counts its items from 1.
        states: states whose content its text shows.
        hops: numbers, from 1, of the evidence hops that its text shows a state of.
        dropped: it was cut from the reader's context.
    """

    number: int
    pool: str
    pool_key: str | None
    rank: int
    score: float | None
    trajectory: str | None
    states: tuple[int, ...]
    excerpt: Excerpt | None
    query: str | None
    hops: tuple[int, ...]
    dropped: bool
    pictures: tuple[Shown, ...]

    @property
    def states_text(self) -> str:
        """The states in words."""
        return states_text(self.states)


@dataclass(frozen=True)
class Shown:
    """A screenshot.

    Attributes:
        picture: None where there is no readable file.
        trajectory, states: what it shows, if known; ``name`` stands for a picture that is of no trajectory.
        hops: numbers, from 1, of the evidence hops that it shows a state of.
        seen: the reader accepts images.
        absence: why there is no picture.
    """

    picture: Picture | None
    trajectory: str | None
    states: tuple[int, ...]
    name: str
    hops: tuple[int, ...]
    seen: bool = True
    absence: str = "No readable picture file"

    @property
    def caption(self) -> str:
        """What it shows, in words."""
        return ", ".join(filter(None, [self.trajectory, states_text(self.states)])) or self.name


@dataclass(frozen=True)
class Evidence:
    """A context ready to be shown: items, what was searched, and counts in words."""

    items: Sequence[Item]
    queries: Sequence[tuple[str, Sequence[str]]]
    summary: str
    dropped: int

    @property
    def searches(self) -> list[tuple[str, Sequence[str]]]:
        """Queries by pool, with pools that were searched with the same queries together."""
        together: dict[tuple[str, ...], list[str]] = {}
        for pool, texts in self.queries:
            together.setdefault(tuple(texts), []).append(pool)
        return [(", ".join(pools), texts) for texts, pools in together.items()]


class EvidenceMaker:
    """Makes contexts ready to be shown.

    Args:
        questions: question rows by id.
        hops: evidence hops by question id.
        pictures: takes the screenshots.
        spool: keeps excerpts, since methods mostly find the same entries.
    """

    def __init__(
        self,
        questions: Mapping[str, Mapping[str, Any]],
        hops: Mapping[str, Hops],
        pictures: Pictures,
        spool: Spool,
    ):
        self._questions, self._hops, self._pictures, self._spool = questions, hops, pictures, spool
        self._markers: dict[str, Marker] = {}

    def make(self, context: Mapping[str, Any], outcome: Mapping[str, Any]) -> Evidence:
        """What to show of a context row; ``outcome`` says what the reader dropped and whether it saw images."""
        question = str(context["question_id"])
        hops = self._hops.get(question, ())
        rows = context["items"]
        kept = len(rows) - outcome["items_dropped"] if outcome["items_before"] == len(rows) else len(rows)
        queries = _queries(context)
        items: list[Item] = []
        ranks: Counter[str | None] = Counter()
        number = 0
        while number < len(rows):
            row = rows[number]
            end = number + 1
            while end < len(rows) and rows[end]["type"] == "image" and _same_source(row, rows[end]):
                end += 1
            pictures = [one for one in rows[number:end] if one["type"] == "image"]
            ranks[row["pool"]] += 1
            text = row["value"] if row["type"] == "text" else None
            items.append(
                Item(
                    number,
                    POOL_NAMES.get(row["pool"], row["pool"] or _OTHER),
                    row["pool"],
                    ranks[row["pool"]],
                    row["score"],
                    row["trajectory_id"],
                    tuple(row["states"]) if text is not None else (),
                    None if text is None else self._excerpt(question, text),
                    None if text is None else _query_of(text, row["pool"], queries),
                    _covers(row, hops) if text is not None else (),
                    number >= kept,
                    tuple(self._shown(one, hops, outcome["images_shown"]) for one in pictures),
                )
            )
            number = end
        counts = Counter(item.pool for item in items)
        summary = ", ".join(f"{count} × {name}" for name, count in counts.items())
        return Evidence(items, queries, summary or "nothing", len(rows) - kept)

    def _excerpt(self, question: str, text: str) -> Excerpt:
        key = ("excerpt", question, blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest())
        kept = self._spool.get(key)
        if kept:
            lines, left_out, phrases = json.loads(kept)
            return Excerpt(tuple(Line(*line) for line in lines), left_out, frozenset(phrases))
        if question not in self._markers:
            row = self._questions[question]
            self._markers[question] = Marker(row["question"], row["answer"], row["eval_function"], ITEM_CHARS)
        made = self._markers[question].excerpt(text)
        lines = [[line.text, line.mark, line.weight] for line in made.lines]
        self._spool.put(key, json.dumps([lines, made.left_out, sorted(made.phrases)]))
        return made

    def _shown(self, row: Mapping[str, Any], hops: Hops, visible: bool) -> Shown:
        value = str(row["value"])
        name = PurePath(told_name(value)).name[:_NAME_CHARS]
        shown = Shown(None, row["trajectory_id"], tuple(row["states"]), name, _covers(row, hops), visible)
        if value.startswith(NO_PICTURE):
            return replace(shown, absence="The imported run names no file of the data root")
        return replace(shown, picture=self._pictures.add(value, THUMBNAIL_WIDTH))


def _same_source(text: Mapping[str, Any], image: Mapping[str, Any]) -> bool:
    return (text["pool"], text["trajectory_id"], text["score"]) == (
        image["pool"],
        image["trajectory_id"],
        image["score"],
    )


def _covers(row: Mapping[str, Any], hops: Hops) -> tuple[int, ...]:
    shown = {(row["trajectory_id"], state) for state in row["states"]}
    return tuple(number for number, hop in enumerate(hops, start=1) if not shown.isdisjoint(hop))


def states_text(states: Sequence[int]) -> str:
    """States in words, runs as ranges."""
    if not states:
        return ""
    ordered = sorted(set(states))
    runs: list[list[int]] = []
    for state in ordered:
        if runs and state == runs[-1][1] + 1:
            runs[-1][1] = state
        else:
            runs.append([state, state])
    names = [str(first) if first == last else f"{first}–{last}" for first, last in runs]
    more = f" and {len(names) - _MOST_STATES} more" if len(names) > _MOST_STATES else ""
    return f"state{'s' if len(ordered) > 1 else ''} {', '.join(names[:_MOST_STATES])}{more}"


def _queries(context: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Queries by pool, in the order of the context's sections; pools without one are left out."""
    order = ("note", "event", "raw_state")
    try:
        found = parse_queries(context["queries"])
    except ValueError as error:
        key = ", ".join(str(context[name]) for name in ("question_id", "method", "tier"))
        raise RowError(f"context of {key}: queries is {context['queries']!r:.80}: {error}; make it again") from error
    names = [name for name in order if name in found] + sorted(found.keys() - set(order))
    return [(name, found[name]) for name in names if found[name]]


def _query_of(text: str, pool: str | None, queries: Sequence[tuple[str, Sequence[str]]]) -> str | None:
    """The query that found an entry: its pool's only one, or the one that the item's text names."""
    group = "note" if pool in ("procedure_note", "hint_note") else pool
    own = dict(queries).get(group or "", ())
    if len(own) == 1:
        return own[0]
    return next((query for query in own if f"\nQuery: {query}\n" in text[: len(query) + 400]), None)


def best_lines(excerpt: Excerpt, most: int) -> list[Line]:
    """The marked lines of an excerpt with their neighbours, at most so many; its beginning where none is marked."""
    lines = list(excerpt.lines)
    gold = [number for number, line in enumerate(lines) if line.mark == "gold"]
    marked = sorted(gold, key=lambda number: (-lines[number].weight, number))
    marked += [number for number, line in enumerate(lines) if line.mark == "near"]
    wanted: set[int] = set()
    for number in marked or range(len(lines)):
        around = {near for near in (number - 1, number, number + 1) if 0 <= near < len(lines)}
        if len(wanted | around) > most:
            break
        wanted |= around
    result: list[Line] = []
    last = -1
    for number in sorted(wanted):
        if number > last + 1 and (not result or result[-1].mark != "gap"):
            result.append(Line("…", "gap"))
        result.append(lines[number])
        last = number
    return result + ([Line("…", "gap")] if last + 1 < len(lines) and result and result[-1].mark != "gap" else [])
