"""Whatever stands in a configuration file: a configuration, or one ConfigError."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from fuzz.fuzz_profile import fuzzed
from fuzz.fuzz_strategies import JSON_TEXTS, TEXTS, encoded, places, replaced
from hypothesis import given
from hypothesis import strategies as st

from lmev2.config import Config, ConfigError, load_config, merge_config, read_config

PROJECT = Path(__file__).resolve().parents[2]
DEFAULT: dict[str, Any] = yaml.safe_load((PROJECT / "config.yaml").read_text(encoding="utf-8"))
PLACES = list(places(DEFAULT))
_VALUES = st.one_of(
    st.sampled_from(
        [None, True, 0, -1, 1, 10**400, 16**5000, 1.5, float("nan"), float("inf"), "", "null", [], {}, [[]], {"a": None}, {1: 2},
         {None: 1, "b": 2}, "../x", "\ud800", "rag", b"x", {1, 2}, (1,), "x" * 10_000, "{pipeline}/x", "{", "%s", "$(x)", "~"]
    ),
    TEXTS,
    st.sampled_from([DEFAULT["methods"], DEFAULT["models"], DEFAULT["run"]]),
)  # fmt: skip


def check(raw: Any) -> None:
    """Load it: a configuration, or the documented error with a text that can be printed."""
    try:
        config = load_config(raw)
    except ConfigError as error:
        text = str(error)
        assert text and len(text) < 200_000
        text.encode("utf-8", "backslashreplace")
    else:
        assert isinstance(config, Config)
        json.dumps(config.model_dump(mode="json"))


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    """Set the value at a path that exists, or behind one that does."""
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@fuzzed(8)
@given(changes=st.lists(st.tuples(st.sampled_from([path for path in PLACES if path]), _VALUES), min_size=1, max_size=2))
def test_values_of_any_type_at_any_place(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    raw = copy.deepcopy(DEFAULT)
    for path, value in changes:
        try:
            put(raw, path, copy.deepcopy(value))
        except (KeyError, IndexError, TypeError, AttributeError):  # the first change took the place away
            continue
    check(raw)


@fuzzed(2)
@given(
    path=st.sampled_from([path for path in PLACES if not isinstance(path[-1] if path else "", int)]),
    key=_VALUES,
    value=_VALUES,
)
def test_keys_of_any_type(path: tuple[Any, ...], key: Any, value: Any) -> None:
    raw = copy.deepcopy(DEFAULT)
    inner: Any = raw
    for step in path:
        inner = inner[step]
    try:
        inner[key] = value
    except (TypeError, IndexError):
        return
    check(raw)


@fuzzed()
@given(chain=st.lists(st.sampled_from(["a", "b", "c", 1, None, True, "rag"]), min_size=1, max_size=6))
def test_rows_that_inherit(chain: list[Any]) -> None:
    rows = {name: {"inherits": parent} for name, parent in zip(chain, chain[1:] + chain[:1], strict=True)}
    check({**DEFAULT, "methods": {**DEFAULT["methods"], **rows}})


_YAML = st.one_of(
    st.sampled_from(
        ["!!int ''", "!!float x", "!!bool maybe", "!!timestamp x", "2001-99-99", "2001-01-01 99:99:99", "!!binary x", "!!set {a}",
         "!!python/object:os.system x", "0x" + "f" * 5000, "1" * 5000, "1:99:99", ".inf", ".nan", "&a [*a]", "&a {b: *a}",
         "*nothing", "? [1]\n: 2", "!!omap [a: 1]", "<<: 3", "<<: [1]", "[" * 2000, "{a: " * 2000, "!<x> y", "\ud800", "\0", "\t"]
    ),
    TEXTS,
    JSON_TEXTS,
)  # fmt: skip


@fuzzed(0.7)
@given(
    texts=st.lists(st.tuples(st.sampled_from(["a: ", "run: ", "- ", "", "methods: "]), _YAML), min_size=1, max_size=3)
)
def test_any_file(texts: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    file.write_bytes(encoded("\n".join(start + text for start, text in texts)))
    try:
        raw = merge_config(DEFAULT, read_config([file]))
    except ConfigError as error:
        assert str(file) in str(error)
    else:
        check(raw)


@fuzzed(0.3)
@given(path=st.sampled_from([path for path in PLACES if path]), raw=JSON_TEXTS)
def test_json_text_at_any_place(path: tuple[Any, ...], raw: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.json"
    section = {key: value for key, value in DEFAULT.items() if key == path[0]}
    file.write_bytes(encoded(replaced(section, path, raw)))
    try:
        value = read_config([file])
    except ConfigError:
        return
    check(merge_config(DEFAULT, value))
