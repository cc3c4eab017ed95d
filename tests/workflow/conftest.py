"""A finished scripted run that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pipeline import Pipeline, make_pipeline, overlay_for


@pytest.fixture(scope="session")
def finished(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline whose whole run is done. Tests may edit its files and must put them back."""
    folder = tmp_path_factory.mktemp("pipeline")
    reader = [{"match": "### Question", "text": r"\boxed{the reader's answer}"}]
    judge = [{"regex": ".", "text": '{"label": 1, "reason": "it says so"}'}]
    pipeline = make_pipeline(project, folder, overlay_for(folder, reader, judge))
    pipeline.run()
    return pipeline
