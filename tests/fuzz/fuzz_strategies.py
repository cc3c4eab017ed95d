"""Texts and JSON that readers of outside input seldom expect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

# Half of a surrogate pair, marks of direction, line ends that are none, icon fonts, letters that change length in upper
# or lower case, control characters and the byte order mark.
ODD = "\ud800\udfff\u202e\u2028\u2029\x85\ue000\ufeff\u200b\u0130\u1e9e\u00df\ufb01\u01c5\x00\x1b\x7f\x0b\x0c\r\n\t 'é"
CHARACTERS = st.one_of(st.sampled_from(ODD), st.sampled_from("\"'\\{}[]()<>,;:=.|/-_ \n\tAaBb019"), st.characters())
TEXTS = st.text(CHARACTERS, max_size=60)

DEPTHS = (2, 60, 330, 900, 990, 999, 1200, 100_000)
_SCALARS = (
    "null", "true", "false", "0", "1", "-0", "2", "-1", "1.0", "1e0", "0.5", "1e999", "-1e999", "NaN", "Infinity",
    "-Infinity", "1" * 25, "9" * 4299, "9" * 5000, "-" + "9" * 5000, "2147483648", '""', '"t1"', '"\\ud800"',
    '"\\udc00\\ud800"', '"\\u0000"', '"\x01"', '"\u2028"', '"\\', "01", "+1", ".5", "'x'", "[]", "{}", "[,]", '{"a":1,}',
    '{"a":1,"a":2}', '{"\\ud800":1,"\\ud801":2}', "\ufeff1", "", " ",
)  # fmt: skip


def nested(depth: int, opening: str, inside: str = "1") -> str:
    """JSON text nested so many times."""
    return opening * depth + inside + ("]" if opening == "[" else "}") * depth


_DEEP = st.builds(nested, st.sampled_from(DEPTHS), st.sampled_from(["[", '{"a":']), st.sampled_from(["1", '"\\ud800"']))
JSON_TEXTS = st.recursive(
    st.one_of(st.sampled_from(_SCALARS), TEXTS.map(json.dumps), _DEEP),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: "[" + ",".join(items) + "]"),
        st.lists(st.tuples(TEXTS.map(json.dumps), inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=6,
)
_MARK = "\u241f-here"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], raw: str) -> str:
    """JSON text of a value with other JSON text at one place."""

    def copy(inner: Any, rest: tuple[Any, ...]) -> Any:
        if not rest:
            return _MARK
        if isinstance(inner, dict):
            return {key: copy(item, rest[1:]) if key == rest[0] else item for key, item in inner.items()}
        return [copy(item, rest[1:]) if number == rest[0] else item for number, item in enumerate(inner)]

    return json.dumps(copy(value, path), ensure_ascii=False).replace(json.dumps(_MARK, ensure_ascii=False), raw, 1)


@st.composite
def broken(draw: st.DrawFn, value: Any) -> str:
    """JSON text of a value in which something was replaced, added, left out, cut or said twice."""
    path = draw(st.sampled_from(list(places(value))))
    kind = draw(st.sampled_from(["replace", "replace", "replace", "add", "cut", "twice", "bytes"]))
    if kind == "replace":
        return replaced(value, path, draw(JSON_TEXTS))
    text = json.dumps(value)
    if kind == "cut":
        return text[: draw(st.integers(0, len(text)))]
    if kind == "bytes":
        at = draw(st.integers(0, len(text)))
        return text[:at] + draw(TEXTS) + text[at:]
    if not isinstance(value, dict) or not value:
        return text + draw(JSON_TEXTS)
    key = draw(st.sampled_from(sorted(value))) if kind == "twice" else draw(TEXTS)
    return f"{text[:-1]}, {json.dumps(key)}: {draw(JSON_TEXTS)}}}"


def encoded(text: str) -> bytes:
    """A text as a file may hold it, lone surrogates included, which are then no UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def with_words(*words: str) -> st.SearchStrategy[str]:
    """Texts made of these pieces and of odd characters, with long runs of one piece among them."""
    piece = st.one_of(st.sampled_from(words), st.sampled_from(words), TEXTS.map(lambda text: text[:4]))
    run = st.builds(lambda one, times: one * times, piece, st.sampled_from([1, 1, 1, 2, 3, 50]))
    return st.lists(run, max_size=12).map("".join)
