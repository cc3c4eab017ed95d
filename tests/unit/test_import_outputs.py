"""``lmev2 import-browsergym`` where its output cannot be, and runs whose pictures or rewards say nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsergymworld import agentlab_run, arguments, neutral_run, refusal, write_json
from PIL import Image

from lmev2.cli import main


def everything(folder: Path) -> dict[str, bytes | None]:
    """What lies below a folder; None for what is no file."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


OUTPUTS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "a file": (lambda base: (base / "out").write_text("mine"), "out", "/out, which is no folder"),
    "below a file": (lambda base: (base / "out").write_text("mine"), "out/deeper", "/out, which is no folder"),
    "a link that leads nowhere": (lambda base: os.symlink("gone", base / "out"), "out", "/out, which is no folder"),
    "trajectories are a folder": (
        lambda base: (base / "out/trajectories.jsonl").mkdir(parents=True), "out",
        "found a folder at",
    ),
    "trajectories are a pipe": (
        lambda base: ((base / "out").mkdir(), os.mkfifo(base / "out/trajectories.jsonl")), "out",
        "found something that is no regular file at",
    ),
    "trajectories are a link that leads nowhere": (
        lambda base: ((base / "out").mkdir(), os.symlink("gone", base / "out/trajectories.jsonl")), "out",
        "found a link that leads to no file at",
    ),
    "screenshots are a file": (
        lambda base: ((base / "out").mkdir(), (base / "out/screenshots").write_text("mine")), "out",
        "/out/screenshots, which is no folder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_that_cannot_be_are_told_and_left_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    make, out, text = OUTPUTS[case]
    base = tmp_path / "base"
    base.mkdir()
    make(base)
    before = everything(base)
    error = refusal(capsys, base / out, neutral_run(tmp_path / "run"))
    assert text in error
    assert len(error.splitlines()) == 2
    assert everything(base) == before


def test_errors_of_the_file_system_are_told_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lmev2.browsergym.importing._append", full)
    error = refusal(capsys, tmp_path / "deep/down/out", neutral_run(tmp_path / "run"))
    assert "No space left on device" in error
    assert not (tmp_path / "deep").exists()


def test_folders_that_had_to_be_made_are_removed_when_runs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = neutral_run(tmp_path / "run")
    (source / "run.json").unlink()
    (tmp_path / "mine").mkdir()
    refusal(capsys, tmp_path / "mine/new/out", source)
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"no picture", "0001.png is no picture"),
        (b"", "0001.png is no picture"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "0001.png is no picture"),
    ],
)
def test_a_bad_picture_is_named_by_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, text: str
) -> None:
    source = neutral_run(tmp_path / "run")
    (source / "steps/0001.png").write_bytes(content)
    error = refusal(capsys, tmp_path / "out", source)
    assert f"{source}: steps/0001.json: the screenshot cannot be read ({text})" in error
    assert "object at" not in error


def test_a_cut_jpeg_is_named_by_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = agentlab_run(tmp_path / "run", pictures=False)
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    for number in range(3):
        Image.fromarray(pixels).save(source / f"screenshot_step_{number}.jpg")
    path = source / "screenshot_step_1.jpg"
    path.write_bytes(path.read_bytes()[:-2000])
    error = refusal(capsys, tmp_path / "out", source)
    assert "step_1.pkl.gz: the screenshot cannot be read (screenshot_step_1.jpg: OSError: " in error


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("NaN", "found nan as 'cum_reward', expected a finite number"),
        ("Infinity", "found inf as 'cum_reward', expected a finite number"),
        ("1e999", "found inf as 'cum_reward', expected a finite number"),
        ("1" + "0" * 400, "as 'cum_reward', expected a finite number"),
        ("true", "found bool as 'cum_reward', expected a number"),
        ('"1"', "found str as 'cum_reward', expected a number"),
        ('0, "cum_reward": 1', "the key 'cum_reward' stands twice in one object"),
    ],
)
def test_summaries_that_do_not_say_how_it_ended_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], raw: str, text: str
) -> None:
    source = agentlab_run(tmp_path / "run")
    (source / "summary_info.json").write_text(f'{{"cum_reward": {raw}}}', encoding="utf-8")
    error = refusal(capsys, tmp_path / "out", source)
    assert f"{source}: summary_info.json: found " in error
    assert text in error


def test_other_numbers_of_a_summary_may_be_none(tmp_path: Path) -> None:
    source = agentlab_run(tmp_path / "run")
    (source / "summary_info.json").write_text('{"cum_reward": 1, "stats.mean": NaN}', encoding="utf-8")
    assert main(arguments(tmp_path / "out", source)) == 0


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 10**400, np.float64("nan")])
def test_rewards_of_steps_must_be_finite_where_there_is_no_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reward: Any
) -> None:
    source = agentlab_run(tmp_path / "run", reward=reward, summary=False)
    error = refusal(capsys, tmp_path / "out", source)
    assert f"{source}: step_2.pkl.gz: found a reward that is no finite number" in error


def test_a_page_index_that_is_no_number_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = agentlab_run(tmp_path / "run", change={1: {"url": ..., "active_page_index": float("nan")}})
    assert "step_1.pkl.gz: found NoneType as 'url'" in refusal(capsys, tmp_path / "out", source)


def test_neutral_runs_must_have_a_finite_reward_and_no_key_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = neutral_run(tmp_path / "run")
    write_json(source / "run.json", {"goal": "x", "reward": float("nan")})
    assert "run.json: field 'reward': Input should be a finite number" in refusal(capsys, tmp_path / "out", source)
    text = json.dumps({"goal": "x", "reward": 0.0})
    (source / "run.json").write_text(text.replace("}", ', "reward": 1.0}'), encoding="utf-8")
    assert "the key 'reward' stands twice in one object" in refusal(capsys, tmp_path / "out", source)
