"""Screenshots and question images must be pictures: ingestion and ``lmev2 validate`` name trajectory and state."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dataroot import DataRoot, make_data_root, make_id, png_bytes
from PIL import Image
from test_data_refusals import problems_of

from lmev2.data.find import root_trajectory
from lmev2.data.images import image_fault
from lmev2.data.ingest import ingest_dataset
from lmev2.data.validate import validate_root

TIERS = ("small", "medium")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return make_data_root(tmp_path / "root")


def encoded(kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (1, 1)).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "options"),
    [("PNG", {}), ("JPEG", {}), ("GIF", {}), ("WEBP", {}), ("WEBP", {"lossless": True})],
)
def test_the_smallest_pictures_of_every_kind_pass(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    (tmp_path / "x").write_bytes(encoded(kind, **options))
    assert image_fault(tmp_path / "x") is None


BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "text": (b"<html>404 Not Found, and more of it</html>", "begins with b'<html>40'"),
    "short": (b"not a png", "holds 9 bytes"),
    "signature alone": (PNG, "holds 8 bytes"),
    "no header behind the signature": (PNG + bytes(40), "begins with b'\\x89PNG"),
    "another kind": (encoded("BMP"), "begins with b'BM"),
    "another RIFF": (b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(40), "begins with b'RIFF"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_screenshot_that_is_no_picture_is_named(root: DataRoot, tmp_path: Path, case: str) -> None:
    content, text = BROKEN[case]
    path = root.trajectories[2]["states"][1]["screenshot"]
    (root.path / path).write_bytes(content)
    (problem,) = problems_of(root, tmp_path)
    head = f"trajectories.jsonl, line 3, trajectory '{make_id('trajectory', 2)}': field 'screenshot' of state 1: "
    assert problem.startswith(f"{head}found {path}, which {text}")
    assert problem.endswith("expected a PNG, JPEG, WebP or GIF picture")
    assert [str(found) for found in validate_root(root.path, TIERS).problems] == [problem]


def test_several_broken_screenshots_of_a_trajectory_are_one_problem(root: DataRoot, tmp_path: Path) -> None:
    states = root.trajectories[2]["states"]
    for state in (states[0], states[3]):
        (root.path / state["screenshot"]).write_bytes(b"")
    (problem,) = problems_of(root, tmp_path)
    assert f"field 'screenshot' of states 0, 3: found {states[0]['screenshot']}, which is empty" in problem


def test_screenshots_that_no_model_sees_may_be_missing_but_not_broken(root: DataRoot, tmp_path: Path) -> None:
    states = root.trajectories[2]["states"]
    (root.path / states[1]["screenshot"]).unlink()
    ingest_dataset(root.path, tmp_path / "whole", TIERS, require_screenshots=False)
    (root.path / states[2]["screenshot"]).write_bytes(b"")
    (problem,) = problems_of(root, tmp_path, require_screenshots=False)
    assert "state 2" in problem and "which is empty" in problem


def test_a_trajectory_with_a_broken_screenshot_can_be_inspected(root: DataRoot) -> None:
    run = root.trajectories[2]
    path = root.path / run["states"][1]["screenshot"]
    path.write_bytes(b"")
    assert root_trajectory(root.path, run["id"]).states[1].screenshot == path


@pytest.mark.skipif(os.geteuid() == 0, reason="this user can read everything")
def test_a_screenshot_that_cannot_be_read_is_named(root: DataRoot, tmp_path: Path) -> None:
    (root.path / root.trajectories[2]["states"][1]["screenshot"]).chmod(0)
    (problem,) = problems_of(root, tmp_path)
    assert "which cannot be read (Permission denied)" in problem


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: path.write_bytes(b""), "which is empty, expected a PNG, JPEG, WebP or GIF picture"),
        (lambda path: (path.unlink(), path.mkdir()), "field 'image': found no file"),
    ],
)
def test_a_question_image_must_be_a_picture(
    root: DataRoot, tmp_path: Path, change: Callable[[Path], Any], text: str
) -> None:
    number, question = next(item for item in enumerate(root.questions, start=1) if item[1]["image"])
    change(root.path / question["image"])
    (problem,) = problems_of(root, tmp_path)
    assert problem.startswith(f"questions.jsonl, line {number}, question '{question['id']}': field 'image': found ")
    assert text in problem


def test_the_look_at_a_file_is_cheap(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(png_bytes(1))
    os.truncate(path, 1 << 30)
    started = time.process_time()
    for _ in range(2000):
        assert image_fault(path) is None
    assert time.process_time() - started < 2
