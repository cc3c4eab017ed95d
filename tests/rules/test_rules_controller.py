"""What a change plans where the controller is rules, seen in dry runs over a finished run."""

from __future__ import annotations

from contextlib import ExitStack

import yaml
from rules.conftest import Run
from workflow.test_reruns import EVENTS, ONE_METHOD, configured, edited, prompt


def test_prompts_are_nothing_to_rules(allowed: Run) -> None:
    with ExitStack() as edits:
        for name in ("note", "event", "query"):
            edits.enter_context(edited(prompt(allowed.pipeline, name), "## System\n\nYou ", "## System\n\nNow you "))
        assert allowed.pipeline.planned() == {}


def test_a_size_of_the_rules_writes_its_pool_again(allowed: Run) -> None:
    with configured(allowed.pipeline, {"pools": {"event": {"change_chars": 700}}}):
        counts, messages = allowed.pipeline.plan()
    assert counts == {**EVENTS, **ONE_METHOD}
    assert "Indexing event" in messages


def test_settings_of_a_model_are_nothing_to_rules(allowed: Run) -> None:
    over = {"models": {"controller": {"sampling": {"temperature": 0.5}, "concurrency": 9, "thinking": True}}}
    with configured(allowed.pipeline, over):
        assert allowed.pipeline.planned() == {}
    # What was laid over is gone again.
    assert "controller" not in yaml.safe_load(allowed.pipeline.overlay.read_text(encoding="utf-8"))["models"]
