"""Every regular expression of the library, and texts that make a backtracking one slow, made from its own parse tree."""

from __future__ import annotations

import ast
import importlib
import itertools
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from re import _constants as c
from re import _parser
from typing import Any

import lmev2

SOURCE = Path(lmev2.__file__).parent
_METHODS = ("search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn")
_SAMPLES = 6  # of one piece of a pattern
_PREFIX_CHARS = 60
_CATEGORIES = {
    c.CATEGORY_SPACE: " \n\t",
    c.CATEGORY_NOT_SPACE: "a.'",
    c.CATEGORY_WORD: "aA1_",
    c.CATEGORY_NOT_WORD: " .'",
    c.CATEGORY_DIGIT: "1",
    c.CATEGORY_NOT_DIGIT: "a .",
}


@dataclass(frozen=True)
class Found:
    """A regular expression of the library and how it is called."""

    where: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]
    squeezed: bool = False  # the library applies it to texts with single blanks as their only white space

    def call(self, text: str) -> None:
        """Apply it as the library does; where that is not known, as a search."""
        if self.squeezed:
            text = " ".join(text.split())
        subject: Any = text.encode("utf-8") if isinstance(self.pattern.pattern, bytes) else text
        methods = self.methods or {"search"}
        if methods <= {"match", "fullmatch"}:
            for method in methods:
                getattr(self.pattern, method)(subject)
        else:
            for _ in self.pattern.finditer(subject):
                pass


def library_patterns() -> list[Found]:
    """Those that modules and classes hold, and those that functions give to ``re`` as literals."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    everything = "\n".join(sources.values())
    found: dict[tuple[str, int], Found] = {}
    for path in sources:
        place = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        if place == "lmev2.__main__":  # a program, which runs when it is imported
            continue
        try:
            module = importlib.import_module(place)
        except ImportError:  # an extra that is not installed
            continue
        for name, value in list(vars(module).items()):
            for pattern in _patterns_in(value, 0):
                methods = frozenset(re.findall(rf"\b{re.escape(name)}\.({'|'.join(_METHODS)})\(", everything))
                key = (str(pattern.pattern), pattern.flags)
                found.setdefault(key, Found(f"{place}.{name}", pattern, methods))
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            literal = _inline(node)
            if literal is not None:
                text, method, line = literal
                pattern = re.compile(text)
                place = f"{path.relative_to(SOURCE)}:{line}"
                found.setdefault((str(pattern.pattern), pattern.flags), Found(place, pattern, frozenset({method})))
    return sorted(found.values(), key=lambda one: one.where)


def _patterns_in(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset)) and depth < 3:
        for item in value:
            yield from _patterns_in(item, depth + 1)
    elif isinstance(value, dict) and depth < 3:
        for item in value.values():
            yield from _patterns_in(item, depth + 1)


def _inline(node: ast.AST) -> tuple[str | bytes, str, int] | None:
    """Pattern, method and line of a call such as ``re.search("…", text)``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return None
    if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
        return None
    if node.func.attr == "compile":  # of a module: found above, with its flags
        return None
    first = node.args[0]
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str | bytes)):
        return None
    return first.value, node.func.attr, node.lineno


