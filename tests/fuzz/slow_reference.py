"""Slow and plain restatements of what the library reads, to compare it with."""

from __future__ import annotations

from lmev2.agent.output import Span


def boxed(text: str) -> str | None:
    """Content of the last ``\\boxed{…}``: of all beginnings the last one, up to the first end at which the braces are
    balanced, else to the end of the text."""
    opening = "\\boxed{"
    starts = [at for at in range(len(text)) if text[at : at + len(opening)] == opening]
    if not starts:
        return None
    rest = text[starts[-1] + len(opening) :]
    ends = [at for at in range(len(rest)) if rest[at] == "}" and rest[:at].count("{") == rest[:at].count("}")]
    return (rest[: ends[0]] if ends else rest).strip()


def span_states(written: list[object], states: dict[str, int]) -> list[tuple[str, int]]:
    """All states that usable spans name, in order, each once."""
    found: list[tuple[str, int]] = []
    for item in written:
        if not isinstance(item, dict):
            continue
        name, first, last = (item.get(key) for key in ("trajectory_id", "start_state_index", "end_state_index"))
        if not isinstance(name, str) or name not in states or type(first) is not int or type(last) is not int:
            continue
        if 0 <= first <= last < states[name]:
            found += [(name, state) for state in range(first, last + 1)]
    return list(dict.fromkeys(found))


def listed(spans: tuple[Span, ...]) -> list[tuple[str, int]]:
    """The states of spans in order."""
    return [(span.trajectory_id, state) for span in spans for state in range(span.first, span.last + 1)]


def tree_shape(text: str) -> list[tuple[int, int]]:
    """Of each line of a tree that is not blank: its parent's position, and the position behind its last descendant."""
    lines = [line for line in text.split("\n") if line.strip()]
    depths = [len(line) - len(line.lstrip("\t")) for line in lines]
    shape = []
    for at, depth in enumerate(depths):
        parents = [before for before in range(at) if depths[before] < depth]
        end = next((after for after in range(at + 1, len(lines)) if depths[after] <= depth), len(lines))
        # the nearest line before with fewer tabs; lines between them have at least as many as this one
        shape.append((parents[-1] if parents else -1, end))
    return shape


def occurs(phrase: str, text: str) -> bool:
    """The phrase stands in the text with no word character just before or behind it."""

    def is_word(character: str) -> bool:
        return character.isalnum() or character == "_"

    ends = range(len(text) - len(phrase) + 1)
    return any(
        text[at : at + len(phrase)] == phrase
        and not (at and is_word(text[at - 1]))
        and not (at + len(phrase) < len(text) and is_word(text[at + len(phrase)]))
        for at in ends
    )
