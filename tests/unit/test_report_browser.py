"""The report in headless Chromium, opened from disk: a click-through without network, errors or sideways scrolling."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from unit.reportworld import World, make_world
from unit.test_report_pages import make_hostile, outcome_of

REPOSITORY = Path(__file__).resolve().parents[2]
CHROMIUM = Path("/usr/bin/chromium")


def browser_python() -> Path:
    configured = os.environ.get("LMEV2_MINIBENCH_PYTHON")
    python = Path(configured) if configured else REPOSITORY / ".venv-minibench" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment with Playwright at {python}; `make minibench-env` creates it")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}; install Debian's chromium")
    return python


def visit(index: Path) -> dict[str, Any]:
    command = [str(browser_python()), str(Path(__file__).with_name("report_browser.py")), str(index)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def check_quiet(seen: dict[str, Any], index: Path) -> None:
    """Nothing but own files was asked for, nothing was complained of, and no page scrolls sideways."""
    assert seen["requests"] and all(url.startswith(index.parent.as_uri()) for url in seen["requests"])
    assert seen["messages"] == [] and seen["dialogs"] == [] and seen["overflow"] == [] and seen["broken"] == 0


def scores_of(world: World, number: int) -> list[str]:
    """Outcomes of the cell with that number, by question."""
    cells = [(method, tier) for method in world.run.methods for tier in world.run.tiers]
    rows = sorted(world.run.of("scores", *cells[number]), key=lambda row: str(row["question_id"]))
    return [outcome_of(row) for row in rows]


def test_clicking_through_the_report(tmp_path: Path) -> None:
    browser_python()
    world = make_world(tmp_path, questions=14)
    index = world.build()
    seen = visit(index)
    check_quiet(seen, index)
    assert seen["load_s"] < 10 and seen["title"].startswith("Overview")
    assert seen["method"] == f"Label of {world.run.methods[-1]}"
    assert seen["question"] == "Question q000" and seen["cell"]
    assert seen["listed"] == seen["reset"] == seen["compared"] == seen["without_script"] == 14 and seen["none"] == 0
    first, second = scores_of(world, 0), scores_of(world, 1)
    assert seen["wrong"] == first.count("wrong") and seen["badges"] == ["wrong"]
    assert seen["count"] == seen["restored"] == f"{first.count('wrong')} of 14 questions"
    pairs = [
        (one == "correct", other == "correct")
        for one, other in zip(first, second, strict=True)
        if "error" not in (one, other)
    ]
    wanted = {f"{int(a)}{int(b)}": str(pairs.count((a, b))) for a in (True, False) for b in (True, False)}
    assert seen["pair"] == wanted
    assert seen["examples"] == 3


def test_foreign_text_runs_nothing(tmp_path: Path) -> None:
    browser_python()
    world = make_world(tmp_path, errors=0.2)
    make_hostile(world)
    index = world.build()
    check_quiet(visit(index), index)