def attacks(pattern: re.Pattern[Any]) -> list[tuple[str, str]]:
    """Pairs of a beginning and of what is repeated behind it: what leads up to each repeat of the pattern, and one round
    of the repeat; also what leads up to it as the repeated thing, since a search starts anew at each place."""
    text = pattern.pattern
    source = text.decode("latin-1") if isinstance(text, bytes) else text
    parsed = _parser.parse(source, pattern.flags & ~re.UNICODE if isinstance(text, bytes) else pattern.flags)
    found: dict[tuple[str, str], None] = {}
    for prefixes, rounds in _repeats(parsed, [""]):
        for prefix, one in itertools.product(prefixes[:_SAMPLES], rounds[:_SAMPLES]):
            if one:
                found[prefix, one] = None
                found["", one] = None
                found["", prefix + one] = None
                found["", prefix + one * 3] = None
    wholes = _samples(parsed)
    for one in wholes:
        found["", one + " "] = None
        found["", one[: max(1, len(one) // 2)]] = None
    for one in (" ", "\t", "\n", "a", "A", "1", "'", '"', "\\", "(", "[", "{", "<", "{ ", "a ", "A ", ", a=(", "\\'"):
        found["", one] = None
    return [pair for pair in found if pair[1]]


def _repeats(tokens: Any, prefixes: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """For every repeat below: what may stand before it, and what one round of it may be."""
    for token in tokens:
        operation, argument = token
        if operation in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            if argument[1] is c.MAXREPEAT or argument[1] > 2:
                yield prefixes, _samples(argument[2])
            yield from _repeats(argument[2], prefixes)
        elif operation is c.SUBPATTERN:
            yield from _repeats(argument[3], prefixes)
        elif operation is c.ATOMIC_GROUP:
            yield from _repeats(argument, prefixes)
        elif operation is c.BRANCH:
            for branch in argument[1]:
                yield from _repeats(branch, prefixes)
        elif operation in (c.ASSERT, c.ASSERT_NOT):
            yield from _repeats(argument[1], prefixes)
        pieces = _samples([token])
        prefixes = list(dict.fromkeys(a + b for a, b in itertools.product(prefixes, pieces) if len(a + b) < 200))
        prefixes = sorted(prefixes, key=len)[: _SAMPLES * 2] or [""]


def _samples(tokens: Any) -> list[str]:
    """Some texts that a piece of a pattern matches, look-around aside."""
    texts = [""]
    for operation, argument in tokens:
        pieces = _piece(operation, argument)
        texts = list(dict.fromkeys(a + b for a, b in itertools.product(texts, pieces)))
        step = max(1, len(texts) // _SAMPLES)
        texts = texts[::step][:_SAMPLES]
    return texts


def _piece(operation: Any, argument: Any) -> list[str]:
    if operation is c.LITERAL:
        return [chr(argument)]
    if operation is c.NOT_LITERAL:
        return ["a" if argument != ord("a") else "b"]
    if operation is c.ANY:
        return ["a", " ", "'"]
    if operation is c.IN:
        return _set(argument)
    if operation in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
        low, high, inside = argument
        some = _samples(inside)
        return list(dict.fromkeys([one * low for one in some] + [one * min(max(low, 1), high) for one in some]))
    if operation is c.SUBPATTERN:
        return _samples(argument[3])
    if operation is c.ATOMIC_GROUP:
        return _samples(argument)
    if operation is c.BRANCH:
        return [one for branch in argument[1] for one in _samples(branch)[:3]]
    return [""]


def _set(items: Any) -> list[str]:
    negated = bool(items) and items[0][0] is c.NEGATE
    chars: list[str] = []
    for kind, value in items:
        if kind is c.LITERAL:
            chars.append(chr(value))
        elif kind is c.RANGE:
            chars += [chr(value[0]), chr(value[1])]
        elif kind is c.CATEGORY:
            chars += list(_CATEGORIES[value])
    if not negated:
        return chars[:8]
    pattern = re.compile("[" + "".join(re.escape(one) for one in chars) + "]") if chars else None
    return [one for one in "a A1 .'\"\\([{<,=:\n\t" if pattern is None or not pattern.match(one)][:8]


def slowest(
    found: Found, sizes: tuple[int, ...], limit_s: float, budget_s: float = math.inf, most: int = 10**6
) -> tuple[float, int, str] | None:
    """CPU seconds, length and attack of the first text that takes longer than ``limit_s``; None without one.

    Attacks are tried at growing sizes, so that even a cubic pattern is found out before it hangs.

    Args:
        budget_s: CPU seconds for all of them; what is left then is not tried.
        most: at most so many attacks, from the whole list.
    """
    begin = time.process_time()
    pairs = attacks(found.pattern)
    pairs = pairs[:: -(-len(pairs) // most)]
    for size in sizes:
        for prefix, one in pairs:
            for end in ("", "\x01", "\n!"):
                text = prefix[:_PREFIX_CHARS] + (one * (size // len(one) + 1))[:size] + end
                start = time.process_time()
                found.call(text)
                now = time.process_time()
                if now - start > limit_s:
                    return now - start, size, f"{prefix!r} + {one!r} × n + {end!r}"
                if now - begin > budget_s:
                    return None
    return None
