"""The task-specific values of a goal: what a rewritten goal must still hold, and must not hold more of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from lmev2.goals.quotes import Span, quoted_spans

_TOKEN = re.compile(r"(?<!\S)\S+@\S+|[#$€£]?[\w][\w.:/,+-]*|\(\d+\)")
_STEP_NUMBER = re.compile(r"^[ \t]*+(\d{1,2})[.)](?=\s)", re.MULTILINE)
# In one line with others: after the end of a sentence, before a capital or a quotation mark.
_INLINE_STEP = re.compile(r"(?:^[ \t]*+|(?<=[.!?:;…])[ \t]++)(\d{1,2})[.)](?=[ \t]++[\"“'‘A-ZÀ-Þ|])")
# Double-barrelled names, with the capitalised words that go with them; and capitalised words after a small one.
_NAME = re.compile(r"\b[A-ZÀ-Þ]\w*(?:-[A-ZÀ-Þ]\w*)+(?:[ \t]+[A-ZÀ-Þ]\w*(?:-[A-ZÀ-Þ]\w*)*)*")
_CAPITALS = re.compile(r"(?:(?<=[a-zß-ÿ][ \t])|(?<=[,:][ \t]))[A-ZÀ-Þ]\w+(?:[ \t]+[A-ZÀ-Þ]\w+)+")
_ITEM = re.compile(r"^[ \t]*+[-*•][ \t]++(?P<key>[^:\n\"“']{1,60}?)[ \t]*+:[ \t]++(?P<value>\S[^\n]*+)", re.MULTILINE)
# ``Item: Apple Watch, Quantity: 1``: longer texts after a colon are prose.
_INLINE = re.compile(
    r"\b(?P<key>[A-ZÀ-Þ][\w ]{1,30}): (?P<value>[^\s,.;:|][^,.;:|\n]{0,29})(?=[,.;]|[ \t]*+$)", re.MULTILINE
)
_TRAILING = ".,:;!?'’-/+"
# Between two quoted texts of one condition: "F" is "V", a value of "V" for field "F".
_BETWEEN = re.compile(r"^ (?!(?:and|or|then) )(?:[a-z]+ ){1,3}$")
Range = tuple[int, int]


def values(text: str, outside: Sequence[Range] = ()) -> list[str]:
    """The values of a goal, in order of their kind and place, without repeats.

    They are: quoted texts, keys and values of configurations in braces, key and value of ``- Key: value`` lines and of
    short ``Key: value`` phrases, hashtags, numbers, dates, amounts, record numbers and addresses, and names of people
    and things in capitals.

    Args:
        outside: ranges of the text that are no values, such as routes.
    """
    spans = quoted_spans(text)
    found: list[str] = []
    for span in spans:
        if not _inside(span.start, span.end, outside):
            found += _of_braces(span.content) if span.braces else [span.content]
    for match in _ITEM.finditer(text):
        if not _inside(match.start("key"), match.end("value"), outside):
            found += [match["key"], match["value"]]
    prose = _blank(text, [*outside, *map(_range, spans), *steps(text)])
    for match in _TOKEN.finditer(prose):
        token = match[0].rstrip(_TRAILING)
        if any(character.isdigit() for character in token) or "@" in token or token.startswith("#"):
            found.append(token)
    found += [part for match in _INLINE.finditer(prose) for part in (match["key"], match["value"])]
    found += [match[0] for pattern in (_NAME, _CAPITALS) for match in pattern.finditer(prose)]
    return list(dict.fromkeys(text for value in found if (text := " ".join(value.split()))))


def pairs(text: str, outside: Sequence[Range] = ()) -> list[tuple[str, str]]:
    """Pairs of values that belong together: field and value of a condition, key and value of a configuration."""
    spans = [span for span in quoted_spans(text) if not _inside(span.start, span.end, outside)]
    found: list[tuple[str, str]] = []
    for first, second in pairwise(spans):
        if not (first.braces or second.braces) and _BETWEEN.match(text[first.end : second.start]):
            found.append((first.content, second.content))
    for span in spans:
        if span.braces:
            items = _of_braces(span.content)
            found += zip(items[::2], items[1::2], strict=False)
    return [(first, second) for first, second in dict.fromkeys(found) if first.strip() and second.strip()]


def steps(text: str) -> list[Range]:
    """Where the numbers of steps stand: at heads of lines, and within a line that counts from 1; not in quotes."""
    prose = _blank(text, map(_range, quoted_spans(text)))
    found = {match.span(1) for match in _STEP_NUMBER.finditer(prose)}
    start = 0
    for line in prose.split("\n"):
        counted = list(_INLINE_STEP.finditer(line))
        if len(counted) > 1 and [int(match[1]) for match in counted] == list(range(1, len(counted) + 1)):
            found |= {(start + match.start(1), start + match.end(1)) for match in counted}
        start += len(line) + 1
    return sorted(found)


def normal(text: str) -> str:
    """The text as values are compared: case folded, single spaces, one kind of quotation marks."""
    return " ".join(re.sub(r"[’‘]", "'", re.sub(r"[“”]", '"', text)).casefold().split())


def stands_in(value: str, text: str) -> bool:
    """Whether a value stands in a text that :func:`normal` gave, not as part of a longer word or number."""
    return next(places_of(value, text), None) is not None


def places_of(value: str, text: str) -> Iterator[int]:
    """Where a value stands in a normal text."""
    wanted = normal(value)
    start = text.find(wanted) if wanted else -1
    while start >= 0:
        end = start + len(wanted)
        if not (_joins(text[start - 1 : start], wanted[0]) or _joins(wanted[-1], text[end : end + 1])):
            yield start
        start = text.find(wanted, start + 1)


def _joins(left: str, right: str) -> bool:
    return bool(left) and bool(right) and left.isalnum() and right.isalnum()


def _of_braces(content: str) -> list[str]:
    """Keys and values of a configuration in turn; of one that cannot be read, the whole."""
    try:
        items = ast.literal_eval(content)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [content]
    if not isinstance(items, dict):
        return [content]
    return [str(part) for item in items.items() for part in item]


def _range(span: Span) -> Range:
    return span.start, span.end


def _inside(start: int, end: int, ranges: Iterable[Range]) -> bool:
    return any(start < stop and end > begin for begin, stop in ranges)


def _blank(text: str, ranges: Iterable[Range]) -> str:
    """The text with other characters in place of the ranges, so that positions stay and nothing joins across them."""
    characters = list(text)
    for start, end in ranges:
        characters[start:end] = "|" * (end - start)
    return "".join(characters)
