"""A finished scripted run that the tests of this folder share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pipeline import Pipeline, make_pipeline, overlay_for, write_script

READER = [{"match": "### Question", "text": r"\boxed{the reader's answer}"}]
JUDGE = [{"regex": ".", "text": '{"label": 1, "reason": "it says so"}'}]
NOTE = {"title": "How to read a code", "description": "Open the page.", "content": "- Go on until the page shows it."}
EVENT = {"overview": "A code is looked for.", "state_transition": "The page changed and shows another code."}
QUERIES = {
    "raw_state_queries": ["page with the code", "Record heading"],
    "event_query": "the page changed to another code",
    "note_query": "how to read a code",
}
FIRST_EVENT = "Generate an event for transition 0 -> 1.\nGoal: Find the code of record {}\n"
# Two events are not what was asked for; one of them is repaired. So are the queries of one question, in vain.
CONTROLLER = [
    {"regex": r"could not be used: it holds no complete(?s:.*)state_transition", "text": json.dumps(EVENT)},
    {"match": "could not be used: ", "text": "Sorry."},
    {"match": FIRST_EVENT.format(1), "text": "I know of none."},
    {"match": FIRST_EVENT.format(2), "text": '{"overview": "half of it"}'},
    {"match": "Generate an event for transition", "text": json.dumps(EVENT)},
    {"match": "Extract two reusable notes", "text": json.dumps({"procedure_note": NOTE, "hint_note": NOTE})},
    {"regex": "(?s)Memory pool summary.*Question text: Find the code of record 3: ", "text": '{"event_query": ""}'},
    {"match": "Memory pool summary", "text": json.dumps(QUERIES)},
]


@pytest.fixture(scope="session")
def finished(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline whose whole run is done. Tests may edit its files and must put them back."""
    folder = tmp_path_factory.mktemp("pipeline")
    overlay = overlay_for(folder, READER, JUDGE)
    overlay["models"]["controller"] = {
        "backend": "scripted",
        "model": "scripted-controller",
        "script": write_script(folder / "controller.jsonl", CONTROLLER),
        "concurrency": 2,
    }
    pipeline = make_pipeline(project, folder, overlay)
    pipeline.run()
    return pipeline
