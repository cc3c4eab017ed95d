"""The builder's checks: a question that does not hold against the recordings is refused, with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from minibench.build import QuestionError, check_question

SMALL = ["shop-01"]


def _state(index: int, tree: str, action: str | None = None) -> dict[str, Any]:
    return {
        "state_index": index,
        "url": f"http://127.0.0.1:8101/{index}/",
        "action": action,
        "accessibility_tree": tree,
    }


TRAJECTORIES: dict[str, dict[str, Any]] = {
    "shop-01": {"states": [_state(0, "[1] link 'Aisles'"), _state(1, "[2] heading 'Satchel'", "click('1')")]},
    "shop-02": {"states": [_state(0, "[1] link 'Aisles'"), _state(1, "[9] heading 'Weigh-in'", "click('1')")]},
}


def _question(**changes: Any) -> dict[str, Any]:
    question: dict[str, Any] = {
        "id": "00aa11bb",
        "question_type": "static-environment",
        "question": "What is the basket called?",
        "answer": "satchel",
        "eval_function": "norm_phrase_set_match|lower=true",
        "image": None,
        "evidence": [[{"trajectory": "shop-01", "contains": ["heading 'Satchel'"]}]],
        "gold_in": ["Satchel"],
    }
    return question | changes


def _check(**changes: Any) -> Any:
    return check_question("shop", "shop.yaml", _question(**changes), TRAJECTORIES, SMALL)


def test_evidence_resolves_to_every_matching_state_of_every_alternative() -> None:
    aisles = [{"trajectory": name, "contains": ["link 'Aisles'"]} for name in ("shop-02", "shop-01")]
    clicked = [{"trajectory": "shop-01", "contains": ["click('1')", "/1/"]}]
    question = _check(evidence=[aisles, clicked])
    assert question.hops == ((("shop-02", 0), ("shop-01", 0)), (("shop-01", 1),))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"evidence": []}, "no hop"),
        ({"evidence": [[]]}, "no alternative"),
        ({"evidence": [[{"trajectory": "shop-03", "contains": ["x"]}]]}, "not recorded"),
        ({"evidence": [[{"trajectory": "shop-01", "contains": []}]]}, "no substring"),
        ({"evidence": [[{"trajectory": "shop-01", "contains": ["Aisles", "Satchel"]}]]}, "no state of shop-01 has all"),
        ({"evidence": [[{"trajectory": "shop-02", "contains": ["Weigh-in"]}]], "gold_in": ["Weigh-in"]}, "small"),
        ({"gold_in": ["Aisles"]}, "none of the evidence states"),
        ({"gold_in": []}, "gold_in is empty"),
        ({"id": "00AA11BB"}, "hexadecimal"),
        ({"id": 12345678}, "hexadecimal"),
        ({"answer": " "}, "answer must be"),
        ({"question_type": "static"}, "unknown question type"),
        ({"question_type": "procedure-abs"}, "does not go with"),
        ({"eval_function": "llm_abstention_checker"}, "does not go with"),
        ({"eval_function": "mc_choice_match", "answer": "C"}, "not one of the options"),
        ({"question_type": "errors-gotchas"}, "carry an image"),
        ({"image": {"trajectory": "shop-01", "state": 0, "crop": None}}, "carry an image"),
        (
            {"question_type": "errors-gotchas", "image": {"trajectory": "shop-01", "state": 2, "crop": None}},
            "the image names state 2",
        ),
        ({"hint": "x"}, "keys differ"),
    ],
)
def test_a_question_that_does_not_hold_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(QuestionError, match=reason) as failure:
        _check(**changes)
    assert "shop.yaml, question" in str(failure.value)
