"""Scorers and what they read: what must hold for any texts, and times that grow with their length."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from fuzz import slow_reference
from fuzz.fuzz_profile import fuzzed
from fuzz.fuzz_strategies import TEXTS, broken, with_words
from fuzz.fuzz_targets import TARGETS, written_spec
from hypothesis import given
from hypothesis import strategies as st

from lmev2.actions import parse_action
from lmev2.memory.plugin_items import ItemError, context_items
from lmev2.models.json_reply import JsonReplyError, parse_json_object
from lmev2.scoring.boxed import last_boxed
from lmev2.scoring.judge import JudgeReplyError, parse_label
from lmev2.scoring.scorers import gold_supported, normalize_phrase, score_prediction
from lmev2.scoring.spec import ScorerSpec
from lmev2.tree import Tree

SPECS = st.builds(
    ScorerSpec,
    st.sampled_from(["norm_phrase_set_match", "norm_phrase_set_match_ordered"]),
    lower=st.booleans(),
    normalize_hyphen=st.booleans(),
    strip_punct=st.booleans(),
    require_non_empty=st.booleans(),
    separators=st.sampled_from([",;", "/", "^]-", "\\", "+"]),
)
_PIECES = with_words("a", "b", "A", "a b", ", ", "; ", "-", "_", ".", "UNKNOWN", " ", "\u0130", "é")


@fuzzed(4)
@given(spec=SPECS, gold=_PIECES, prediction=_PIECES)
def test_phrase_matches(spec: ScorerSpec, gold: str, prediction: str) -> None:
    plain = ScorerSpec(**{**vars(spec), "name": "norm_phrase_set_match"})
    ordered = ScorerSpec(**{**vars(spec), "name": "norm_phrase_set_match_ordered"})
    if score_prediction(prediction, gold, ordered):
        assert score_prediction(prediction, gold, plain), "what stands in order stands there"
    if score_prediction(prediction, gold, plain):
        assert score_prediction(f"x . {prediction} . y", gold, plain), "further words do no harm"
    backwards = spec.separators[0].join(reversed(gold.split(spec.separators[0])))
    assert score_prediction(prediction, gold, plain) is score_prediction(prediction, backwards, plain)
    supported = gold_supported(gold, written_spec(plain), "", prediction)
    assert supported in (None, True, False)


@fuzzed(2)
@given(phrase=_PIECES, text=_PIECES, strip=st.booleans())
def test_a_phrase_is_found_between_words(phrase: str, text: str, strip: bool) -> None:
    spec = ScorerSpec("norm_phrase_set_match", strip_punct=strip, separators="+")
    wanted, inside = normalize_phrase(phrase, spec), normalize_phrase(text, spec)
    if wanted and inside and inside.upper() != "UNKNOWN" and text.strip().upper() != "UNKNOWN":
        assert score_prediction(text, phrase, spec) is slow_reference.occurs(wanted, inside)


@fuzzed(2)
@given(one=_PIECES, other=_PIECES)
def test_choices_are_compared_alike_both_ways(one: str, other: str) -> None:
    spec = ScorerSpec("mc_choice_set_match")
    unknown = [text.strip().upper() == "UNKNOWN" for text in (one, other)]
    if not any(unknown):
        assert score_prediction(one, other, spec) is score_prediction(other, one, spec)


@fuzzed(3)
@given(label=st.sampled_from([0, 1]), reason=TEXTS, before=st.sampled_from(["", "So:\n```json\n", "\\boxed{no} "]))
def test_a_label_is_read_as_it_was_written(label: int, reason: str, before: str) -> None:
    assert parse_label(before + json.dumps({"label": label, "reason": reason}))[0] == label


@fuzzed(4)
@given(data=st.data(), label=st.sampled_from([0, 1]))
def test_no_label_is_invented(data: st.DataObject, label: int) -> None:
    text = data.draw(broken({"label": label, "reason": "so"}))
    for read in (
        lambda: parse_label(text)[0],
        lambda: parse_json_object(text, {"properties": {"label": {"enum": [0, 1]}}}),
    ):
        try:
            found: Any = read()
        except (JudgeReplyError, JsonReplyError):
            continue
        found = found.get("label") if isinstance(found, dict) else found
        assert found is None or str(int(found)) in text


_ITEMS = st.one_of(
    st.sampled_from([None, 1, "x", [], {}, {"type": "text"}, {"type": ["text"], "value": "x"}, {"type": "text", "value": "\ud800"},
                     {"type": "image", "value": "/\0"}, {"type": "image", "value": "/" + "a" * 300},
                     {"type": "image", "value": "/proc/self/mem"}, {"type": "image", "value": "/dev/zero"}]),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "TEXT", None, 1, ()]), "value": st.one_of(TEXTS, st.none(), st.integers())},
        optional={
            "trajectory_id": st.sampled_from(["t", "u", None, 1, [], ("t",)]),
            "states": st.sampled_from([None, [], [0], [0, 0, 1], [2], [True], [0.0], ["0"], (0,), {0}, 0, [-1], [10**400], range(2)]),
        },
    ),
)  # fmt: skip


@fuzzed(4)
@given(items=st.one_of(st.lists(_ITEMS, max_size=3), _ITEMS))
def test_items_of_a_plugin(items: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        found = context_items(items, {"t": 2}, tmp_path_factory.getbasetemp(), {})
    except ItemError as error:
        str(error).encode("utf-8")
    else:
        for item in found:
            item.value.encode("utf-8")
            assert item.trajectory_id in (None, "t") and set(item.states) <= {0, 1}


LONG_RUNS = [
    "{", '{"', "{}", '{"a":', '{"a":{', '{"":[', '{"" }', '{"}', "{ ", '"', '\\"', '{"a":1}', '{"a":1}}', "}", "{x}", '{"a":1,', "[{",
    '{"label":1}', "\\boxed{", "\\boxed{}", " ", "\n", "\t", "a", "A ", "a-", ", ", "'", "(", "click(", "f('a'", "lambda:", "-", "x[",
    "[a] ", "[a] b 'c", ", a=(", "(required) ", "* ", "UNKNOWN ", "option ", "norm_phrase_set_match|",
]  # fmt: skip
_SLOW = {"goal_text": 500}  # characters; of the others 20,000


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_long_runs_of_anything_take_no_long(name: str) -> None:
    for piece in LONG_RUNS:
        text = piece * (_SLOW.get(name, 20_000) // len(piece))
        start = time.process_time()
        if name == "box":  # without its slow reference
            last_boxed(text)
        elif name == "tree_text":
            Tree(text).messages()
        elif name == "action_text":
            parse_action(text)
        else:
            TARGETS[name](text.encode())
        assert time.process_time() - start < 3, piece
