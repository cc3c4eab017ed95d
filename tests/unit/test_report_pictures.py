"""Which files become pictures of a report, and which never do."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

import pytest
from unit.reportworld import all_pages, make_world, picture

from lmev2.interchange.images import NO_PICTURE
from lmev2.report.html import pictures
from lmev2.report.html.pictures import Pictures
from lmev2.rows import RowError


def added(folder: Path, path: str) -> bool:
    """Whether a file becomes a picture; fails when that does not end."""
    found: list[bool] = []

    def add() -> None:
        with Pictures(folder, 1) as made:
            found.append(made.add(path, 100) is not None)

    thread = threading.Thread(target=add, daemon=True)
    thread.start()
    thread.join(20)
    assert found, f"{path} is still being read"
    assert len(list(folder.glob("*"))) == int(found[0])
    return found[0]


def test_regular_files_are_pictures(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    (tmp_path / "link.png").symlink_to(path)
    assert added(tmp_path / "one", str(path))
    assert added(tmp_path / "other", str(tmp_path / "link.png"))


def test_other_things_are_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "empty").touch()
    for path in ("/dev/zero", "/dev/stdin", str(tmp_path / "pipe"), str(tmp_path / "link"), str(tmp_path)):
        assert not added(tmp_path / "out", path), path
        assert "no regular file" in caplog.text, path
        caplog.clear()
    for path, reason in ((str(tmp_path / "empty"), "0 bytes"), ("/proc/self/maps", "0 bytes"), ("/" + "x" * 5000, "")):
        assert not added(tmp_path / "out", path), path
        assert f"no picture of {path[:100]!r}"[:-1] in caplog.text and reason in caplog.text
        assert len(caplog.text) < 1000
        caplog.clear()


def test_a_relative_path_is_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    picture(tmp_path / "a.png")
    monkeypatch.chdir(tmp_path)
    assert not added(tmp_path / "out", "a.png")
    assert "no picture of 'a.png': not an absolute path" in caplog.text


def test_a_huge_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = picture(tmp_path / "a.png")
    size = path.stat().st_size
    monkeypatch.setattr(pictures, "_MOST_BYTES", size - 1)
    assert not added(tmp_path / "out", str(path))
    assert f"{size} bytes, expected 1 to {size - 1}" in caplog.text
    monkeypatch.setattr(pictures, "_MOST_BYTES", size)
    assert added(tmp_path / "out", str(path))
    with (tmp_path / "sparse.png").open("wb") as file:
        file.truncate(2**40)
    assert not added(tmp_path / "none", str(tmp_path / "sparse.png"))


def test_an_image_without_a_picture_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(tmp_path, questions=2, errors=0)
    secret = picture(tmp_path / "secret.png", 300, 5)
    for row in world.run.contexts:
        for item in row["items"]:
            if item["type"] == "image":
                item.update(value=f"{NO_PICTURE}{secret}", trajectory_id=None, states=[])
    with caplog.at_level(logging.WARNING, "lmev2"):
        index = world.build()
    text = "".join(page.source for page in all_pages(index))
    assert "The imported run names no file of the data root" in text and "secret.png" in text
    assert NO_PICTURE not in text and str(tmp_path) not in text
    assert "no picture of" not in caplog.text


@pytest.mark.parametrize("queries", ["broken", "[1]", "null", '{"note": 3}', '{"note": "abc"}', '{"note": [null]}'])
def test_broken_queries_name_their_context(tmp_path: Path, queries: str) -> None:
    world = make_world(tmp_path, questions=2, errors=0)
    row = world.run.contexts[0]
    row["queries"] = queries
    with pytest.raises(RowError, match=f"context of {row['question_id']}, {row['method']}, {row['tier']}: queries is"):
        world.build()
    row["queries"] = json.dumps({"note": ["fine"], "other": []})
    world.build()
