"""Every parser of one text or one line, on odd bytes, odd texts and texts in its own words."""

from __future__ import annotations

import json

import pytest
from fuzz.fuzz_profile import LONG, fuzzed
from fuzz.fuzz_strategies import JSON_TEXTS, TEXTS, broken, encoded, with_words
from fuzz.fuzz_targets import TARGETS
from hypothesis import given
from hypothesis import strategies as st
from unit.dataroot import make_question, make_trajectory

_RUNS = [make_trajectory(number, 2) for number in range(2)]
_LINES = [make_question(0, _RUNS)[0], _RUNS[0], {"question_id": "q", "hops": [[["t", 0], ["t", 1]]]}]
_REPLY = {"label": 1, "reason": "so"}
_COMPLETION = {
    "choices": [
        {
            "message": {"content": "<think>a</think>b", "reasoning": "c", "refusal": None},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    "model": "m",
    "data": [{"index": 0, "embedding": [1.0, 2.0]}, {"index": 1, "embedding": [0.5, 1.0]}],
}
_SPAN = {"trajectory_id": "t1", "start_state_index": 0, "end_state_index": 1}
_OUTPUT = {
    "memory_markdown": "x",
    "trajectory_spans": [_SPAN, {**_SPAN, "start_state_index": 1, "end_state_index": 3}],
    "answer": "y",
}
_EVENT = {"type": "turn.failed", "item": {"type": "command_execution"}, "error": {"message": '{"error":{"message":1}}'}}
_CACHED = {"format": 1, "namespace": "fuzz", "key_sha256": "0", "value_sha256": "0", "value": {"a": [1, 2.5, None]}}


def _wrapped(value: object) -> st.SearchStrategy[str]:
    return st.builds(lambda before, text, after: before + text + after, TEXTS, broken(value), TEXTS)


OWN: dict[str, st.SearchStrategy[str]] = {
    "data_lines": st.sampled_from(_LINES).flatmap(broken),
    "record_lines": st.sampled_from(_LINES).flatmap(broken),
    "haystack_lists": broken({"q1": ["t1", "t2"], "q2": ["t1"]}),
    "tree_text": with_words(
        "\n", "\t", "\n\t", "[a1] ", "RootWebArea 'T'", "button 'x'", "row ''", "columnheader \"C\"", "alert ''", "option 'o'",
        ", selected=True", ", a=(", ")", " value='v'", "StaticText ", "\\'", "\\x4", "\\U00110000", "*", "(required)",
    ),
    "action_text": with_words(
        "click(", "'a1'", ")", "fill('a', ", "drag_and_drop('a', 'b')", "bid=", ", ", "\n", "f'{", "lambda: ", "0xff", "1e9",
    ),
    "box": with_words("\\boxed{", "}", "{", "a", "UNKNOWN", "\\boxed", "$"),
    "reply_object": _wrapped(_REPLY),
    "judge_label": _wrapped(_REPLY),
    "completion": broken(_COMPLETION),
    "memory_output": broken(_OUTPUT),
    "agent_events": broken(_EVENT),
    "scorer_spec": with_words(
        "norm_phrase_set_match", "mc_choice_set_match", "|lower=true", "|", "separators=,;", "=", "|strip_punct=False", " ",
    ),
    "score": with_words(
        "norm_phrase_set_match|strip_punct=false", "norm_phrase_set_match_ordered", "mc_choice_match", "\n", "a b", "c-d", "; ",
        "A and C", "\\boxed{", "}", "option B.", "UNKNOWN",
    ),
    "cache_file": broken(_CACHED),
    "goal_text": with_words(
        "Navigate to ", 'the "Incidents" module of the "Service Desk" application', ".", " and ", " then ", ", ", "\n", "1. ",
        "- ", "A > B", " located in ", "sort it by ", "“Driver”", "Create a filter", "Concretely, you need to complete the "
        "following steps:", "it", '"', "'",
    ),
}  # fmt: skip


def test_every_target_has_texts_in_its_own_words() -> None:
    assert OWN.keys() == TARGETS.keys()


@pytest.mark.parametrize("name", sorted(TARGETS))
@fuzzed()
@given(data=st.data())
def test_texts_in_its_own_words(name: str, data: st.DataObject) -> None:
    TARGETS[name](encoded(data.draw(OWN[name])))


@pytest.mark.parametrize("name", sorted(TARGETS))
@fuzzed(0.3)
@given(content=st.one_of(st.binary(max_size=80), TEXTS.map(encoded), JSON_TEXTS.map(encoded)))
def test_any_bytes(name: str, content: bytes) -> None:
    TARGETS[name](content)


@pytest.mark.parametrize("depth", [*range(340, 1001, 5), 100_000] if LONG else [340, 500, 950, 960, 975, 990, 100_000])
@pytest.mark.parametrize("inside", ["1", '"\\ud800"', "NaN", "}"])
def test_depths_at_which_readers_give_up(depth: int, inside: str) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        text = opening * depth + inside + closing * depth
        for whole in (text, f'{{"id": {text}}}', f'{{"value": {text}, "format": 1}}', json.dumps({"type": text})):
            for name, target in TARGETS.items():
                if name not in ("goal_text", "tree_text", "action_text", "box"):
                    target(whole.encode())
