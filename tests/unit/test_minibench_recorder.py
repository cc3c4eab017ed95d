"""Records one short trajectory afresh and compares it with the shipped one."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIO = "shop-10"
CHROMIUM = Path("/usr/bin/chromium")


def _recording_python() -> Path:
    configured = os.environ.get("LMEV2_MINIBENCH_PYTHON")
    python = Path(configured) if configured else REPOSITORY / ".venv-minibench" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no recording environment at {python}; `make minibench` creates it")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}; install Debian's chromium")
    return python


def _without_element_ids(action: str | None) -> str | None:
    return action and re.sub(r"\('\w+'", "(", action)


def test_a_scenario_recorded_afresh_is_the_shipped_trajectory(tmp_path: Path) -> None:
    command = [str(_recording_python()), "-m", "minibench.record", "--only", SCENARIO, "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    fresh: dict[str, Any] = json.loads((tmp_path / "trajectories" / f"{SCENARIO}.json").read_text(encoding="utf-8"))
    lines = (REPOSITORY / "resources" / "minibench" / "trajectories.jsonl").read_text(encoding="utf-8").split("\n")
    shipped = next(row for row in map(json.loads, filter(None, lines)) if row["id"] == SCENARIO)

    assert {key: fresh[key] for key in fresh if key != "states"} == {k: shipped[k] for k in shipped if k != "states"}
    assert len(fresh["states"]) == len(shipped["states"])
    for new, old in zip(fresh["states"], shipped["states"], strict=True):
        # Element ids and the roles in a tree depend on the browser's version; what was done and where does not
        assert _without_element_ids(new["action"]) == _without_element_ids(old["action"])
        for key in ("state_index", "step", "url", "thought", "screenshot"):
            assert new[key] == old[key]
        titles = [state["accessibility_tree"].split("\n", 1)[0].split(",")[0] for state in (new, old)]
        assert titles[0] == titles[1]
        with Image.open(tmp_path / new["screenshot"]) as picture:
            assert picture.size == (1280, 720) and picture.mode == "P"
    assert fresh["outcome"] == "failure", "the policy tells the total without the fare, and the database says so"
